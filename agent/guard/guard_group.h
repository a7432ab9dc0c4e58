/* agent/guard/guard_group.h: cgroups (v2) for the processes that a guard starts, where the guard
 * may create them. One write kills all processes of a group, however they fork. */
#ifndef TFE_AGENT_GUARD_GUARD_GROUP_H
#define TFE_AGENT_GUARD_GUARD_GROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One group per slot, and the same number for groups whose descendants live
 * until the next sweep. */
#define GUARD_GROUPS 256

/* The process stays in the agent's own cgroup. */
#define GUARD_NO_GROUP 0

enum guard_group_state {
    GROUP_FREE,
    GROUP_OWNED,   /* used by the process of a slot */
    GROUP_RELEASED /* its process has ended; descendants may be alive */
};

struct guard_groups {
    /* the guard's own directory, locked; a directory without a lock is stale and may be removed.
     * -1 if cgroups are not available */
    int dir;
    char path[PATH_MAX];
    /* enum guard_group_state by index; the directory name is index + 1 */
    uint8_t state[GUARD_GROUPS];
};

/* Creates the guard's directory below the cgroup of this process, if that cgroup is writable
 * and, under systemd, delegated. First kills all processes in directories of guards that died
 * together with their agents. */
void guard_groups_open(struct guard_groups *groups);

/* Creates a group and opens its directory for CLONE_INTO_CGROUP; the caller closes *ret_fd.
 * Returns GUARD_NO_GROUP if no group is available. */
unsigned guard_group_new(struct guard_groups *groups, int *ret_fd);

/* Releases a group whose process has ended or was never started. Ignores GUARD_NO_GROUP. */
void guard_group_release(struct guard_groups *groups, unsigned group);

/* Kills all processes of a group. Ignores GUARD_NO_GROUP. */
void guard_group_kill(const struct guard_groups *groups, unsigned group);
/* Kills all processes in groups whose main process has ended. */
void guard_groups_kill_released(const struct guard_groups *groups);

/* Removes released groups that have become empty. */
void guard_groups_tidy(struct guard_groups *groups);

/* Removes all groups; no process may be left in them. Afterwards no group can be created. */
void guard_groups_close(struct guard_groups *groups);

#endif
