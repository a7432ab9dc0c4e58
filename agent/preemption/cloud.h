/* agent/preemption/cloud.h: detects the cloud of this machine from its firmware and hypervisor. */
#ifndef TFE_AGENT_PREEMPTION_CLOUD_H
#define TFE_AGENT_PREEMPTION_CLOUD_H

#include "agent/preemption/notice_selection.h"

#define CLOUD_TEXT_MAX 95

/* A cloud's description of a machine; "" if unknown. */
struct cloud_facts {
    const char *cloud; /* name of the cloud as in --notice */
    char zone[CLOUD_TEXT_MAX + 1];
    char instance[CLOUD_TEXT_MAX + 1]; /* machine type */
    bool has_spot;
    bool is_spot; /* the machine can be preempted */
};

/* Detects the cloud from the files below sys ("/sys"). Returns FROM_AWS, FROM_GCE or FROM_AZURE,
 * or FROM__COUNT if there is no known mark. */
enum notice_from cloud_find(const char *sys);

#endif
