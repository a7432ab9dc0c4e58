/* common/handshake/cipher.c: the ChaChaPoly cipher functions of Noise. */
#include "common/handshake/cipher.h"

#include <sodium.h>
#include <string.h>

_Static_assert(CIPHER_KEY_BYTES == crypto_aead_chacha20poly1305_ietf_KEYBYTES, "key");
_Static_assert(CIPHER_TAG_BYTES == crypto_aead_chacha20poly1305_ietf_ABYTES, "tag");

/* Encodes a nonce (12.3): four zero bytes, then the counter in little-endian order. */
static void nonce_put(uint8_t out[crypto_aead_chacha20poly1305_ietf_NPUBBYTES], uint64_t nonce)
{
    memset(out, 0, 4);
    for (unsigned i = 0; i < 8; i++) {
        out[4 + i] = (uint8_t)(nonce >> (8 * i));
    }
}

void cipher_seal(const uint8_t key[CIPHER_KEY_BYTES], uint64_t nonce, const uint8_t *ad,
                 size_t ad_n, const uint8_t *in, size_t n, uint8_t *out)
{
    uint8_t npub[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
    nonce_put(npub, nonce);
    (void)crypto_aead_chacha20poly1305_ietf_encrypt(out, NULL, in, n, ad, ad_n, NULL, npub, key);
}

int cipher_open(const uint8_t key[CIPHER_KEY_BYTES], uint64_t nonce, const uint8_t *ad, size_t ad_n,
                const uint8_t *in, size_t n, uint8_t *out)
{
    uint8_t npub[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
    nonce_put(npub, nonce);
    if (crypto_aead_chacha20poly1305_ietf_decrypt(out, NULL, NULL, in, n, ad, ad_n, npub, key) !=
        0) {
        return TFE_EAUTH;
    }
    return 0;
}

void cipher_rekey(uint8_t key[CIPHER_KEY_BYTES])
{
    static const uint8_t zeros[CIPHER_KEY_BYTES];
    uint8_t sealed[CIPHER_KEY_BYTES + CIPHER_TAG_BYTES];
    cipher_seal(key, CIPHER_NONCE_REKEY, NULL, 0, zeros, sizeof(zeros), sealed);
    memcpy(key, sealed, CIPHER_KEY_BYTES);
    sodium_memzero(sealed, sizeof(sealed));
}
