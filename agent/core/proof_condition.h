/* agent/core/proof_condition.h: the condition under which a guard may reveal its proof of
 * termination (design 5). Shared by the guard and the simulated guard. */
#ifndef TFE_AGENT_CORE_PROOF_CONDITION_H
#define TFE_AGENT_CORE_PROOF_CONDITION_H

#include <stdbool.h>

/* State of a guard that decides whether the termination of its node is proven. */
struct proof_condition {
    bool is_first;      /* no other guard ran before this one in the life of its agent */
    bool agent_is_gone; /* the agent has ended, so no request to start a process can arrive */
    bool is_childless;  /* the kernel reports that all descendants have been reaped */
};

/* Returns true if every process that the node ever started has ended. A replacement guard never
 * knows this: the processes of an earlier guard are not its descendants. */
bool agent_proof_is_allowed(const struct proof_condition *condition);

#endif
