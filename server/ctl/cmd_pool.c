/* server/ctl/cmd_pool.c: tfe-ctl pool: the nodes that take submitted jobs. */
#include "common/records/schemas.h"
#include "server/ctl/verb.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const heads[] = {"NAME", "NODE", "STATE", "STANDBY",      "SINCE",
                                    "JOB",  "ROLE", "HOST",  "CORES",        "GPUS",
                                    "ZONE", "TYPE", "SPOT",  "FAILED CHECK", "LABELS"};
static const struct text_table table = {&schema_pool_node, heads, COUNT(heads)};

static int show(const struct ctl_settings *settings, const char *operand, struct record_list *rows)
{
    return verb_show_table(settings, "pool", &table, rows,
                           "no node waits in the pool (tfe-agent --pool)");
}

const struct ctl_verb ctl_verb_pool = {
    .name = "pool",
    .usage = "tfe-ctl pool [OPTIONS]",
    .about = "show the nodes that take submitted jobs, and what they work for",
    .says = MSG_POOL_NODES,
    .rows = {MSG_POOL_ROW},
    .show = show,
};
