/* agent/os/shell_command.h: runs a user's command with sh, with a time limit. The command has a
 * process group of its own, which is killed when the command ends; its last line is kept. */
#ifndef TFE_AGENT_OS_SHELL_COMMAND_H
#define TFE_AGENT_OS_SHELL_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/cli/options.h"
#include "common/message/msg.h"
#include "common/text/reason.h"

struct event_base;
struct shell_command;

struct shell_command_result {
    bool is_late; /* the command exceeded its time limit and was killed */
    int status;   /* wait status; -1 if is_late, or if another part of this process reaped it */
    char line[MSG_SENTENCE_MAX]; /* last non-empty line of output, escaped; "" if there is none */
};

/* Options of a run. Pointers are borrowed until shell_command_free(). */
struct shell_command_config {
    struct event_base *base;
    const char *command;
    char *const *env;    /* NULL-terminated */
    bool as_trainer;     /* run as the trainers' user (trainer_user.h) */
    bool ignores_stderr; /* take the last line from stdout alone */
    uint32_t limit_ms;
    /* Called once from the event loop when the command has ended. May call shell_command_free(). */
    void (*ended)(void *ctx, const struct shell_command_result *result);
    void *ctx;
};

/* Starts the command. Returns 0, or TFE_ESYS with *reason; then ended is not called. */
int shell_command_start(const struct shell_command_config *config, struct shell_command **ret,
                        struct tfe_reason *reason) TFE_MUST_CHECK;

/* Returns false while a killed process of the command still exists: a driver or a network file
 * system may block its end. Call it after ended. */
bool shell_command_is_gone(struct shell_command *c);

/* Kills the command if it runs, without calling ended, and frees it. NULL is allowed. */
void shell_command_free(struct shell_command *c);

/* Returns true if the command exited with status 0. */
bool shell_command_succeeded(const struct shell_command_result *result);

/* Returns this process's environment, NULL-terminated, without TFE_ variables and variables of
 * options, which may contain a token. The caller frees the array; its strings are borrowed from
 * the environment. */
char **shell_command_env(const struct option_table *options);

#endif
