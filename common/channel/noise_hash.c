/* common/channel/noise_hash.c: Noise's HASH and HKDF with BLAKE2b. */
#include "common/channel/noise_hash.h"

#include <sodium.h>
#include <string.h>

#define NOISE_HASH_BLOCK 128 /* BLOCKLEN: bytes of a hash block */

_Static_assert(NOISE_HASH_OUT == crypto_generichash_BYTES_MAX, "BLAKE2b-512");

void noise_hash_pair(const uint8_t *a, size_t a_n, const uint8_t *b, size_t b_n,
                     uint8_t ret[NOISE_HASH_OUT])
{
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, NOISE_HASH_OUT);
    (void)crypto_generichash_update(&state, a, a_n);
    (void)crypto_generichash_update(&state, b, b_n);
    (void)crypto_generichash_final(&state, ret, NOISE_HASH_OUT);
    sodium_memzero(&state, sizeof(state));
}

/* HMAC-HASH(key, a || b) of RFC 2104, not keyed BLAKE2b. Precondition: key_n <=
 * NOISE_HASH_BLOCK. */
static void hmac(const uint8_t *key, size_t key_n, const uint8_t *a, size_t a_n, const uint8_t *b,
                 size_t b_n, uint8_t ret[NOISE_HASH_OUT])
{
    crypto_generichash_state state;
    uint8_t pad[NOISE_HASH_BLOCK] = {0};
    uint8_t inner[NOISE_HASH_OUT];

    memcpy(pad, key, key_n);
    for (size_t i = 0; i < sizeof(pad); i++) {
        pad[i] ^= 0x36;
    }
    (void)crypto_generichash_init(&state, NULL, 0, NOISE_HASH_OUT);
    (void)crypto_generichash_update(&state, pad, sizeof(pad));
    (void)crypto_generichash_update(&state, a, a_n);
    (void)crypto_generichash_update(&state, b, b_n);
    (void)crypto_generichash_final(&state, inner, sizeof(inner));

    for (size_t i = 0; i < sizeof(pad); i++) {
        pad[i] ^= 0x36 ^ 0x5c;
    }
    noise_hash_pair(pad, sizeof(pad), inner, sizeof(inner), ret);
    sodium_memzero(&state, sizeof(state));
    sodium_memzero(pad, sizeof(pad));
    sodium_memzero(inner, sizeof(inner));
}

void noise_hkdf(const uint8_t ck[NOISE_HASH_OUT], const uint8_t *ikm, size_t ikm_n,
                unsigned n_outputs, uint8_t ret[][NOISE_HASH_OUT])
{
    uint8_t temp[NOISE_HASH_OUT];
    hmac(ck, NOISE_HASH_OUT, ikm, ikm_n, NULL, 0, temp);
    for (unsigned i = 0; i < n_outputs; i++) {
        uint8_t number = (uint8_t)(i + 1);
        hmac(temp, sizeof(temp), i ? ret[i - 1] : NULL, i ? NOISE_HASH_OUT : 0, &number, 1, ret[i]);
    }
    sodium_memzero(temp, sizeof(temp));
}
