/* common/cli/secret_mem.h: protects secrets in memory from other processes of the same user. */
#ifndef TFE_COMMON_CLI_SECRET_MEM_H
#define TFE_COMMON_CLI_SECRET_MEM_H

#include "common/base/error.h"
#include "common/text/reason.h"

/* Prevents all users except root from tracing this process, reading its memory or getting a core
 * dump. Forked children inherit this until they run another program. Returns 0 or TFE_ESYS. */
int secret_mem_protect_process(struct tfe_reason *reason) TFE_MUST_CHECK;

/* Overwrites text (may be NULL) in argv or the environment. */
void secret_mem_wipe_text(char *text);

/* Removes a variable from the environment and overwrites its value. */
void secret_mem_wipe_variable(const char *name);

#endif
