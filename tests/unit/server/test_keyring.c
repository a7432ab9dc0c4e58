/* tests/unit/server/test_keyring.c: which issued tokens are admitted, and until when, both at the
 * handshake and when open sessions are checked again. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/auth/keyring.h"
#include "server/scheduler/placement.h"
#include "tests/unit/test_runner.h"

#define DAY_MS INT64_C(86400000)

static const struct handshake_params params = {1, 1, 1};
static const struct tfe_wall today = {1700000000000};

struct fixture {
    uint8_t secret[32], public_key[32];
    struct token_ring roots;
    struct handshake_server *server;
    struct keyring *ring;
    unsigned changes;
    struct principal by; /* principal admitted last */
};

static void on_change(void *ctx)
{
    ((struct fixture *)ctx)->changes++;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    randombytes_buf(f->secret, sizeof(f->secret));
    crypto_scalarmult_base(f->public_key, f->secret);
    f->roots.n = 1;
    randombytes_buf(f->roots.v[0].root, TOKEN_ROOT_BYTES);
    assert_int_equal(handshake_server_new(f->secret, f->roots.v[0].root, &f->server), 0);
    assert_int_equal(keyring_new(f->server, DAY_MS, &f->ring), 0);
    keyring_set_roots(f->ring, &f->roots);
    keyring_watch(f->ring, on_change, f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    keyring_free(f->ring);
    handshake_server_free(f->server);
    free(f);
    return 0;
}

#define FIXTURE set_up, tear_down

static struct tfe_wall later(int64_t ms)
{
    return (struct tfe_wall){today.ms + ms};
}

static int come(struct fixture *f, const struct token *token, struct tfe_wall now)
{
    uint8_t request[HANDSHAKE_REQUEST_MAX], response[HANDSHAKE_RESPONSE_MAX];
    size_t n, used, response_n;
    struct handshake_client *client;
    struct handshake_params told;
    struct seal_session session;
    assert_int_equal(handshake_client_start(token, &params, request, &n, &client), 0);
    int rc = handshake_server_answer(f->server, now, &params, request, n, &used, response,
                                     &response_n, &session, &f->by, &told);
    handshake_client_free(client);
    return rc;
}

/* Issues a token. The returned row is valid until the next call. */
static const struct msg_token_row *make(struct fixture *f, const char *scope, const char *label,
                                        uint32_t ttl_ms, uint32_t uses, struct token *ret)
{
    const struct msg_token_create config = {PRINCIPAL_AGENT, scope, ttl_ms, uses, label, 0};
    const struct msg_token_row *row;
    assert_int_equal(keyring_make(f->ring, &config, today, ret, &row), 0);
    return row;
}

static int revoke(struct fixture *f, const char *name)
{
    const struct msg_token_row *row;
    return keyring_revoke(f->ring, name, today, &row);
}

static const char *state_at(struct fixture *f, struct tfe_wall now)
{
    const struct msg_token_row *row = keyring_next(f->ring, NULL, now);
    return row ? row->state : NULL;
}

TEST_IN(keyring, created_token_has_its_scope_and_label)
{
    struct fixture *f = *state;
    struct token token;
    make(f, "team-*", "night-shift", 0, 0, &token);
    assert_int_equal(come(f, &token, later(10000 * DAY_MS)), 0);
    assert_string_equal(f->by.scope, "team-*");
    assert_string_equal(keyring_label(f->ring, f->by.origin), "night-shift");
    assert_null(principal_fault(&f->by, MSG_JOIN, "team-a"));
    assert_non_null(principal_fault(&f->by, MSG_JOIN, "tea"));
    assert_null(keyring_fault(f->ring, &f->by, today));
}

TEST_IN(keyring, created_token_without_a_row_is_rejected)
{
    struct fixture *f = *state;
    struct token token;
    struct keyring *other;
    make(f, "*", "", 0, 0, &token);
    assert_int_equal(come(f, &token, today), 0);
    keyring_free(f->ring); /* as after a restart with a lost database */
    assert_int_equal(come(f, &token, today), TFE_EAUTH);
    assert_int_equal(keyring_new(f->server, 0, &other), 0);
    f->ring = other;
    keyring_set_roots(f->ring, &f->roots);
    assert_int_equal(come(f, &token, today), TFE_EAUTH);
    assert_string_equal(keyring_fault(f->ring, &f->by, today),
                        "the server no longer knows this token");
}

TEST_IN(keyring, an_expired_token_ends_sessions_and_opens_none)
{
    struct fixture *f = *state;
    struct token token;
    make(f, "*", "", 60000, 0, &token);
    assert_int_equal(come(f, &token, later(59000)), 0);
    assert_null(keyring_fault(f->ring, &f->by, later(59000)));
    assert_string_equal(state_at(f, later(59000)), "good");
    assert_non_null(keyring_fault(f->ring, &f->by, later(61000)));
    assert_string_equal(state_at(f, later(61000)), "expired");
    assert_int_equal(come(f, &token, later(61000)), TFE_EAUTH);
}

TEST_IN(keyring, expired_token_stays_expired_after_a_clock_step_back)
{
    struct fixture *f = *state;
    struct token token, other;
    make(f, "*", "", 60000, 0, &token);
    make(f, "*", "", 0, 0, &other);
    assert_int_equal(come(f, &token, today), 0);
    const struct principal by = f->by;
    assert_non_null(keyring_fault(f->ring, &by, later(61000)));
    assert_non_null(keyring_fault(f->ring, &by, today));
    assert_int_equal(come(f, &token, today), TFE_EAUTH);
    assert_int_equal(come(f, &other, today), 0); /* the other token never expires */
}

static struct msg_token_row written;
static unsigned n_written;

static void write_row(void *ctx, const struct msg_token_row *row)
{
    written = *row;
    n_written++;
}

TEST_IN(keyring, expired_token_stays_expired_after_restart_with_an_earlier_clock)
{
    struct fixture *f = *state;
    struct token token;
    n_written = 0;
    make(f, "*", "", 60000, 0, &token);
    assert_int_equal(come(f, &token, today), 0);
    const struct principal by = f->by;
    keyring_expire(f->ring, later(59000), write_row, NULL);
    assert_int_equal(n_written, 0);
    keyring_expire(f->ring, later(61000), write_row, NULL);
    keyring_expire(f->ring, later(62000), write_row, NULL);
    assert_int_equal(n_written, 1);
    assert_string_equal(state_at(f, later(62000)), "expired"); /* expired without being revoked */
    /* The next server loads that row. */
    struct keyring *next;
    assert_int_equal(keyring_new(f->server, 0, &next), 0);
    keyring_set_roots(next, &f->roots);
    assert_int_equal(keyring_add(next, &written), 0);
    assert_string_equal(keyring_fault(next, &by, today),
                        "this token has expired (ask the server's operator for a new one)");
    keyring_free(next);
}

TEST_IN(keyring, a_revoked_token_ends_sessions_and_opens_none)
{
    struct fixture *f = *state;
    struct token token, other;
    make(f, "*", "one", 0, 0, &token);
    make(f, "*", "other", 0, 0, &other);
    assert_int_equal(come(f, &token, today), 0);
    f->changes = 0;
    assert_int_equal(revoke(f, "one"), 0);
    assert_int_equal(f->changes, 1); /* open sessions are checked again */
    assert_string_equal(keyring_fault(f->ring, &f->by, today),
                        "this token was revoked by an operator");
    assert_int_equal(come(f, &token, today), TFE_EAUTH);
    assert_int_equal(come(f, &other, today), 0);
    assert_null(keyring_fault(f->ring, &f->by, today));
}

TEST_IN(keyring, key_is_found_by_id_or_by_an_unambiguous_label)
{
    struct fixture *f = *state;
    struct token token;
    char id[MSG_KEY_HEX + 1];
    (void)snprintf(id, sizeof(id), "%s", make(f, "*", "twice", 0, 0, &token)->key);
    make(f, "*", "twice", 0, 0, &token);
    assert_int_equal(revoke(f, "twice"), TFE_EEXIST);
    assert_int_equal(revoke(f, "nobody"), TFE_ENOENT);
    assert_int_equal(revoke(f, id), 0);
    assert_int_equal(come(f, &token, today), 0);
    /* The other token of that label, which is still valid. */
    assert_int_equal(revoke(f, "twice"), 0);
    assert_int_equal(come(f, &token, today), TFE_EAUTH);
}

TEST_IN(keyring, derived_token_is_revoked_by_a_new_row)
{
    struct fixture *f = *state;
    struct token token;
    char id[MSG_KEY_HEX + 1];
    token_mint(&token, &(struct token_config){.role = PRINCIPAL_ADMIN}, f->roots.v[0].root,
               f->public_key);
    assert_int_equal(come(f, &token, today), 0);
    (void)sodium_bin2hex(id, sizeof(id), token.key_id, sizeof(token.key_id));
    assert_int_equal(revoke(f, id), 0);
    assert_int_equal(come(f, &token, today), TFE_EAUTH);
    /* A revoked token is never forgotten: without its row it would be valid again. */
    assert_string_equal(state_at(f, later(10000 * DAY_MS)), "revoked");
    assert_int_equal(come(f, &token, later(10000 * DAY_MS)), TFE_EAUTH);
    /* A made token without a row is invalid, so there is nothing to revoke. */
    id[1] = '2';
    assert_int_equal(revoke(f, id), TFE_ENOENT);
}

/* Regression: the key before a renewal stayed valid for days. */
TEST_IN(keyring, revocation_of_an_agents_key_covers_all_its_renewals)
{
    struct fixture *f = *state;
    uint8_t public_key[32] = {9};
    struct token first, next, other;
    struct certificate certificate;
    char id[MSG_KEY_HEX + 1];
    struct principal by = {.role = PRINCIPAL_AGENT, .scope = "*"};
    struct principal before, stranger = by;
    handshake_server_issue_key(f->server, public_key, later(DAY_MS), &by, &first, &certificate);
    before = by;
    handshake_server_issue_key(f->server, public_key, later(7 * DAY_MS), &by, &next, &certificate);
    handshake_server_issue_key(f->server, public_key, later(DAY_MS), &stranger, &other,
                               &certificate);
    token_id_text(first.key_id, id);
    assert_null(keyring_fault(f->ring, &by, today));
    assert_int_equal(revoke(f, id), 0);
    assert_non_null(keyring_fault(f->ring, &before, today));
    assert_non_null(keyring_fault(f->ring, &by, today));
    assert_null(keyring_fault(f->ring, &stranger, today));
    /* The row stays until the last key of the renewal chain has expired, whichever key was named.
     */
    assert_non_null(keyring_next(f->ring, NULL, later(6 * DAY_MS)));
    assert_non_null(keyring_fault(f->ring, &by, later(6 * DAY_MS)));
    assert_null(keyring_next(f->ring, NULL, later(9 * DAY_MS)));
}

static const char node_a[] = "000000000000000000000000000000aa";
static const char node_b[] = "000000000000000000000000000000bb";
static const char node_c[] = "000000000000000000000000000000cc";

TEST_IN(keyring, uses_count_nodes_and_survive_restarts)
{
    struct fixture *f = *state;
    struct token token;
    const struct msg_token_row *row;
    struct keyring *again;
    make(f, "*", "", 0, 2, &token);
    assert_int_equal(come(f, &token, today), 0);
    assert_null(keyring_use(f->ring, &f->by, node_a, &row));
    assert_string_equal(row->used_by, node_a);
    /* The same node comes again: this is the same use. */
    assert_null(keyring_use(f->ring, &f->by, node_a, &row));
    assert_null(row);
    assert_null(keyring_use(f->ring, &f->by, node_b, &row));
    assert_non_null(keyring_use(f->ring, &f->by, node_c, &row));
    assert_null(row);
    assert_null(keyring_use(f->ring, &f->by, node_b, &row));
    assert_string_equal(state_at(f, today), "used up");
    assert_int_equal(come(f, &token, today), 0); /* nodes that have used the token may reconnect */

    assert_int_equal(keyring_new(f->server, 0, &again), 0);
    keyring_set_roots(again, &f->roots);
    assert_int_equal(keyring_add(again, keyring_next(f->ring, NULL, today)), 0);
    assert_non_null(keyring_use(again, &f->by, node_c, &row));
    assert_null(keyring_use(again, &f->by, node_a, &row));
    keyring_free(f->ring);
    f->ring = again;
}

TEST_IN(keyring, unlimited_token_counts_no_uses)
{
    struct fixture *f = *state;
    struct token token;
    const struct msg_token_row *row;
    make(f, "*", "", 0, 0, &token);
    assert_int_equal(come(f, &token, today), 0);
    assert_null(keyring_use(f->ring, &f->by, node_a, &row));
    assert_null(row);
}

/* Install, use and remove a root, like keys_rotate. */
TEST_IN(keyring, rotation_installs_uses_and_removes_a_root)
{
    struct fixture *f = *state;
    struct token old, new, plain;
    make(f, "*", "old", 0, 0, &old);
    token_mint(&plain, &(struct token_config){.role = PRINCIPAL_AGENT}, f->roots.v[0].root,
               f->public_key);
    f->roots.v[f->roots.n++].generation = 1;
    randombytes_buf(f->roots.v[1].root, TOKEN_ROOT_BYTES);
    keyring_set_roots(f->ring, &f->roots);
    assert_int_equal(come(f, &old, today), 0);
    make(f, "*", "still-of-the-old-root", 0, 0, &new);
    assert_int_equal(token_generation(new.key_id), 0);

    f->roots.used = 1;
    keyring_set_roots(f->ring, &f->roots);
    make(f, "*", "new", 0, 0, &new);
    assert_int_equal(token_generation(new.key_id), 1);
    assert_int_equal(come(f, &new, today), 0);
    assert_int_equal(come(f, &plain, today), 0);
    assert_int_equal(come(f, &old, today), 0);

    f->roots.v[0] = f->roots.v[1];
    f->roots.n = 1;
    f->roots.used = 0;
    f->changes = 0;
    keyring_set_roots(f->ring, &f->roots);
    assert_int_equal(f->changes, 1);
    assert_string_equal(keyring_fault(f->ring, &f->by, today),
                        "this token's root was removed (ask the server's operator for a new one)");
    assert_int_equal(come(f, &old, today), TFE_EAUTH);
    assert_int_equal(come(f, &plain, today), TFE_EAUTH);
    assert_int_equal(come(f, &new, today), 0);
}

TEST_IN(keyring, ended_keys_are_forgotten_after_a_time)
{
    struct fixture *f = *state;
    struct token revoked, expired, good;
    make(f, "*", "revoked", 0, 0, &revoked);
    make(f, "*", "expired", 1000, 0, &expired);
    make(f, "*", "good", 0, 0, &good);
    assert_int_equal(revoke(f, "revoked"), 0);
    unsigned n = 0;
    for (const struct msg_token_row *r = keyring_next(f->ring, NULL, later(DAY_MS - 1000)); r;
         r = keyring_next(f->ring, r->key, today)) {
        n++;
    }
    assert_int_equal(n, 3);
    const struct msg_token_row *left = keyring_next(f->ring, NULL, later(DAY_MS + 2000));
    assert_string_equal(left->label, "good");
    assert_null(keyring_next(f->ring, left->key, today));
    assert_int_equal(come(f, &revoked, today), TFE_EAUTH);
    assert_int_equal(come(f, &expired, later(DAY_MS)), TFE_EAUTH);
    assert_int_equal(come(f, &good, today), 0);
}

/* keep_ms is 0: history is kept without limit, and so are expired keys. */
TEST_IN(keyring, ended_keys_are_retained_with_unlimited_retention)
{
    struct fixture *f = *state;
    struct token token;
    struct keyring *other;
    const struct msg_token_row *row;
    keyring_free(f->ring);
    assert_int_equal(keyring_new(f->server, 0, &other), 0);
    f->ring = other;
    keyring_set_roots(f->ring, &f->roots);
    row = make(f, "*", "expired", 60000, 0, &token);
    struct tfe_wall end = row->expires;
    assert_string_equal(state_at(f, (struct tfe_wall){end.ms - 1}), "good");
    /* The expiry time itself is no longer valid. */
    assert_string_equal(state_at(f, end), "expired");
    assert_string_equal(state_at(f, later(10000 * DAY_MS)), "expired");
}

TEST_IN(keyring, first_revocation_time_is_retained)
{
    struct fixture *f = *state;
    struct token token;
    const struct msg_token_row *row = make(f, "*", "one", 0, 0, &token);
    assert_int_equal(revoke(f, row->key), 0);
    assert_int_equal(keyring_revoke(f->ring, row->key, later(5000), &row), 0);
    assert_int_equal(row->revoked.ms, today.ms);
}

TEST_IN(keyring, too_long_row_is_refused)
{
    struct fixture *f = *state;
    char longest[MSG_SCOPE_MAX + MSG_KEY_LABEL_MAX + 2];
    struct msg_token_row row = {.key = "01000100000000000000000000000003", .used_by = ""};
    memset(longest, 'x', sizeof(longest));
    longest[MSG_SCOPE_MAX + 1] = '\0';
    row.label = "";
    row.scope = longest;
    assert_int_equal(keyring_add(f->ring, &row), TFE_EINVAL);
    longest[MSG_SCOPE_MAX] = '\0';
    assert_int_equal(keyring_add(f->ring, &row), 0);
    longest[MSG_SCOPE_MAX] = 'x';
    longest[MSG_KEY_LABEL_MAX + 1] = '\0';
    row.scope = "*";
    row.label = longest;
    assert_int_equal(keyring_add(f->ring, &row), TFE_EINVAL);
}

TEST_IN(keyring, node_id_prefix_does_not_count_as_a_use)
{
    struct fixture *f = *state;
    struct token token;
    const struct msg_token_row *row;
    make(f, "*", "", 0, 1, &token);
    assert_int_equal(come(f, &token, today), 0);
    assert_null(keyring_use(f->ring, &f->by, node_a, &row));
    assert_non_null(keyring_use(f->ring, &f->by, "0000000000", &row));
}

TEST_IN(keyring, listing_continues_after_a_forgotten_key)
{
    struct fixture *f = *state;
    static const char gone[] = "01000100000000000000000000000005";
    struct msg_token_row row = {.scope = "*", .label = "", .used_by = ""};
    row.key = "01000100000000000000000000000003";
    assert_int_equal(keyring_add(f->ring, &row), 0);
    row.key = "01000100000000000000000000000007";
    assert_int_equal(keyring_add(f->ring, &row), 0);
    assert_string_equal(keyring_next(f->ring, gone, today)->key, row.key);
    assert_null(keyring_next(f->ring, row.key, today));
}

/* Regression: a server with the maximum number of issued keys did not start, because its own key
 * exceeded the limit. */
TEST_IN(keyring, limit_applies_to_created_keys_only)
{
    struct fixture *f = *state;
    struct token token;
    const struct msg_token_row *row;
    const struct msg_token_create config = {PRINCIPAL_AGENT, "*", 1000, 0, "", 0};
    for (unsigned i = 0; i < KEYRING_MAX; i++) {
        assert_int_equal(keyring_make(f->ring, &config, today, &token, &row), 0);
    }
    assert_int_equal(keyring_make(f->ring, &config, today, &token, &row), TFE_EFULL);
    const struct msg_token_row own = {.key = "01000300000000000000000000000001",
                                      .role = PRINCIPAL_ADMIN,
                                      .scope = "*",
                                      .label = "",
                                      .used_by = ""};
    assert_int_equal(keyring_add(f->ring, &own), 0);
    assert_int_equal(revoke(f, "01000300000000000000000000000002"), 0);
    /* Expired keys make room after their retention time. */
    assert_int_equal(keyring_make(f->ring, &config, later(DAY_MS + 2000), &token, &row), 0);
}

/* --- quotas ----------------------------------------------------------------------------------- */

/* The quota notification received last. */
static struct {
    char scope[MSG_SCOPE_MAX + 1];
    uint32_t nodes;
    unsigned n;
} heard;

static void hear(void *ctx, const char *scope, uint32_t nodes)
{
    (void)ctx;
    (void)snprintf(heard.scope, sizeof(heard.scope), "%s", scope);
    heard.nodes = nodes;
    heard.n++;
}

static void listen(struct fixture *f)
{
    memset(&heard, 0, sizeof(heard));
    keyring_watch_quotas(f->ring, hear, f);
}

static int grant(struct fixture *f, const char *scope, uint32_t quota, struct tfe_wall now,
                 char ret_key[MSG_KEY_HEX + 1])
{
    const struct msg_token_create config = {PRINCIPAL_ADMIN, scope, 60000, 0, "", quota};
    const struct msg_token_row *row;
    struct token token;
    int rc = keyring_make(f->ring, &config, now, &token, &row);
    if (rc == 0) {
        (void)snprintf(ret_key, MSG_KEY_HEX + 1, "%s", row->key);
    }
    return rc;
}

static void assert_heard(const char *scope, uint32_t nodes, unsigned n)
{
    assert_string_equal(heard.scope, scope);
    assert_int_equal(heard.nodes, nodes);
    assert_int_equal(heard.n, n);
    heard.n = 0;
}

TEST_IN(keyring, newest_quota_of_a_scope_counts_despite_clock_changes)
{
    struct fixture *f = *state;
    char key[MSG_KEY_HEX + 1];
    listen(f);
    assert_int_equal(grant(f, "a-*", 5, later(2000), key), 0);
    assert_heard("a-*", 5, 1);
    assert_int_equal(grant(f, "a-*", 7, later(1000), key), 0);
    assert_heard("a-*", 7, 1);
    /* A token without a quota leaves the quota unchanged. */
    assert_int_equal(grant(f, "a-*", 0, later(3000), key), 0);
    assert_int_equal(heard.n, 0);
    assert_int_equal(grant(f, "b-*", 3, later(1000), key), 0);
    assert_heard("b-*", 3, 1);
    listen(f);
    assert_int_equal(heard.n, 2);
    keyring_watch_quotas(f->ring, NULL, NULL);
    assert_int_equal(grant(f, "a-*", 9, later(3000), key), 0);
    assert_int_equal(heard.n, 2);
}

TEST_IN(keyring, quota_outlives_its_token_while_the_row_is_stored)
{
    struct fixture *f = *state;
    char first[MSG_KEY_HEX + 1];
    char second[MSG_KEY_HEX + 1];
    assert_int_equal(grant(f, "a-*", 5, today, first), 0);
    assert_int_equal(grant(f, "a-*", 6, later(1), second), 0);
    assert_int_equal(revoke(f, second), 0);
    const struct msg_token_row *row = keyring_next(f->ring, NULL, later(3 * DAY_MS));
    assert_string_equal(row->key, second); /* the first token was deleted */
    assert_int_equal(row->quota, 6);
    assert_null(keyring_next(f->ring, row->key, today));
    listen(f);
    assert_heard("a-*", 6, 1);
}

TEST_IN(keyring, stored_rows_give_the_quota_in_any_order)
{
    struct fixture *f = *state;
    struct msg_token_row row = {.role = PRINCIPAL_ADMIN,
                                .scope = "a-*",
                                .label = "",
                                .used_by = "",
                                .made = {20},
                                .quota = 4};
    row.key = "02000300000000000000000000000001";
    assert_int_equal(keyring_add(f->ring, &row), 0);
    row.key = "02000300000000000000000000000002";
    row.made.ms = 10;
    row.quota = 9;
    assert_int_equal(keyring_add(f->ring, &row), 0);
    listen(f);
    assert_heard("a-*", 4, 1);
}

/* Regression: the quota of a token that could not be stored remained in force. */
TEST_IN(keyring, undelivered_token_restores_the_previous_quota)
{
    struct fixture *f = *state;
    char first[MSG_KEY_HEX + 1];
    char second[MSG_KEY_HEX + 1];
    char third[MSG_KEY_HEX + 1];
    char last[MSG_KEY_HEX + 1];
    listen(f);
    assert_int_equal(grant(f, "a-*", 5, today, first), 0);
    assert_int_equal(grant(f, "a-*", 6, today, second), 0);
    assert_int_equal(grant(f, "a-*", 7, today, third), 0);
    assert_int_equal(grant(f, "b-*", 3, later(9), last), 0);
    assert_int_equal(grant(f, "a-*", 8, today, last), 0);
    heard.n = 0;
    keyring_discard(f->ring, third);
    assert_int_equal(heard.n, 0);
    keyring_discard(f->ring, last);
    assert_heard("a-*", 6, 1);
    keyring_discard(f->ring, last);
    assert_int_equal(heard.n, 0);
    keyring_discard(f->ring, second);
    assert_heard("a-*", 5, 1);
    keyring_discard(f->ring, first);
    assert_heard("a-*", 0, 1);
    assert_string_equal(keyring_next(f->ring, NULL, today)->scope, "b-*");
}

TEST_IN(keyring, scopes_with_a_quota_are_limited_as_in_placement)
{
    struct fixture *f = *state;
    char key[MSG_KEY_HEX + 1];
    char scope[16];
    listen(f);
    for (unsigned i = 0; i < PLACEMENT_QUOTAS_MAX; i++) {
        (void)snprintf(scope, sizeof(scope), "%u-*", i);
        assert_int_equal(grant(f, scope, 1, today, key), 0);
    }
    assert_int_equal(grant(f, "more-*", 1, today, key), TFE_ETOOBIG);
    assert_int_equal(grant(f, "more-*", 0, today, key), 0);
    assert_int_equal(grant(f, "0-*", 2, today, key), 0);
    /* The scope no longer has a quota. */
    assert_int_equal(grant(f, "0-*", MSG_NODES_MAX, today, key), 0);
    assert_int_equal(heard.nodes, 0);
    assert_int_equal(grant(f, "0-*", MSG_NODES_MAX, today, key), 0);
    assert_int_equal(grant(f, "more-*", 1, today, key), 0);
    assert_int_equal(grant(f, "0-*", 1, today, key), TFE_ETOOBIG);
}
