/* common/handshake/handshake_layout.h: byte layout and key derivation shared by both sides of the
 * handshake (PROTOCOL.md, "Handshake"). Private to common/channel. */
#ifndef TFE_COMMON_HANDSHAKE_HANDSHAKE_LAYOUT_H
#define TFE_COMMON_HANDSHAKE_HANDSHAKE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/handshake/handshake.h"
#include "common/handshake/noise.h"
#include "common/handshake/token.h"

/* Version of preamble and handshake, independent of the messages that follow. */
#define HANDSHAKE_PREAMBLE_VERSION 1
#define HANDSHAKE_MAGIC "TFE1"
#define HANDSHAKE_MAGIC_BYTES 4
#define HANDSHAKE_LENGTH_BYTES 2
#define HANDSHAKE_MAC1_BYTES 16

enum {
    HANDSHAKE_OFFSET_VERSION = HANDSHAKE_MAGIC_BYTES,
    HANDSHAKE_OFFSET_FLAGS = HANDSHAKE_OFFSET_VERSION + 1, /* 0 or HANDSHAKE_NODE_KEY */
    HANDSHAKE_OFFSET_HINT = HANDSHAKE_OFFSET_FLAGS + 1,
    HANDSHAKE_OFFSET_KEY_ID = HANDSHAKE_OFFSET_HINT + TOKEN_HINT_BYTES,
    HANDSHAKE_OFFSET_LENGTH = HANDSHAKE_OFFSET_KEY_ID + TOKEN_KEY_ID_BYTES,
    HANDSHAKE_CLEAR_BYTES = HANDSHAKE_OFFSET_LENGTH + HANDSHAKE_LENGTH_BYTES
};

/* Flag: key_id belongs to a node key. The handshake is Noise IK, and the certificate follows the
 * parameters in message 1. */
#define HANDSHAKE_NODE_KEY 1

/* Size of the parameters in both noise messages: u32 version_min, u32 version_max, u64 boot_nonce.
 * Later versions may append data, which is ignored. */
#define HANDSHAKE_PARAMS_BYTES 16

/* Sizes of the noise messages. Both consist of e, parameters and tag; the first message with a node
 * key also has the public key and its tag. */
#define HANDSHAKE_NOISE_MIN (NOISE_DH_BYTES + HANDSHAKE_PARAMS_BYTES + CIPHER_TAG_BYTES)
#define HANDSHAKE_NOISE1_MAX (HANDSHAKE_REQUEST_MAX - HANDSHAKE_CLEAR_BYTES - HANDSHAKE_MAC1_BYTES)
#define HANDSHAKE_NOISE2_MAX (HANDSHAKE_RESPONSE_MAX - HANDSHAKE_LENGTH_BYTES)

/* The two keys derived from a token's secret. Wipe after use. */
struct handshake_keys {
    uint8_t psk[NOISE_PSK_BYTES];
    uint8_t mac1[32];
};

void handshake_keys_derive(const uint8_t secret[TOKEN_SECRET_BYTES], struct handshake_keys *ret);

/* Computes mac1 over the first n bytes of the request. */
void handshake_mac1(const struct handshake_keys *keys, const uint8_t *request, size_t n,
                    uint8_t ret[HANDSHAKE_MAC1_BYTES]);

/* Starts the noise handshake selected by the flags in `clear`. The prologue is the
 * HANDSHAKE_CLEAR_BYTES and the protocol name. A server passes static_secret and no server_public;
 * a client the reverse, and a static_secret too if it has a node key. Returns TFE_EINVAL if a key
 * is missing. */
int handshake_noise_init(struct noise_handshake *hs, const struct handshake_keys *keys,
                         const uint8_t *static_secret, const uint8_t *static_public,
                         const uint8_t *server_public,
                         const uint8_t clear[HANDSHAKE_CLEAR_BYTES]) TFE_MUST_CHECK;

void handshake_params_put(const struct handshake_params *params,
                          uint8_t out[HANDSHAKE_PARAMS_BYTES]);

/* Decodes the parameters. Returns TFE_EPROTO if too short or the range of versions is empty. */
int handshake_params_get(const uint8_t *in, size_t n, struct handshake_params *ret) TFE_MUST_CHECK;

#endif
