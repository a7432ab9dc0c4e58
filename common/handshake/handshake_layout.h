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
#define HELLO_PREAMBLE_VERSION 1
#define HELLO_MAGIC "TFE1"
#define HELLO_MAGIC_BYTES 4
#define HELLO_LENGTH_BYTES 2
#define HELLO_MAC1_BYTES 16

enum {
    HELLO_AT_VERSION = HELLO_MAGIC_BYTES,
    HELLO_AT_FLAGS = HELLO_AT_VERSION + 1, /* 0 or HELLO_NODE_KEY */
    HELLO_AT_HINT = HELLO_AT_FLAGS + 1,
    HELLO_AT_KEY_ID = HELLO_AT_HINT + TOKEN_HINT_BYTES,
    HELLO_AT_LENGTH = HELLO_AT_KEY_ID + TOKEN_KEY_ID_BYTES,
    HELLO_CLEAR_BYTES = HELLO_AT_LENGTH + HELLO_LENGTH_BYTES
};

/* Flag: key_id belongs to a node key. The handshake is Noise IK, and the certificate follows the
 * facts in message 1. */
#define HELLO_NODE_KEY 1

/* Size of the facts in both noise messages: u32 version_min, u32 version_max, u64 boot_nonce. Later
 * versions may append data, which is ignored. */
#define HELLO_FACTS_BYTES 16

/* Sizes of the noise messages. Both consist of e, facts and tag; the first message with a node key
 * also has the public key and its tag. */
#define HELLO_NOISE_MIN (NOISE_DH_BYTES + HELLO_FACTS_BYTES + CIPHER_TAG_BYTES)
#define HELLO_NOISE1_MAX (HELLO_REQUEST_MAX - HELLO_CLEAR_BYTES - HELLO_MAC1_BYTES)
#define HELLO_NOISE2_MAX (HELLO_RESPONSE_MAX - HELLO_LENGTH_BYTES)

/* The two keys derived from a token's secret. Wipe after use. */
struct hello_keys {
    uint8_t psk[NOISE_PSK_BYTES];
    uint8_t mac1[32];
};

void hello_keys_derive(const uint8_t secret[TOKEN_SECRET_BYTES], struct hello_keys *ret);

/* Computes mac1 over the first n bytes of the request. */
void hello_mac1(const struct hello_keys *keys, const uint8_t *request, size_t n,
                uint8_t ret[HELLO_MAC1_BYTES]);

/* Starts the noise handshake selected by the flags in `clear`. The prologue is the
 * HELLO_CLEAR_BYTES and the protocol name. A server passes static_secret and no server_public; a
 * client the reverse, and a static_secret too if it has a node key. Returns TFE_EINVAL if a key is
 * missing. */
int hello_noise_init(struct noise_handshake *hs, const struct hello_keys *keys,
                     const uint8_t *static_secret, const uint8_t *static_public,
                     const uint8_t *server_public,
                     const uint8_t clear[HELLO_CLEAR_BYTES]) TFE_MUST_CHECK;

void hello_facts_put(const struct hello_facts *facts, uint8_t out[HELLO_FACTS_BYTES]);

/* Decodes the facts. Returns TFE_EPROTO if too short or the range of versions is empty. */
int hello_facts_get(const uint8_t *in, size_t n, struct hello_facts *ret) TFE_MUST_CHECK;

#endif
