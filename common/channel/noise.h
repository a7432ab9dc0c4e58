/* common/channel/noise.h: a Noise handshake (rev. 34) with 25519, ChaChaPoly and BLAKE2b, driven by
 * a table. */
#ifndef TFE_COMMON_CHANNEL_NOISE_H
#define TFE_COMMON_CHANNEL_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/channel/cipher.h"
#include "common/channel/seal.h"

#define NOISE_DH_BYTES 32   /* DHLEN of 25519; secret and public keys (12.1) */
#define NOISE_HASH_BYTES 64 /* HASHLEN of BLAKE2b (12.8) */
#define NOISE_PSK_BYTES 32  /* section 9 */

/* What the largest pattern in use, tests included, needs: XXpsk0+psk1+psk2+psk3 and X1X1. */
#define NOISE_MESSAGES_MAX 4
#define NOISE_TOKENS_MAX 8 /* the last one is NOISE_END */
#define NOISE_PSKS_MAX 4

enum noise_token {
    NOISE_END, /* no more tokens in this message */
    NOISE_E,
    NOISE_S,
    NOISE_EE,
    NOISE_ES,
    NOISE_SE,
    NOISE_SS,
    NOISE_PSK
};

/* A handshake pattern (section 7): messages alternate, the initiator's first. A one-way pattern has
 * one message. Pre-messages other than a static key (fallback patterns) are not needed here. */
struct noise_pattern {
    const char *protocol_name;      /* "Noise_..." (section 8) */
    bool initiator_static_is_known; /* pre-message -> s */
    bool responder_static_is_known; /* pre-message <- s */
    uint8_t n_psks;                 /* psk tokens in all; not 0 makes every e also a MixKey (9.2) */
    uint8_t n_messages;
    enum noise_token messages[NOISE_MESSAGES_MAX][NOISE_TOKENS_MAX];
};

/* What one side knows before the first message. NULL: has none. Copied by noise_init. */
struct noise_keys {
    const uint8_t *static_secret;        /* NOISE_DH_BYTES, own */
    const uint8_t *static_public;        /* that belongs to it; NULL: it is computed */
    const uint8_t *remote_static_public; /* NOISE_DH_BYTES, the peer's */
    const uint8_t *psks; /* pattern->n_psks times NOISE_PSK_BYTES, in order of use */
    const uint8_t *prologue;
    size_t prologue_n;
};

/* Noise's HandshakeState and SymmetricState (5.2, 5.3). Private, but a value so that it lives in
 * the caller's struct. Full of secrets: noise_done before it goes. */
struct noise_handshake {
    const struct noise_pattern *pattern; /* NULL once it failed or is done */
    bool is_initiator;
    bool has_key;
    bool has_s, has_e, has_rs, has_re;
    uint8_t next_message;
    uint8_t next_psk;
    uint64_t nonce;
    uint8_t key[CIPHER_KEY_BYTES];
    uint8_t ck[NOISE_HASH_BYTES];
    uint8_t h[NOISE_HASH_BYTES];
    uint8_t s[NOISE_DH_BYTES], s_public[NOISE_DH_BYTES];
    uint8_t e[NOISE_DH_BYTES], e_public[NOISE_DH_BYTES];
    uint8_t rs[NOISE_DH_BYTES], re[NOISE_DH_BYTES];
    uint8_t psks[NOISE_PSKS_MAX][NOISE_PSK_BYTES];
};

/* Initialize (5.3). pattern is borrowed until noise_done. TFE_EINVAL: the pattern's pre-messages or
 * psks need a key that keys does not have; hs is wiped. */
int noise_init(struct noise_handshake *hs, const struct noise_pattern *pattern, bool is_initiator,
               const struct noise_keys *keys) TFE_MUST_CHECK;

/* WriteMessage (5.3). Any error ends the handshake and wipes it and out: TFE_ESTATE, not this
 * side's turn, or ended before; TFE_ETOOBIG, out_cap is too small; TFE_EINVAL, a key the pattern
 * needs is missing; TFE_EPROTO, the peer's key is no valid point. in may not overlap out. */
int noise_write(struct noise_handshake *hs, const uint8_t *in, size_t n, uint8_t *out,
                size_t out_cap, size_t *ret_n) TFE_MUST_CHECK;

/* ReadMessage (5.3): in is one whole message, out receives its payload (at most n bytes). Any error
 * ends the handshake and wipes it and out: as noise_write, and TFE_EAUTH, forged or other keys;
 * TFE_EPROTO also for a message too short for its pattern. */
int noise_read(struct noise_handshake *hs, const uint8_t *in, size_t n, uint8_t *out,
               size_t out_cap, size_t *ret_n) TFE_MUST_CHECK;

/* Split (5.2): the keys of the two directions as this side uses them. Ends the handshake and wipes
 * it. TFE_ESTATE: not complete. */
int noise_split(struct noise_handshake *hs, struct seal_session *ret_session) TFE_MUST_CHECK;

/* Wipes. NULL is allowed. */
void noise_done(struct noise_handshake *hs);

#endif
