/* server/ctl/nodes.c: tfe-ctl nodes: one line per node, whatever its job. */
#include <stdio.h>

#include "common/rows/json.h"
#include "common/rows/kinds.h"
#include "common/rows/table.h"
#include "server/ctl/order.h"
#include "server/ctl/verb.h"

static void print_table(const struct row_list *rows)
{
    static const char *const heads[] = {"JOB", "NAME", "NODE", "ROLE", "RANK", "ADDRESS", "PID"};
    static const struct row_table nodes = {&kind_node_of_job, heads,
                                           sizeof(heads) / sizeof(heads[0])};
    if (row_table_print(&nodes, rows->v, rows->n, 0, stdout) == 0) {
        (void)puts("no nodes");
    }
}

static int show(const struct ctl_settings *settings, const char *operand, struct row_list *rows)
{
    const struct msg_status_job *job = NULL;
    int rc = order_status(rows);
    (void)operand;
    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; i < rows->n; i++) {
        if (rows->v[i].kind == &kind_job) {
            job = rows->v[i].at;
        } else if (job) { /* order_status has seen to it */
            ((struct node_row *)rows->v[i].at)->job = job->job;
            rows->v[i].kind = &kind_node_of_job;
        }
    }
    if (settings->json) {
        return verb_print_json(json_pack("{s:o}", "nodes", row_list_json(rows, &kind_node_of_job)));
    }
    print_table(rows);
    return 0;
}

const struct ctl_verb ctl_verb_nodes = {
    .name = "nodes",
    .usage = "tfe-ctl nodes [OPTIONS] [JOB]",
    .about = "show all nodes, or those of one job",
    .operand = CTL_JOB,
    CTL_SAYS(MSG_STATUS, status.job),
    .rows = {MSG_STATUS_JOB, MSG_STATUS_NODE, MSG_HEALTH},
    .show = show,
};
