/* tests/unit/server_core/served.h: jobs with chief and ps, for the stories about them. */
#ifndef TFE_TESTS_UNIT_SERVER_CORE_SERVED_H
#define TFE_TESTS_UNIT_SERVER_CORE_SERVED_H

#include "tests/unit/server_core/server_fixture.h"

/* Nodes by name; the first that come in one moment after the other are chief, then ps, then
 * workers: a chief, b ps, c and d workers 0 and 1. */
struct world *a_served_job(uint32_t min, uint32_t max);
/* … and it trains: the chief has told its first step. */
struct world *a_serving_job(uint32_t min, uint32_t max);
/* … with one worker, c, and d evaluates, in the epoch of the number 2. */
struct world *an_evaluated_job(void);
/* The nodes of sessions 1 to n - 1: all but the chief. */
void all_listen(struct world *w, uint32_t n, uint64_t epoch);
/* Sessions 0 to n - 1 stop as they were asked to in epoch 1, the chief first, and are ready for the
 * next. */
void all_stop(struct world *w, uint32_t n);
/* The chief, or who else speaks in that session, has made and saved this step. */
void progress(struct world *w, uint32_t session, uint64_t epoch, uint64_t step_);
/* Its trainer of epoch 1 is killed, so many restarts after its first. */
void crashes(struct world *w, uint32_t session, uint64_t restart);

#endif
