/* server/throttle.h: which lines about misbehaving peers are worth logging: one per peer and
 * minute. */
#ifndef TFE_SERVER_THROTTLE_H
#define TFE_SERVER_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "server/peer.h"

/* At most so many lines a minute in all, however many addresses there are. */
#define THROTTLE_PEERS 512
#define THROTTLE_MS 60000

struct throttle {
    struct throttle_entry {
        struct tfe_mono since;
        bool used;
    } entries[THROTTLE_PEERS];
    uint64_t hidden; /* since the last line that passed */
};

/* Whether to log now about peer; *ret_hidden is how many events have gone unlogged since the last
 * line. Two peers may share an entry: then the second one waits for the first one's minute. */
bool throttle_pass(struct throttle *t, const struct peer *peer, struct tfe_mono now,
                   uint64_t *ret_hidden);

#endif
