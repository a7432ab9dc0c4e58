/* agent/os/memory.h: memory that is available to this process and its descendants. */
#ifndef TFE_AGENT_OS_MEMORY_H
#define TFE_AGENT_OS_MEMORY_H

#include <stdint.h>

/* Returns the available memory in percent: the minimum over the machine and all cgroups (v2 or
 * v1) above this process. Returns 100 if unknown. */
uint32_t memory_free_percent(void);
/* Returns the available memory in bytes, by the same rule, or UINT64_MAX if unknown. */
uint64_t memory_free_bytes(void);

/* Returns how many processes the kernel has killed for lack of memory: in this process's cgroup
 * (memory.events or, in v1, memory.oom_control), otherwise on the machine (/proc/vmstat). */
uint64_t memory_kills(void);

#endif
