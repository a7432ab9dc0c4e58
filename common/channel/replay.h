/* common/channel/replay.h: handshakes seen before, so that a recorded one costs no curve operation.
 */
#ifndef TFE_COMMON_CHANNEL_REPLAY_H
#define TFE_COMMON_CHANNEL_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#define REPLAY_MAC_BYTES 16

/* 4,096 sets of 4: 256 KiB, allocated once. It holds the handshakes of a whole fleet that
 * reconnects at once (10,000 agents); an older recording gets through and costs two curve
 * operations, no more: its sender cannot read the answer and no state depends on it. */
#define REPLAY_SETS 4096
#define REPLAY_WAYS 4

struct replay;

/* NULL: out of memory. */
struct replay *replay_new(void);
void replay_free(struct replay *replay);

/* Notes mac1 and says whether it was there already. Only for a mac1 that has been verified: it is a
 * keyed hash, so outsiders can neither choose a set nor push entries out. */
bool replay_is_seen(struct replay *replay, const uint8_t mac1[REPLAY_MAC_BYTES]);

#endif
