/* agent/guard/guard_group.h: control groups (v2) of what a guard starts, where it may make some:
 * one kill reaches all that is in a group, however it forks. */
#ifndef TFE_AGENT_GUARD_GUARD_GROUP_H
#define TFE_AGENT_GUARD_GUARD_GROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A process in each slot, and as many whose descendants outlive them until the next sweep. */
#define GUARD_GROUPS 256

/* No group: the process is in the agent's own. */
#define GUARD_NO_GROUP 0

enum guard_group_state {
    GROUP_FREE,
    GROUP_OWNED, /* by a process in a slot */
    GROUP_LEFT   /* that process is over; what it started may live */
};

struct guard_groups {
    int dir; /* the guard's own directory, locked: whoever finds the lock free removes it. -1: there
                are none */
    char path[PATH_MAX];
    uint8_t state[GUARD_GROUPS]; /* of enum guard_group_state; the name is the index + 1 */
};

/* Makes the guard's directory below the group that this process is in, if that is its own to use:
 * it may write there, and systemd, where it runs, has delegated it. Before that, kills what guards
 * have left there that died together with their agents. */
void guard_groups_open(struct guard_groups *groups);

/* Makes a group and opens its directory for CLONE_INTO_CGROUP (the caller closes it).
 * GUARD_NO_GROUP: there are none, or no more. */
unsigned guard_group_new(struct guard_groups *groups, int *ret_fd);

/* The slot's process is over, or was never started. GUARD_NO_GROUP is ignored. */
void guard_group_leave(struct guard_groups *groups, unsigned group);

/* Kills everything in the group. GUARD_NO_GROUP is ignored. */
void guard_group_kill(const struct guard_groups *groups, unsigned group);
/* … in those groups whose process is over. */
void guard_groups_kill_left(const struct guard_groups *groups);

/* Removes the groups that were left and are empty by now. */
void guard_groups_tidy(struct guard_groups *groups);

/* Removes everything; nothing may live in there any more. From then on there are no groups. */
void guard_groups_close(struct guard_groups *groups);

#endif
