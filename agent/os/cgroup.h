/* agent/os/cgroup.h: where this process's control groups lie, and the numbers in their files. */
#ifndef TFE_AGENT_OS_CGROUP_H
#define TFE_AGENT_OS_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* The directory of this process's own group: controller NULL: of cgroup v2, else of that v1
 * hierarchy ("memory"). False: there is none here. The mount is found in /proc/self/mountinfo. */
bool cgroup_own(const char *controller, char ret[PATH_MAX]);

/* The directory above, up to the mount; false: that was the last. */
bool cgroup_up(char directory[PATH_MAX]);

/* The number in directory/file: of the line that begins with key, or the first one (key NULL).
 * "max" is UINT64_MAX. False: no such file or line. */
bool cgroup_number(const char *directory, const char *file, const char *key, uint64_t *ret);

#endif
