/* bench/frames.h: frame sizes and keys shared by both ends of the sealed echo. */
#ifndef TFE_BENCH_FRAMES_H
#define TFE_BENCH_FRAMES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/error.h"
#include "common/handshake/seal.h"
#include "common/message/codec.h"
#include "common/message/msg.h"

/* Writes a RENEW with the size of the real message, so that the echo moves the same bytes. */
static inline size_t frames_renew(uint8_t out[64])
{
    size_t n = 0;
    const struct tfe_msg msg = {.type = MSG_RENEW, .u.renew.number = 100};
    return codec_encode(&msg, out, 64, &n) == 0 ? n : 0;
}

static inline size_t frames_renewed(uint8_t out[64])
{
    size_t n = 0;
    const struct tfe_msg msg = {.type = MSG_RENEWED,
                                .u.renewed = {.number = 100, .ttl_ms = 10000, .fence_ms = 300000}};
    return codec_encode(&msg, out, 64, &n) == 0 ? n : 0;
}

/* Fixed keys, one for each direction, since the benchmark needs no secrecy. */
static inline void frames_key(struct seal_key *key, uint8_t direction)
{
    memset(key, 0, sizeof *key);
    memset(key->key, direction + 1, sizeof key->key);
    key->until_rekey = SEAL_REKEY_FRAMES;
}

#endif
