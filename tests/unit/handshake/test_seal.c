/* tests/unit/handshake/test_seal.c: sealed frames that are truncated, forged or reordered, and the
 * rekey. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/handshake/cipher.h"
#include "common/handshake/seal.h"
#include "tests/unit/test_runner.h"

#define OVERHEAD (SEAL_HEADER_BYTES + SEAL_TAG_BYTES)

static void make_pair(struct seal_key *tx, struct seal_key *rx)
{
    *tx = (struct seal_key){.key = {1, 2, 3}, .until_rekey = SEAL_REKEY_FRAMES};
    *rx = *tx;
}

static size_t seal_text(struct seal_key *tx, const char *text, uint8_t *out, size_t cap)
{
    size_t n;
    assert_int_equal(seal_frame(tx, (const uint8_t *)text, strlen(text), out, cap, &n), 0);
    return n;
}

static uint8_t plain[SEAL_PLAIN_MAX];

TEST(seal, every_prefix_of_a_frame_asks_for_more)
{
    struct seal_key tx, rx;
    uint8_t frame[64];
    size_t used, n;
    make_pair(&tx, &rx);
    size_t frame_n = seal_text(&tx, "hello", frame, sizeof(frame));
    assert_int_equal(frame_n, 5 + OVERHEAD);
    for (size_t cut = 0; cut < frame_n; cut++) {
        uint8_t *part = malloc(cut + 1); /* exact size, for the sanitizer */
        memcpy(part, frame, cut);
        assert_int_equal(seal_open(&rx, part, cut, &used, plain, &n), TFE_EMORE);
        free(part);
    }
    assert_int_equal(seal_open(&rx, frame, frame_n, &used, plain, &n), 0);
    assert_int_equal(used, frame_n);
    assert_int_equal(n, 5);
    assert_memory_equal(plain, "hello", 5);
}

TEST(seal, a_stream_of_frames_may_be_cut_in_any_two_places)
{
    struct seal_key tx, rx, fresh;
    uint8_t stream[128];
    make_pair(&tx, &fresh);
    size_t total = 0;
    static const char *const texts[] = {"a", "bcd", "ef"};
    for (size_t i = 0; i < 3; i++) {
        total += seal_text(&tx, texts[i], stream + total, sizeof(stream) - total);
    }
    for (size_t first = 0; first <= total; first++) {
        for (size_t second = first; second <= total; second++) {
            size_t have[] = {first, second, total};
            size_t at = 0, got = 0;
            rx = fresh;
            for (size_t step = 0; step < 3; step++) {
                size_t used, n;
                while (seal_open(&rx, stream + at, have[step] - at, &used, plain, &n) == 0) {
                    assert_int_equal(n, strlen(texts[got]));
                    assert_memory_equal(plain, texts[got], n);
                    at += used;
                    got++;
                }
            }
            assert_int_equal(got, 3);
            assert_int_equal(at, total);
        }
    }
}

TEST(seal, no_flipped_bit_gets_through)
{
    struct seal_key tx, rx;
    uint8_t frame[64];
    size_t used, n;
    make_pair(&tx, &rx);
    size_t frame_n = seal_text(&tx, "hello", frame, sizeof(frame));
    for (size_t bit = 0; bit < frame_n * 8; bit++) {
        struct seal_key before = rx;
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        int rc = seal_open(&rx, frame, frame_n, &used, plain, &n);
        assert_true(rc == TFE_EPROTO || (rc == TFE_EMORE && bit < SEAL_HEADER_BYTES * 8));
        /* A failed decryption does not advance the nonce. */
        assert_memory_equal(&rx, &before, sizeof(rx));
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(seal_open(&rx, frame, frame_n, &used, plain, &n), 0);
}

TEST(seal, reordered_and_replayed_frames_are_refused)
{
    struct seal_key tx, rx;
    uint8_t first[64], second[64];
    size_t used, n;
    make_pair(&tx, &rx);
    size_t first_n = seal_text(&tx, "first", first, sizeof(first));
    size_t second_n = seal_text(&tx, "second", second, sizeof(second));
    assert_int_equal(seal_open(&rx, second, second_n, &used, plain, &n), TFE_EPROTO);
    assert_int_equal(seal_open(&rx, first, first_n, &used, plain, &n), 0);
    assert_int_equal(seal_open(&rx, first, first_n, &used, plain, &n), TFE_EPROTO);
    assert_int_equal(seal_open(&rx, second, second_n, &used, plain, &n), 0);
}

TEST(seal, an_illegal_length_is_refused_from_two_bytes)
{
    struct seal_key tx, rx;
    size_t used, n;
    make_pair(&tx, &rx);
    for (uint32_t length = 0; length <= UINT16_MAX; length++) {
        const uint8_t header[2] = {(uint8_t)(length >> 8), (uint8_t)length};
        int want = length <= SEAL_TAG_BYTES || length > SEAL_FRAME_MAX ? TFE_EPROTO : TFE_EMORE;
        assert_int_equal(seal_open(&rx, header, 2, &used, plain, &n), want);
    }
}

TEST(seal, sizes_at_and_past_the_limits)
{
    struct seal_key tx, rx;
    static uint8_t big[SEAL_PLAIN_MAX + 1], frame[SEAL_FRAME_MAX + SEAL_HEADER_BYTES];
    size_t used, n;
    make_pair(&tx, &rx);
    struct seal_key before = tx;
    assert_int_equal(seal_frame(&tx, big, SEAL_PLAIN_MAX + 1, frame, SIZE_MAX, &n), TFE_ETOOBIG);
    assert_int_equal(seal_frame(&tx, big, 0, frame, sizeof(frame), &n), TFE_EINVAL);
    assert_int_equal(seal_frame(&tx, big, 5, frame, 5 + OVERHEAD - 1, &n), TFE_ETOOBIG);
    assert_memory_equal(&tx, &before, sizeof(tx));
    assert_int_equal(seal_frame(&tx, big, SEAL_PLAIN_MAX, frame, sizeof(frame), &n), 0);
    assert_int_equal(n, sizeof(frame));
    assert_int_equal(seal_open(&rx, frame, n, &used, plain, &n), 0);
    assert_int_equal(n, SEAL_PLAIN_MAX);
}

/* PROTOCOL.md: frames 0 to 65,535 use k, the next ones REKEY(k); the nonce keeps counting. */
TEST(seal, the_key_changes_after_65536_frames_and_the_nonce_counts_on)
{
    assert_int_equal(SEAL_REKEY_FRAMES, 65536);
    struct seal_key tx, rx;
    uint8_t frame[32];
    size_t used, n;
    make_pair(&tx, &rx);
    uint8_t keys[3][SEAL_KEY_BYTES], zeros[32] = {0}, sealed[48];
    memcpy(keys[0], tx.key, sizeof(keys[0]));
    static const uint8_t last_nonce[12] = {0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255};
    for (size_t i = 0; i < 2; i++) {
        crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, zeros, sizeof(zeros), NULL, 0, NULL,
                                                  last_nonce, keys[i]);
        memcpy(keys[i + 1], sealed, sizeof(keys[0]));
    }
    for (uint32_t i = 0; i < 2 * SEAL_REKEY_FRAMES + 2; i++) {
        assert_int_equal(tx.nonce, i);
        assert_memory_equal(tx.key, keys[i / SEAL_REKEY_FRAMES], SEAL_KEY_BYTES);
        size_t frame_n = seal_text(&tx, "x", frame, sizeof(frame));
        uint8_t out[1];
        assert_int_equal(cipher_open(keys[i / SEAL_REKEY_FRAMES], i, NULL, 0,
                                     frame + SEAL_HEADER_BYTES, frame_n - SEAL_HEADER_BYTES, out),
                         0);
        assert_int_equal(seal_open(&rx, frame, frame_n, &used, plain, &n), 0);
        assert_memory_equal(&tx, &rx, sizeof(tx));
    }
}

TEST(seal, a_worn_out_nonce_is_never_used)
{
    struct seal_key tx, rx;
    uint8_t frame[SEAL_HEADER_BYTES + 1 + SEAL_TAG_BYTES] = {0, 1 + SEAL_TAG_BYTES};
    size_t used, n;
    make_pair(&tx, &rx);
    tx.nonce = rx.nonce = UINT64_MAX;
    assert_int_equal(seal_frame(&tx, (const uint8_t *)"x", 1, frame, sizeof(frame), &n),
                     TFE_EPROTO);
    cipher_seal(rx.key, UINT64_MAX, NULL, 0, (const uint8_t *)"x", 1, frame + SEAL_HEADER_BYTES);
    assert_int_equal(seal_open(&rx, frame, sizeof(frame), &used, plain, &n), TFE_EPROTO);
}

TEST(seal, done_wipes)
{
    struct seal_session session;
    make_pair(&session.tx, &session.rx);
    seal_done(&session);
    assert_true(sodium_is_zero((const uint8_t *)&session, sizeof(session)));
    seal_done(NULL);
}
