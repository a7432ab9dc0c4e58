/* tests/unit/server/test_audit.c: what is written down of orders (__wrap_writer_keep takes it). */
#include <stdio.h>
#include <string.h>

#include "server/audit.h"
#include "tests/unit/story.h"

static char about[MSG_AUDIT_ABOUT_MAX];
static char result[64];

int __wrap_writer_keep(struct writer *w, const struct tfe_msg *row, writer_answer_fn fn, void *ctx,
                       struct writer_ask **ret);
int __wrap_writer_keep(struct writer *w, const struct tfe_msg *row, writer_answer_fn fn, void *ctx,
                       struct writer_ask **ret)
{
    assert_int_equal(row->type, MSG_AUDIT_ROW);
    (void)snprintf(about, sizeof about, "%s", row->u.audit_row.about);
    (void)snprintf(result, sizeof result, "%s", row->u.audit_row.result);
    return 0;
}

TEST(audit, a_row_is_one_line_whatever_a_label_holds)
{
    const struct peer from = {.port = 1};
    const struct audit_who who = {.label = "", .from = &from};
    audit_note(NULL, &who, "DRAIN", "a\nb\tc\x7f\x1b[2J \xc3\xa4", "done");
    assert_string_equal(about, "a?b?c??[2J \xc3\xa4");
    char longest[2 * MSG_AUDIT_ABOUT_MAX];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    audit_note(NULL, &who, "DRAIN", longest, "done");
    assert_int_equal(strlen(about), MSG_AUDIT_ABOUT_MAX - 1);
}

TEST(audit, what_was_refused_is_not_called_done)
{
    const struct tfe_msg done = {.type = MSG_DONE};
    const struct tfe_msg refused = {.type = MSG_REFUSED,
                                    .u.refused = {.code = REFUSAL_NO_SUCH_NODE, .sentence = ""}};
    assert_string_equal(audit_result(&done), "done");
    assert_string_equal(audit_result(&refused), msg_refusal_name(REFUSAL_NO_SUCH_NODE));
    assert_string_not_equal(audit_result(&refused), "done");
}
