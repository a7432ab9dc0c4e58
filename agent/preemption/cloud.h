/* agent/preemption/cloud.h: a cloud's description of this machine. */
#ifndef TFE_AGENT_PREEMPTION_CLOUD_H
#define TFE_AGENT_PREEMPTION_CLOUD_H

#include <stdbool.h>

#define CLOUD_TEXT_MAX 95

/* Texts are "" if unknown. */
struct cloud_info {
    const char *cloud; /* name of the cloud as in --notice */
    char zone[CLOUD_TEXT_MAX + 1];
    char instance[CLOUD_TEXT_MAX + 1]; /* machine type */
    bool has_spot;
    bool is_spot; /* the machine can be preempted */
};

#endif
