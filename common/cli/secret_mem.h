/* common/cli/secret_mem.h: what keeps secrets from other processes of the same user. */
#ifndef TFE_COMMON_CLI_SECRET_MEM_H
#define TFE_COMMON_CLI_SECRET_MEM_H

#include "common/base/error.h"
#include "common/base/reason.h"

/* Lets nobody but root trace this process, read its memory or get a core dump of it; so are the
 * children that it forks, until they run another program. TFE_ESYS. */
int secret_mem_protect_process(struct tfe_reason *reason) TFE_MUST_CHECK;

/* Overwrites text, which may be NULL, where argv or the environment holds it. */
void secret_mem_wipe_text(char *text);

/* Takes the variable out of the environment, and overwrites what it held. */
void secret_mem_wipe_variable(const char *name);

#endif
