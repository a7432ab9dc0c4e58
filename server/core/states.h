/* server/core/states.h: what moves a job from one state to the next. */
#ifndef TFE_SERVER_CORE_STATES_H
#define TFE_SERVER_CORE_STATES_H

#include <stdint.h>

#include "common/base/time.h"
#include "server/core/job_state.h"

struct job;
struct node;
struct rdzv;

/* "waiting", …: static. */
const char *job_state_name(enum job_state state);
/* Notes the state that people see, with the time at which it began. */
void job_note_word(struct job *job, struct tfe_wall now);
/* Goes on from state to state as far as what is known allows, and sets the job's timer. */
void job_settle(struct rdzv *r, struct job *job);
/* Tells a node that is back, and runs that epoch still, to stop: in the switch that ends it as the
 * other members were told, so that a trainer that saves, or has not heard it, has its grace. */
void states_stop_late(struct rdzv *r, const struct node *node, uint64_t epoch);
/* Ends the job in a final state, once that is durable; sentence is for people. */
void job_finish(struct rdzv *r, struct job *job, enum job_state state, const char *sentence);

#endif
