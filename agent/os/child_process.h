/* agent/os/child_process.h: runs a command or a function in a child process, with a time limit. The
 * child has a session of its own without a terminal; its process group is killed when the child
 * ends. The last line of its output is kept. */
#ifndef TFE_AGENT_OS_CHILD_PROCESS_H
#define TFE_AGENT_OS_CHILD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/cli/options.h"
#include "common/message/msg.h"
#include "common/text/reason.h"

struct event_base;
struct child_process;

struct child_process_result {
    bool is_late; /* the child exceeded its time limit and was killed */
    int status;   /* wait status; -1 if is_late, or if another part of this process reaped it */
    char line[MSG_SENTENCE_MAX]; /* last non-empty line of output, escaped; "" if there is none */
};

/* Options of a run. Pointers are borrowed until child_process_free(). */
struct child_process_config {
    struct event_base *base;
    const char *command; /* run by sh with env; NULL for run() */
    char *const *env;    /* NULL-terminated */
    /* Runs in the child with ctx, instead of a command, and must not return. */
    void (*run)(void *ctx);
    bool as_trainer;         /* run as the trainers' user (trainer_user.h) */
    const char *directory;   /* working directory, entered with that user's rights; NULL for none */
    bool ignores_stderr;     /* take the last line from stdout alone */
    bool shares_stderr;      /* stderr is that of this process, for log entries of run() */
    const char *line_prefix; /* a line with this prefix counts as the last one; NULL for none */
    uint32_t limit_ms;       /* 0 for no limit */
    /* Called once from the event loop when the child has ended. May call child_process_free(). */
    void (*ended)(void *ctx, const struct child_process_result *result);
    void *ctx;
};

/* Starts the child. *c is the previous run, which is freed, or NULL. Returns 0, or TFE_ESYS with
 * *reason, also if processes of the previous run still exist; then ended is not called. */
int child_process_start(const struct child_process_config *config, struct child_process **c,
                        struct tfe_reason *reason) TFE_MUST_CHECK;

/* Kills the child; ended follows. */
void child_process_kill(struct child_process *c);

/* Kills the child if it runs, without calling ended, and frees it. NULL is allowed. */
void child_process_free(struct child_process *c);

/* Returns true if the child exited with status 0. */
bool child_process_succeeded(const struct child_process_result *result);

/* Makes commands of later children run in the present working directory, whatever directory this
 * process enters afterwards. */
void child_process_stay(void);

/* Returns this process's environment, NULL-terminated, without TFE_ variables and variables of
 * options, which may contain a token. The caller frees the array; its strings are borrowed from
 * the environment. */
char **child_process_env(const struct option_table *options);

#endif
