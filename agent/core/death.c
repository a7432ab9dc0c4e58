/* agent/core/death.c: implementation of death.h. */
#include "agent/core/death.h"

bool agent_death_is_proven(const struct death_facts *facts)
{
    if (!facts->is_first) {
        return false;
    }
    if (!facts->is_childless) {
        return false;
    }
    return facts->agent_is_gone;
}
