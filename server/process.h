/* server/process.h: prepares the process before it handles secrets or sockets. */
#ifndef TFE_SERVER_PROCESS_H
#define TFE_SERVER_PROCESS_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/text/reason.h"

/* Opens /dev/null for descriptors 0 to 2 that are closed (so that no socket becomes stderr),
 * ignores SIGPIPE and SIGXFSZ, and disables core dumps. Returns 0 or TFE_ESYS. */
int process_prepare(struct tfe_reason *reason) TFE_MUST_CHECK;

/* Descriptors that connections cannot use: stdio, lock, event loop, listener, signal pipe, writer
 * thread, database and a backup. */
#define PROCESS_FILES_OWN 18

/* Descriptors not available to agents: PROCESS_FILES_OWN, and some for handshakes and tfe-ctl
 * sessions while all agent sessions are in use. */
#define PROCESS_FILES_RESERVED 32

/* Raises RLIMIT_NOFILE to its hard limit and sets *ret_max_agents to the number of agents that it
 * allows. Returns 0, or TFE_ESYS if the limit cannot be read or is too low. */
int process_raise_files(uint32_t *ret_max_agents, struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
