/* agent/reach/memory.h: how much memory is free for this process and its descendants. */
#ifndef TFE_AGENT_REACH_MEMORY_H
#define TFE_AGENT_REACH_MEMORY_H

#include <stdint.h>

/* What may still be used, in percent of what there is: of the machine, or of a control group above
 * this process (v2, else v1), whichever is less. 100 if nobody says. */
uint32_t memory_free_percent(void);

#endif
