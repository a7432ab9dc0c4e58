/* agent/runner.h: the agent's event loop: passes events to the core and carries out its actions. */
#ifndef TFE_AGENT_RUNNER_H
#define TFE_AGENT_RUNNER_H

#include "agent/agent_settings.h"
#include "agent/git_source.h"
#include "agent/guard/guard.h"
#include "agent/os/ports.h"
#include "agent/standalone.h"
#include "agent/trainer/command.h"
#include "agent/trainer/trainers.h"
#include "common/credentials/join.h"

/* Arguments of runner_run. Pointers are borrowed for the call; the guard's
 * descriptor is taken over. */
struct runner_options {
    const struct agent_settings *settings;
    struct command *command;       /* the runner updates its digest when git_source changes */
    struct git_source *git_source; /* NULL without --git */
    char **operands;               /* script and arguments */
    int n_operands;
    const struct join_info *info;
    const struct guard_process *guard;
    struct ports *ports;
    struct standalone *standalone; /* NULL unless this process runs the server */
};

/* Runs the agent until it ends, when no process that it started is left. Prints the reason on
 * stderr unless it is obvious. Returns an exit code of design 9. */
int runner_run(const struct runner_options *options);

#endif
