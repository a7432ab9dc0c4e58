/* agent/guard/guard_spawn.h: what a trainer is started with, on its way, and the child it becomes.
 */
#ifndef TFE_AGENT_GUARD_GUARD_SPAWN_H
#define TFE_AGENT_GUARD_GUARD_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "agent/guard/guard_link.h"
#include "agent/guard/guard_proto.h"
#include "common/base/error.h"

/* Writes spec into a sealed memfd (the caller closes it) and fills the SPAWN half of order.
 * TFE_ESYS with errno. */
int guard_block_new(const struct spawn_spec *spec, struct guard_order *order,
                    int *ret_fd) TFE_MUST_CHECK;

/* What the guard keeps of a child besides its pid. */
struct guard_child {
    /* Non-blocking: EOF once exec has happened, or one int, the errno of what failed before
     * (ENOENT: no such command; ENOTDIR: no such directory to work in). */
    int report;
    int control; /* a standby's socket, else -1 */
    bool is_in_group;
};

/* Forks the child of a SPAWN; fds are the order's, borrowed. may_renice: one in the background gets
 * a lower CPU priority too. group: the directory of the control group that it begins in, or -1;
 * is_in_group says whether the kernel let it. Returns its pid; -1 with errno. Precondition: the
 * caller is single-threaded and blocks every signal. */
pid_t guard_spawn(const struct guard_order *order, const int fds[GUARD_FDS], bool may_renice,
                  int group, struct guard_child *ret) TFE_MUST_CHECK;

/* ioprio_set(2), which has no header for its numbers. */
enum { GUARD_IOPRIO_WHO_PROCESS = 1, GUARD_IOPRIO_IDLE = 3 << 13 };

/* Closes every descriptor from first on. */
void guard_close_from(unsigned first);

#endif
