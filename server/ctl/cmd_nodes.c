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
static const char *const heads[] = {
    "JOB",  "NAME",  "NODE", "ROLE", "RANK",    "ADDRESS", "PID",     "TYPE",   "SPOT",
    "ZONE", "CORES", "GPUS", "LOAD", "STEP MS", "TIMES",   "STANDBY", "NOTICE", "FAILED CHECK"};
_Static_assert(COUNT(heads) <= TEXT_TABLE_COLUMNS_MAX, "as many as a table has");

/* --- sorting --- */

/* Sort keys (names of JSON fields); numbers sort descending. */
static const char *const sorts[] = {"job", "times", "step", "load", "cores", "memory", NULL};
static const char *const sort_keys[] = {NULL, "times", "step_ms", "load", "cores", "memory_mib"};
_Static_assert(COUNT(sorts) == COUNT(sort_keys) + 1, "one each");

struct ranked {
    struct record row;
    double by; /* below 0 if unknown */
    size_t at;
};

static int compare(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;
    return a->by != b->by ? (a->by < b->by) - (a->by > b->by) : (a->at > b->at) - (a->at < b->at);
}

static double number_of(const struct record *row, const char *key)
{
    char room[RECORD_TEXT_MAX];
    const void *at = row->at;
    const struct record_field *f = record_find_field(row->schema, key, NULL, &at);
    const struct record_value value = record_value(f, at, room);
    return value.form == RECORD_IS_REAL     ? value.real
           : value.form == RECORD_IS_NUMBER ? (double)value.number
                                            : -1;
}

static int sort(struct record_list *rows, const char *key)
{
    struct ranked *all = calloc(rows->n + 1, sizeof(*all));
    size_t n = 0;
    if (!all) {
        return TFE_ENOMEM;
    }
    for (size_t i = 0; i < rows->n; i++) {
        const bool is_node = rows->v[i].schema == &schema_node_of_job;
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

static bool says_something(const struct record_list *rows, const char *head)
{
    char room[RECORD_TEXT_MAX];
    for (size_t i = 0; i < rows->n; i++) {
        const void *at = rows->v[i].at;
        const struct record_field *f = rows->v[i].schema == &schema_node_of_job
                                           ? record_find_field(&schema_node_of_job, NULL, head, &at)
                                           : NULL;
        if (f && record_value(f, at, room).form != RECORD_NONE) {
            return true;
        }
    }
    return false;
}

static void print_table(const struct record_list *rows)
{
    const char *shown[COUNT(heads)];
    struct text_table nodes = {&schema_node_of_job, shown, 0};
    for (size_t i = 0; i < COUNT(heads); i++) {
        if (i < HEADS_ALWAYS || says_something(rows, heads[i])) {
            shown[nodes.n_columns++] = heads[i];
        }
    }
    if (text_table_print(&nodes, rows->v, rows->n, 0, stdout) == 0) {
        (void)puts("no nodes");
    }
}

static int show(const struct ctl_settings *settings, const char *operand, struct record_list *rows)
{
    const struct msg_status_job *job = NULL;
    int rc = records_sort_status(rows);
    (void)operand;
    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; i < rows->n; i++) {
        if (rows->v[i].schema == &schema_job) {
            job = rows->v[i].at;
        } else if (job && rows->v[i].schema == &schema_node) {
            ((struct node_record *)rows->v[i].at)->job = job->job;
            rows->v[i].schema = &schema_node_of_job;
        }
    }
    if (settings->sort > 0) {
        rc = sort(rows, sort_keys[settings->sort]);
        if (rc != 0) {
            return rc;
        }
    }
    if (settings->json) {
        return verb_print_json(
            json_pack("{s:o}", "nodes", record_list_json(rows, &schema_node_of_job)));
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
