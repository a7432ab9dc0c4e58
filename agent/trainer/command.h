/* agent/trainer/command.h: builds the argv of trainers from the command line, with checks
 * before the node joins. */
#ifndef TFE_AGENT_TRAINER_COMMAND_H
#define TFE_AGENT_TRAINER_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/text/reason.h"

struct command {
    char **argv;           /* NULL-terminated */
    const char *directory; /* working directory, borrowed; NULL to use the agent's */
    bool is_python;        /* argv is python followed by a script, or by -m and a module */
    /* hash of the script's contents and the arguments (first 8 bytes of BLAKE2b). It contains no
     * absolute path, so that it is the same on all nodes that run the same program. */
    uint64_t digest;
};

/* Builds a command from the `count` operands after the options, which are borrowed. python is
 * --python; if it is NULL, uses $PYTHON_EXEC or else python3 of the virtual environment of
 * tfe-agent or from PATH. module means -m; no_python runs operands[0] directly. Sets reason to a
 * sentence and returns TFE_EINVAL if the script is missing, unreadable or a directory, or if the
 * command passes its work to another daemon (docker run, srun, ssh), whose processes could not
 * be killed: exit 2; TFE_ENOENT if the command or python is not found: exit 127. */
int command_new(char **operands, int count, const char *python, bool module, bool no_python,
                struct command *ret, struct tfe_reason *reason) TFE_MUST_CHECK;
void command_done(struct command *command);

#endif
