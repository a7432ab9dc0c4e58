/* agent/guard/guard_spawn.h: what a trainer is started with, on its way, and the child it becomes. */
#ifndef TFE_AGENT_GUARD_GUARD_SPAWN_H
#define TFE_AGENT_GUARD_GUARD_SPAWN_H

#include <sys/types.h>

#include "agent/guard/guard_link.h"
#include "agent/guard/guard_proto.h"
#include "common/base/error.h"

/* Writes spec into a sealed memfd (the caller closes it) and fills the SPAWN half of order.
 * TFE_ESYS with errno. */
int guard_block_new(const struct spawn_spec *spec, struct guard_order *order,
                    int *ret_fd) TFE_MUST_CHECK;

/* Forks the child of a SPAWN; fds are the order's, borrowed. Returns its pid and through ret_report
 * a non-blocking descriptor that reads EOF once exec has happened, or one int, the errno of what
 * failed before (ENOENT: no such command; ENOTDIR: no such directory to work in). -1 with errno.
 * Precondition: the caller is single-threaded and blocks every signal. */
pid_t guard_spawn(const struct guard_order *order, const int fds[GUARD_FDS],
                  int *ret_report) TFE_MUST_CHECK;

/* Closes every descriptor from first on. */
void guard_close_from(unsigned first);

#endif
