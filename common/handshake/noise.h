/* common/handshake/noise.h: Noise handshakes (rev. 34) with 25519, ChaChaPoly and BLAKE2b, driven
 * by a table of message tokens. */
#ifndef TFE_COMMON_HANDSHAKE_NOISE_H
#define TFE_COMMON_HANDSHAKE_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/handshake/cipher.h"
#include "common/handshake/seal.h"

#define NOISE_DH_BYTES 32   /* DHLEN of 25519: bytes of secret and public keys (12.1) */
#define NOISE_HASH_BYTES 64 /* HASHLEN of BLAKE2b (12.8) */
#define NOISE_PSK_BYTES 32  /* bytes of a pre-shared key (section 9) */

/* Limits of patterns, sufficient for the largest in use, tests included: XXpsk0+psk1+psk2+psk3 and
 * X1X1. */
#define NOISE_MESSAGES_MAX 4
#define NOISE_TOKENS_MAX 8 /* tokens per message, including the final NOISE_END */
#define NOISE_PSKS_MAX 4

enum noise_token {
    NOISE_END, /* end of the tokens of a message */
    NOISE_E,
    NOISE_S,
    NOISE_EE,
    NOISE_ES,
    NOISE_SE,
    NOISE_SS,
    NOISE_PSK
};

/* A handshake pattern (section 7). Messages alternate, starting with the initiator; a one-way
 * pattern has one message. Pre-messages other than a static key (fallback patterns) are not
 * supported. */
struct noise_pattern {
    const char *protocol_name;      /* protocol name "Noise_..." (section 8) */
    bool initiator_static_is_known; /* pre-message -> s exists */
    bool responder_static_is_known; /* pre-message <- s exists */
    uint8_t n_psks; /* number of psk tokens; if not 0, every e token also does a MixKey (9.2) */
    uint8_t n_messages;
    enum noise_token messages[NOISE_MESSAGES_MAX][NOISE_TOKENS_MAX];
};

/* Noise_NKpsk0_25519_ChaChaPoly_BLAKE2b: the client knows the server's public key, and both know
 * the token's secret. */
extern const struct noise_pattern noise_nkpsk0;
/* Noise_IK_25519_ChaChaPoly_BLAKE2b: the client knows the server's public key and proves its
 * own. */
extern const struct noise_pattern noise_ik;

/* Keys that one side has before the first message; NULL if it has none. noise_init copies them. */
struct noise_keys {
    const uint8_t *static_secret;        /* own static secret key, NOISE_DH_BYTES */
    const uint8_t *static_public;        /* public key of static_secret; NULL to compute it */
    const uint8_t *remote_static_public; /* the peer's static public key, NOISE_DH_BYTES */
    const uint8_t *psks; /* pattern->n_psks keys of NOISE_PSK_BYTES each, in order of use */
    const uint8_t *prologue;
    size_t prologue_n;
};

/* Noise's HandshakeState and SymmetricState (5.2, 5.3). Members are private; the struct is public
 * so that callers can embed it. Contains secrets: call noise_done before it goes out of scope. */
struct noise_handshake {
    const struct noise_pattern
        *pattern; /* pattern in use; NULL once the handshake has failed or finished */
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

/* Initialize (5.3). Borrows pattern until noise_done. Returns TFE_EINVAL, with hs wiped, if a key
 * that the pattern's pre-messages or psks need is missing. */
int noise_init(struct noise_handshake *hs, const struct noise_pattern *pattern, bool is_initiator,
               const struct noise_keys *keys) TFE_MUST_CHECK;

/* WriteMessage (5.3). in must not overlap out. An error ends the handshake and wipes it and out:
 * TFE_ESTATE if it is not this side's turn or the handshake has ended, TFE_ETOOBIG if out_cap is
 * too small, TFE_EINVAL if a key that the pattern needs is missing, TFE_EPROTO if the peer's key is
 * not a valid point. */
int noise_write(struct noise_handshake *hs, const uint8_t *in, size_t n, uint8_t *out,
                size_t out_cap, size_t *ret_n) TFE_MUST_CHECK;

/* ReadMessage (5.3): in is one complete message; out receives its payload, at most n bytes. Errors
 * as noise_write; also TFE_EAUTH if forged or encrypted with other keys, TFE_EPROTO if the message
 * is too short for its pattern. */
int noise_read(struct noise_handshake *hs, const uint8_t *in, size_t n, uint8_t *out,
               size_t out_cap, size_t *ret_n) TFE_MUST_CHECK;

/* Split (5.2): derives the session keys of both directions. Ends the handshake and wipes it.
 * Returns TFE_ESTATE if the handshake is incomplete. */
int noise_split(struct noise_handshake *hs, struct seal_session *ret_session) TFE_MUST_CHECK;

/* Wipes the handshake. NULL is allowed. */
void noise_done(struct noise_handshake *hs);

#endif
