/* tests/sim/faults.h: random faults for the explorer, each with its end. */
#ifndef TFE_TESTS_SIM_FAULTS_H
#define TFE_TESTS_SIM_FAULTS_H

#include "tests/sim/world.h"

/* A server is asleep for so long at most: also at the end of a stretch of faults. */
#define FAULTS_SERVER_SLEEP_MS 60000

/* How the explorer finds the job for an agent that starts on a machine. */
typedef uint32_t faults_job_fn(struct world *w, uint32_t node);

/* mean_ms between two faults. Nothing happens before faults_begin. In a quarter of all worlds one
 * of the faults is that the server's disk is rolled back. */
struct faults *faults_new(struct world *w, uint64_t seed, uint32_t mean_ms, faults_job_fn *job_for);
void faults_free(struct world *w);
void faults_begin(struct world *w);
/* No more faults; what is frozen, cut, stalled or down is whole again at once. Three of four
 * machines that were warned stay so, and others are warned now: they go when they are to, or come
 * back. */
void faults_end(struct world *w);
/* Starts an agent on each idle machine, with so many percent of probability. */
void faults_start_idle(struct world *w, uint32_t percent);

#endif
