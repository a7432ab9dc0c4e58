/* agent/core/proof_condition.c: implementation of proof_condition.h. */
#include "agent/core/proof_condition.h"

bool agent_proof_is_allowed(const struct proof_condition *condition)
{
    if (!condition->is_first) {
        return false;
    }
    if (!condition->is_childless) {
        return false;
    }
    return condition->agent_is_gone;
}
