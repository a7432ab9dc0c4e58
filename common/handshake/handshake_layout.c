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
_Static_assert(HANDSHAKE_NOISE_MIN <= HANDSHAKE_NOISE1_MAX, "request");
_Static_assert(HANDSHAKE_NOISE_MIN <= HANDSHAKE_NOISE2_MAX, "response");

void handshake_keys_derive(const uint8_t secret[TOKEN_SECRET_BYTES], struct handshake_keys *ret)
{
    (void)crypto_kdf_derive_from_key(ret->psk, sizeof(ret->psk), KDF_PSK, KDF_CONTEXT, secret);
    (void)crypto_kdf_derive_from_key(ret->mac1, sizeof(ret->mac1), KDF_MAC1, KDF_CONTEXT, secret);
}

void handshake_mac1(const struct handshake_keys *keys, const uint8_t *request, size_t n,
                    uint8_t ret[HANDSHAKE_MAC1_BYTES])
{
    (void)crypto_generichash(ret, HANDSHAKE_MAC1_BYTES, request, n, keys->mac1, sizeof(keys->mac1));
}

int handshake_noise_init(struct noise_handshake *hs, const struct handshake_keys *keys,
                         const uint8_t *static_secret, const uint8_t *static_public,
                         const uint8_t *server_public, const uint8_t clear[HANDSHAKE_CLEAR_BYTES])
{
    const struct noise_pattern *pattern =
        clear[HANDSHAKE_OFFSET_FLAGS] == HANDSHAKE_NODE_KEY ? &noise_ik : &noise_nkpsk0;
    uint8_t prologue[HANDSHAKE_CLEAR_BYTES + 64];
    size_t name_n = strlen(pattern->protocol_name);
    memcpy(prologue, clear, HANDSHAKE_CLEAR_BYTES);
    memcpy(prologue + HANDSHAKE_CLEAR_BYTES, pattern->protocol_name, name_n);
    struct noise_keys noise_keys = {
        .static_secret = static_secret,
        .static_public = static_public,
        .remote_static_public = server_public,
        .psks = keys->psk,
        .prologue = prologue,
        .prologue_n = HANDSHAKE_CLEAR_BYTES + name_n,
    };
    return noise_init(hs, pattern, server_public != NULL, &noise_keys);
}

void handshake_params_put(const struct handshake_params *params,
                          uint8_t out[HANDSHAKE_PARAMS_BYTES])
{
    be32_put(out, params->version_min);
    be32_put(out + 4, params->version_max);
    be64_put(out + 8, params->boot_nonce);
}

int handshake_params_get(const uint8_t *in, size_t n, struct handshake_params *ret)
{
    if (n < HANDSHAKE_PARAMS_BYTES) {
        return TFE_EPROTO;
    }
    struct handshake_params params = {
        .version_min = be32_get(in),
        .version_max = be32_get(in + 4),
        .boot_nonce = be64_get(in + 8),
    };
    if (params.version_min > params.version_max) {
        return TFE_EPROTO;
    }
    *ret = params;
    return 0;
}
