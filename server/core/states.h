/* server/core/states.h: the states of a job and the transitions between them. */
#ifndef TFE_SERVER_CORE_STATES_H
#define TFE_SERVER_CORE_STATES_H

#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
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

/* Returns the name of the state, such as "waiting": a static string. */
const char *job_state_name(enum job_state state);
/* Updates the state shown to users. If it does not change, its start time stays. */
void job_update_visible_state(const struct rdzv *r, struct job *job, struct tfe_wall now);
/* Moves the job from state to state as far as what is known allows, and sets its timer. */
void job_settle(struct rdzv *r, struct job *job);
/* Sends STOP to a node that has reconnected and still runs that epoch. During the switch that ends
 * the epoch it is the STOP that the other members got, so that a trainer that is saving has its
 * grace period. */
void states_stop_late(struct rdzv *r, const struct node *node, uint64_t epoch);
/* Ends the job in a final state, once that is durable. sentence is the reason, for users. */
void job_finish(struct rdzv *r, struct job *job, enum job_state state, const char *sentence);

#endif
