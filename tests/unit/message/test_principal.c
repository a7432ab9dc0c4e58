/* tests/unit/message/test_principal.c: which principal may send which message, and until when. */
#include <stddef.h>
#include <string.h>

#include "common/message/principal.h"
#include "tests/unit/test_runner.h"

static const struct principal agent = {.role = PRINCIPAL_AGENT, .scope = PRINCIPAL_EVERY_JOB};
static const struct principal observer = {.role = PRINCIPAL_OBSERVER, .scope = PRINCIPAL_EVERY_JOB};
static const struct principal admin = {.role = PRINCIPAL_ADMIN, .scope = PRINCIPAL_EVERY_JOB};

TEST(principal, only_roles_have_names)
{
    assert_string_equal(principal_role_name(PRINCIPAL_AGENT), "agent");
    assert_string_equal(principal_role_name(PRINCIPAL_OBSERVER), "observer");
    assert_string_equal(principal_role_name(PRINCIPAL_ADMIN), "admin");
    assert_string_equal(principal_role_name((enum principal_role)0), "?");
    assert_string_equal(principal_role_name((enum principal_role)4), "?");
}

TEST(principal, message_is_permitted_to_its_sender_only)
{
    assert_null(principal_fault(&agent, MSG_JOIN, "j"));
    assert_null(principal_fault(&agent, MSG_RENEW, NULL));
    assert_string_equal(principal_fault(&agent, MSG_STATUS, "j"),
                        "an agent's token does not allow this");
    assert_string_equal(principal_fault(&agent, MSG_EVICT, NULL),
                        "an agent's token does not allow this");

    assert_null(principal_fault(&observer, MSG_STATUS, "j"));
    assert_string_equal(principal_fault(&observer, MSG_CANCEL, "j"),
                        "an observer's token does not allow this (use an admin's token)");
    assert_string_equal(principal_fault(&observer, MSG_JOIN, "j"),
                        "this token does not allow an agent's messages");

    assert_null(principal_fault(&admin, MSG_STATUS, "j"));
    assert_null(principal_fault(&admin, MSG_CANCEL, "j"));
    assert_string_equal(principal_fault(&admin, MSG_RENEW, NULL),
                        "this token does not allow an agent's messages");
}

TEST(principal, server_message_is_refused_from_every_role)
{
    assert_non_null(principal_fault(&agent, MSG_WELCOME, NULL));
    assert_non_null(principal_fault(&admin, MSG_WELCOME, NULL));
    assert_non_null(principal_fault(&admin, (enum tfe_msg_type)255, NULL));
}

TEST(principal, expiry_time_is_respected_and_0_is_never)
{
    const struct principal brief = {.role = PRINCIPAL_AGENT, .expires = {1000}};
    assert_false(principal_has_expired(&brief, (struct tfe_wall){999}));
    assert_true(principal_has_expired(&brief, (struct tfe_wall){1000}));
    assert_false(principal_has_expired(&agent, (struct tfe_wall){INT64_MAX}));
}

TEST(principal, scope_covers_the_jobs_of_its_pattern)
{
    static const struct {
        const char *scope, *job;
        bool may;
    } rows[] = {
        {"*", "any", true},          {"team-a", "team-a", true},    {"team-a", "team-ab", false},
        {"team-a", "team", false},   {"team-a-*", "team-a-", true}, {"team-a-*", "team-a-1", true},
        {"team-a-*", "x", false},    {"*-1", "a-1-1", true},        {"*-1", "a-1-2", false},
        {"a*b*c", "abbbc", true},    {"a*b*c", "acb", false},       {"a**", "a", true},
        {"*a*a*a*a*", "aaa", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (enum principal_role role = PRINCIPAL_AGENT; role <= PRINCIPAL_ADMIN; role++) {
            struct principal by = {.role = role};
            by.scope = rows[i].scope;
            const char *fault =
                principal_fault(&by, role == PRINCIPAL_AGENT ? MSG_JOIN : MSG_STATUS, rows[i].job);
            assert_int_equal(!fault, rows[i].may);
        }
    }
}

TEST(principal, scoped_principal_may_not_address_all_jobs)
{
    const struct principal some = {.role = PRINCIPAL_ADMIN, .scope = "team-a-*"};
    const struct principal node = {.role = PRINCIPAL_AGENT, .scope = "team-a-*"};
    /* The right is checked again once the job is known. */
    assert_null(principal_fault(&some, MSG_STATUS, NULL));
    assert_null(principal_fault(&some, MSG_DRAIN, NULL));
    assert_null(principal_fault(&some, MSG_EVICT, NULL));
    assert_null(principal_fault(&node, MSG_RENEW, NULL));
    assert_non_null(principal_fault(&some, MSG_BACKUP, NULL));
    assert_non_null(principal_fault(&some, MSG_TOKENS, NULL));
    assert_non_null(principal_fault(&some, MSG_TOKEN_CREATE, NULL));
    assert_non_null(principal_fault(&some, MSG_TOKEN_REVOKE, NULL));
    assert_non_null(principal_fault(&some, MSG_TOKEN_ROTATE, NULL));
    assert_null(principal_fault(&admin, MSG_TOKEN_ROTATE, NULL));
    assert_non_null(principal_fault(&some, MSG_CANCEL, "team-b-1"));
}
