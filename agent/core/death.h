/* agent/core/death.h: when a guard may give out the death certificate of its node (design 5). For
 * the guard and the simulator's alike. */
#ifndef TFE_AGENT_CORE_DEATH_H
#define TFE_AGENT_CORE_DEATH_H

#include <stdbool.h>

/* What a guard knows of itself. */
struct death_facts {
    bool is_first;      /* no other was there before it in the life of its agent */
    bool agent_is_gone; /* nobody tells it to start anything any more */
    bool is_childless;  /* the kernel says so: all of its descendants are reaped */
};

/* The certificate proves that all the node ever started has ended: what an earlier guard had
 * started is no descendant of a later one, which therefore knows nothing of it. */
bool agent_death_is_proven(const struct death_facts *facts);

#endif
