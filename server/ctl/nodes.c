/* server/ctl/nodes.c: tfe-ctl nodes: one line per node, whatever its job. */
#include <stdio.h>
#include <stdlib.h>

#include "common/net/heap.h"
#include "server/ctl/status.h"
#include "server/ctl/verb.h"

static int fill(struct table *t, const struct snapshot *s)
{
    static const char *const heads[] = {"JOB", "NAME", "NODE", "ROLE", "RANK", "ADDRESS", "PID"};
    t->n_columns = sizeof(heads) / sizeof(heads[0]);
    int err = 0;
    for (size_t i = 0; err == 0 && i < t->n_columns; i++) {
        err = table_add(t, heads[i]);
    }
    for (size_t i = 0; err == 0 && i < s->n_jobs; i++) {
        const struct snapshot_job *job = &s->jobs[i];
        for (size_t k = 0; err == 0 && k < job->n_nodes; k++) {
            err = table_add(t, job->job.job);
            if (err == 0) {
                err = status_add_cells(t, &s->nodes[job->first_node + k]);
            }
        }
    }
    return err;
}

static int print_table(const struct snapshot *s)
{
    struct table t = {.n_columns = 0};
    if (s->n_nodes == 0) {
        (void)puts("no nodes");
        return 0;
    }
    int err = fill(&t, s);
    if (err == 0) {
        table_print(&t, 0, stdout);
    }
    table_done(&t);
    return err;
}

static int print_json(const struct snapshot *s)
{
    struct json j;
    const char *text;
    size_t n;
    json_init(&j, &heap_mem);
    json_begin_object(&j, NULL);
    json_begin_array(&j, "nodes");
    for (size_t i = 0; i < s->n_jobs; i++) {
        const struct snapshot_job *job = &s->jobs[i];
        for (size_t k = 0; k < job->n_nodes; k++) {
            status_write_node(&j, &s->nodes[job->first_node + k], job->job.job);
        }
    }
    json_end_array(&j);
    json_end_object(&j);
    int err = json_finish(&j, &text, &n);
    if (err == 0) {
        (void)fwrite(text, 1, n, stdout);
        (void)putchar('\n');
    }
    json_done(&j);
    return err;
}

static int run(const struct ctl_settings *settings, char **operands, int n_operands)
{
    struct snapshot snapshot = {.jobs = NULL};
    int status = status_ask(settings, n_operands > 0 ? operands[0] : NULL, &snapshot);
    if (status == EXIT_SUCCESS &&
        (settings->json ? print_json(&snapshot) : print_table(&snapshot)) != 0) {
        (void)fprintf(stderr, "tfe-ctl: out of memory\n");
        status = CTL_FAILED;
    }
    snapshot_done(&snapshot);
    return status;
}

const struct ctl_verb ctl_verb_nodes = {
    .name = "nodes",
    .usage = "tfe-ctl nodes [OPTIONS] [JOB]",
    .about = "show all nodes, or those of one job",
    .operands_min = 0,
    .operands_max = 1,
    .run = run,
};
