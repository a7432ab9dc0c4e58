/* agent/pool/pool_node.h: --pool: this machine works for jobs that are handed in, one after the
 * other; for each an agent is started below this process. */
#ifndef TFE_AGENT_POOL_POOL_NODE_H
#define TFE_AGENT_POOL_POOL_NODE_H

#include <sys/resource.h>

#include "agent/agent_settings.h"
#include "common/base/error.h"
#include "common/credentials/join.h"
#include "common/text/reason.h"

/* Waits for work and does it until a signal ends that. options: the command line that settings are
 * of, without the program; NULL ends it. slot: of several on this machine, from 0. cores: the limit
 * of core dumps that its agents get. Everything is borrowed. Exit code of the program. */
int pool_run(const struct agent_settings *settings, const struct join_info *info,
             char *const *options, uint32_t slot, const struct rlimit *cores);

/* Checks that the other options fit --pool. Returns TFE_EINVAL with a sentence for an option that
 * belongs to a single job. */
int pool_check(const struct agent_settings *settings, int n_operands,
               struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
