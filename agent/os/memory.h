/* agent/os/memory.h: how much memory is free for this process and its descendants. */
#ifndef TFE_AGENT_OS_MEMORY_H
#define TFE_AGENT_OS_MEMORY_H

#include <stdint.h>

/* What may still be used, in percent of what there is: of the machine, or of a control group above
 * this process (v2, else v1), whichever is less. 100 if nobody says. */
uint32_t memory_free_percent(void);
/* The same in bytes; UINT64_MAX if nobody says. */
uint64_t memory_free_bytes(void);

/* How many processes of this one's control group, or else of the machine, the kernel has killed
 * because memory had run out: of memory.events (v2), else memory.oom_control (v1), else
 * /proc/vmstat. */
uint64_t memory_kills(void);

#endif
