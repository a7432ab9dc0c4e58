/* server/core/states.h: the states of a job, and what moves it from one to the next. */
#ifndef TFE_SERVER_CORE_STATES_H
#define TFE_SERVER_CORE_STATES_H

#include <stdbool.h>

struct job;
struct rdzv;

enum job_state {
    JOB_WAITING,
    JOB_REBUILDING,
    JOB_GATHERING,
    JOB_PREPARING,
    JOB_COMMITTING,
    JOB_RUNNING,
    JOB_SUCCEEDED,
    JOB_FAILED,
    JOB_STOPPED,
    JOB__COUNT
};

const char *job_state_name(enum job_state state);
/* Goes on from state to state as far as what is known allows, and sets the job's timer. */
void job_settle(struct rdzv *r, struct job *job);
/* Ends the job in a final state, once that is durable; its sentence is set. */
void job_finish(struct rdzv *r, struct job *job, enum job_state state);

#endif
