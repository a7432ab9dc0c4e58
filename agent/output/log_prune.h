/* agent/output/log_prune.h: removes logs that are older than --log-keep. Blocks; for the writer's
 * thread. */
#ifndef TFE_AGENT_OUTPUT_LOG_PRUNE_H
#define TFE_AGENT_OUTPUT_LOG_PRUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

/* Removes up to budget files last written before the given time, of all jobs below root, and
 * folders that are empty then. Only names that the agent makes, only plain files, no link is
 * followed. True: there is more to remove. */
bool log_prune(const char *root, struct tfe_wall before, unsigned budget);

/* Removes all that the agent has kept there of the job, likewise. */
void log_prune_job(const char *root, const char *job);

#endif
