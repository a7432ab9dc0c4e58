/* tests/sim/overheard.h: what the simulator's judges take from the trace of the rendezvous core. */
#ifndef TFE_TESTS_SIM_OVERHEARD_H
#define TFE_TESTS_SIM_OVERHEARD_H

#include "server/core/rdzv.h"
#include "tests/sim/world.h"

/* The core traces this in the step that is being carried out. */
void overheard_trace(struct world *w, const struct rdzv_trace *t);

#endif
