/* tests/unit/server/test_audit.c: audit records of orders. */
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "server/auth/audit.h"
#include "tests/unit/server/kept.h"
#include "tests/unit/test_runner.h"

static struct kept kept;

/* Returns the stored audit record of an order about this subject. */
static const char *about_kept(const char *about)
{
    const struct peer from = {.port = 1};
    const struct audit_client who = {.label = "", .from = &from};
    const void *row;
    audit_record(kept.writer, &who, "DRAIN", about, "done");
    assert_true(kept_read(&kept, MSG_AUDIT_ROW, 100, &row) > 0);
    return ((const struct msg_audit_row *)row)->about;
}

TEST(audit, row_is_one_line_for_any_label)
{
    struct event_base *base = event_base_new();
    char longest[2 * MSG_AUDIT_ABOUT_MAX];
    kept_begin(&kept, base);
    assert_string_equal(about_kept("a\nb\tc\x7f\x1b[2J \xc3\xa4"), "a?b?c??[2J \xc3\xa4");
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(strlen(about_kept(longest)), MSG_AUDIT_ABOUT_MAX - 1);
    kept_end(&kept);
    event_base_free(base);
}

TEST(audit, refused_order_is_not_recorded_as_done)
{
    const struct tfe_msg done = {.type = MSG_DONE};
    const struct tfe_msg refused = {.type = MSG_REFUSED,
                                    .u.refused = {.code = REFUSAL_NO_SUCH_NODE, .sentence = ""}};
    assert_string_equal(audit_result(&done), "done");
    assert_string_equal(audit_result(&refused), msg_refusal_name(REFUSAL_NO_SUCH_NODE));
    assert_string_not_equal(audit_result(&refused), "done");
}
