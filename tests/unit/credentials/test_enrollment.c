/* tests/unit/credentials/test_enrollment.c: node keys: requested, stored, found again, and
 * refused. */
#include <event2/event.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/credentials/enrollment.h"
#include "common/handshake/handshake.h"
#include "tests/unit/test_runner.h"

static const struct handshake_params params = {1, 1, 7};
static const struct tfe_wall now = {1700000000000};

struct fixture {
    struct event_base *base;
    uint8_t secret[32], public_key[32], root[TOKEN_ROOT_BYTES];
    struct handshake_server *server;
    struct token token;
    char dir[32];
    struct enrollment *e;
};

static struct enrollment *start(struct fixture *f, const char *dir)
{
    return enrollment_new(f->base, &f->token, dir, NULL, NULL);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    assert_true(sodium_init() >= 0);
    f->base = event_base_new();
    randombytes_buf(f->secret, sizeof(f->secret));
    randombytes_buf(f->root, sizeof(f->root));
    crypto_scalarmult_base(f->public_key, f->secret);
    assert_int_equal(handshake_server_new(f->secret, f->root, &f->server), 0);
    token_mint(&f->token, &(struct token_config){.role = PRINCIPAL_AGENT}, f->root, f->public_key);
    strcpy(f->dir, "/tmp/enrollment.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->e = start(f, f->dir);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"agent.key", "agent.lock"};
    char path[64];
    enrollment_free(f->e);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", f->dir, names[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(f->dir), 0);
    handshake_server_free(f->server);
    event_base_free(f->base);
    free(f);
    return 0;
}

/* Answers the request of e like a server. */
static void answer(struct fixture *f, struct enrollment *e)
{
    struct tfe_msg asked = enrollment_request(e);
    uint8_t public_key[32];
    char text[3][2 * CERTIFICATE_MAX + 1];
    struct principal by = {.role = PRINCIPAL_AGENT, .scope = PRINCIPAL_EVERY_JOB};
    struct token key;
    struct certificate certificate;
    assert_int_equal(asked.type, MSG_ENROL);
    assert_int_equal(sodium_hex2bin(public_key, 32, asked.u.enrol.public_key, 64, NULL, NULL, NULL),
                     0);
    handshake_server_issue_key(f->server, public_key, (struct tfe_wall){now.ms + 1000}, &by, &key,
                               &certificate);
    sodium_bin2hex(text[0], sizeof(text[0]), key.key_id, sizeof(key.key_id));
    sodium_bin2hex(text[1], sizeof(text[1]), key.secret, sizeof(key.secret));
    sodium_bin2hex(text[2], sizeof(text[2]), certificate.bytes, certificate.n);
    enrollment_handle_answer(e, &(struct msg_enrolled){text[0], text[1], text[2], by.expires});
}

/* Returns true if the server accepts the token of e and it is e's own key. */
static bool opens_by_its_own(struct fixture *f, const struct enrollment *e)
{
    uint8_t request[HANDSHAKE_REQUEST_MAX], response[HANDSHAKE_RESPONSE_MAX];
    size_t n, response_n, used;
    struct handshake_client *client;
    struct seal_session session;
    struct principal by;
    struct handshake_params told;
    assert_int_equal(handshake_client_start(enrollment_token(e), &params, request, &n, &client), 0);
    handshake_client_free(client);
    assert_int_equal(handshake_server_answer(f->server, now, &params, request, n, &used, response,
                                             &response_n, &session, &by, &told),
                     0);
    return by.kind == PRINCIPAL_BY_NODE_KEY;
}

#define FIXTURE set_up, tear_down

TEST_IN(enrollment, the_key_opens_from_then_on_and_at_the_next_start)
{
    struct fixture *f = *state;
    assert_false(opens_by_its_own(f, f->e));
    answer(f, f->e);
    assert_true(opens_by_its_own(f, f->e));
    uint8_t key_id[TOKEN_KEY_ID_BYTES];
    memcpy(key_id, enrollment_token(f->e)->key_id, sizeof(key_id));
    enrollment_free(f->e);
    f->e = start(f, f->dir);
    assert_true(opens_by_its_own(f, f->e));
    assert_memory_equal(enrollment_token(f->e)->key_id, key_id, sizeof(key_id));
    answer(f, f->e); /* renews the key */
    assert_memory_not_equal(enrollment_token(f->e)->key_id, key_id, sizeof(key_id));
    assert_true(opens_by_its_own(f, f->e));
}

TEST_IN(enrollment, of_two_at_a_time_the_first_has_the_file)
{
    struct fixture *f = *state;
    struct enrollment *second = start(f, f->dir);
    answer(f, f->e);
    answer(f, second);
    assert_true(opens_by_its_own(f, second));
    uint8_t key_id[TOKEN_KEY_ID_BYTES];
    memcpy(key_id, enrollment_token(f->e)->key_id, sizeof(key_id));
    enrollment_free(second);
    enrollment_free(f->e);
    f->e = start(f, f->dir);
    assert_memory_equal(enrollment_token(f->e)->key_id, key_id, sizeof(key_id));
}

TEST_IN(enrollment, in_memory_only_nothing_is_kept)
{
    struct fixture *f = *state;
    struct enrollment *e = start(f, NULL);
    answer(f, e);
    assert_true(opens_by_its_own(f, e));
    enrollment_free(e);
    enrollment_free(f->e);
    f->e = start(f, f->dir);
    assert_ptr_equal(enrollment_token(f->e), &f->token);
}

TEST_IN(enrollment, a_refused_key_gives_way_to_the_token_once)
{
    struct fixture *f = *state;
    assert_false(enrollment_is_refused(f->e)); /* the refused credential was the token */
    answer(f, f->e);
    assert_true(enrollment_is_refused(f->e));
    assert_ptr_equal(enrollment_token(f->e), &f->token);
    assert_false(enrollment_is_refused(f->e));
    answer(f, f->e);
    assert_true(opens_by_its_own(f, f->e));
}

TEST_IN(enrollment, an_answer_that_nobody_asked_for_or_that_makes_no_sense_changes_nothing)
{
    struct fixture *f = *state;
    static const char good[] = "03000100000000000000000000000000";
    char secret[65];
    memset(secret, 'a', 64);
    secret[64] = '\0';
    enrollment_handle_answer(f->e, &(struct msg_enrolled){good, secret, "00", now});
    assert_ptr_equal(enrollment_token(f->e), &f->token);
    (void)enrollment_request(f->e);
    enrollment_handle_answer(
        f->e, &(struct msg_enrolled){"01000100000000000000000000000000", secret, "00", now});
    assert_ptr_equal(enrollment_token(f->e), &f->token); /* not the id of a node key */
}

TEST_IN(enrollment, the_key_of_another_server_is_not_shown_to_this_one)
{
    struct fixture *f = *state;
    answer(f, f->e);
    enrollment_free(f->e);
    f->token.server_public_key[0] ^= 1;
    f->e = start(f, f->dir);
    assert_ptr_equal(enrollment_token(f->e), &f->token);
}

TEST_IN(enrollment, a_file_that_others_may_read_is_not_used)
{
    struct fixture *f = *state;
    char path[64];
    answer(f, f->e);
    enrollment_free(f->e);
    (void)snprintf(path, sizeof(path), "%s/agent.key", f->dir);
    assert_int_equal(chmod(path, 0644), 0);
    f->e = start(f, f->dir);
    assert_ptr_equal(enrollment_token(f->e), &f->token);
}
