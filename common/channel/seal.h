/* common/channel/seal.h: the keys of a connection after its handshake, and frames sealed with them.
 */
#ifndef TFE_COMMON_CHANNEL_SEAL_H
#define TFE_COMMON_CHANNEL_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define SEAL_KEY_BYTES 32
#define SEAL_TAG_BYTES 16
/* The u16 length in front of each frame. */
#define SEAL_HEADER_BYTES 2
/* design 3.2: a frame (its sealed payload) is at most 16 KiB; so much plain text fits. */
#define SEAL_FRAME_MAX 16384
#define SEAL_PLAIN_MAX (SEAL_FRAME_MAX - SEAL_TAG_BYTES)
/* design 3.1: each direction rekeys after this many frames, without signalling. */
#define SEAL_REKEY_FRAMES 65536

/* Noise's CipherState (rev. 34, 5.1). A rekey replaces key and lets nonce count on. */
struct seal_key {
    uint8_t key[SEAL_KEY_BYTES];
    uint64_t nonce;
    uint32_t until_rekey; /* frames; SEAL_REKEY_FRAMES after each rekey */
};

struct seal_session {
    struct seal_key tx;
    struct seal_key rx;
};

/* Writes header, ciphertext and tag of one frame: n + 18 bytes. in may not overlap out.
 * TFE_ETOOBIG: out_cap is too small, or n is above SEAL_PLAIN_MAX; TFE_EINVAL: n is 0; TFE_EPROTO:
 * the key is worn out (2^64 - 1 frames). After an error nothing has changed. */
int seal_frame(struct seal_key *tx, const uint8_t *in, size_t n, uint8_t *out, size_t out_cap,
               size_t *ret_n) TFE_MUST_CHECK;

/* Opens the frame at the front of in. TFE_EMORE: it is not complete yet, nothing changed.
 * TFE_EPROTO: length illegal, or forged, replayed, out of order: end the connection. out needs room
 * for SEAL_PLAIN_MAX bytes and may not overlap in. On success *ret_used bytes were read. */
int seal_open(struct seal_key *rx, const uint8_t *in, size_t n, size_t *ret_used, uint8_t *out,
              size_t *ret_n) TFE_MUST_CHECK;

/* Wipes. NULL is allowed. */
void seal_done(struct seal_session *session);

#endif
