/* agent/preemption/notice_command.c: runs a user's command every few seconds. Exit status 0 is a
 * notice; the command may print the number of seconds left. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "agent/os/child_process.h"
#include "agent/preemption/source.h"

struct command_source {
    char **env;
    struct child_process *command; /* the last run; NULL before the first one */
};

static void apply_result(struct source *s, const struct child_process_result *result)
{
    struct tfe_mono deadline;
    char reason[64];
    const int status = result->status;
    if (result->is_late) {
        source_failed(s, s->options->choice->command,
                      "the command did not end in time and was killed");
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127) {
        snprintf(reason, sizeof reason,
                 WIFEXITED(status) ? "exit status %d: the command cannot be run" : "signal %d",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        source_failed(s, s->options->choice->command, reason);
    } else if (WEXITSTATUS(status) != 0) {
        source_works(s);
        source_withdraw(s, NOTICE_PREEMPT);
    } else {
        const bool is_number = source_seconds(result->line, &deadline);
        source_works(s);
        /* The first number sets the deadline; later ones may count down. */
        source_set(s, NOTICE_PREEMPT, "", is_number ? deadline : source_grace(s), !is_number);
    }
}

static void on_ended(void *ctx, const struct child_process_result *result)
{
    struct source *s = ctx;
    if (result->status >= 0 || result->is_late) {
        apply_result(s, result);
    }
    source_poll_after(&s->poll, s->options->intervals->command_ms);
}

static void turn(struct source_poll *poll)
{
    struct source *s = poll->source;
    struct command_source *own = s->own;
    struct tfe_reason reason;
    const struct child_process_config config = {
        .base = s->base,
        .command = s->options->choice->command,
        .env = own->env,
        .ignores_stderr = true,
        .limit_ms = s->options->intervals->command_within_ms,
        .ended = on_ended,
        .ctx = s,
    };
    if (child_process_start(&config, &own->command, &reason) == 0) {
        return;
    }
    source_failed(s, config.command, reason.text);
    source_poll_after(poll, s->options->intervals->command_ms);
}

static void start(struct source *s)
{
    ((struct command_source *)s->own)->env = child_process_env(s->options->options);
}

static void stop(struct source *s)
{
    struct command_source *own = s->own;
    child_process_free(own->command);
    own->command = NULL;
    free(own->env);
    own->env = NULL;
}

const struct source_ops source_command = {.name = "command",
                                          .size = sizeof(struct command_source),
                                          .turn = turn,
                                          .start = start,
                                          .stop = stop};
