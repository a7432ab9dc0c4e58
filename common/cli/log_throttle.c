/* common/cli/log_throttle.c: rate limit for log lines that peers can cause. */
#include "common/cli/log_throttle.h"

#include <stdlib.h>

#include "common/base/clock.h"

struct throttle *throttle_new(uint32_t entries, uint32_t burst, int64_t each_ms)
{
    struct throttle *t = calloc(1, sizeof(*t) + entries * sizeof(t->causes[0]));
    if (t) {
        t->entries = entries;
        t->burst = burst;
        t->each_ms = each_ms;
        randombytes_buf(t->hash_key, sizeof(t->hash_key));
    }
    return t;
}

static uint32_t index_of(const struct throttle *t, const void *cause, size_t n)
{
    uint32_t hash[crypto_shorthash_BYTES / sizeof(uint32_t)];
    (void)crypto_shorthash((uint8_t *)hash, cause, n, t->hash_key);
    return hash[0] % t->entries;
}

bool throttle_pass(struct throttle *t, const void *cause, size_t n, uint64_t *ret_hidden)
{
    const uint32_t i = index_of(t, cause, n);
    if (!rate_pass(&t->causes[i].rate, clock_mono(), t->each_ms, t->burst)) {
        t->hidden++;
        t->causes[i].hidden++;
        return false;
    }
    *ret_hidden = t->hidden;
    t->hidden = 0;
    return true;
}

uint64_t throttle_suppressed(struct throttle *t, const void *cause, size_t n)
{
    const uint32_t i = index_of(t, cause, n);
    const uint64_t hidden = t->causes[i].hidden;
    t->causes[i].hidden = 0;
    return hidden;
}
