/* agent/notice/cloud.h: in which cloud this machine is, as its firmware and hypervisor tell. */
#ifndef TFE_AGENT_NOTICE_CLOUD_H
#define TFE_AGENT_NOTICE_CLOUD_H

#include "agent/notice/choice.h"

/* Reads what the kernel shows below sys ("/sys"): the cloud whose mark is there, of FROM_AWS,
 * FROM_GCE and FROM_AZURE; FROM__COUNT: none of them, or nothing is shown. */
enum notice_from cloud_find(const char *sys);

#endif
