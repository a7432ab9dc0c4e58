/* server/ctl/verb.c: what all verbs share: checks the operand, sends the request, shows or
 * confirms the response. */
#include "server/ctl/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/id.h"
#include "common/cli/stdio.h"
#include "common/records/client.h"
#include "common/records/json_text.h"
#include "common/records/schemas.h"
#include "common/text/reason.h"
#include "server/ctl/request.h"

/* Interval of repeated queries. */
#define POLL_NS 500000000L

/* --- operands --- */

static const char *operand_name(enum ctl_operand kind)
{
    static const char *const names[] = {
        [CTL_JOB] = "job", [CTL_NODE] = "node", [CTL_FILE] = "file", [CTL_KEY] = "key"};
    return names[kind];
}

/* Returns true if the operand is valid; otherwise prints the reason on stderr. */
static bool is_valid(enum ctl_operand kind, const char *operand)
{
    static const char *const meanings[] = {
        [CTL_JOB] = "name of a job",
        [CTL_NODE] = "id or label of a node",
        [CTL_FILE] = "name of a file in the server's --backup-dir",
        [CTL_KEY] = "id or label of a key",
    };
    if (kind == CTL_NONE || id_is_valid(operand)) {
        return true;
    }
    struct tfe_reason reason;
    reason_set(&reason, "\"%.128s\" is no %s: " TFE_ID_RULE, operand, meanings[kind]);
    stdio_print_message("tfe-ctl", reason.text);
    return false;
}

/* --- requests --- */

int verb_request(const struct ctl_settings *settings, enum operation_id id, const char *operand,
                 struct record_list *rows)
{
    const struct tfe_msg request = operation_request(id, operand);
    return request_run(settings, &request, rows);
}

int verb_poll(const struct ctl_settings *settings, enum operation_id id, const char *operand,
              bool (*should_continue)(void *ctx, const struct record_list *rows), void *ctx)
{
    while (true) {
        struct record_list rows = {.v = NULL};
        const int status = verb_request(settings, id, operand, &rows);
        const bool is_last = status != EXIT_SUCCESS || !should_continue(ctx, &rows);
        record_list_done(&rows);
        if (is_last) {
            return status;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
}

/* --- output --- */

int verb_print_json(json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(value);
    if (!text) {
        return TFE_ENOMEM;
    }
    (void)puts(text);
    free(text);
    return 0;
}

void verb_print_table(const struct text_table *table, const struct record_list *rows,
                      const char *nothing)
{
    if (text_table_print(table, rows->v, rows->n, 0, stdout) == 0 && nothing) {
        (void)puts(nothing);
    }
}

static int confirm(const struct ctl_verb *verb, const struct ctl_settings *settings,
                   const char *operand)
{
    const char *key = operand_name(verb->operand);
    if (!settings->json) {
        (void)(operand ? printf("%s %s %s\n", key, operand, verb->done) : puts(verb->done));
        return EXIT_SUCCESS;
    }
    json_t *done = json_pack("{s:s}", "done", verb->name);
    if (!done || (operand && json_object_set_new(done, key, json_from_text(operand)) != 0) ||
        verb_print_json(done) != 0) {
        (void)fprintf(stderr,
                      "tfe-ctl: the order was executed, but printing it failed: out of memory\n");
        return CTL_FAILED;
    }
    return EXIT_SUCCESS;
}

/* Prints the response to a query. Returns as the function show of a verb. */
static int print(const struct ctl_verb *verb, const struct ctl_settings *settings,
                 const char *operand, const struct tfe_msg *request, struct record_list *rows)
{
    int rc = operation_arrange(verb->operation, rows);
    if (rc == 0 && settings->json && !verb->shows_json) {
        return verb_print_json(operation_json(verb->operation, rows, request));
    }
    if (rc == 0 && verb->show) {
        return verb->show(settings, operand, rows);
    }
    if (rc == 0) {
        verb_print_table(&verb->table, rows, verb->nothing);
    }
    return rc;
}

static int request_and_print(const struct ctl_verb *verb, const struct ctl_settings *settings,
                             const char *operand)
{
    struct record_list rows = {.v = NULL};
    struct tfe_msg request = operation_request(verb->operation, operand);
    if (verb->set_request) {
        verb->set_request(settings, &request);
    }
    int status = request_run(settings, &request, &rows);
    if (status == EXIT_SUCCESS && client_is_order(request.type)) {
        status = confirm(verb, settings, operand);
    } else if (status == EXIT_SUCCESS) {
        const int rc = print(verb, settings, operand, &request, &rows);
        if (rc != 0 && rc != TFE_EAUTH) {
            (void)fprintf(stderr, "tfe-ctl: %s\n",
                          rc == TFE_ENOMEM ? tfe_error_sentence(rc) : CLIENT_UNEXPECTED_SENTENCE);
        }
        status = rc == 0 ? EXIT_SUCCESS : CTL_FAILED;
    }
    record_list_done(&rows);
    return status == EXIT_SUCCESS && verb->after ? verb->after(settings, operand) : status;
}

/* Finds the only job, or the only one that is not over: *ret is its name, stored in room. Returns
 * as verb_run(). */
static int find_job(const struct ctl_settings *settings, struct tfe_id *buf, const char **ret)
{
    struct record_list rows = {.v = NULL};
    unsigned n = 0;
    unsigned alive = 0;
    int status = verb_request(settings, OPERATION_JOBS, NULL, &rows);
    for (size_t i = 0; i < rows.n; i++) {
        const struct msg_status_job *job = rows.v[i].at;
        if (rows.v[i].schema != &schema_job) {
            continue;
        }
        n++;
        alive += !msg_job_is_over(job->state);
        if (n == 1 || !msg_job_is_over(job->state)) {
            (void)id_set(buf, job->job);
        }
    }
    record_list_done(&rows);
    *ret = buf->text;
    if (status == EXIT_SUCCESS && n != 1 && alive != 1) {
        (void)fprintf(stderr, "tfe-ctl: %s\n",
                      n ? "no job given, and the server has several (tfe-ctl status)"
                        : "there is no job on this server");
        return n ? CTL_USAGE : CTL_FAILED;
    }
    return status;
}

int verb_run(const struct ctl_verb *verb, struct ctl_settings *settings, const char *operand)
{
    if (settings->csv && settings->json) {
        (void)fprintf(stderr, "tfe-ctl: --json and --csv exclude each other\n");
        return CTL_USAGE;
    }
    if (operand && !is_valid(verb->operand, operand)) {
        return CTL_USAGE;
    }
    struct tfe_id only;
    int status = verb->is_local
                     ? EXIT_SUCCESS
                     : request_find_server(settings, operation_needs_admin(verb->operation));
    if (status == EXIT_SUCCESS && verb->finds_job && !operand) {
        status = find_job(settings, &only, &operand);
    }
    if (status == EXIT_SUCCESS) {
        status = verb->run ? verb->run(verb, settings, operand)
                           : request_and_print(verb, settings, operand);
    }
    join_done(&settings->server);
    return status;
}
