/* tests/unit/server_core/reached.h: worlds whose agents try each other's addresses, for the stories
 * about that. */
#ifndef TFE_TESTS_UNIT_SERVER_CORE_REACHED_H
#define TFE_TESTS_UNIT_SERVER_CORE_REACHED_H

#include "tests/unit/server_core/server_fixture.h"

/* An answer must be there by then, or the prober is mute. */
#define PROBE_WAIT_MS 1500

struct world *an_answering_world(uint32_t min, uint32_t max);

/* Whoever was asked has reached the node, and whoever was let go is READY without. */
void all_are_reached(struct world *w, uint64_t epoch);

/* Nodes a, b, … on sessions 0 …, in epoch 1, each reached by up to three others, all listening. */
struct world *a_reached_world(uint32_t min, uint32_t max, uint32_t n);

#endif
