/* server/process.h: what the process itself needs set before it touches secrets or sockets. */
#ifndef TFE_SERVER_PROCESS_H
#define TFE_SERVER_PROCESS_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/base/reason.h"

/* Opens /dev/null on those of descriptors 0 to 2 that are closed (a socket must not become stderr),
 * ignores SIGPIPE, turns core dumps off. TFE_ESYS. */
int process_prepare(struct tfe_reason *reason) TFE_MUST_CHECK;

/* Descriptors that connections never take: stdio, lock, event loop, listener, signal pipe, the
 * writer's thread, the store and a backup of it. */
#define PROCESS_FILES_OWN 18

/* Descriptors that are not kept for agents: those, and some for handshakes and tfe-ctl sessions
 * besides a full house. */
#define PROCESS_FILES_RESERVED 32

/* Raises RLIMIT_NOFILE to its hard limit and says how many agents that allows. TFE_ESYS: the limit
 * cannot be read, or is too low to serve anyone. */
int process_raise_files(uint32_t *ret_max_agents, struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
