/* common/handshake/seal.c: encrypts and decrypts the frames of a connection. */
#include "common/handshake/seal.h"

#include <sodium.h>

#include "common/handshake/cipher.h"
#include "common/message/bytes.h"

_Static_assert(SEAL_KEY_BYTES == CIPHER_KEY_BYTES, "one cipher");
_Static_assert(SEAL_TAG_BYTES == CIPHER_TAG_BYTES, "one cipher");
_Static_assert(SEAL_FRAME_MAX <= UINT16_MAX, "the header's length field");

/* Advances the key after a frame. A rekey does not reset the nonce (Noise rev. 34, 5.1), so no pair
 * of key and nonce repeats. */
static void seal_key_step(struct seal_key *key)
{
    key->nonce++;
    key->until_rekey--;
    if (key->until_rekey == 0) {
        cipher_rekey(key->key);
        key->until_rekey = SEAL_REKEY_FRAMES;
    }
}

int seal_frame(struct seal_key *tx, const uint8_t *in, size_t n, uint8_t *out, size_t out_cap,
               size_t *ret_n)
{
    if (n > SEAL_PLAIN_MAX || out_cap < n + SEAL_HEADER_BYTES + SEAL_TAG_BYTES) {
        return TFE_ETOOBIG;
    }
    if (n == 0) {
        return TFE_EINVAL;
    }
    if (tx->nonce == CIPHER_NONCE_REKEY) {
        return TFE_EPROTO;
    }
    be16_put(out, (uint16_t)(n + SEAL_TAG_BYTES));
    cipher_seal(tx->key, tx->nonce, NULL, 0, in, n, out + SEAL_HEADER_BYTES);
    seal_key_step(tx);
    *ret_n = n + SEAL_HEADER_BYTES + SEAL_TAG_BYTES;
    return 0;
}

int seal_open(struct seal_key *rx, const uint8_t *in, size_t n, size_t *ret_used, uint8_t *out,
              size_t *ret_n)
{
    if (n < SEAL_HEADER_BYTES) {
        return TFE_EMORE;
    }
    /* Check the length before waiting for the rest, so that a peer cannot make the caller buffer an
     * absurd amount. */
    size_t sealed_n = be16_get(in);
    if (sealed_n <= SEAL_TAG_BYTES || sealed_n > SEAL_FRAME_MAX) {
        return TFE_EPROTO;
    }
    if (n - SEAL_HEADER_BYTES < sealed_n) {
        return TFE_EMORE;
    }
    if (rx->nonce == CIPHER_NONCE_REKEY ||
        cipher_open(rx->key, rx->nonce, NULL, 0, in + SEAL_HEADER_BYTES, sealed_n, out) != 0) {
        return TFE_EPROTO;
    }
    seal_key_step(rx);
    *ret_used = SEAL_HEADER_BYTES + sealed_n;
    *ret_n = sealed_n - SEAL_TAG_BYTES;
    return 0;
}

void seal_done(struct seal_session *session)
{
    if (session) {
        sodium_memzero(session, sizeof(*session));
    }
}
