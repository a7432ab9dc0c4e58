/* agent/trainer/command.h: from the command line to the argv of a trainer, checked before it
 * joins. */
#ifndef TFE_AGENT_TRAINER_COMMAND_H
#define TFE_AGENT_TRAINER_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/text/reason.h"

struct command {
    char **argv;           /* NULL-terminated */
    const char *directory; /* to work in; NULL: the agent's own. Borrowed */
    bool is_python;        /* argv is python, then a script or -m and a module */
    uint64_t digest; /* of the script's bytes and the arguments (BLAKE2b, first 8 bytes); same on
                        every node that runs the same thing, so no absolute path goes into it */
};

/* operands: what followed the options, count of them; the words are borrowed. python: --python or
 * NULL ($PYTHON_EXEC, else python3 of the agent's venv or of PATH). module: -m. no_python: run
 * operands[0] as a command. TFE_EINVAL: no script, or it is missing, a directory, not readable; or
 * the command hands the work to another daemon (docker run, srun, ssh …), where no kill would reach
 * it: exit 2. TFE_ENOENT: command (or python) not found: exit 127. why is one sentence. */
int command_new(char **operands, int count, const char *python, bool module, bool no_python,
                struct command *ret, struct tfe_reason *reason) TFE_MUST_CHECK;
void command_done(struct command *command);

#endif
