/* common/handshake/handshake_layout.c: byte layout and key derivation of the handshake. */
#include "common/handshake/handshake_layout.h"

#include <sodium.h>
#include <string.h>

#include "common/handshake/noise.h"
#include "common/message/bytes.h"

/* Context of crypto_kdf, eight bytes (PROTOCOL.md). */
#define KDF_CONTEXT "tfehello"
#define KDF_PSK 1
#define KDF_MAC1 2

_Static_assert(TOKEN_SECRET_BYTES == crypto_kdf_KEYBYTES, "a secret is a kdf key");
_Static_assert(sizeof(KDF_CONTEXT) - 1 == crypto_kdf_CONTEXTBYTES, "context");
_Static_assert(HELLO_NOISE_MIN <= HELLO_NOISE1_MAX, "request");
_Static_assert(HELLO_NOISE_MIN <= HELLO_NOISE2_MAX, "response");

void hello_keys_derive(const uint8_t secret[TOKEN_SECRET_BYTES], struct hello_keys *ret)
{
    (void)crypto_kdf_derive_from_key(ret->psk, sizeof(ret->psk), KDF_PSK, KDF_CONTEXT, secret);
    (void)crypto_kdf_derive_from_key(ret->mac1, sizeof(ret->mac1), KDF_MAC1, KDF_CONTEXT, secret);
}

void hello_mac1(const struct hello_keys *keys, const uint8_t *request, size_t n,
                uint8_t ret[HELLO_MAC1_BYTES])
{
    (void)crypto_generichash(ret, HELLO_MAC1_BYTES, request, n, keys->mac1, sizeof(keys->mac1));
}

int hello_noise_init(struct noise_handshake *hs, const struct hello_keys *keys,
                     const uint8_t *static_secret, const uint8_t *static_public,
                     const uint8_t *server_public, const uint8_t clear[HELLO_CLEAR_BYTES])
{
    const struct noise_pattern *pattern =
        clear[HELLO_AT_FLAGS] == HELLO_NODE_KEY ? &noise_ik : &noise_nkpsk0;
    uint8_t prologue[HELLO_CLEAR_BYTES + 64];
    size_t name_n = strlen(pattern->protocol_name);
    memcpy(prologue, clear, HELLO_CLEAR_BYTES);
    memcpy(prologue + HELLO_CLEAR_BYTES, pattern->protocol_name, name_n);
    struct noise_keys noise_keys = {
        .static_secret = static_secret,
        .static_public = static_public,
        .remote_static_public = server_public,
        .psks = keys->psk,
        .prologue = prologue,
        .prologue_n = HELLO_CLEAR_BYTES + name_n,
    };
    return noise_init(hs, pattern, server_public != NULL, &noise_keys);
}

void hello_facts_put(const struct hello_facts *facts, uint8_t out[HELLO_FACTS_BYTES])
{
    be32_put(out, facts->version_min);
    be32_put(out + 4, facts->version_max);
    be64_put(out + 8, facts->boot_nonce);
}

int hello_facts_get(const uint8_t *in, size_t n, struct hello_facts *ret)
{
    if (n < HELLO_FACTS_BYTES) {
        return TFE_EPROTO;
    }
    struct hello_facts facts = {
        .version_min = be32_get(in),
        .version_max = be32_get(in + 4),
        .boot_nonce = be64_get(in + 8),
    };
    if (facts.version_min > facts.version_max) {
        return TFE_EPROTO;
    }
    *ret = facts;
    return 0;
}
