/* agent/preemption/cloud.h: in which cloud this machine is, as its firmware and hypervisor tell. */
#ifndef TFE_AGENT_PREEMPTION_CLOUD_H
#define TFE_AGENT_PREEMPTION_CLOUD_H

#include "agent/preemption/choice.h"

#define CLOUD_TEXT_MAX 95

/* What a cloud says of a machine; "": nothing. */
struct cloud_facts {
    const char *cloud; /* as --notice names it */
    char zone[CLOUD_TEXT_MAX + 1];
    char instance[CLOUD_TEXT_MAX + 1]; /* type */
    bool has_spot;
    bool is_spot; /* it may be taken back */
};

/* Reads what the kernel shows below sys ("/sys"): the cloud whose mark is there, of FROM_AWS,
 * FROM_GCE and FROM_AZURE; FROM__COUNT: none of them, or nothing is shown. */
enum notice_from cloud_find(const char *sys);

#endif
