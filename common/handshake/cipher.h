/* common/handshake/cipher.h: the ChaChaPoly cipher functions of Noise (rev. 34, sections 4.2 and
 * 12.3). */
#ifndef TFE_COMMON_HANDSHAKE_CIPHER_H
#define TFE_COMMON_HANDSHAKE_CIPHER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define CIPHER_KEY_BYTES 32
#define CIPHER_TAG_BYTES 16

/* Nonce reserved for REKEY; no message is sealed with it (5.1). */
#define CIPHER_NONCE_REKEY UINT64_MAX

/* ENCRYPT(k, n, ad, plaintext): writes n + CIPHER_TAG_BYTES bytes. ad may be NULL if ad_n is 0. */
void cipher_seal(const uint8_t key[CIPHER_KEY_BYTES], uint64_t nonce, const uint8_t *ad,
                 size_t ad_n, const uint8_t *in, size_t n, uint8_t *out);

/* DECRYPT: n includes the tag; writes n - CIPHER_TAG_BYTES bytes. Returns TFE_EAUTH if forged; out
 * then contains no plaintext. */
int cipher_open(const uint8_t key[CIPHER_KEY_BYTES], uint64_t nonce, const uint8_t *ad, size_t ad_n,
                const uint8_t *in, size_t n, uint8_t *out) TFE_MUST_CHECK;

/* k = REKEY(k) (4.2): the first 32 bytes of ENCRYPT(k, 2^64 - 1, "", 32 zero bytes). */
void cipher_rekey(uint8_t key[CIPHER_KEY_BYTES]);

#endif
