/* tests/unit/message/codec_fixture.h: an arena and short message constructors for tests of the
 * codec. */
#ifndef TFE_TESTS_UNIT_MESSAGE_CODEC_FIXTURE_H
#define TFE_TESTS_UNIT_MESSAGE_CODEC_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "common/handshake/seal.h"
#include "common/message/arena.h"
#include "common/message/codec.h"
#include "tests/unit/test_runner.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct arena arena;

static inline int set_up(void **state)
{
    (void)state;
    return arena_init(&arena, ARENA_CAP);
}

static inline int tear_down(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

/* Returns a tfe_msg of the type, with its members in the order of the struct. */
#define D MSG_DURATION_MAX_MS
#define U MSG_UNSET
/* A node secret of the length that JOIN requires. */
#define NODE_SECRET "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define M(NAME, name, ...)                                                                         \
    {                                                                                              \
        .type = MSG_##NAME, .u.name = { __VA_ARGS__ }                                              \
    }

static uint8_t bytes[SEAL_PLAIN_MAX];

static inline size_t encode(const struct tfe_msg *msg)
{
    size_t n = 0;
    assert_int_equal(codec_encode(msg, bytes, sizeof(bytes), &n), 0);
    return n;
}

/* Decodes from an allocation of exactly n bytes, so that the sanitizer detects a read past the
 * end. */
static inline int decode(const uint8_t *in, size_t n, struct tfe_msg *ret)
{
    uint8_t *copy = malloc(n + !n);
    if (n) {
        memcpy(copy, in, n);
    }
    arena_reset(&arena);
    int rc = codec_decode(&arena, copy, n, ret);
    free(copy);
    return rc;
}

#endif
