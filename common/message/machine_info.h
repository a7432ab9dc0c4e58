/* common/message/machine_info.h: what a node reports about its machine. Pure. */
#ifndef TFE_COMMON_MESSAGE_MACHINE_INFO_H
#define TFE_COMMON_MESSAGE_MACHINE_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "common/message/msg_enums.h"

/* MACHINE_INFO: the hardware and platform of a node. NULL or 0 means unknown. */
struct msg_machine_info {
    uint32_t cores; /* CPU cores that the node's trainers may use */
    uint64_t memory_mib;
    uint32_t gpus;
    const char *gpu; /* name of the first GPU; all texts have at most TFE_LABEL_MAX bytes */
    uint64_t gpu_memory_mib;
    const char *tensorflow; /* TensorFlow version, a tfe_id */
    const char *cloud;      /* cloud provider: "aws", "gce", "azure" */
    const char *zone;
    const char *instance; /* instance type, in the cloud's own terms */
    bool has_spot;
    bool is_spot; /* the cloud may preempt the machine */
    /* reason why a check of the node fails (--check); NULL if the node is fit to train */
    const char *failed_check;
};

/* MACHINE_STATS: current load and performance of a node. 0 means unknown. */
struct msg_machine_stats {
    uint32_t load_milli; /* load average of one minute, times 1000 */
    uint64_t free_mib;   /* available memory */
    uint64_t step_us;    /* duration of one step in the running epoch */
    uint64_t work_us; /* CPU time per step during which the trainers' threads run or are runnable */
    enum tfe_standby standby;
};

#endif
