/* server/core/job_state.h: the states of a job. states.c has the transitions. */
#ifndef TFE_SERVER_CORE_JOB_STATE_H
#define TFE_SERVER_CORE_JOB_STATE_H

#include "common/message/msg.h"

enum job_state {
    JOB_WAITING,
    JOB_REBUILDING,
    JOB_GATHERING,
    JOB_PREPARING,
    JOB_COMMITTING,
    JOB_RUNNING,
    JOB_SUCCEEDED,
    JOB_FAILED,
    JOB_CANCELLED,
    JOB__COUNT
};

_Static_assert(JOB_CANCELLED - JOB_SUCCEEDED == RESULT_CANCELLED - RESULT_SUCCEEDED,
               "the last three, in the order of results");

static inline enum tfe_result job_result_of(enum job_state end)
{
    return (enum tfe_result)(RESULT_SUCCEEDED + (end - JOB_SUCCEEDED));
}

static inline enum job_state job_state_of(enum tfe_result result)
{
    return (enum job_state)(JOB_SUCCEEDED + (result - RESULT_SUCCEEDED));
}

#endif
