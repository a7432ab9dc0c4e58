/* common/message/machine_info.h: what a node says of its machine. Pure. */
#ifndef TFE_COMMON_MESSAGE_MACHINE_INFO_H
#define TFE_COMMON_MESSAGE_MACHINE_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "common/message/msg_enums.h"

/* What a node's machine is. A text that is NULL, or a number that is 0, is not known. */
struct msg_facts {
    uint32_t cores; /* that its trainers may use */
    uint64_t memory_mib;
    uint32_t gpus;
    const char *gpu; /* name of the first; texts have at most TFE_LABEL_MAX bytes */
    uint64_t gpu_memory_mib;
    const char *tensorflow; /* tfe_id: its version */
    const char *cloud;      /* "aws", "gce", "azure" */
    const char *zone;
    const char *instance; /* type, as the cloud calls it */
    bool has_spot;
    bool is_spot; /* the cloud may take it back */
};

/* How a node is doing. Not known: 0. */
struct msg_vitals {
    uint32_t load_milli; /* of one minute, times 1000 */
    uint64_t free_mib;   /* memory that could be had */
    uint64_t step_us;    /* what a step takes, in the epoch that runs */
    uint64_t work_us;    /* for so long its trainers' threads work for one, or want to */
    enum tfe_standby standby;
};

#endif
