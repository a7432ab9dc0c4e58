/* server/ctl/cmd_nodes.c: tfe-ctl nodes: one line per node, of all jobs or of one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli/option_table.h"
#include "common/records/json_text.h"
#include "common/records/record_order.h"
#include "common/records/schemas.h"
#include "common/records/text_table.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Number of columns that are always shown; others only if a node has a value. */
#define HEADS_ALWAYS 7
static const char *const heads[] = {"JOB",  "NAME",    "NODE",  "ROLE",    "RANK",  "ADDRESS",
                                    "PID",  "TYPE",    "SPOT",  "ZONE",    "CORES", "GPUS",
                                    "LOAD", "STEP MS", "TIMES", "STANDBY", "NOTICE"};
_Static_assert(COUNT(heads) <= ROW_TABLE_COLUMNS_MAX, "as many as a table has");

/* --- sorting --- */

/* Sort keys (names of JSON fields); numbers sort descending. */
static const char *const sorts[] = {"job", "times", "step", "load", "cores", "memory", NULL};
static const char *const sort_keys[] = {NULL, "times", "step_ms", "load", "cores", "memory_mib"};
_Static_assert(COUNT(sorts) == COUNT(sort_keys) + 1, "one each");

struct ranked {
    struct row row;
    double by; /* below 0 if unknown */
    size_t at;
};

static int compare(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;
    return a->by != b->by ? (a->by < b->by) - (a->by > b->by) : (a->at > b->at) - (a->at < b->at);
}

static double number_of(const struct row *row, const char *key)
{
    char room[ROW_ROOM];
    const void *at = row->at;
    const struct row_field *f = row_find(row->kind, key, NULL, &at);
    const struct row_value value = row_value(f, at, room);
    return value.form == ROW_IS_REAL     ? value.real
           : value.form == ROW_IS_NUMBER ? (double)value.number
                                         : -1;
}

static int sort(struct row_list *rows, const char *key)
{
    struct ranked *all = calloc(rows->n + 1, sizeof(*all));
    size_t n = 0;
    if (!all) {
        return TFE_ENOMEM;
    }
    for (size_t i = 0; i < rows->n; i++) {
        const bool is_node = rows->v[i].kind == &kind_node_of_job;
        all[n++] = (struct ranked){rows->v[i], is_node ? number_of(&rows->v[i], key) : -2, i};
    }
    qsort(all, n, sizeof(*all), compare);
    for (size_t i = 0; i < n; i++) {
        rows->v[i] = all[i].row;
    }
    free(all);
    return 0;
}

/* --- output for people --- */

static bool says_something(const struct row_list *rows, const char *head)
{
    char room[ROW_ROOM];
    for (size_t i = 0; i < rows->n; i++) {
        const void *at = rows->v[i].at;
        const struct row_field *f = rows->v[i].kind == &kind_node_of_job
                                        ? row_find(&kind_node_of_job, NULL, head, &at)
                                        : NULL;
        if (f && row_value(f, at, room).form != ROW_NONE) {
            return true;
        }
    }
    return false;
}

static void print_table(const struct row_list *rows)
{
    const char *shown[COUNT(heads)];
    struct row_table nodes = {&kind_node_of_job, shown, 0};
    for (size_t i = 0; i < COUNT(heads); i++) {
        if (i < HEADS_ALWAYS || says_something(rows, heads[i])) {
            shown[nodes.n_columns++] = heads[i];
        }
    }
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
        } else if (job && rows->v[i].kind == &kind_node) {
            ((struct node_row *)rows->v[i].at)->job = job->job;
            rows->v[i].kind = &kind_node_of_job;
        }
    }
    if (settings->sort > 0) {
        rc = sort(rows, sort_keys[settings->sort]);
        if (rc != 0) {
            return rc;
        }
    }
    if (settings->json) {
        return verb_print_json(json_pack("{s:o}", "nodes", row_list_json(rows, &kind_node_of_job)));
    }
    print_table(rows);
    return 0;
}

static const struct option_spec options[] = {
    WORD("sort", sort, sorts, "WHAT", "job",
         "the most first: job, times (a step beside the others'), step, load, cores, memory"),
};

const struct ctl_verb ctl_verb_nodes = {
    .name = "nodes",
    .usage = "tfe-ctl nodes [OPTIONS] [JOB]",
    .about = "show all nodes, or those of one job",
    .options = options,
    .n_options = COUNT(options),
    .operand = CTL_JOB,
    CTL_SAYS(MSG_STATUS, status.job),
    .rows = {MSG_STATUS_JOB, MSG_STATUS_NODE, MSG_HEALTH, MSG_SERIES_ROW},
    .show = show,
};
