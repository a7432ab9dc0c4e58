/* common/cli/log_throttle.h: rate limit for log lines that peers can cause: a burst per cause,
 * then one line per interval. */
#ifndef TFE_COMMON_CLI_LOG_THROTTLE_H
#define TFE_COMMON_CLI_LOG_THROTTLE_H

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/rate.h"

struct throttle {
    uint32_t entries; /* number of hash buckets for causes; bounds the total rate of lines */
    uint32_t burst;
    int64_t each_ms;
    uint64_t hidden; /* lines suppressed since the last line that passed */
    uint8_t hash_key[crypto_shorthash_KEYBYTES]; /* random, so that a peer cannot choose a cause
                                                    that shares the bucket of another one */
    struct {
        struct rate rate;
        uint64_t hidden; /* lines of this cause suppressed since the last throttle_suppressed */
    } causes[];
};

/* Returns a throttle for free(3), or NULL if out of memory. */
struct throttle *throttle_new(uint32_t entries, uint32_t burst, int64_t each_ms);

/* Returns true if a line about the n bytes of cause may be logged now. *ret_hidden is then the
 * number of lines suppressed since the last that passed. */
bool throttle_pass(struct throttle *t, const void *cause, size_t n, uint64_t *ret_hidden);

/* Returns how many lines of this cause were suppressed since the last call for it. */
uint64_t throttle_suppressed(struct throttle *t, const void *cause, size_t n);

#endif
