/* tests/sim/faults.h: random faults for the explorer; each fault ends again. */
#ifndef TFE_TESTS_SIM_FAULTS_H
#define TFE_TESTS_SIM_FAULTS_H

#include "tests/sim/world.h"

/* Maximum time for which a server sleeps, also at the end of a period of faults. */
#define FAULTS_SERVER_SLEEP_MS 60000

/* Chooses the job for an agent that starts on a machine. */
typedef uint32_t faults_job_fn(struct world *w, uint32_t node);

/* Creates the faults, with mean_ms between two. Nothing happens before faults_begin. In a quarter
 * of all simulations one fault restores an older state of the server's disk. */
struct faults *faults_new(struct world *w, uint64_t seed, uint32_t mean_ms, faults_job_fn *job_for);
void faults_free(struct world *w);
void faults_begin(struct world *w);
/* Ends the faults: everything that is frozen, cut, stalled or down recovers at once. Three of four
 * warned machines stay warned, and some others are warned now: they go away at their deadline or
 * come back. */
void faults_end(struct world *w);
/* Starts an agent on each idle machine with this probability in percent. */
void faults_start_idle(struct world *w, uint32_t percent);

#endif
