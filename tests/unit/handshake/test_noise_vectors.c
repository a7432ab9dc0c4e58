/* tests/unit/handshake/test_noise_vectors.c: the handshake engine against all published test
 * vectors. */
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/handshake/noise.h"
#include "common/handshake/seal.h"
#include "tests/unit/test_runner.h"

struct vector_bytes {
    const unsigned char *data; /* NULL if absent */
    size_t n;
};

struct noise_vector {
    const char *protocol_name;
    struct vector_bytes prologue;
    struct vector_bytes init_static, init_ephemeral, init_remote_static;
    struct vector_bytes resp_static, resp_ephemeral, resp_remote_static;
    struct vector_bytes handshake_hash;
    size_t n_psks;
    struct vector_bytes psks[NOISE_PSKS_MAX];
    size_t n_messages;
    struct {
        struct vector_bytes payload;
        struct vector_bytes ciphertext;
    } messages[8];
};

/* Generated from tests/vectors/ *.json. */
#include "noise_vectors.h"

/* The patterns of Noise rev. 34, sections 7.4 and 7.5 and appendix 18.1, in the notation of that
 * document. "pskN" in a protocol's name adds a psk token (section 9). */
static const struct {
    const char *name;
    const char *initiator_pre;
    const char *responder_pre;
    const char *messages[NOISE_MESSAGES_MAX];
} patterns[] = {
    {"N", "", "s", {"e es"}},
    {"K", "s", "s", {"e es ss"}},
    {"X", "", "s", {"e es s ss"}},
    {"NN", "", "", {"e", "e ee"}},
    {"NK", "", "s", {"e es", "e ee"}},
    {"NX", "", "", {"e", "e ee s es"}},
    {"XN", "", "", {"e", "e ee", "s se"}},
    {"XK", "", "s", {"e es", "e ee", "s se"}},
    {"XX", "", "", {"e", "e ee s es", "s se"}},
    {"KN", "s", "", {"e", "e ee se"}},
    {"KK", "s", "s", {"e es ss", "e ee se"}},
    {"KX", "s", "", {"e", "e ee se s es"}},
    {"IN", "", "", {"e s", "e ee se"}},
    {"IK", "", "s", {"e es s ss", "e ee se"}},
    {"IX", "", "", {"e s", "e ee se s es"}},
    {"NK1", "", "s", {"e", "e ee es"}},
    {"NX1", "", "", {"e", "e ee s", "es"}},
    {"X1N", "", "", {"e", "e ee", "s", "se"}},
    {"X1K", "", "s", {"e es", "e ee", "s", "se"}},
    {"XK1", "", "s", {"e", "e ee es", "s se"}},
    {"X1K1", "", "s", {"e", "e ee es", "s", "se"}},
    {"X1X", "", "", {"e", "e ee s es", "s", "se"}},
    {"XX1", "", "", {"e", "e ee s", "es s se"}},
    {"X1X1", "", "", {"e", "e ee s", "es s", "se"}},
    {"K1N", "s", "", {"e", "e ee", "se"}},
    {"K1K", "s", "s", {"e es", "e ee", "se"}},
    {"KK1", "s", "s", {"e", "e ee se es"}},
    {"K1K1", "s", "s", {"e", "e ee es", "se"}},
    {"K1X", "s", "", {"e", "e ee s es", "se"}},
    {"KX1", "s", "", {"e", "e ee se s", "es"}},
    {"K1X1", "s", "", {"e", "e ee s", "se es"}},
    {"I1N", "", "", {"e s", "e ee", "se"}},
    {"I1K", "", "s", {"e es s", "e ee", "se"}},
    {"IK1", "", "s", {"e s", "e ee se es"}},
    {"I1K1", "", "s", {"e s", "e ee es", "se"}},
    {"I1X", "", "", {"e s", "e ee s es", "se"}},
    {"IX1", "", "", {"e s", "e ee se s", "es"}},
    {"I1X1", "", "", {"e s", "e ee s", "se es"}},
};

static enum noise_token token_of(const char *word, size_t n)
{
    static const char *const words[] = {[NOISE_E] = "e",   [NOISE_S] = "s",   [NOISE_EE] = "ee",
                                        [NOISE_ES] = "es", [NOISE_SE] = "se", [NOISE_SS] = "ss"};
    for (enum noise_token token = NOISE_E; token <= NOISE_SS; token++) {
        if (strlen(words[token]) == n && memcmp(words[token], word, n) == 0) {
            return token;
        }
    }
    fail_msg("no token: %.*s", (int)n, word);
    return NOISE_END;
}

static void add_token(enum noise_token *message, enum noise_token token, bool in_front)
{
    size_t n = 0;
    while (message[n] != NOISE_END) {
        n++;
    }
    assert_true(n + 1 < NOISE_TOKENS_MAX);
    if (in_front) {
        memmove(message + 1, message, n * sizeof(*message));
        message[0] = token;
    } else {
        message[n] = token;
    }
}

/* Converts a name like "Noise_XXpsk0+psk3_25519_ChaChaPoly_BLAKE2b" into a pattern of the engine.
 */
static void pattern_from_name(const char *protocol, struct noise_pattern *ret)
{
    *ret = (struct noise_pattern){.protocol_name = protocol};
    const char *name = protocol + strlen("Noise_");
    size_t base_n = strcspn(name, "p_");
    size_t row = 0;
    while (strlen(patterns[row].name) != base_n || memcmp(patterns[row].name, name, base_n) != 0) {
        row++;
        assert_true(row < sizeof(patterns) / sizeof(patterns[0]));
    }
    ret->initiator_static_is_known = patterns[row].initiator_pre[0] != '\0';
    ret->responder_static_is_known = patterns[row].responder_pre[0] != '\0';
    for (size_t i = 0; i < NOISE_MESSAGES_MAX && patterns[row].messages[i]; i++) {
        const char *word = patterns[row].messages[i];
        while (*word) {
            size_t n = strcspn(word, " ");
            add_token(ret->messages[i], token_of(word, n), false);
            word += n;
            word += strspn(word, " ");
        }
        ret->n_messages++;
    }
    for (const char *psk = name + base_n; strncmp(psk, "psk", 3) == 0;) {
        size_t place = (size_t)(psk[3] - '0');
        assert_true(place <= ret->n_messages);
        add_token(ret->messages[place ? place - 1 : 0], NOISE_PSK, place == 0);
        ret->n_psks++;
        psk += psk[4] == '+' ? 5 : 4;
    }
}

/* Ephemeral key for the next message; NULL for a random key. */
static const uint8_t *next_ephemeral;

static const char *source_name(void)
{
    return "the vectors' ephemeral keys";
}

static void source_fill(void *const out, const size_t n)
{
    if (next_ephemeral) {
        assert_int_equal(n, NOISE_DH_BYTES);
        memcpy(out, next_ephemeral, n);
        next_ephemeral = NULL;
    } else {
        assert_int_equal(getrandom(out, n, 0), n);
    }
}

static uint32_t source_random(void)
{
    uint32_t number;
    source_fill(&number, sizeof(number));
    return number;
}

/* Replaces libsodium's source of random bytes. */
static randombytes_implementation source = {
    .implementation_name = source_name, .random = source_random, .buf = source_fill};

static void start_side(struct noise_handshake *hs, const struct noise_pattern *pattern,
                       bool is_initiator, const struct noise_vector *v)
{
    uint8_t psks[NOISE_PSKS_MAX * NOISE_PSK_BYTES];
    for (size_t i = 0; i < v->n_psks; i++) {
        assert_int_equal(v->psks[i].n, NOISE_PSK_BYTES);
        memcpy(psks + i * NOISE_PSK_BYTES, v->psks[i].data, NOISE_PSK_BYTES);
    }
    assert_int_equal(pattern->n_psks, v->n_psks);
    struct noise_keys keys = {
        .static_secret = is_initiator ? v->init_static.data : v->resp_static.data,
        .remote_static_public =
            is_initiator ? v->init_remote_static.data : v->resp_remote_static.data,
        .psks = psks,
        .prologue = v->prologue.data,
        .prologue_n = v->prologue.n,
    };
    assert_int_equal(noise_init(hs, pattern, is_initiator, &keys), 0);
}

static void assert_bytes(const uint8_t *data, size_t n, const struct vector_bytes *want)
{
    assert_int_equal(n, want->n);
    assert_memory_equal(data, want->data, n);
}

/* Sends the messages after Split, number i with its sender's key, through the product's frames. */
static void run_transport(const struct noise_vector *v, size_t first, bool is_one_way,
                          struct seal_session *initiator, struct seal_session *responder)
{
    for (size_t i = first; i < v->n_messages; i++) {
        bool from_initiator = is_one_way || i % 2 == 0;
        struct seal_key *tx = from_initiator ? &initiator->tx : &responder->tx;
        struct seal_key *rx = from_initiator ? &responder->rx : &initiator->rx;
        uint8_t frame[512];
        uint8_t plain[SEAL_PLAIN_MAX];
        size_t n, used;
        const struct vector_bytes *payload = &v->messages[i].payload;
        assert_int_equal(seal_frame(tx, payload->data, payload->n, frame, sizeof(frame), &n), 0);
        assert_bytes(frame + SEAL_HEADER_BYTES, n - SEAL_HEADER_BYTES, &v->messages[i].ciphertext);
        assert_int_equal(seal_open(rx, frame, n, &used, plain, &n), 0);
        assert_bytes(plain, n, payload);
    }
}

static void run_vector(const struct noise_vector *v)
{
    struct noise_pattern pattern;
    pattern_from_name(v->protocol_name, &pattern);
    struct noise_handshake sides[2];
    start_side(&sides[0], &pattern, true, v);
    start_side(&sides[1], &pattern, false, v);

    size_t i = 0;
    for (; i < pattern.n_messages; i++) {
        struct noise_handshake *writer = &sides[i % 2];
        struct noise_handshake *reader = &sides[(i + 1) % 2];
        uint8_t message[512], payload[512];
        size_t n;
        next_ephemeral = i % 2 == 0 ? v->init_ephemeral.data : v->resp_ephemeral.data;
        assert_int_equal(noise_write(writer, v->messages[i].payload.data, v->messages[i].payload.n,
                                     message, sizeof(message), &n),
                         0);
        assert_bytes(message, n, &v->messages[i].ciphertext);
        assert_int_equal(noise_read(reader, message, n, payload, sizeof(payload), &n), 0);
        assert_bytes(payload, n, &v->messages[i].payload);
    }
    next_ephemeral = NULL;
    assert_memory_equal(sides[0].h, sides[1].h, NOISE_HASH_BYTES);
    if (v->handshake_hash.data) {
        assert_bytes(sides[0].h, NOISE_HASH_BYTES, &v->handshake_hash);
    }
    struct seal_session initiator, responder;
    assert_int_equal(noise_split(&sides[0], &initiator), 0);
    assert_int_equal(noise_split(&sides[1], &responder), 0);
    run_transport(v, i, pattern.n_messages == 1, &initiator, &responder);
}

TEST(noise, every_published_vector_comes_out_byte_for_byte)
{
    size_t count = sizeof(noise_vectors) / sizeof(noise_vectors[0]);
    size_t run = 0;
    for (; run < count; run++) {
        run_vector(&noise_vectors[run]);
    }
    assert_int_equal(run, NOISE_VECTORS_IN_FILES);
    assert_int_equal(run, 85);
}

/* Checks the pattern in the product against the published one, in addition to the parsed name. */
TEST(noise, the_product_s_row_is_the_published_nkpsk0)
{
    struct noise_pattern pattern;
    pattern_from_name(noise_nkpsk0.protocol_name, &pattern);
    assert_string_equal(noise_nkpsk0.protocol_name, "Noise_NKpsk0_25519_ChaChaPoly_BLAKE2b");
    assert_int_equal(noise_nkpsk0.initiator_static_is_known, pattern.initiator_static_is_known);
    assert_int_equal(noise_nkpsk0.responder_static_is_known, pattern.responder_static_is_known);
    assert_int_equal(noise_nkpsk0.n_psks, pattern.n_psks);
    assert_int_equal(noise_nkpsk0.n_messages, pattern.n_messages);
    assert_memory_equal(noise_nkpsk0.messages, pattern.messages, sizeof(pattern.messages));
}

/* Prepares both sides of NKpsk0 for message 1. */
static void start_nk(struct noise_handshake *client, struct noise_handshake *server)
{
    static const uint8_t psk[NOISE_PSK_BYTES] = {7};
    uint8_t secret[NOISE_DH_BYTES], public_key[NOISE_DH_BYTES];
    randombytes_buf(secret, sizeof(secret));
    crypto_scalarmult_base(public_key, secret);
    struct noise_keys client_keys = {.remote_static_public = public_key, .psks = psk};
    struct noise_keys server_keys = {.static_secret = secret, .psks = psk};
    assert_int_equal(noise_init(client, &noise_nkpsk0, true, &client_keys), 0);
    assert_int_equal(noise_init(server, &noise_nkpsk0, false, &server_keys), 0);
}

static void assert_wiped(const struct noise_handshake *hs)
{
    assert_true(sodium_is_zero((const uint8_t *)hs, sizeof(*hs)));
}

TEST(noise, a_failed_read_ends_the_handshake_and_wipes_it)
{
    struct noise_handshake client, server;
    uint8_t message[128], payload[128];
    size_t n;
    start_nk(&client, &server);
    assert_int_equal(noise_write(&client, (const uint8_t *)"hi", 2, message, sizeof(message), &n),
                     0);
    message[n - 1] ^= 1;
    memset(payload, 0xaa, sizeof(payload));
    assert_int_equal(noise_read(&server, message, n, payload, sizeof(payload), &n), TFE_EAUTH);
    assert_wiped(&server);
    assert_true(sodium_is_zero(payload, sizeof(payload)));
    message[n - 1] ^= 1;
    assert_int_equal(noise_read(&server, message, n, payload, sizeof(payload), &n), TFE_ESTATE);
}

TEST(noise, a_point_of_small_order_ends_the_handshake)
{
    struct noise_handshake client, server;
    uint8_t message[NOISE_DH_BYTES + CIPHER_TAG_BYTES] = {0}; /* e = 0, a point of small order */
    uint8_t payload[64];
    size_t n;
    start_nk(&client, &server);
    assert_int_equal(noise_read(&server, message, sizeof(message), payload, sizeof(payload), &n),
                     TFE_EPROTO);
    assert_wiped(&server);
    noise_done(&client);
}

TEST(noise, a_message_cut_anywhere_is_refused)
{
    for (size_t cut = 0; cut < NOISE_DH_BYTES + 2 + CIPHER_TAG_BYTES; cut++) {
        struct noise_handshake client, server;
        uint8_t message[128], payload[128];
        size_t n;
        start_nk(&client, &server);
        assert_int_equal(
            noise_write(&client, (const uint8_t *)"hi", 2, message, sizeof(message), &n), 0);
        int rc = noise_read(&server, message, cut, payload, sizeof(payload), &n);
        assert_int_equal(rc, cut < NOISE_DH_BYTES + CIPHER_TAG_BYTES ? TFE_EPROTO : TFE_EAUTH);
        assert_wiped(&server);
        noise_done(&client);
    }
}

TEST(noise, out_of_turn_or_without_room_is_refused)
{
    struct noise_handshake client, server;
    struct seal_session session;
    uint8_t message[128];
    size_t n;
    start_nk(&client, &server);
    assert_int_equal(noise_split(&client, &session), TFE_ESTATE);
    assert_int_equal(noise_write(&server, message, 0, message, sizeof(message), &n), TFE_ESTATE);
    for (size_t cap = 0; cap < NOISE_DH_BYTES + 2 + CIPHER_TAG_BYTES; cap++) {
        start_nk(&client, &server);
        uint8_t *out = malloc(cap + 1); /* exact size, for the sanitizer */
        assert_int_equal(noise_write(&client, (const uint8_t *)"hi", 2, out, cap, &n), TFE_ETOOBIG);
        assert_wiped(&client);
        free(out);
    }
    noise_done(&server);
}

TEST(noise, a_pattern_without_its_keys_does_not_start)
{
    struct noise_handshake hs;
    const uint8_t key[NOISE_DH_BYTES] = {9};
    struct noise_keys keys = {.remote_static_public = key};
    assert_int_equal(noise_init(&hs, &noise_nkpsk0, true, &keys), TFE_EINVAL);
    static const uint8_t psk[NOISE_PSK_BYTES] = {7};
    keys = (struct noise_keys){.psks = psk};
    assert_int_equal(noise_init(&hs, &noise_nkpsk0, true, &keys), TFE_EINVAL);
    assert_int_equal(noise_init(&hs, &noise_nkpsk0, false, &keys), TFE_EINVAL);
    assert_wiped(&hs);
}

int main(void)
{
    if (randombytes_set_implementation(&source)) {
        return 1;
    }
    return stories_run(NULL, NULL);
}
