/* tests/sim/overheard.h: passes traces of the rendezvous core to the simulator's checks. */
#ifndef TFE_TESTS_SIM_OVERHEARD_H
#define TFE_TESTS_SIM_OVERHEARD_H

#include "server/core/rdzv.h"
#include "tests/sim/world.h"

/* The core emits this trace in the present step. */
void overheard_trace(struct world *w, const struct rdzv_trace *t);

#endif
