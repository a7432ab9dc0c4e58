/* tests/sim/hostile.h: a hostile member with a valid key: sends any legal message at any time, with
 * any numbers, about its own jobs, in its own name and in other nodes' names. */
#ifndef TFE_TESTS_SIM_HOSTILE_H
#define TFE_TESTS_SIM_HOSTILE_H

#include <stdbool.h>

#include "tests/sim/world.h"

/* Sends a few random messages on some connections. */
void hostile_speak(struct world *w, struct rng *rng);
/* Returns true if the job belongs to the hostile member; nothing is checked for such jobs. */
bool hostile_owns(const char *job);

#endif
