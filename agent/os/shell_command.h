/* agent/os/shell_command.h: runs a command of the user by sh, in a process group of its own that
 * is killed with it, within a time limit, and keeps the last line that it prints. */
#ifndef TFE_AGENT_REACH_SHELL_COMMAND_H
#define TFE_AGENT_REACH_SHELL_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/cli/options.h"
#include "common/message/msg.h"
#include "common/text/reason.h"

struct event_base;
struct shell_command;

struct shell_command_result {
    bool is_late; /* it did not end in time and was killed */
    int status;   /* of waitpid(2); -1: late, or another part of the process reaped it */
    char line[MSG_SENTENCE_MAX]; /* the last line that is not empty; "" if it printed none */
};

/* Borrowed for the command's life. */
struct shell_command_config {
    struct event_base *base;
    const char *command;
    char *const *env; /* NULL ends it */
    bool as_trainer;  /* runs as the trainers' user (trainer_user.h) */
    uint32_t limit_ms;
    /* Called once, from the loop, as the command's last act: it may be freed then. */
    void (*ended)(void *ctx, const struct shell_command_result *result);
    void *ctx;
};

/* Starts it. TFE_ESYS with reason: nothing runs, and ended is not called. */
int shell_command_start(const struct shell_command_config *config, struct shell_command **ret,
                        struct tfe_reason *reason) TFE_MUST_CHECK;

/* After ended: returns false while the kernel still holds the killed process, as a driver or a
 * network file system can. */
bool shell_command_is_gone(struct shell_command *c);

/* Kills what still runs, without a call of ended. NULL is allowed. */
void shell_command_free(struct shell_command *c);

/* Returns true if the command exited with status 0. */
bool shell_command_succeeded(const struct shell_command_result *result);

/* Returns a copy of this process's environment for commands of the user, with NULL at its end:
 * without TFE_ variables and those of the options, as they may hold a token. The caller frees the
 * array; the strings are the environment's. */
char **shell_command_env(const struct option_table *options);

#endif
