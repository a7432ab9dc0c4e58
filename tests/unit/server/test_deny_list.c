/* tests/unit/server/test_deny_list.c: an evicted node stays out, and no other node does. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "server/auth/deny_list.h"
#include "tests/unit/test_runner.h"

#define KEY "01000100000000000000000000000001"
#define OTHER_KEY "01000100000000000000000000000002"

static const struct tfe_wall now = {1000};
static const uint8_t key[PRINCIPAL_KEY_ID_BYTES] = {1, 0, 1, [15] = 1};
static const uint8_t other_key[PRINCIPAL_KEY_ID_BYTES] = {1, 0, 1, [15] = 2};
static const struct principal admin = {.role = PRINCIPAL_ADMIN, .scope = PRINCIPAL_EVERY_JOB};
static const struct principal of_team_b = {.role = PRINCIPAL_ADMIN, .scope = "team-b*"};

static int set_up(void **state)
{
    return deny_list_new((struct deny_list **)state);
}

static int tear_down(void **state)
{
    deny_list_free(*state);
    return 0;
}

#define FIXTURE set_up, tear_down

static void ban(struct deny_list *bans, const char *node, const char *job, const char *name,
                int64_t until)
{
    const struct msg_ban_row row = {
        .node = node, .job = job, .key = KEY, .token = KEY, .name = name, .until = {until}};
    assert_int_equal(deny_list_add(bans, &row, NULL), 0);
}

static bool is_out(const struct deny_list *bans, const char *job, const char *node,
                   const uint8_t *of, const char *name)
{
    struct principal by = {.kind = PRINCIPAL_BY_TOKEN};
    memcpy(by.key_id, of, sizeof(by.key_id));
    memcpy(by.origin, of, sizeof(by.origin));
    return deny_list_find(bans, &by, job, node, name, now) != NULL;
}

TEST_IN(bans, ban_applies_to_key_and_label_under_any_node_id)
{
    ban(*state, "n", "team-a", "box", 2000);
    assert_true(is_out(*state, "team-a", "n", key, "box"));
    assert_true(is_out(*state, "team-a", "n", other_key, "other")); /* the evicted process itself */
    assert_true(is_out(*state, "team-a", "n2", key, "box"));
    assert_false(is_out(*state, "team-a", "n2", other_key, "box"));
    assert_false(is_out(*state, "team-a", "n2", key, "box2"));
    assert_false(is_out(*state, "team-b", "n", key, "box"));
}

/* Regression: evicting one unlabelled node kept out all unlabelled nodes with the same token. */
TEST_IN(bans, ban_without_label_applies_to_the_node_only)
{
    ban(*state, "n", "team-a", "", 2000);
    assert_true(is_out(*state, "team-a", "n", key, ""));
    assert_false(is_out(*state, "team-a", "n2", key, ""));
}

TEST_IN(bans, ban_applies_to_an_own_key_and_to_its_token_with_the_label)
{
    const struct msg_ban_row row = {.node = "n",
                                    .job = "team-a",
                                    .key = KEY,
                                    .token = OTHER_KEY,
                                    .name = "box",
                                    .until = {2000}};
    struct principal own = {.kind = PRINCIPAL_BY_NODE_KEY};
    memcpy(own.key_id, key, sizeof(own.key_id));
    memcpy(own.origin, other_key, sizeof(own.origin));
    assert_int_equal(deny_list_add(*state, &row, NULL), 0);
    assert_non_null(deny_list_find(*state, &own, "team-a", "n2", "tube", now));
    assert_null(deny_list_find(*state, &own, "team-b", "n2", "tube", now));
    own.key_id[0] ^= 1; /* another machine with that token */
    assert_null(deny_list_find(*state, &own, "team-a", "n2", "tube", now));
    assert_non_null(deny_list_find(*state, &own, "team-a", "n2", "box", now));
    assert_true(is_out(*state, "team-a", "n2", other_key, "box"));
    assert_false(is_out(*state, "team-a", "n2", other_key, "tube"));
    assert_false(is_out(*state, "team-a", "n2", key, "tube")); /* many machines share a token */
}

/* Otherwise, evicting a node whose key is unknown would keep out other nodes with its label. */
TEST_IN(bans, unknown_key_matches_no_ban)
{
    const struct msg_ban_row row = {
        .node = "n", .job = "team-a", .key = "", .token = "", .name = "box", .until = {2000}};
    assert_int_equal(deny_list_add(*state, &row, NULL), 0);
    assert_true(is_out(*state, "team-a", "n", other_key, "tube"));
    assert_false(is_out(*state, "team-a", "n2", other_key, "box"));
}

TEST_IN(bans, expired_ban_does_not_apply)
{
    ban(*state, "n", "team-a", "box", 1001);
    ban(*state, "m", "team-a", "tube", 1000);
    assert_true(is_out(*state, "team-a", "n2", key, "box"));
    assert_false(is_out(*state, "team-a", "m", key, "tube"));
    assert_null(deny_list_find_named(*state, &admin, "tube", now));
}

TEST_IN(bans, newest_ban_of_a_node_counts)
{
    ban(*state, "n", "team-a", "box", 2000);
    ban(*state, "n", "team-a", "tube", 3000);
    assert_false(is_out(*state, "team-a", "n2", key, "box"));
    assert_true(is_out(*state, "team-a", "n2", key, "tube"));
    assert_null(deny_list_at(*state, 1));
}

TEST_IN(bans, ban_is_found_by_id_or_label_within_the_scope)
{
    ban(*state, "n", "team-a", "box", 2000);
    ban(*state, "m", "team-b1", "box", 2000);
    assert_string_equal(deny_list_find_named(*state, &of_team_b, "box", now)->node, "m");
    assert_null(deny_list_find_named(*state, &of_team_b, "n", now));
    const struct msg_ban_row *row = deny_list_find_named(*state, &admin, "n", now);
    assert_string_equal(row->node, "n");
    deny_list_remove(*state, row);
    assert_false(is_out(*state, "team-a", "n", key, "box"));
    assert_true(is_out(*state, "team-b1", "n", key, "box"));
    assert_null(deny_list_find_named(*state, &admin, "n", now));
}

/* Regression: a renewed key counted as another key, which readmitted the evicted node. */
TEST_IN(bans, ban_applies_to_a_renewed_key)
{
    static const uint8_t renewed[PRINCIPAL_KEY_ID_BYTES] = {3, 1, 1, 0, 9, 9, 9, 9, [15] = 1};
    static const uint8_t another[PRINCIPAL_KEY_ID_BYTES] = {3, 1, 1, 0, 9, 9, 9, 9, [15] = 2};
    struct principal by = {.kind = PRINCIPAL_BY_NODE_KEY};
    const struct msg_ban_row row = {.node = "n",
                                    .job = "j",
                                    .key = "03000100070707070000000000000001",
                                    .token = "",
                                    .name = "",
                                    .until = {2000}};
    assert_int_equal(deny_list_add(*state, &row, NULL), 0);
    memcpy(by.key_id, renewed, sizeof(renewed));
    assert_non_null(deny_list_find(*state, &by, "j", "n2", "other", now));
    memcpy(by.key_id, another, sizeof(another));
    assert_null(deny_list_find(*state, &by, "j", "n2", "other", now));
}

/* Regression: an admin of some jobs could displace the evictions of others, with a new job each. */
TEST_IN(bans, full_list_drops_entries_of_the_operator_with_most)
{
    static const struct principal other = {
        .role = PRINCIPAL_ADMIN, .scope = "team-c*", .origin = {7}};
    char name[8];
    struct msg_ban_row row = {.node = "first",
                              .job = "team-c",
                              .key = KEY,
                              .token = KEY,
                              .name = "first",
                              .until = {2000}};
    assert_int_equal(deny_list_add(*state, &row, &other), 0);
    row.node = row.job = row.name = name;
    for (unsigned i = 0; i <= DENY_LIST_MAX; i++) {
        (void)snprintf(name, sizeof(name), "b%u", i);
        assert_int_equal(deny_list_add(*state, &row, &of_team_b), 0);
    }
    assert_true(is_out(*state, "team-c", "first", key, "first"));
    assert_false(is_out(*state, "b1", "b1", key, "b1"));
    assert_true(is_out(*state, "b2", "b2", key, "b2"));
}

TEST_IN(bans, full_list_drops_the_oldest)
{
    char name[8];
    for (unsigned i = 0; i <= DENY_LIST_MAX; i++) {
        (void)snprintf(name, sizeof(name), "n%u", i);
        ban(*state, name, "j", name, 2000);
    }
    assert_false(is_out(*state, "j", "n0", key, "n0"));
    assert_true(is_out(*state, "j", "n1", key, "n1"));
    assert_string_equal(deny_list_at(*state, 0)->node, "n1000");
    assert_string_equal(deny_list_at(*state, DENY_LIST_MAX - 1)->node, "n1");
    assert_null(deny_list_at(*state, DENY_LIST_MAX));
}
