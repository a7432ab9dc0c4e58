/* agent/pool/check.h: which options go with --pool, and what they call a node. */
#ifndef TFE_AGENT_POOL_CHECK_H
#define TFE_AGENT_POOL_CHECK_H

#include "agent/agent_settings.h"
#include "common/base/error.h"
#include "common/text/reason.h"

/* Whether --pool fits the other options: a job's own do not. TFE_EINVAL with one sentence. */
int pool_check(const struct agent_settings *settings, int n_operands,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* The label of the node; slot: of several on this machine, from 0. */
void pool_name(const struct agent_settings *settings, uint32_t slot, struct tfe_id *ret);

#endif
