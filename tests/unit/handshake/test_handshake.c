/* tests/unit/handshake/test_handshake.c: the handshake between client and server, and rejection of
 * forged, replayed and truncated handshakes. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/handshake/handshake.h"
#include "common/handshake/noise.h"
#include "common/handshake/replay.h"
#include "tests/unit/test_runner.h"

#define CLEAR_BYTES 32
#define NOISE1_BYTES 64
#define REQUEST_BYTES (CLEAR_BYTES + NOISE1_BYTES + 16)
#define RESPONSE_BYTES (2 + 64)

static const struct handshake_params client_params = {1, 3, 0x1122334455667788};
static const struct handshake_params server_params = {2, 5, 0x99aabbccddeeff00};
static const struct tfe_wall today = {1700000000000};

/* A server, one of its tokens, and a client's first flight. */
struct meeting {
    uint8_t secret[32], public_key[32], root[TOKEN_ROOT_BYTES];
    struct handshake_server *server;
    struct token token;
    struct handshake_client *client;
    uint8_t request[HANDSHAKE_REQUEST_MAX];
    size_t request_n;
    /* output of handshake_server_answer */
    uint8_t response[HANDSHAKE_RESPONSE_MAX];
    size_t response_n;
    struct seal_session server_session;
    struct principal by;
    struct handshake_params told;
};

static void knock(struct meeting *m)
{
    handshake_client_free(m->client);
    m->client = NULL;
    assert_int_equal(
        handshake_client_start(&m->token, &client_params, m->request, &m->request_n, &m->client),
        0);
    assert_int_equal(m->request_n, REQUEST_BYTES);
}

static int set_up(void **state)
{
    struct meeting *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    randombytes_buf(m->secret, sizeof(m->secret));
    randombytes_buf(m->root, sizeof(m->root));
    crypto_scalarmult_base(m->public_key, m->secret);
    assert_int_equal(handshake_server_new(m->secret, m->root, &m->server), 0);
    token_mint(&m->token, &(struct token_config){.role = PRINCIPAL_AGENT}, m->root, m->public_key);
    knock(m);
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    struct meeting *m = *state;
    handshake_client_free(m->client);
    handshake_server_free(m->server);
    free(m);
    return 0;
}

static int answer_n(struct meeting *m, struct tfe_wall now, size_t n)
{
    size_t used = 0;
    int knock = handshake_server_check_mac1(m->server, now, m->request, n);
    int rc =
        handshake_server_answer(m->server, now, &server_params, m->request, n, &used, m->response,
                                &m->response_n, &m->server_session, &m->by, &m->told);
    /* With a valid mac1 only a replay or a token holder's forgery is refused. */
    assert_true(knock == rc || (knock == 0 && rc != TFE_EMORE));
    if (rc == 0) {
        assert_int_equal(used, REQUEST_BYTES);
        assert_int_equal(m->response_n, RESPONSE_BYTES);
    }
    return rc;
}

static int answer(struct meeting *m)
{
    return answer_n(m, today, m->request_n);
}

static int finish_n(struct meeting *m, size_t n, struct seal_session *session,
                    struct handshake_params *server)
{
    size_t used = 0;
    int rc = handshake_client_finish(m->client, m->response, n, &used, session, server);
    if (rc == 0) {
        assert_int_equal(used, RESPONSE_BYTES);
    }
    return rc;
}

static void assert_talks(struct seal_key *tx, struct seal_key *rx)
{
    uint8_t frame[64];
    static uint8_t plain[SEAL_PLAIN_MAX];
    size_t n, used;
    assert_int_equal(seal_frame(tx, (const uint8_t *)"ping", 4, frame, sizeof(frame), &n), 0);
    assert_int_equal(seal_open(rx, frame, n, &used, plain, &n), 0);
    assert_int_equal(n, 4);
    assert_memory_equal(plain, "ping", 4);
}

#define FIXTURE set_up, tear_down

TEST_IN(handshake, both_sides_end_with_the_same_keys_and_know_each_other)
{
    struct meeting *m = *state;
    struct seal_session session;
    struct handshake_params server;
    assert_int_equal(answer(m), 0);
    assert_int_equal(m->by.role, PRINCIPAL_AGENT);
    assert_true(m->told.boot_nonce == client_params.boot_nonce);
    assert_int_equal(m->told.version_min, 2);
    assert_int_equal(m->told.version_max, 3);
    assert_int_equal(finish_n(m, m->response_n, &session, &server), 0);
    assert_true(server.boot_nonce == server_params.boot_nonce);
    assert_int_equal(server.version_min, 2);
    assert_int_equal(server.version_max, 3);
    assert_talks(&session.tx, &m->server_session.rx);
    assert_talks(&m->server_session.tx, &session.rx);
    assert_memory_not_equal(session.tx.key, session.rx.key, SEAL_KEY_BYTES);
    assert_int_equal(finish_n(m, m->response_n, &session, &server), TFE_ESTATE);
}

TEST_IN(handshake, bytes_behind_the_flight_are_left_alone)
{
    struct meeting *m = *state;
    struct seal_session session;
    struct handshake_params server;
    memset(m->request + m->request_n, 0xaa, 20);
    assert_int_equal(answer_n(m, today, m->request_n + 20), 0);
    assert_int_equal(finish_n(m, m->response_n + 20, &session, &server), 0);
}

TEST_IN(handshake, every_prefix_asks_for_more)
{
    struct meeting *m = *state;
    struct seal_session session;
    struct handshake_params server;
    for (size_t n = 0; n < m->request_n; n++) {
        uint8_t *part = malloc(n + 1); /* exact size, for the sanitizer */
        size_t used;
        memcpy(part, m->request, n);
        assert_int_equal(handshake_server_check_mac1(m->server, today, part, n), TFE_EMORE);
        assert_int_equal(handshake_server_answer(m->server, today, &server_params, part, n, &used,
                                                 m->response, &m->response_n, &m->server_session,
                                                 &m->by, &m->told),
                         TFE_EMORE);
        free(part);
    }
    assert_int_equal(answer(m), 0);
    for (size_t n = 0; n < m->response_n; n++) {
        assert_int_equal(finish_n(m, n, &session, &server), TFE_EMORE);
    }
    assert_int_equal(finish_n(m, m->response_n, &session, &server), 0);
}

/* Junk follows the flight, so that a longer length field cannot hide as "need more bytes". */
TEST_IN(handshake, no_flipped_bit_of_the_request_gives_a_session)
{
    struct meeting *m = *state;
    for (size_t bit = 0; bit < m->request_n * 8; bit++) {
        m->request[bit / 8] ^= (uint8_t)(1u << bit % 8);
        int rc = answer_n(m, today, sizeof(m->request));
        assert_true(rc == TFE_EAUTH || rc == TFE_EPROTO);
        m->request[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(answer(m), 0); /* none of the altered requests was recorded as this one */
}

TEST_IN(handshake, no_flipped_bit_of_the_response_gives_a_session)
{
    struct meeting *m = *state;
    for (size_t bit = 0; bit < RESPONSE_BYTES * 8; bit++) {
        struct seal_session session;
        struct handshake_params server;
        knock(m);
        assert_int_equal(answer(m), 0);
        m->response[bit / 8] ^= (uint8_t)(1u << bit % 8);
        int rc = finish_n(m, sizeof(m->response), &session, &server);
        assert_true(rc == TFE_EAUTH || rc == TFE_EPROTO);
        m->response[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(finish_n(m, m->response_n, &session, &server), TFE_ESTATE);
    }
}

/* A client that can compute mac1 has the token's secret; the handshake itself must be checked too.
 */
TEST_IN(handshake, a_forged_message_under_a_right_mac1_is_refused)
{
    struct meeting *m = *state;
    uint8_t mac1_key[32];
    crypto_kdf_derive_from_key(mac1_key, sizeof(mac1_key), 2, "tfehello", m->token.secret);
    for (size_t at = CLEAR_BYTES; at < CLEAR_BYTES + NOISE1_BYTES; at++) {
        m->request[at] ^= 1;
        crypto_generichash(m->request + REQUEST_BYTES - 16, 16, m->request, REQUEST_BYTES - 16,
                           mac1_key, sizeof(mac1_key));
        assert_int_equal(answer(m), TFE_EAUTH);
        m->request[at] ^= 1;
    }
    memset(m->request + CLEAR_BYTES, 0, 32); /* an ephemeral key of small order */
    crypto_generichash(m->request + REQUEST_BYTES - 16, 16, m->request, REQUEST_BYTES - 16,
                       mac1_key, sizeof(mac1_key));
    assert_int_equal(answer(m), TFE_EPROTO);
}

/* The hint is checked before any curve operation, which would return TFE_EPROTO here. */
TEST_IN(handshake, a_wrong_hint_costs_no_curve_operation)
{
    struct meeting *m = *state;
    uint8_t mac1_key[32];
    crypto_kdf_derive_from_key(mac1_key, sizeof(mac1_key), 2, "tfehello", m->token.secret);
    m->request[6] ^= 1;
    memset(m->request + CLEAR_BYTES, 0, 32);
    crypto_generichash(m->request + REQUEST_BYTES - 16, 16, m->request, REQUEST_BYTES - 16,
                       mac1_key, sizeof(mac1_key));
    assert_int_equal(answer(m), TFE_EAUTH);
}

TEST_IN(handshake, a_wrong_secret_is_refused)
{
    struct meeting *m = *state;
    m->token.secret[31] ^= 1;
    knock(m);
    assert_int_equal(answer(m), TFE_EAUTH);
}

TEST_IN(handshake, a_token_of_another_root_is_refused)
{
    struct meeting *m = *state;
    m->root[0] ^= 1;
    token_mint(&m->token, &(struct token_config){.role = PRINCIPAL_AGENT}, m->root, m->public_key);
    knock(m);
    assert_int_equal(answer(m), TFE_EAUTH);
}

TEST_IN(handshake, an_agent_s_secret_does_not_open_the_admin_s_door)
{
    struct meeting *m = *state;
    m->token.key_id[2] = PRINCIPAL_ADMIN;
    knock(m);
    assert_int_equal(answer(m), TFE_EAUTH);
}

TEST_IN(handshake, another_server_s_key_is_refused_by_its_hint)
{
    struct meeting *m = *state;
    uint8_t other[32];
    randombytes_buf(other, sizeof(other));
    crypto_scalarmult_base(m->token.server_public_key, other);
    knock(m);
    assert_int_equal(answer(m), TFE_EAUTH);
}

/* Another agent as an impostor: it has the token and the server's public key, without the secret
 * key. */
TEST_IN(handshake, a_server_without_the_secret_key_fools_nobody)
{
    struct meeting *m = *state;
    struct handshake_server *impostor;
    struct token bait = m->token;
    uint8_t secret[32];
    randombytes_buf(secret, sizeof(secret));
    assert_int_equal(handshake_server_new(secret, m->root, &impostor), 0);
    /* The impostor cannot read message 1. The hint is replaced by the impostor's own, so that the
     * test gets that far. */
    crypto_scalarmult_base(bait.server_public_key, secret);
    token_hint(bait.server_public_key, m->request + 6);
    uint8_t mac1_key[32];
    crypto_kdf_derive_from_key(mac1_key, sizeof(mac1_key), 2, "tfehello", m->token.secret);
    crypto_generichash(m->request + REQUEST_BYTES - 16, 16, m->request, REQUEST_BYTES - 16,
                       mac1_key, sizeof(mac1_key));
    size_t used;
    assert_int_equal(handshake_server_answer(impostor, today, &server_params, m->request,
                                             m->request_n, &used, m->response, &m->response_n,
                                             &m->server_session, &m->by, &m->told),
                     TFE_EAUTH);
    handshake_server_free(impostor);
}

TEST_IN(handshake, a_token_opens_until_its_last_millisecond)
{
    struct meeting *m = *state;
    token_mint(&m->token, &(struct token_config){.role = PRINCIPAL_OBSERVER, .expires = today},
               m->root, m->public_key);
    knock(m);
    assert_int_equal(answer_n(m, today, m->request_n), TFE_EAUTH);
    assert_int_equal(answer_n(m, (struct tfe_wall){today.ms - 1}, m->request_n), 0);
    assert_int_equal(m->by.role, PRINCIPAL_OBSERVER);
}

TEST_IN(handshake, a_recorded_request_is_refused)
{
    struct meeting *m = *state;
    assert_int_equal(answer(m), 0);
    assert_int_equal(answer(m), TFE_EAUTH);
    knock(m);
    assert_int_equal(answer(m), 0);
}

TEST_IN(handshake, what_is_not_this_protocol_is_refused_at_its_first_wrong_byte)
{
    struct meeting *m = *state;
    for (size_t at = 0; at < 6; at++) { /* magic, version, flags */
        m->request[at] ^= 0x40;
        assert_int_equal(answer_n(m, today, at), TFE_EMORE);
        assert_int_equal(answer_n(m, today, at + 1), TFE_EPROTO);
        m->request[at] ^= 0x40;
    }
    m->request[4] = 2;
    assert_int_equal(answer(m), TFE_EPROTO);
}

TEST_IN(handshake, without_a_common_version_nobody_gets_a_session)
{
    struct meeting *m = *state;
    static const struct handshake_params ranges[] = {{0, 1, 0}, {6, 9, 0}};
    for (size_t i = 0; i < 2; i++) {
        handshake_client_free(m->client);
        assert_int_equal(
            handshake_client_start(&m->token, &ranges[i], m->request, &m->request_n, &m->client),
            0);
        assert_int_equal(answer(m), TFE_EPROTO);
    }
    struct handshake_client *none = NULL;
    static const struct handshake_params empty = {3, 2, 0};
    assert_int_equal(handshake_client_start(&m->token, &empty, m->request, &m->request_n, &none),
                     TFE_EINVAL);
    assert_null(none);
}

TEST_IN(handshake, a_server_key_of_small_order_is_noticed_by_the_client)
{
    struct meeting *m = *state;
    struct handshake_client *none = NULL;
    memset(m->token.server_public_key, 0, sizeof(m->token.server_public_key));
    assert_int_equal(
        handshake_client_start(&m->token, &client_params, m->request, &m->request_n, &none),
        TFE_EPROTO);
    assert_null(none);
}

static void put_32(uint8_t *out, uint32_t v)
{
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)(v >> (24 - 8 * i));
    }
}

/* Implements the server's side from PROTOCOL.md alone and answers with the given version range. */
static void answer_by_hand(struct meeting *m, uint32_t version_min, uint32_t version_max)
{
    static const char name[] = "Noise_NKpsk0_25519_ChaChaPoly_BLAKE2b";
    uint8_t psk[32], mac1_key[32], mac1[16], prologue[CLEAR_BYTES + sizeof(name) - 1];
    crypto_kdf_derive_from_key(psk, 32, 1, "tfehello", m->token.secret);
    crypto_kdf_derive_from_key(mac1_key, 32, 2, "tfehello", m->token.secret);
    crypto_generichash(mac1, 16, m->request, CLEAR_BYTES + NOISE1_BYTES, mac1_key, 32);
    assert_memory_equal(mac1, m->request + CLEAR_BYTES + NOISE1_BYTES, 16);

    static const uint8_t start[6] = {'T', 'F', 'E', '1', 1, 0};
    uint8_t hint[TOKEN_HINT_BYTES];
    token_hint(m->public_key, hint);
    assert_memory_equal(m->request, start, 6);
    assert_memory_equal(m->request + 6, hint, 8);
    assert_memory_equal(m->request + 14, m->token.key_id, 16);
    assert_int_equal(m->request[30] << 8 | m->request[31], NOISE1_BYTES);

    memcpy(prologue, m->request, CLEAR_BYTES);
    memcpy(prologue + CLEAR_BYTES, name, sizeof(name) - 1);
    struct noise_keys keys = {.static_secret = m->secret,
                              .psks = psk,
                              .prologue = prologue,
                              .prologue_n = sizeof(prologue)};
    struct noise_handshake hs;
    uint8_t params[64];
    size_t n;
    assert_int_equal(noise_init(&hs, &noise_nkpsk0, false, &keys), 0);
    assert_int_equal(
        noise_read(&hs, m->request + CLEAR_BYTES, NOISE1_BYTES, params, sizeof(params), &n), 0);
    static const uint8_t want[16] = {0,    0,    0,    1,    0,    0,    0,    3,
                                     0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88};
    assert_int_equal(n, sizeof(want));
    assert_memory_equal(params, want, sizeof(want));

    memset(params, 0, sizeof(params));
    put_32(params, version_min);
    put_32(params + 4, version_max);
    /* Eight bytes beyond this version's parameters, which the client ignores. */
    assert_int_equal(noise_write(&hs, params, 24, m->response + 2, sizeof(m->response) - 2, &n), 0);
    m->response[0] = 0;
    m->response[1] = (uint8_t)n;
    m->response_n = n + 2;
    assert_int_equal(noise_split(&hs, &m->server_session), 0);
}

TEST_IN(handshake, bytes_are_what_protocol_md_says)
{
    struct meeting *m = *state;
    struct seal_session session;
    struct handshake_params server;
    size_t used;
    answer_by_hand(m, 2, 3);
    assert_int_equal(
        handshake_client_finish(m->client, m->response, m->response_n, &used, &session, &server),
        0);
    assert_int_equal(used, m->response_n);
    assert_talks(&session.tx, &m->server_session.rx);
}

TEST_IN(handshake, a_range_that_was_not_offered_is_no_answer)
{
    struct meeting *m = *state;
    static const uint32_t ranges[][2] = {{0, 3}, {1, 4}, {3, 2}, {9, 9}};
    for (size_t i = 0; i < 4; i++) {
        struct seal_session session;
        struct handshake_params server;
        size_t used;
        knock(m);
        answer_by_hand(m, ranges[i][0], ranges[i][1]);
        assert_int_equal(handshake_client_finish(m->client, m->response, m->response_n, &used,
                                                 &session, &server),
                         TFE_EPROTO);
        assert_int_equal(finish_n(m, m->response_n, &session, &server), TFE_ESTATE);
    }
}

TEST(replay, the_cache_keeps_its_size_and_forgets_the_oldest)
{
    struct replay *replay = replay_new();
    assert_non_null(replay);
    uint8_t mac1[REPLAY_MAC_BYTES] = {0};
    for (uint8_t i = 1; i <= REPLAY_WAYS + 1; i++) { /* all in the same set of the replay cache */
        mac1[15] = i;
        assert_false(replay_is_seen(replay, mac1));
        assert_true(replay_is_seen(replay, mac1));
    }
    mac1[15] = 2;
    assert_true(replay_is_seen(replay, mac1));
    mac1[15] = 1;
    assert_false(replay_is_seen(replay, mac1));
    replay_free(replay);
}
