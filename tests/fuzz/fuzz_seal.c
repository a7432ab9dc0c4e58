/* tests/fuzz/fuzz_seal.c: frames of an authenticated connection. One is opened as it was sealed,
 * with any bit changed it is not, and nothing at all passes for one. The first byte says which, the
 * second how much was sealed. */
#include <sodium.h>
#include <string.h>

#include "common/handshake/seal.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t out[SEAL_PLAIN_MAX];
    static const uint8_t plain[UINT8_MAX + 1] = "what was said";
    uint8_t frame[sizeof plain + SEAL_HEADER_BYTES + SEAL_TAG_BYTES];
    struct seal_key tx = {.key = {1, 2, 3}, .until_rekey = SEAL_REKEY_FRAMES};
    struct seal_key rx = tx;
    size_t used = 0;
    size_t n = 0;
    if (sodium_init() < 0 || size < 2) {
        return 0;
    }
    const uint8_t *rest = data + 2;
    size_t rest_n = size - 2;
    if (data[0] % 2 == 0) {
        MUST(seal_open(&rx, rest, rest_n, &used, out, &n) != 0);
        return 0;
    }
    size_t plain_n = (size_t)data[1] + 1;
    size_t frame_n = 0;
    MUST(seal_frame(&tx, plain, plain_n, frame, sizeof frame, &frame_n) == 0);
    bool changed = false;
    for (size_t i = 0; i < frame_n && i < rest_n; i++) {
        frame[i] ^= rest[i];
        changed = changed || rest[i] != 0;
    }
    int rc = seal_open(&rx, frame, frame_n, &used, out, &n);
    MUST((rc == 0) == !changed);
    MUST(rc != 0 || (used == frame_n && n == plain_n && memcmp(out, plain, n) == 0));
    return 0;
}
