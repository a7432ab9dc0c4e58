/* server/core/states.h: what moves a job from one state to the next. */
#ifndef TFE_SERVER_CORE_STATES_H
#define TFE_SERVER_CORE_STATES_H

#include "server/core/job_state.h"

struct job;
struct rdzv;

/* "waiting", …: static. */
const char *job_state_name(enum job_state state);
/* Goes on from state to state as far as what is known allows, and sets the job's timer. */
void job_settle(struct rdzv *r, struct job *job);
/* Ends the job in a final state, once that is durable; sentence is for people. */
void job_finish(struct rdzv *r, struct job *job, enum job_state state, const char *sentence);

#endif
