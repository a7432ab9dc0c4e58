/* agent/output/log_prune.h: removes logs older than --log-keep. Blocks; used on the
 * writer's thread only. */
#ifndef TFE_AGENT_OUTPUT_LOG_PRUNE_H
#define TFE_AGENT_OUTPUT_LOG_PRUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

/* Removes up to budget log files below root that were last written before the given time, and
 * directories that become empty. Touches only regular files with names that the agent creates,
 * and follows no symbolic link. Returns true if more files may have to be removed. */
bool log_prune(const char *root, struct tfe_wall before, unsigned budget);

/* Removes all log files of the job below root, by the same rules. */
void log_prune_job(const char *root, const char *job);

#endif
