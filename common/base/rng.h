/* common/base/rng.h: a seeded pseudorandom generator, so that jitter is reproducible. Not for
 * secrets. Pure. */
#ifndef TFE_COMMON_BASE_RNG_H
#define TFE_COMMON_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline void rng_init(struct rng *rng, uint64_t seed)
{
    rng->state = seed;
}

/* Returns the next number of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
 * generators, 2014). */
static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Returns a number in [low, high], low <= high. The modulo's small bias does not matter for
 * jitter. */
static inline uint64_t rng_between(struct rng *rng, uint64_t low, uint64_t high)
{
    uint64_t span = high - low + 1;
    return span ? low + rng_next(rng) % span : rng_next(rng);
}

#endif
