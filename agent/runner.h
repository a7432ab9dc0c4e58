/* agent/runner.h: the agent's loop: events to the core, its actions to uplink, ports and trainers.
 */
#ifndef TFE_AGENT_RUNNER_H
#define TFE_AGENT_RUNNER_H

#include "agent/agent_settings.h"
#include "agent/guard/guard.h"
#include "agent/os/ports.h"
#include "agent/standalone.h"
#include "agent/trainer/command.h"
#include "agent/trainer/trainers.h"
#include "common/credentials/join.h"

/* All borrowed for the call; guard's descriptor is taken over. */
struct runner_options {
    const struct agent_settings *settings;
    const struct command *command;
    const struct join_info *info;
    const struct guard_process *guard;
    struct ports *ports;
    struct standalone *standalone; /* NULL: the server is not ours */
};

/* Runs the agent to its end; nothing it has started is left then. Returns the exit code of design 9
 * after having said on stderr why, where that is not plain. */
int runner_run(const struct runner_options *options);

#endif
