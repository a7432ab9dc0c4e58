/* server/ctl/cmd_wait.c: tfe-ctl wait: waits until a job is over; its exit code is the job's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cli/option_table.h"
#include "common/cli/stdio.h"
#include "common/records/schemas.h"
#include "common/records/text_table.h"
#include "common/text/escape.h"
#include "server/ctl/progress_line.h"
#include "server/ctl/terminal.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

/* Returns NULL if the job does not exist. */
static const struct msg_status_job *job_of(const struct record_list *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        if (rows->v[i].schema == &schema_job) {
            return rows->v[i].at;
        }
    }
    return NULL;
}

/* On a terminal, overwrites one line; elsewhere prints a line when something other than the
 * progress has changed. */
static void show_progress(const struct msg_status_job *job, bool is_terminal,
                          char last_line[RECORD_TEXT_MAX])
{
    char line[PROGRESS_LINE_MAX];
    char news[RECORD_TEXT_MAX];
    struct progress p = progress_of(job);
    if (is_terminal) {
        progress_line(&p, terminal_width(), terminal_is_utf8(), line);
        (void)fprintf(stderr, "\r\033[K%s", line);
        return;
    }
    (void)snprintf(news, sizeof(news), "%s, run %u, epoch %llu%s%.200s",
                   msg_job_state_name(job->state), (unsigned)job->run,
                   (unsigned long long)job->epoch, job->waits ? ": " : "",
                   job->waits ? job->waits : "");
    if (strcmp(news, last_line) != 0) {
        stdio_print_escaped(stderr, news);
        (void)fputc('\n', stderr);
        (void)snprintf(last_line, RECORD_TEXT_MAX, "%s", news);
    }
}

static int end(const struct ctl_settings *settings, const struct msg_status_job *job)
{
    const char *state = msg_job_state_name(job->state);
    char buf[MSG_SENTENCE_MAX];
    const char *reason = job->reason ? escape_text(job->reason, buf, sizeof(buf)) : NULL;
    if (settings->json) {
        if (verb_print_json(json_pack("{s:s, s:i, s:s, s:s?}", "job", job->job, "run",
                                      (int)job->run, "state", state, "reason", reason)) != 0) {
            return CTL_FAILED;
        }
    } else {
        (void)printf("job %s: %s, run %u%s%s\n", job->job, state, (unsigned)job->run,
                     reason ? ": " : "", reason ? reason : "");
    }
    return job->state == STATE_SUCCEEDED ? EXIT_SUCCESS : CTL_FAILED;
}

struct waiting {
    const struct ctl_settings *settings;
    bool is_terminal;
    char last_line[RECORD_TEXT_MAX]; /* the last line of progress */
    int status;                      /* exit code of the job */
};

/* Returns true while the job is not over. */
static bool should_continue(void *ctx, const struct record_list *rows)
{
    struct waiting *w = ctx;
    const struct msg_status_job *job = job_of(rows);
    const bool is_last = !job || msg_job_is_over(job->state);
    if (job && w->settings->progress) {
        show_progress(job, w->is_terminal, w->last_line);
    }
    if (is_last && w->settings->progress && w->is_terminal) {
        (void)fputc('\n', stderr);
    }
    if (job && is_last) {
        w->status = end(w->settings, job);
    }
    return !is_last;
}

int verb_wait(const struct ctl_settings *settings, const char *name)
{
    struct waiting w = {.settings = settings, .is_terminal = isatty(STDERR_FILENO)};
    const int status = verb_poll(settings, OPERATION_CONDITIONS, name, should_continue, &w);
    return status == EXIT_SUCCESS ? w.status : status;
}

static int run(const struct ctl_verb *verb, const struct ctl_settings *settings, const char *name)
{
    (void)verb;
    return verb_wait(settings, name);
}

static const struct option_spec options[] = {
    FLAG("progress", progress,
         "show progress, rate and remaining time on stderr, if the scripts report them"),
};

const struct ctl_verb ctl_verb_wait = {
    .name = "wait",
    .operands = "[JOB]",
    .about = "wait until a job ends; exit 0 if it succeeded, 1 if it failed or was cancelled",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .finds_job = true,
    .operand = CTL_JOB,
    .run = run,
};
