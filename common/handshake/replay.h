/* common/handshake/replay.h: cache of handshakes seen before, so that a replay costs no curve
 * operation. */
#ifndef TFE_COMMON_HANDSHAKE_REPLAY_H
#define TFE_COMMON_HANDSHAKE_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#define REPLAY_MAC_BYTES 16

/* Size of the cache: 4,096 sets of 4, 256 KiB, allocated once. It holds the handshakes of 10,000
 * agents that reconnect at once. A replay older than the cache costs two curve operations and
 * nothing else: its sender cannot decrypt the answer, and no state depends on it. */
#define REPLAY_SETS 4096
#define REPLAY_WAYS 4

struct replay;

/* Returns an empty cache, or NULL if out of memory. */
struct replay *replay_new(void);
void replay_free(struct replay *replay);

/* Adds mac1 and returns true if it was already present. Pass only a verified mac1: it is a keyed
 * hash, so outsiders can neither choose a set nor evict entries. */
bool replay_is_seen(struct replay *replay, const uint8_t mac1[REPLAY_MAC_BYTES]);

#endif
