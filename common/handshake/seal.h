/* common/handshake/seal.h: session keys of a connection after its handshake, and encryption of its
 * frames. */
#ifndef TFE_COMMON_HANDSHAKE_SEAL_H
#define TFE_COMMON_HANDSHAKE_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define SEAL_KEY_BYTES 32
#define SEAL_TAG_BYTES 16
/* Size of the u16 length before each frame. */
#define SEAL_HEADER_BYTES 2
/* Maximum size of a frame (its sealed payload), 16 KiB (design 3.2), and of the plaintext within
 * it. */
#define SEAL_FRAME_MAX 16384
#define SEAL_PLAIN_MAX (SEAL_FRAME_MAX - SEAL_TAG_BYTES)
/* Number of frames after which each direction rekeys, without signalling (design 3.1). */
#define SEAL_REKEY_FRAMES 65536

/* Noise's CipherState (rev. 34, 5.1). A rekey replaces key; nonce continues to count. */
struct seal_key {
    uint8_t key[SEAL_KEY_BYTES];
    uint64_t nonce;
    uint32_t until_rekey; /* frames until the next rekey; SEAL_REKEY_FRAMES after one */
};

struct seal_session {
    struct seal_key tx;
    struct seal_key rx;
};

/* Encrypts one frame: writes header, ciphertext and tag, n + 18 bytes. in must not overlap out.
 * Returns TFE_ETOOBIG if out_cap is too small or n exceeds SEAL_PLAIN_MAX, TFE_EINVAL if n is 0,
 * TFE_EPROTO if the key is exhausted (2^64 - 1 frames). Errors change nothing. */
int seal_frame(struct seal_key *tx, const uint8_t *in, size_t n, uint8_t *out, size_t out_cap,
               size_t *ret_n) TFE_MUST_CHECK;

/* Decrypts the frame at the start of in and sets *ret_used to its size. out has capacity
 * SEAL_PLAIN_MAX and must not overlap in. Returns TFE_EMORE without a change if the frame is
 * incomplete; TFE_EPROTO if the length is invalid or the frame is forged, replayed or out of order:
 * close the connection. */
int seal_open(struct seal_key *rx, const uint8_t *in, size_t n, size_t *ret_used, uint8_t *out,
              size_t *ret_n) TFE_MUST_CHECK;

/* Wipes the keys. NULL is allowed. */
void seal_done(struct seal_session *session);

#endif
