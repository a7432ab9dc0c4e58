/* server/ctl/verb.c: what all verbs share: checks the operand, sends the request, shows or
 * confirms the response. */
#include "server/ctl/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/cli/stdio.h"
#include "common/records/client.h"
#include "common/records/json_text.h"
#include "common/records/record_order.h"
#include "common/records/schemas.h"
#include "common/text/reason.h"
#include "server/ctl/request.h"

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

int verb_ask(const struct ctl_verb *verb, const struct ctl_settings *settings, const char *operand,
             struct record_list *rows)
{
    struct tfe_msg message = {.type = verb->says};
    if (verb->operand_at > 0) {
        memcpy((char *)&message + verb->operand_at, &operand, sizeof(operand));
    }
    if (verb->say_more) {
        verb->say_more(settings, &message);
    }
    return request_run(settings, verb, &message, rows);
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

int verb_show_table(const struct ctl_settings *settings, const char *name,
                    const struct text_table *table, const struct record_list *rows,
                    const char *nothing)
{
    if (settings->json) {
        return verb_print_json(json_pack("{s:o}", name, record_list_json(rows, table->schema)));
    }
    if (text_table_print(table, rows->v, rows->n, 0, stdout) == 0 && nothing) {
        (void)puts(nothing);
    }
    return 0;
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
        (void)fprintf(stderr, "tfe-ctl: it is done, but there is no memory to say so\n");
        return CTL_FAILED;
    }
    return EXIT_SUCCESS;
}

static int show(const struct ctl_verb *verb, const struct ctl_settings *settings,
                const char *operand, struct record_list *rows)
{
    int rc = verb->show(settings, operand, rows);
    if (rc != 0 && rc != TFE_EAUTH) {
        (void)fprintf(stderr, "tfe-ctl: %s\n",
                      rc == TFE_ENOMEM ? tfe_error_sentence(rc) : CLIENT_UNEXPECTED_SENTENCE);
    }
    return rc == 0 ? EXIT_SUCCESS : CTL_FAILED;
}

static int ask_and_show(const struct ctl_verb *verb, const struct ctl_settings *settings,
                        const char *operand)
{
    struct record_list rows = {.v = NULL};
    int status = verb_ask(verb, settings, operand, &rows);
    if (status == EXIT_SUCCESS) {
        status =
            verb->show ? show(verb, settings, operand, &rows) : confirm(verb, settings, operand);
    }
    record_list_done(&rows);
    return status == EXIT_SUCCESS && verb->after ? verb->after(settings, operand) : status;
}

/* Finds the only job, or the only one that is not over: *ret is its name, stored in room. Returns
 * as verb_run(). */
static int find_job(const struct ctl_settings *settings, struct tfe_id *room, const char **ret)
{
    struct record_list rows = {.v = NULL};
    unsigned n = 0;
    unsigned alive = 0;
    int status = verb_ask(&ctl_verb_status, settings, NULL, &rows);
    for (size_t i = 0; i < rows.n; i++) {
        const struct msg_status_job *job = rows.v[i].at;
        if (rows.v[i].schema != &schema_job) {
            continue;
        }
        n++;
        alive += !records_job_is_over(job);
        if (n == 1 || !records_job_is_over(job)) {
            (void)id_set(room, job->job);
        }
    }
    record_list_done(&rows);
    *ret = room->text;
    if (status == EXIT_SUCCESS && n != 1 && alive != 1) {
        (void)fprintf(stderr, "tfe-ctl: %s\n",
                      n ? "which job? there are several (tfe-ctl status)"
                        : "there is no job on this server");
        return n ? CTL_USAGE : CTL_FAILED;
    }
    return status;
}

int verb_run(const struct ctl_verb *verb, struct ctl_settings *settings, const char *operand)
{
    if (settings->csv && settings->json) {
        (void)fprintf(stderr, "tfe-ctl: --json and --csv are two forms, choose one\n");
        return CTL_USAGE;
    }
    if (operand && !is_valid(verb->operand, operand)) {
        return CTL_USAGE;
    }
    struct tfe_id only;
    int status = verb->asks_nobody ? EXIT_SUCCESS : request_find_server(settings, verb);
    if (status == EXIT_SUCCESS && verb->finds_job && !operand) {
        status = find_job(settings, &only, &operand);
    }
    if (status == EXIT_SUCCESS) {
        status =
            verb->run ? verb->run(verb, settings, operand) : ask_and_show(verb, settings, operand);
    }
    join_done(&settings->server);
    return status;
}
