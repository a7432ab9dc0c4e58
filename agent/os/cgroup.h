/* agent/os/cgroup.h: locates this process's cgroups and reads numbers from their files. */
#ifndef TFE_AGENT_OS_CGROUP_H
#define TFE_AGENT_OS_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* Stores the directory of this process's own cgroup: in the v1 hierarchy of a controller
 * ("memory"), or in v2 if controller is NULL. The mount point comes from /proc/self/mountinfo.
 * Returns false if there is no such cgroup. */
bool cgroup_own(const char *controller, char ret[PATH_MAX]);

/* Replaces the directory by its parent cgroup. Returns false at the mount point. */
bool cgroup_up(char directory[PATH_MAX]);

/* Reads a number from directory/file: from the line that starts with key, or from the first line
 * if key is NULL. "max" gives UINT64_MAX. Returns false if the file or line is missing. */
bool cgroup_number(const char *directory, const char *file, const char *key, uint64_t *ret);

#endif
