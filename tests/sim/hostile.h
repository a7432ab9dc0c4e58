/* tests/sim/hostile.h: a member with a key among honest ones: says whatever is legal, at any time,
 * with any numbers, about jobs of its own, in its own name and in others'. */
#ifndef TFE_TESTS_SIM_HOSTILE_H
#define TFE_TESTS_SIM_HOSTILE_H

#include <stdbool.h>

#include "tests/sim/world.h"

/* Says a few things, on some connections. rng decides all of it. */
void hostile_speak(struct world *w, struct rng *rng);
/* Whether the job is one of its own: of these nothing is judged. */
bool hostile_owns(const char *job);

#endif
