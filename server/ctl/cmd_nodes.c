/* server/ctl/cmd_nodes.c: tfe-ctl nodes: one line per node, of all jobs or of one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli/option_table.h"
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
    char buf[RECORD_TEXT_MAX];
    const void *at = row->at;
    const struct record_field *f = record_find_field(row->schema, key, NULL, &at);
    const struct record_value value = record_value(f, at, buf);
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

static bool has_values(const struct record_list *rows, const char *head)
{
    char buf[RECORD_TEXT_MAX];
    for (size_t i = 0; i < rows->n; i++) {
        const void *at = rows->v[i].at;
        const struct record_field *f = rows->v[i].schema == &schema_node_of_job
                                           ? record_find_field(&schema_node_of_job, NULL, head, &at)
                                           : NULL;
        if (f && record_value(f, at, buf).form != RECORD_NONE) {
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
        if (i < HEADS_ALWAYS || has_values(rows, heads[i])) {
            shown[nodes.n_columns++] = heads[i];
        }
    }
    if (text_table_print(&nodes, rows->v, rows->n, 0, stdout) == 0) {
        (void)puts("no nodes");
    }
}

/* With --sort in JSON as well. */
static int show(const struct ctl_settings *settings, const char *operand, struct record_list *rows)
{
    const int rc = settings->sort > 0 ? sort(rows, sort_keys[settings->sort]) : 0;
    if (rc == 0 && settings->json) {
        return verb_print_json(operation_json(OPERATION_NODES, rows, NULL));
    }
    if (rc == 0) {
        print_table(rows);
    }
    return rc;
}

static const struct option_spec options[] = {
    WORD("sort", sort, sorts, "WHAT", "job",
         "sort by job, times (step time relative to other nodes), step, load, cores or memory, "
         "highest first"),
};

const struct ctl_verb ctl_verb_nodes = {
    .name = "nodes",
    .operands = "[JOB]",
    .about = "show all nodes, or those of one job",
    .options = options,
    .n_options = COUNT(options),
    .operand = CTL_JOB,
    .operation = OPERATION_NODES,
    .show = show,
    .shows_json = true,
};
