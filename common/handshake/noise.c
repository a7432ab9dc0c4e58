/* common/handshake/noise.c: Noise handshakes, driven by a table of message tokens. */
#include "common/handshake/noise.h"

#include <sodium.h>
#include <string.h>

_Static_assert(NOISE_DH_BYTES == crypto_scalarmult_BYTES, "25519");
_Static_assert(NOISE_DH_BYTES == crypto_scalarmult_SCALARBYTES, "25519");
_Static_assert(NOISE_HASH_BYTES == crypto_generichash_BYTES_MAX, "BLAKE2b-512");

/* Noise rev. 34, 7.5 and 9.4:
 *     <- s
 *     ...
 *     -> psk, e, es
 *     <- e, ee */
const struct noise_pattern noise_nkpsk0 = {
    .protocol_name = "Noise_NKpsk0_25519_ChaChaPoly_BLAKE2b",
    .responder_static_is_known = true,
    .n_psks = 1,
    .n_messages = 2,
    .messages = {{NOISE_PSK, NOISE_E, NOISE_ES}, {NOISE_E, NOISE_EE}},
};

/* Noise rev. 34, 7.5:
 *     <- s
 *     ...
 *     -> e, es, s, ss
 *     <- e, ee, se */
const struct noise_pattern noise_ik = {
    .protocol_name = "Noise_IK_25519_ChaChaPoly_BLAKE2b",
    .responder_static_is_known = true,
    .n_messages = 2,
    .messages = {{NOISE_E, NOISE_ES, NOISE_S, NOISE_SS}, {NOISE_E, NOISE_EE, NOISE_SE}},
};

/* --- HASH and HKDF (4.3) ---------------------------------------------------------------------- */

#define HASH_BLOCK 128 /* BLOCKLEN: bytes of a hash block */

/* HASH(a || b). b may be NULL if b_n is 0. ret may be a. */
static void hash_pair(const uint8_t *a, size_t a_n, const uint8_t *b, size_t b_n,
                      uint8_t ret[NOISE_HASH_BYTES])
{
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, NOISE_HASH_BYTES);
    (void)crypto_generichash_update(&state, a, a_n);
    (void)crypto_generichash_update(&state, b, b_n);
    (void)crypto_generichash_final(&state, ret, NOISE_HASH_BYTES);
    sodium_memzero(&state, sizeof(state));
}

/* HMAC-HASH(key, a || b) of RFC 2104, not keyed BLAKE2b. Precondition: key_n <=
 * HASH_BLOCK. */
static void hmac(const uint8_t *key, size_t key_n, const uint8_t *a, size_t a_n, const uint8_t *b,
                 size_t b_n, uint8_t ret[NOISE_HASH_BYTES])
{
    crypto_generichash_state state;
    uint8_t pad[HASH_BLOCK] = {0};
    uint8_t inner[NOISE_HASH_BYTES];

    memcpy(pad, key, key_n);
    for (size_t i = 0; i < sizeof(pad); i++) {
        pad[i] ^= 0x36;
    }
    (void)crypto_generichash_init(&state, NULL, 0, NOISE_HASH_BYTES);
    (void)crypto_generichash_update(&state, pad, sizeof(pad));
    (void)crypto_generichash_update(&state, a, a_n);
    (void)crypto_generichash_update(&state, b, b_n);
    (void)crypto_generichash_final(&state, inner, sizeof(inner));

    for (size_t i = 0; i < sizeof(pad); i++) {
        pad[i] ^= 0x36 ^ 0x5c;
    }
    hash_pair(pad, sizeof(pad), inner, sizeof(inner), ret);
    sodium_memzero(&state, sizeof(state));
    sodium_memzero(pad, sizeof(pad));
    sodium_memzero(inner, sizeof(inner));
}

/* HKDF(ck, ikm, n_outputs) with n_outputs 2 or 3; ret[0] must not alias ck. */
static void hkdf(const uint8_t ck[NOISE_HASH_BYTES], const uint8_t *ikm, size_t ikm_n,
                 unsigned n_outputs, uint8_t ret[][NOISE_HASH_BYTES])
{
    uint8_t temp[NOISE_HASH_BYTES];
    hmac(ck, NOISE_HASH_BYTES, ikm, ikm_n, NULL, 0, temp);
    for (unsigned i = 0; i < n_outputs; i++) {
        uint8_t number = (uint8_t)(i + 1);
        hmac(temp, sizeof(temp), i ? ret[i - 1] : NULL, i ? NOISE_HASH_BYTES : 0, &number, 1,
             ret[i]);
    }
    sodium_memzero(temp, sizeof(temp));
}

/* --- SymmetricState (5.2) --------------------------------------------------------------------- */

static void mix_hash(struct noise_handshake *hs, const uint8_t *data, size_t n)
{
    hash_pair(hs->h, sizeof(hs->h), data, n, hs->h);
}

/* InitializeKey (5.1): a new key starts at nonce 0. */
static void set_key(struct noise_handshake *hs, const uint8_t key[NOISE_HASH_BYTES])
{
    memcpy(hs->key, key, sizeof(hs->key));
    hs->nonce = 0;
    hs->has_key = true;
}

static void mix_key(struct noise_handshake *hs, const uint8_t *ikm, size_t n)
{
    uint8_t out[2][NOISE_HASH_BYTES];
    hkdf(hs->ck, ikm, n, 2, out);
    memcpy(hs->ck, out[0], sizeof(hs->ck));
    set_key(hs, out[1]);
    sodium_memzero(out, sizeof(out));
}

static void mix_key_and_hash(struct noise_handshake *hs, const uint8_t *ikm, size_t n)
{
    uint8_t out[3][NOISE_HASH_BYTES];
    hkdf(hs->ck, ikm, n, 3, out);
    memcpy(hs->ck, out[0], sizeof(hs->ck));
    mix_hash(hs, out[1], NOISE_HASH_BYTES);
    set_key(hs, out[2]);
    sodium_memzero(out, sizeof(out));
}

static size_t tag_bytes(const struct noise_handshake *hs)
{
    return hs->has_key ? CIPHER_TAG_BYTES : 0;
}

/* EncryptAndHash: writes n + tag_bytes() bytes. */
static void encrypt_and_hash(struct noise_handshake *hs, const uint8_t *in, size_t n, uint8_t *out)
{
    size_t out_n = n + tag_bytes(hs);
    if (hs->has_key) {
        cipher_seal(hs->key, hs->nonce, hs->h, sizeof(hs->h), in, n, out);
        hs->nonce++;
    } else if (n) {
        memcpy(out, in, n);
    }
    mix_hash(hs, out, out_n);
}

/* DecryptAndHash: n includes the tag. The nonce advances on success only. */
static int decrypt_and_hash(struct noise_handshake *hs, const uint8_t *in, size_t n, uint8_t *out)
{
    if (hs->has_key) {
        int rc = cipher_open(hs->key, hs->nonce, hs->h, sizeof(hs->h), in, n, out);
        if (rc) {
            return rc;
        }
        hs->nonce++;
    } else if (n) {
        memcpy(out, in, n);
    }
    mix_hash(hs, in, n);
    return 0;
}

/* --- HandshakeState (5.3) --------------------------------------------------------------------- */

static int mix_dh(struct noise_handshake *hs, bool has_secret, const uint8_t *secret,
                  bool has_public, const uint8_t *public_key)
{
    if (!has_secret || !has_public) {
        return TFE_EINVAL;
    }
    uint8_t shared[NOISE_DH_BYTES];
    /* A result of -1 means a zero product: the peer sent a point of small order, and anybody could
     * compute the result. */
    int rc = crypto_scalarmult(shared, secret, public_key) == 0 ? 0 : TFE_EPROTO;
    if (rc == 0) {
        mix_key(hs, shared, sizeof(shared));
    }
    sodium_memzero(shared, sizeof(shared));
    return rc;
}

/* Processes the tokens that writer and reader treat alike. In "es" and "se" the first letter is the
 * initiator's key, so each side uses its own half. */
static int mix_token(struct noise_handshake *hs, enum noise_token token)
{
    switch (token) {
    case NOISE_EE:
        return mix_dh(hs, hs->has_e, hs->e, hs->has_re, hs->re);
    case NOISE_SS:
        return mix_dh(hs, hs->has_s, hs->s, hs->has_rs, hs->rs);
    case NOISE_ES:
    case NOISE_SE:
        if ((token == NOISE_ES) == hs->is_initiator) {
            return mix_dh(hs, hs->has_e, hs->e, hs->has_rs, hs->rs);
        }
        return mix_dh(hs, hs->has_s, hs->s, hs->has_re, hs->re);
    case NOISE_PSK:
        if (hs->next_psk >= hs->pattern->n_psks) {
            return TFE_EINVAL;
        }
        mix_key_and_hash(hs, hs->psks[hs->next_psk], NOISE_PSK_BYTES);
        hs->next_psk++;
        return 0;
    case NOISE_E:
    case NOISE_S:
    case NOISE_END:
        break;
    }
    return TFE_EINVAL;
}

/* Mixes an ephemeral key sent in the clear: MixHash, and with psks also MixKey (9.2), so that a psk
 * never encrypts two messages with the same key. */
static void mix_ephemeral(struct noise_handshake *hs, const uint8_t public_key[NOISE_DH_BYTES])
{
    mix_hash(hs, public_key, NOISE_DH_BYTES);
    if (hs->pattern->n_psks) {
        mix_key(hs, public_key, NOISE_DH_BYTES);
    }
}

int noise_init(struct noise_handshake *hs, const struct noise_pattern *pattern, bool is_initiator,
               const struct noise_keys *keys)
{
    *hs = (struct noise_handshake){.pattern = pattern, .is_initiator = is_initiator};
    bool needs_own =
        is_initiator ? pattern->initiator_static_is_known : pattern->responder_static_is_known;
    bool needs_remote =
        is_initiator ? pattern->responder_static_is_known : pattern->initiator_static_is_known;
    if ((needs_own && !keys->static_secret) || (needs_remote && !keys->remote_static_public) ||
        pattern->n_psks > NOISE_PSKS_MAX || (pattern->n_psks && !keys->psks)) {
        noise_done(hs);
        return TFE_EINVAL;
    }

    /* InitializeSymmetric: pad the protocol name if it fits, otherwise hash it. */
    size_t name_n = strlen(pattern->protocol_name);
    if (name_n <= sizeof(hs->h)) {
        memcpy(hs->h, pattern->protocol_name, name_n);
    } else {
        hash_pair((const uint8_t *)pattern->protocol_name, name_n, NULL, 0, hs->h);
    }
    memcpy(hs->ck, hs->h, sizeof(hs->ck));
    mix_hash(hs, keys->prologue, keys->prologue_n);

    if (keys->static_secret) {
        memcpy(hs->s, keys->static_secret, sizeof(hs->s));
        if (keys->static_public) {
            memcpy(hs->s_public, keys->static_public, sizeof(hs->s_public));
        } else {
            (void)crypto_scalarmult_base(hs->s_public, hs->s);
        }
        hs->has_s = true;
    }
    if (keys->remote_static_public && needs_remote) {
        memcpy(hs->rs, keys->remote_static_public, sizeof(hs->rs));
        hs->has_rs = true;
    }
    for (size_t i = 0; i < pattern->n_psks; i++) {
        memcpy(hs->psks[i], keys->psks + i * NOISE_PSK_BYTES, NOISE_PSK_BYTES);
    }
    if (pattern->initiator_static_is_known) {
        mix_hash(hs, is_initiator ? hs->s_public : hs->rs, NOISE_DH_BYTES);
    }
    if (pattern->responder_static_is_known) {
        mix_hash(hs, is_initiator ? hs->rs : hs->s_public, NOISE_DH_BYTES);
    }
    return 0;
}

/* True if there is a next message and this side writes it (want_write) or reads it. */
static bool is_turn(const struct noise_handshake *hs, bool want_write)
{
    if (!hs->pattern || hs->next_message >= hs->pattern->n_messages) {
        return false;
    }
    bool writes = (hs->next_message % 2 == 0) == hs->is_initiator;
    return writes == want_write;
}

static int write_token(struct noise_handshake *hs, enum noise_token token, uint8_t *out,
                       size_t left, size_t *ret_n)
{
    *ret_n = 0;
    if (token == NOISE_E) {
        if (left < NOISE_DH_BYTES) {
            return TFE_ETOOBIG;
        }
        randombytes_buf(hs->e, sizeof(hs->e));
        (void)crypto_scalarmult_base(hs->e_public, hs->e);
        hs->has_e = true;
        memcpy(out, hs->e_public, NOISE_DH_BYTES);
        mix_ephemeral(hs, hs->e_public);
        *ret_n = NOISE_DH_BYTES;
        return 0;
    }
    if (token == NOISE_S) {
        if (!hs->has_s) {
            return TFE_EINVAL;
        }
        size_t need = NOISE_DH_BYTES + tag_bytes(hs);
        if (left < need) {
            return TFE_ETOOBIG;
        }
        encrypt_and_hash(hs, hs->s_public, NOISE_DH_BYTES, out);
        *ret_n = need;
        return 0;
    }
    return mix_token(hs, token);
}

int noise_write(struct noise_handshake *hs, const uint8_t *in, size_t n, uint8_t *out,
                size_t out_cap, size_t *ret_n)
{
    int rc = TFE_ESTATE;
    if (!is_turn(hs, true)) {
        goto fail;
    }
    const enum noise_token *token = hs->pattern->messages[hs->next_message];
    size_t at = 0;
    for (; *token != NOISE_END; token++) {
        size_t step;
        rc = write_token(hs, *token, out + at, out_cap - at, &step);
        if (rc) {
            goto fail;
        }
        at += step;
    }
    if (out_cap - at < tag_bytes(hs) || out_cap - at - tag_bytes(hs) < n) {
        rc = TFE_ETOOBIG;
        goto fail;
    }
    *ret_n = at + n + tag_bytes(hs);
    encrypt_and_hash(hs, in, n, out + at);
    hs->next_message++;
    return 0;

fail:
    sodium_memzero(out, out_cap);
    noise_done(hs);
    return rc;
}

static int read_token(struct noise_handshake *hs, enum noise_token token, const uint8_t *in,
                      size_t left, size_t *ret_n)
{
    *ret_n = 0;
    if (token == NOISE_E) {
        if (left < NOISE_DH_BYTES) {
            return TFE_EPROTO;
        }
        memcpy(hs->re, in, NOISE_DH_BYTES);
        hs->has_re = true;
        mix_ephemeral(hs, hs->re);
        *ret_n = NOISE_DH_BYTES;
        return 0;
    }
    if (token == NOISE_S) {
        size_t need = NOISE_DH_BYTES + tag_bytes(hs);
        if (left < need) {
            return TFE_EPROTO;
        }
        hs->has_rs = true;
        *ret_n = need;
        return decrypt_and_hash(hs, in, need, hs->rs);
    }
    return mix_token(hs, token);
}

int noise_read(struct noise_handshake *hs, const uint8_t *in, size_t n, uint8_t *out,
               size_t out_cap, size_t *ret_n)
{
    int rc = TFE_ESTATE;
    if (!is_turn(hs, false)) {
        goto fail;
    }
    const enum noise_token *token = hs->pattern->messages[hs->next_message];
    size_t at = 0;
    for (; *token != NOISE_END; token++) {
        size_t step;
        rc = read_token(hs, *token, in + at, n - at, &step);
        if (rc) {
            goto fail;
        }
        at += step;
    }
    if (n - at < tag_bytes(hs)) {
        rc = TFE_EPROTO;
        goto fail;
    }
    size_t payload_n = n - at - tag_bytes(hs);
    if (payload_n > out_cap) {
        rc = TFE_ETOOBIG;
        goto fail;
    }
    rc = decrypt_and_hash(hs, in + at, n - at, out);
    if (rc) {
        goto fail;
    }
    hs->next_message++;
    *ret_n = payload_n;
    return 0;

fail:
    sodium_memzero(out, out_cap);
    noise_done(hs);
    return rc;
}

int noise_split(struct noise_handshake *hs, struct seal_session *ret_session)
{
    if (!hs->pattern || hs->next_message != hs->pattern->n_messages) {
        return TFE_ESTATE;
    }
    /* The initiator sends with the first key, the responder with the second. */
    uint8_t out[2][NOISE_HASH_BYTES];
    hkdf(hs->ck, NULL, 0, 2, out);
    struct seal_key *first = hs->is_initiator ? &ret_session->tx : &ret_session->rx;
    struct seal_key *second = hs->is_initiator ? &ret_session->rx : &ret_session->tx;
    *first = (struct seal_key){.until_rekey = SEAL_REKEY_FRAMES};
    *second = (struct seal_key){.until_rekey = SEAL_REKEY_FRAMES};
    memcpy(first->key, out[0], sizeof(first->key));
    memcpy(second->key, out[1], sizeof(second->key));
    sodium_memzero(out, sizeof(out));
    noise_done(hs);
    return 0;
}

void noise_done(struct noise_handshake *hs)
{
    if (hs) {
        sodium_memzero(hs, sizeof(*hs));
    }
}
