/* tests/unit/server_core/probe_fixture.h: fixtures whose agents probe each other's addresses. */
#ifndef TFE_TESTS_UNIT_SERVER_CORE_PROBE_FIXTURE_H
#define TFE_TESTS_UNIT_SERVER_CORE_PROBE_FIXTURE_H

#include "tests/unit/server_core/server_fixture.h"

/* Time limit of a probe; a prober that does not answer within it is mute. */
#define PROBE_WAIT_MS 1500

struct world *an_answering_world(uint32_t min, uint32_t max);

/* Every asked prober reports success, and every node that was told to stop answering is READY
 * without. */
void all_are_reached(struct world *w, uint64_t epoch);

/* Creates nodes a, b, … on sessions 0 …, in epoch 1, each reached by up to three others, all
 * listening. */
struct world *a_reached_world(uint32_t min, uint32_t max, uint32_t n);

#endif
