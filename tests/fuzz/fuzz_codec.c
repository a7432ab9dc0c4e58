/* tests/fuzz/fuzz_codec.c: whatever decodes can be encoded, and comes to the same bytes from then
 * on. */
#include <string.h>

#include "common/handshake/seal.h"
#include "common/message/codec.h"
#include "tests/fuzz/fuzz.h"

static size_t recoded(struct arena *arena, const uint8_t *in, size_t n, uint8_t *out)
{
    struct tfe_msg msg;
    arena_reset(arena);
    if (codec_decode(arena, in, n, &msg) != 0) {
        return 0;
    }
    size_t out_n = 0;
    MUST(codec_encode(&msg, out, SEAL_PLAIN_MAX, &out_n) == 0);
    return out_n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct arena arena;
    static uint8_t first[SEAL_PLAIN_MAX];
    static uint8_t second[SEAL_PLAIN_MAX];
    if (size > SEAL_PLAIN_MAX || (arena.cap == 0 && arena_init(&arena, ARENA_CAP) != 0)) {
        return 0;
    }
    size_t n = recoded(&arena, data, size, first);
    if (n > 0) {
        MUST(recoded(&arena, first, n, second) == n);
        MUST(memcmp(first, second, n) == 0);
    }
    return 0;
}
