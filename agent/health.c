/* agent/health.c: runs the --check commands.
 *
 *   UNKNOWN --health_is_good--> RUNNING --all passed--> GOOD
 *      ^                         |   ^                   |
 *      |                      failed |                   |
 *      |                         v   | after a while     |
 *      |                        WAITING                  |
 *      '-----------------health_forget-------------------'
 */
#include "agent/health.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/os/child_process.h"
#include "common/base/heap.h"
#include "common/base/id.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/text/escape.h"

/* Time limit of a check. nvidia-smi takes up to 20 s on a machine with eight GPUs. */
#define CHECK_LIMIT_MS 60000
/* Delay before failed checks are repeated. */
#define CHECK_AGAIN_MS 10000

struct health {
    struct health_config config;
    enum { UNKNOWN, RUNNING, WAITING, GOOD } state;
    size_t next;                   /* index of the running check */
    struct child_process *command; /* the last run; NULL before the first one */
    struct event *again;
    char **env;
};

static void run_next(struct health *h);

static void finish(struct health *h, const char *reason)
{
    char line[TFE_LABEL_MAX + 1];
    if (!reason) {
        h->state = GOOD;
        h->config.result(h->config.ctx, NULL);
        return;
    }
    (void)escape_text(reason, line, sizeof line);
    log_warn("check_failed", LOG_S("check", h->config.checks->v[h->next]), LOG_S("reason", line));
    h->state = WAITING;
    timer_after(h->again, CHECK_AGAIN_MS);
    h->config.result(h->config.ctx, line);
}

static void on_ended(void *ctx, const struct child_process_result *result)
{
    struct health *h = ctx;
    char text[MSG_SENTENCE_MAX];
    if (child_process_succeeded(result)) {
        h->next++;
        run_next(h);
        return;
    }
    if (result->is_late) {
        snprintf(text, sizeof text, "no result within %d s: %.200s", CHECK_LIMIT_MS / 1000,
                 h->config.checks->v[h->next]);
    } else if (result->line[0]) {
        snprintf(text, sizeof text, "%s", result->line);
    } else if (result->status >= 0 && WIFEXITED(result->status)) {
        snprintf(text, sizeof text, "exit status %d of: %.200s", WEXITSTATUS(result->status),
                 h->config.checks->v[h->next]);
    } else {
        snprintf(text, sizeof text, "killed by a signal: %.200s", h->config.checks->v[h->next]);
    }
    finish(h, text);
}

static void run_next(struct health *h)
{
    struct tfe_reason reason;
    if (h->next == h->config.checks->n) {
        finish(h, NULL);
        return;
    }
    const struct child_process_config config = {.base = h->config.base,
                                                .command = h->config.checks->v[h->next],
                                                .env = h->env,
                                                .as_trainer = true,
                                                .limit_ms = CHECK_LIMIT_MS,
                                                .ended = on_ended,
                                                .ctx = h};
    if (child_process_start(&config, &h->command, &reason)) {
        finish(h, reason.text);
    }
}

static void begin(struct health *h)
{
    h->state = RUNNING;
    h->next = 0;
    run_next(h);
}

static void on_again(evutil_socket_t fd, short what, void *ctx)
{
    begin(ctx);
}

bool health_is_good(struct health *h)
{
    if (h->config.checks->n == 0) {
        return true;
    }
    if (h->state == UNKNOWN) {
        h->state = RUNNING;
        timer_after(h->again, 0); /* so that result() is not called from inside this function */
    }
    return h->state == GOOD;
}

void health_forget(struct health *h)
{
    if (h->state == GOOD) {
        h->state = UNKNOWN;
    }
}

struct health *health_new(const struct health_config *config)
{
    struct health *h = must_alloc(sizeof *h);
    *h = (struct health){.config = *config,
                         .again = evtimer_new(config->base, on_again, h),
                         .env = child_process_env(config->options)};
    must_succeed(h->again);
    return h;
}

void health_free(struct health *h)
{
    if (h) {
        child_process_free(h->command);
        event_drop(&h->again);
        free(h->env);
        free(h);
    }
}
