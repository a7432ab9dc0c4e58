/* server/ctl/cmd_status.c: tfe-ctl jobs, status, describe: lists jobs, or shows everything about
 * one. */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/cli/option_table.h"
#include "common/cli/stdio.h"
#include "common/records/schemas.h"
#include "common/records/text_table.h"
#include "common/text/escape.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void print_job(const struct msg_status_job *job)
{
    char buf[MSG_SENTENCE_MAX];
    char span[RECORD_TEXT_MAX];
    (void)printf("job %s: %s, run %u, epoch %llu, nodes %u:%u", job->job,
                 msg_job_state_name(job->state), (unsigned)job->run, (unsigned long long)job->epoch,
                 (unsigned)job->min_nodes, (unsigned)job->max_nodes);
    if (job->n_ps > 0) {
        (void)printf(", %u ps", (unsigned)job->n_ps);
    }
    (void)printf("%s%s\n", job->chief ? ", a chief" : "", job->evaluator ? ", an evaluator" : "");
    if (job->workers_working < job->workers) {
        (void)printf("  %u of %u workers", (unsigned)job->workers_working, (unsigned)job->workers);
        if (job->workers_done > 0) {
            (void)printf(" (%u ended with exit status 0)", (unsigned)job->workers_done);
        }
        (void)putchar('\n');
    }
    if (job->alone > 0) {
        (void)printf("  warning: %u of %u nodes do not use the cluster that TF_CONFIG gives them: "
                     "each trains alone\n",
                     (unsigned)job->alone, (unsigned)job->members);
    }
    if (job->reason) {
        (void)printf("  %s%s\n", msg_job_is_over(job->state) ? "" : "last failure: ",
                     escape_text(job->reason, buf, sizeof(buf)));
    }
    if (job->waits) {
        (void)fputs("  ", stdout);
        stdio_print_escaped(stdout, job->waits);
        (void)printf("%s%s\n", job->waits_ms ? ", up to " : "",
                     job->waits_ms ? text_table_duration(job->waits_ms, span) : "");
    }
    if (job->retry_ms > 0) {
        (void)printf("  next try in %s\n", text_table_duration(job->retry_ms, span));
    }
}

/* Prints "last checkpoint: step 120, 35s ago"; nothing if none was reported. */
static void print_saved(const struct msg_status_job *job)
{
    char buf[RECORD_TEXT_MAX];
    const int64_t ago = clock_wall().ms - job->saved.ms;
    if (job->saved.ms == 0) {
        return;
    }
    (void)fputs("  last checkpoint: ", stdout);
    if (job->has_saved) {
        (void)printf("step %llu, ", (unsigned long long)job->saved_step);
    }
    (void)printf("%s ago\n", text_table_duration(ago > 0 ? ago : 0, buf));
}

/* Prints "step 120 of 1000, 12.5 steps/s, 800 samples/s, loss 0.31", and stragglers. */
static void print_progress(const struct msg_status_job *job, const struct record *rows, size_t n)
{
    char name[RECORD_TEXT_MAX];
    if (!job->has_step) {
        return;
    }
    (void)printf("  step %llu", (unsigned long long)job->step);
    if (job->total > 0) {
        (void)printf(" of %llu", (unsigned long long)job->total);
    }
    if (job->has_steps_per_s) {
        (void)printf(", %.4g steps/s", job->steps_per_s);
    }
    if (job->has_samples_per_s) {
        (void)printf(", %.4g samples/s", job->samples_per_s);
    }
    for (size_t i = 0; i < n && rows[i].schema == &schema_point; i++) {
        const struct msg_series_row *point = rows[i].at;
        if (strcmp(point->name, "steps_per_s") != 0 && strcmp(point->name, "samples_per_s") != 0) {
            (void)printf(", %s %.4g", point->name, point->value);
        }
    }
    (void)putchar('\n');
    if (job->slow) {
        (void)printf("  %s is slow: %.1f times the others' median step\n",
                     escape_text(job->slow, name, sizeof(name)),
                     job->straggler_times_milli / 1000.0);
    }
}

/* Prints what single nodes wait for. */
static void print_waits(const struct record_list *rows, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const struct msg_status_node *node = rows->v[i].at;
        char buf[RECORD_TEXT_MAX];
        if (rows->v[i].schema == &schema_node && node->waits) {
            (void)printf("  %s: %s\n",
                         escape_text(node->name[0] ? node->name : node->node, buf, sizeof buf),
                         node->waits);
        }
    }
}

/* Memory has columns only if an agent provides some. */
static void print_nodes(const struct record *rows, size_t n)
{
    static const char *const heads[] = {"NAME",    "NODE", "ROLE",     "RANK",
                                        "ADDRESS", "PID",  "SNAPSHOT", "MEMORY"};
    bool has_memory = false;
    for (size_t i = 0; i < n; i++) {
        const struct msg_status_node *node = rows[i].at;
        has_memory |= rows[i].schema == &schema_node && node->memory.bytes > 0;
    }
    const struct text_table nodes = {&schema_node, heads, COUNT(heads) - (has_memory ? 0 : 2)};
    (void)text_table_print(&nodes, rows, n, 2, stdout);
}

/* Prints problems of the server. Returns the number of their records. */
static size_t print_health(const struct record_list *rows)
{
    size_t n = 0;
    for (; n < rows->n && rows->v[n].schema == &schema_health; n++) {
        const struct msg_health *health = rows->v[n].at;
        char buf[RECORD_TEXT_MAX];
        (void)fputs("server: ", stdout);
        stdio_print_escaped(stdout, health->message);
        (void)printf(" (noticed %s ago)\n", text_table_duration(health->since_ms, buf));
    }
    return n;
}

/* With hides, finished jobs are only counted. */
static void print_table(const struct record_list *rows, bool hides)
{
    unsigned over = 0;
    size_t first = print_health(rows);
    if (rows->n == first) {
        (void)puts("no jobs");
    }
    for (size_t i = first, next; i < rows->n; i = next) {
        const struct msg_status_job *job = rows->v[i].at;
        for (next = i + 1; next < rows->n && rows->v[next].schema != &schema_job; next++) {
        }
        if (hides && msg_job_is_over(job->state)) {
            over++;
            continue;
        }
        (void)printf("%s",
                     i > 0 ? "\n" : ""); /* an empty line after a job or the server's problems */
        print_job(job);
        print_progress(job, &rows->v[i + 1], next - i - 1);
        print_saved(job);
        print_nodes(&rows->v[i + 1], next - i - 1);
        print_waits(rows, i + 1, next);
    }
    if (over > 0) {
        (void)printf("%s%u finished job%s not shown (--all shows %s)\n",
                     over < rows->n - first ? "\n" : "", over, over == 1 ? " is" : "s are",
                     over == 1 ? "it" : "them");
    }
}

/* Prints a value of the job: "text", "a, b", "K=V, FLAG", "ROLE:K=V". */
static void print_value(const json_t *value, const char *between)
{
    char text[MSG_SENTENCE_MAX];
    const char *key;
    json_t *item;
    size_t i;
    if (json_is_string(value)) {
        (void)fputs(escape_text(json_string_value(value), text, sizeof(text)), stdout);
    } else if (json_is_integer(value)) {
        (void)printf("%lld", (long long)json_integer_value(value));
    }
    json_array_foreach((json_t *)(uintptr_t)value, i, item)
    {
        (void)fputs(i > 0 ? between : "", stdout);
        print_value(item, between);
    }
    i = 0;
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        (void)printf("%s%s%s", i++ > 0 ? between : "", escape_text(key, text, sizeof(text)),
                     json_is_true(item)     ? ""
                     : json_is_object(item) ? ":"
                                            : "=");
        print_value(item, between);
    }
}

/* Prints each field of the job that is not false, null or empty. */
static void print_spec(const char *spec)
{
    json_t *job = json_loads(spec, 0, NULL);
    const char *field;
    json_t *value;
    json_object_foreach(job, field, value)
    {
        const bool is_set = json_is_true(value) || json_is_string(value) ||
                            json_is_integer(value) || json_array_size(value) > 0 ||
                            json_object_size(value) > 0;
        if (is_set && strcmp(field, "name") != 0) {
            (void)printf("  %s%s", field, json_is_true(value) ? "" : " ");
            print_value(value, strcmp(field, "command") == 0 ? " " : ", ");
            (void)putchar('\n');
        }
    }
    json_decref(job);
}

static void print_submission(const struct msg_status_job *job)
{
    char buf[RECORD_TEXT_MAX];
    if (!job->is_submitted) {
        (void)puts("\n  opened by manually started agents");
        return;
    }
    (void)printf("\n  submitted %s, priority %u, %u %s of the pool\n",
                 text_table_time(job->created.ms, buf), (unsigned)job->priority,
                 (unsigned)job->n_assigned, job->n_assigned == 1 ? "node" : "nodes");
    if (job->spec) {
        print_spec(job->spec);
    }
}

/* Prints the remaining details of the requested job. */
static void print_detail(const struct record_list *rows)
{
    static const char *const condition_heads[] = {"CONDITION", "STATUS", "REASON", "AT", "MESSAGE"};
    static const char *const node_heads[] = {"NAME",  "NODE", "STATE", "SINCE", "ROLE",
                                             "CORES", "GPUS", "SPOT",  "LABELS"};
    static const struct text_table conditions = {&schema_condition, condition_heads,
                                                 COUNT(condition_heads)};
    static const struct text_table nodes = {&schema_pool_node, node_heads, COUNT(node_heads)};
    const struct msg_status_job *job = NULL;
    for (size_t i = 0; i < rows->n && !job; i++) {
        job = rows->v[i].schema == &schema_job ? rows->v[i].at : NULL;
    }
    if (!job) {
        return;
    }
    print_submission(job);
    (void)putchar('\n');
    (void)text_table_print(&conditions, rows->v, rows->n, 2, stdout);
    if (job->n_assigned > 0) {
        (void)puts("\n  nodes of the pool:");
        (void)text_table_print(&nodes, rows->v, rows->n, 2, stdout);
    }
}

static int show_jobs(const struct ctl_settings *settings, const char *operand,
                     struct record_list *rows)
{
    (void)print_health(rows);
    verb_print_table(&ctl_verb_jobs.table, rows, "no jobs");
    return 0;
}

static int show(const struct ctl_settings *settings, const char *job, struct record_list *rows)
{
    print_table(rows, !settings->all && !job);
    if (job) {
        print_detail(rows);
    }
    return 0;
}

static void set_detail(const struct ctl_settings *settings, struct tfe_msg *request)
{
    request->u.status.detail = request->u.status.job != NULL;
}

static const struct option_spec options[] = {
    FLAG("all", all, "also show finished jobs"),
};

const struct ctl_verb ctl_verb_jobs = {
    .name = "jobs",
    .about = "list jobs, one per line: state, sizes, and the reason of a wait or failure",
    .operation = OPERATION_JOBS,
    CTL_COLUMNS(schema_job, "JOB", "STATE", "PRIORITY", "MIN", "MAX", "PS", "NODES", "SINCE",
                "REASON"),
    .show = show_jobs,
};

const struct ctl_verb ctl_verb_status = {
    .name = "status",
    .operands = "[JOB]",
    .about = "show jobs with their nodes; with JOB all details, as describe",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .operand = CTL_JOB,
    .operation = OPERATION_STATUS,
    .set_request = set_detail,
    .show = show,
};

const struct ctl_verb ctl_verb_describe = {
    .name = "describe",
    .operands = "JOB",
    .about = "show all details of a job: nodes, conditions, command, reason of a wait or failure",
    .operand = CTL_JOB,
    .operation = OPERATION_JOB,
    .show = show,
};
