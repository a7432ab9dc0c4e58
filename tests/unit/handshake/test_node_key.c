/* tests/unit/handshake/test_node_key.c: node keys: issued by a server, and accepted only from
 * their owner. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/handshake/handshake.h"
#include "tests/unit/test_runner.h"

#define AT_FLAGS 5
#define AT_KEY_ID 14

static const struct handshake_params params = {1, 1, 0x1122334455667788};
static const struct tfe_wall today = {1700000000000};
static const struct tfe_wall in_a_week = {1700000000000 + 7 * 86400000ll};

/* A server, an enrolment, and the node key that it issued. */
struct meeting {
    uint8_t secret[32], root[TOKEN_ROOT_BYTES];
    struct handshake_server *server;
    struct principal enrols;
    struct node_key key;
    struct token token;
    struct principal by;
    uint8_t refused[PRINCIPAL_KEY_ID_BYTES];
};

static void enrol(struct meeting *m, const char *scope)
{
    uint8_t public_key[32];
    randombytes_buf(m->key.secret, sizeof(m->key.secret));
    crypto_scalarmult_base(public_key, m->key.secret);
    m->enrols = (struct principal){
        .kind = PRINCIPAL_BY_TOKEN, .role = PRINCIPAL_AGENT, .is_stored = true, .scope = scope};
    memset(m->enrols.key_id, 7, sizeof(m->enrols.key_id));
    memset(m->enrols.origin, 7, sizeof(m->enrols.origin));
    handshake_server_issue_key(m->server, public_key, in_a_week, &m->enrols, &m->token,
                               &m->key.certificate);
    m->token.node_key = &m->key;
}

static int set_up(void **state)
{
    struct meeting *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    randombytes_buf(m->secret, sizeof(m->secret));
    randombytes_buf(m->root, sizeof(m->root));
    assert_int_equal(handshake_server_new(m->secret, m->root, &m->server), 0);
    enrol(m, "team-a-*");
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    struct meeting *m = *state;
    handshake_server_free(m->server);
    free(m);
    return 0;
}

/* Returns the server's result for a first flight. If the server responds, the client handles the
 * response. */
static int answer(struct meeting *m, struct handshake_client *client, const uint8_t *request,
                  size_t n, struct tfe_wall now)
{
    uint8_t response[HANDSHAKE_RESPONSE_MAX];
    size_t response_n, used;
    struct seal_session ours, theirs;
    struct handshake_params told;
    int rc = handshake_server_answer(m->server, now, &params, request, n, &used, response,
                                     &response_n, &ours, &m->by, &told);
    if (rc == 0) {
        assert_int_equal(used, n);
        assert_int_equal(
            handshake_client_finish(client, response, response_n, &used, &theirs, &told), 0);
        assert_memory_equal(ours.tx.key, theirs.rx.key, SEAL_KEY_BYTES);
        assert_memory_equal(ours.rx.key, theirs.tx.key, SEAL_KEY_BYTES);
    }
    return rc;
}

static int meet_at(struct meeting *m, struct tfe_wall now)
{
    uint8_t request[HANDSHAKE_REQUEST_MAX];
    size_t n;
    struct handshake_client *client;
    assert_int_equal(handshake_client_start(&m->token, &params, request, &n, &client), 0);
    int rc = answer(m, client, request, n, now);
    handshake_client_free(client);
    return rc;
}

static int meet(struct meeting *m)
{
    return meet_at(m, today);
}

#define FIXTURE set_up, tear_down

TEST_IN(node_key, its_holder_is_known_with_what_it_was_made_for)
{
    struct meeting *m = *state;
    assert_int_equal(meet(m), 0);
    assert_int_equal(m->by.kind, PRINCIPAL_BY_NODE_KEY);
    assert_int_equal(m->by.role, PRINCIPAL_AGENT);
    assert_string_equal(m->by.scope, "team-a-*");
    assert_memory_equal(m->by.key_id, m->token.key_id, sizeof(m->by.key_id));
    assert_memory_equal(m->by.origin, m->enrols.origin, sizeof(m->by.origin));
    assert_int_equal(m->by.expires.ms, in_a_week.ms);
    /* Each node key has an id of its own, and the longest scope fits. */
    char longest[MSG_SCOPE_MAX + 1] = "";
    memset(longest, 'x', MSG_SCOPE_MAX);
    enrol(m, longest);
    assert_int_equal(meet(m), 0);
    assert_string_equal(m->by.scope, longest);
}

TEST_IN(node_key, it_is_worth_nothing_without_the_secret_that_belongs_to_it)
{
    struct meeting *m = *state;
    m->key.secret[3] ^= 1;
    assert_int_equal(meet(m), TFE_EAUTH);
}

TEST_IN(node_key, no_byte_of_the_certificate_can_be_another)
{
    struct meeting *m = *state;
    for (size_t i = 0; i < m->key.certificate.n; i++) {
        m->key.certificate.bytes[i] ^= 4;
        assert_int_equal(meet(m), TFE_EAUTH);
        m->key.certificate.bytes[i] ^= 4;
    }
    for (size_t n = 0; n < m->key.certificate.n; n++) {
        struct certificate whole = m->key.certificate;
        m->key.certificate.n = n;
        assert_int_equal(meet(m), TFE_EAUTH);
        m->key.certificate = whole;
    }
    assert_int_equal(meet(m), 0);
}

TEST_IN(node_key, the_certificate_of_another_key_does_not_help)
{
    struct meeting *m = *state;
    struct meeting other = {.server = m->server};
    enrol(&other, "*");
    struct certificate own = m->key.certificate;
    m->key.certificate = other.key.certificate; /* the certificate of a wider scope */
    assert_int_equal(meet(m), TFE_EAUTH);
    m->key.certificate = own;
    struct node_key key = m->key;
    memcpy(m->key.secret, other.key.secret, sizeof(m->key.secret));
    assert_int_equal(meet(m), TFE_EAUTH);
    m->key = key;
    assert_int_equal(meet(m), 0);
}

TEST_IN(node_key, it_is_no_token_and_a_token_is_none)
{
    struct meeting *m = *state;
    m->token.node_key = NULL; /* a node key's id and secret presented as a token */
    assert_int_equal(meet(m), TFE_EAUTH);
    uint8_t public_key[32];
    crypto_scalarmult_base(public_key, m->secret);
    token_mint(&m->token, &(struct token_config){.role = PRINCIPAL_AGENT}, m->root, public_key);
    m->token.node_key = &m->key;
    assert_int_equal(meet(m), TFE_EAUTH);
    m->token.node_key = NULL;
    assert_int_equal(meet(m), 0);
}

TEST_IN(node_key, it_makes_nobody_more_than_an_agent)
{
    struct meeting *m = *state;
    uint8_t public_key[32];
    crypto_scalarmult_base(public_key, m->secret);
    token_mint(&m->token, &(struct token_config){.role = PRINCIPAL_ADMIN, .is_node_key = true},
               m->root, public_key);
    m->token.node_key = &m->key;
    assert_int_equal(meet(m), TFE_EAUTH);
}

TEST_IN(node_key, it_ends_with_its_time_and_with_its_root)
{
    struct meeting *m = *state;
    assert_int_equal(meet_at(m, (struct tfe_wall){in_a_week.ms - 1}), 0);
    assert_int_equal(meet_at(m, in_a_week), TFE_EAUTH);
    struct token_ring ring = {.n = 2, .used = 1, .v = {{.generation = 0}, {.generation = 1}}};
    memcpy(ring.v[0].root, m->root, sizeof(m->root));
    handshake_server_set_ring(m->server, &ring);
    assert_int_equal(meet(m), 0);
    ring = (struct token_ring){.n = 1, .v = {{.generation = 1}}};
    handshake_server_set_ring(m->server, &ring);
    assert_int_equal(meet(m), TFE_EAUTH);
}

/* Implements handshake_judge_fn. */
static int judge(void *ctx, struct tfe_wall now, struct principal *by)
{
    const struct meeting *m = ctx;
    return memcmp(by->key_id, m->refused, sizeof(by->key_id)) == 0;
}

TEST_IN(node_key, the_judge_may_refuse_it)
{
    struct meeting *m = *state;
    handshake_server_set_judge(m->server, judge, m);
    assert_int_equal(meet(m), 0);
    memcpy(m->refused, m->token.key_id, sizeof(m->refused));
    assert_int_equal(meet(m), TFE_EAUTH);
}

TEST_IN(node_key, who_asked_for_it_is_told_who_speaks_with_it)
{
    struct meeting *m = *state;
    assert_int_equal(meet(m), 0);
    assert_int_equal(m->enrols.kind, PRINCIPAL_BY_NODE_KEY);
    assert_memory_equal(m->enrols.key_id, m->by.key_id, sizeof(m->by.key_id));
    assert_memory_equal(m->enrols.origin, m->by.origin, sizeof(m->by.origin));
    assert_string_equal(m->enrols.scope, m->by.scope);
    assert_int_equal(m->enrols.expires.ms, m->by.expires.ms);
    assert_false(m->enrols.is_stored);
}

/* Regression: a renewed key counted as a new key, so that a revoked or banned node continued with
 * the earlier one. */
TEST_IN(node_key, one_that_is_renewed_and_what_it_is_renewed_to_are_one)
{
    struct meeting *m = *state;
    struct principal by = m->enrols;
    struct token next;
    struct certificate certificate;
    uint8_t public_key[32] = {9};
    handshake_server_issue_key(m->server, public_key, (struct tfe_wall){in_a_week.ms + 1000}, &by,
                               &next, &certificate);
    assert_memory_not_equal(next.key_id, m->token.key_id, sizeof(next.key_id));
    assert_memory_not_equal(next.secret, m->token.secret, sizeof(next.secret));
    assert_int_equal(token_compare(next.key_id, m->token.key_id), 0);
    struct token first = m->token;
    enrol(m, "*"); /* enrols again with the token, which creates the key of another agent */
    assert_int_not_equal(token_compare(m->token.key_id, first.key_id), 0);
    /* Ids of tokens are compared in all bytes. */
    next.key_id[0] = first.key_id[0] = 1;
    assert_int_not_equal(token_compare(next.key_id, first.key_id), 0);
}

TEST_IN(node_key, any_flipped_bit_of_the_first_flight_closes_the_door)
{
    struct meeting *m = *state;
    uint8_t request[HANDSHAKE_REQUEST_MAX];
    size_t n;
    struct handshake_client *client;
    assert_int_equal(handshake_client_start(&m->token, &params, request, &n, &client), 0);
    assert_int_equal(request[AT_FLAGS], 1);
    assert_memory_equal(request + AT_KEY_ID, m->token.key_id, TOKEN_KEY_ID_BYTES);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        request[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(answer(m, client, request, n, today), 0);
        request[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(answer(m, client, request, n, today), 0);
    assert_int_equal(answer(m, client, request, n, today), TFE_EAUTH); /* a replayed first flight */
    handshake_client_free(client);
}
