/* server/ctl/jobs.c: tfe-ctl jobs, describe, pool: what was handed in, and who works for it. */
#include <stdio.h>

#include "common/net/stdio.h"
#include "common/rows/answers.h"
#include "common/rows/kinds.h"
#include "server/ctl/verb.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const job_heads[] = {"JOB", "STATE", "PRIORITY", "MIN",      "MAX",
                                        "PS",  "NODES", "SINCE",    "WAITS FOR"};
static const struct row_table job_table = {&kind_submission, job_heads, COUNT(job_heads)};
static const char *const condition_heads[] = {"CONDITION", "STATUS", "REASON", "AT", "SAYS"};
static const struct row_table condition_table = {&kind_condition, condition_heads,
                                                 COUNT(condition_heads)};
static const char *const node_heads[] = {"NAME", "NODE", "STATE", "STANDBY", "SINCE",
                                         "JOB",  "ROLE", "HOST",  "CORES",   "GPUS",
                                         "ZONE", "TYPE", "SPOT",  "LABELS"};
static const struct row_table node_table = {&kind_pool_node, node_heads, COUNT(node_heads)};

static int show_jobs(const struct ctl_settings *settings, const char *operand,
                     struct row_list *rows)
{
    return verb_show_table(settings, "jobs", &job_table, rows, "no job was handed in");
}

static int show_describe(const struct ctl_settings *settings, const char *operand,
                         struct row_list *rows)
{
    const struct msg_job_row *job = row_list_head(rows, &kind_submission);
    if (!job) {
        return TFE_ESTATE;
    }
    if (settings->json) {
        return verb_print_json(answer_describe(rows));
    }
    (void)row_table_print(&job_table, rows->v, rows->n, 0, stdout);
    (void)fputs("\n  runs ", stdout);
    stdio_put(stdout, job->command);
    (void)fputs(job->source[0] ? " in " : "", stdout);
    stdio_put(stdout, job->source);
    (void)fputs("\n\n", stdout);
    (void)row_table_print(&condition_table, rows->v, rows->n, 2, stdout);
    (void)putchar('\n');
    if (row_table_print(&node_table, rows->v, rows->n, 2, stdout) == 0) {
        (void)puts("  no node works for it");
    }
    return 0;
}

static int show_pool(const struct ctl_settings *settings, const char *operand,
                     struct row_list *rows)
{
    return verb_show_table(settings, "pool", &node_table, rows,
                           "no node waits in the pool (tfe-agent --pool)");
}

const struct ctl_verb ctl_verb_jobs = {
    .name = "jobs",
    .usage = "tfe-ctl jobs [OPTIONS]",
    .about = "show the jobs that were handed in, and what they wait for",
    .says = MSG_JOBS,
    .rows = {MSG_JOB_ROW},
    .show = show_jobs,
};

const struct ctl_verb ctl_verb_describe = {
    .name = "describe",
    .usage = "tfe-ctl describe [OPTIONS] JOB",
    .about = "show a job that was handed in: conditions with their reasons, and its nodes",
    .needs_operand = true,
    .operand = CTL_JOB,
    CTL_SAYS(MSG_DESCRIBE, describe.job),
    .rows = {MSG_JOB_ROW, MSG_CONDITION_ROW, MSG_POOL_ROW},
    .show = show_describe,
};

const struct ctl_verb ctl_verb_pool = {
    .name = "pool",
    .usage = "tfe-ctl pool [OPTIONS]",
    .about = "show the nodes that take jobs which are handed in, and what they work for",
    .says = MSG_POOL_NODES,
    .rows = {MSG_POOL_ROW},
    .show = show_pool,
};
