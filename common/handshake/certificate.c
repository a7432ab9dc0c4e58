/* common/handshake/certificate.c: certificates of agents' keys (PROTOCOL.md, "Handshake"). */
#include "common/handshake/certificate.h"

#include <sodium.h>
#include <string.h>

_Static_assert(TOKEN_ROOT_BYTES == crypto_generichash_KEYBYTES, "root");

/* Domain separation from the secrets derived from the same root. */
#define SEAL_DOMAIN "tfe node key"

static void seal(const uint8_t key_id[TOKEN_KEY_ID_BYTES], const uint8_t public_key[32],
                 const uint8_t *body, size_t n, const uint8_t root[TOKEN_ROOT_BYTES],
                 uint8_t ret[CERTIFICATE_SEAL_BYTES])
{
    crypto_generichash_state hash;
    (void)crypto_generichash_init(&hash, root, TOKEN_ROOT_BYTES, CERTIFICATE_SEAL_BYTES);
    (void)crypto_generichash_update(&hash, (const uint8_t *)SEAL_DOMAIN, sizeof(SEAL_DOMAIN));
    (void)crypto_generichash_update(&hash, key_id, TOKEN_KEY_ID_BYTES);
    (void)crypto_generichash_update(&hash, public_key, 32);
    (void)crypto_generichash_update(&hash, body, n);
    (void)crypto_generichash_final(&hash, ret, CERTIFICATE_SEAL_BYTES);
    sodium_memzero(&hash, sizeof(hash));
}

void certificate_make(const uint8_t key_id[TOKEN_KEY_ID_BYTES], const uint8_t public_key[32],
                      const struct principal *by, const uint8_t root[TOKEN_ROOT_BYTES],
                      struct certificate *ret)
{
    size_t scope_n = strnlen(by->scope, MSG_SCOPE_MAX);
    uint8_t *at = ret->bytes;
    memcpy(at, by->origin, PRINCIPAL_KEY_ID_BYTES);
    at[PRINCIPAL_KEY_ID_BYTES] = (uint8_t)scope_n;
    memcpy(at + PRINCIPAL_KEY_ID_BYTES + 1, by->scope, scope_n);
    ret->n = PRINCIPAL_KEY_ID_BYTES + 1 + scope_n;
    seal(key_id, public_key, ret->bytes, ret->n, root, ret->bytes + ret->n);
    ret->n += CERTIFICATE_SEAL_BYTES;
}

int certificate_read(const uint8_t *in, size_t n, const uint8_t public_key[32],
                     const uint8_t root[TOKEN_ROOT_BYTES], char buf[MSG_SCOPE_MAX + 1],
                     struct principal *ret)
{
    const size_t min = PRINCIPAL_KEY_ID_BYTES + 1 + CERTIFICATE_SEAL_BYTES;
    uint8_t sealed[CERTIFICATE_SEAL_BYTES];
    if (n < min || n != min + in[PRINCIPAL_KEY_ID_BYTES] || n > CERTIFICATE_MAX) {
        return TFE_EAUTH;
    }
    size_t body_n = n - CERTIFICATE_SEAL_BYTES;
    seal(ret->key_id, public_key, in, body_n, root, sealed);
    if (sodium_memcmp(sealed, in + body_n, sizeof(sealed)) != 0) {
        return TFE_EAUTH;
    }
    memcpy(ret->origin, in, PRINCIPAL_KEY_ID_BYTES);
    memcpy(buf, in + PRINCIPAL_KEY_ID_BYTES + 1, n - min);
    buf[n - min] = '\0';
    ret->scope = buf;
    return 0;
}
