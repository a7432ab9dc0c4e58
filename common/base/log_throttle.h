/* common/base/log_throttle.h: which lines are worth logging of those that others can cause: so many
 * of a cause at once, then one each so many milliseconds. */
#ifndef TFE_COMMON_BASE_LOG_THROTTLE_H
#define TFE_COMMON_BASE_LOG_THROTTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/rate.h"

struct throttle {
    uint32_t
        entries; /* causes that are told apart; the others share: so lines in all are bounded */
    uint32_t burst;
    int64_t each_ms;
    uint64_t hidden; /* since the last line that passed */
    struct {
        struct rate rate;
        uint64_t hidden; /* of this cause, since throttle_hidden */
    } causes[];
};

/* NULL: no memory. free() is enough. */
struct throttle *throttle_new(uint32_t entries, uint32_t burst, int64_t each_ms);

/* Whether to log now what the n bytes of cause name; *ret_hidden is how many lines have gone
 * unlogged since the last one that passed. */
bool throttle_pass(struct throttle *t, const void *cause, size_t n, uint64_t *ret_hidden);

/* Returns how often this cause has not passed since the last call for it. */
uint64_t throttle_hidden(struct throttle *t, const void *cause, size_t n);

#endif
