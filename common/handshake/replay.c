/* common/handshake/replay.c: cache of handshakes seen before. */
#include "common/handshake/replay.h"

#include <stdlib.h>
#include <string.h>

#include "common/message/bytes.h"

/* The cache. An empty entry is all zero, a mac1 that occurs with probability 1 in 2^128. */
struct replay {
    uint8_t seen[REPLAY_SETS][REPLAY_WAYS][REPLAY_MAC_BYTES];
    uint8_t oldest[REPLAY_SETS]; /* entry of the set that is overwritten next */
};

struct replay *replay_new(void)
{
    return calloc(1, sizeof(struct replay));
}

void replay_free(struct replay *replay)
{
    free(replay);
}

bool replay_is_seen(struct replay *replay, const uint8_t mac1[REPLAY_MAC_BYTES])
{
    unsigned set = be32_get(mac1) % REPLAY_SETS;
    for (unsigned way = 0; way < REPLAY_WAYS; way++) {
        if (memcmp(replay->seen[set][way], mac1, REPLAY_MAC_BYTES) == 0) {
            return true;
        }
    }
    memcpy(replay->seen[set][replay->oldest[set]], mac1, REPLAY_MAC_BYTES);
    replay->oldest[set] = (uint8_t)((replay->oldest[set] + 1) % REPLAY_WAYS);
    return false;
}
