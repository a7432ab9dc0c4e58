/* common/channel/noise_hash.h: Noise's HASH and HKDF with BLAKE2b (rev. 34, 4.3). */
#ifndef TFE_COMMON_CHANNEL_NOISE_HASH_H
#define TFE_COMMON_CHANNEL_NOISE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define NOISE_HASH_OUT 64 /* HASHLEN: bytes of a hash */

/* HASH(a || b). b may be NULL if b_n is 0. ret may be a. */
void noise_hash_pair(const uint8_t *a, size_t a_n, const uint8_t *b, size_t b_n,
                     uint8_t ret[NOISE_HASH_OUT]);

/* HKDF(ck, ikm, n_outputs) with n_outputs 2 or 3; ret[0] must not alias ck. */
void noise_hkdf(const uint8_t ck[NOISE_HASH_OUT], const uint8_t *ikm, size_t ikm_n,
                unsigned n_outputs, uint8_t ret[][NOISE_HASH_OUT]);

#endif
