/* tests/unit/server_core/served_fixture.h: fixtures of jobs with chief and ps. */
#ifndef TFE_TESTS_UNIT_SERVER_CORE_SERVED_FIXTURE_H
#define TFE_TESTS_UNIT_SERVER_CORE_SERVED_FIXTURE_H

#include "tests/unit/server_core/server_fixture.h"

/* Creates a job with nodes by name: chief a, ps b, workers c and d (by order of joining). */
struct world *a_served_job(uint32_t min, uint32_t max);
/* Like a_served_job, after the chief has reported its first step. */
struct world *a_serving_job(uint32_t min, uint32_t max);
/* Creates a serving job with one worker, c, and evaluator d, whose epoch number is 2. */
struct world *an_evaluated_job(void);
/* The nodes of sessions 1 to n - 1, all except the chief, report LISTENING. */
void all_listen(struct world *w, uint32_t n, uint64_t epoch);
/* Sessions 0 to n - 1 stop as requested in epoch 1, the chief first, and are READY for the next
 * epoch. */
void all_stop(struct world *w, uint32_t n);
/* The node of the session reports that this step was made and saved. */
void progress(struct world *w, uint32_t session, uint64_t epoch, uint64_t step_);
/* The node's trainer of epoch 1 is killed after this many restarts. */
void crashes(struct world *w, uint32_t session, uint64_t restart);

#endif
