/* server/ctl/cmd_unban.c: tfe-ctl bans, unban: lists and removes entries of the deny list. */
#include "common/records/schemas.h"
#include "server/ctl/verb.h"

const struct ctl_verb ctl_verb_unban = {
    .name = "unban",
    .usage = "tfe-ctl unban [OPTIONS] NODE",
    .about = "let a node that was evicted in again",
    .needs_operand = true,
    .operand = CTL_NODE,
    CTL_SAYS(MSG_UNBAN, unban.node),
    .done = "may join again",
};

static int bans_show(const struct ctl_settings *settings, const char *operand,
                     struct record_list *rows)
{
    static const char *const heads[] = {"JOB", "NAME", "NODE", "KEY", "UNTIL"};
    static const struct text_table bans = {&schema_ban_row, heads,
                                           sizeof(heads) / sizeof(heads[0])};
    (void)operand;
    return verb_show_table(settings, "bans", &bans, rows, "nobody is kept out");
}

const struct ctl_verb ctl_verb_bans = {
    .name = "bans",
    .usage = "tfe-ctl bans [OPTIONS]",
    .about = "show who was evicted and is kept out, and until when",
    .is_order = true,
    .says = MSG_BANS,
    .rows = {MSG_BAN_ROW},
    .show = bans_show,
};
