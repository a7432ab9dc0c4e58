/* server/core/states.h: state transitions of a job. */
#ifndef TFE_SERVER_CORE_STATES_H
#define TFE_SERVER_CORE_STATES_H

#include <stdint.h>

#include "common/base/time.h"
#include "server/core/job_state.h"

struct job;
struct node;
struct rdzv;

/* Returns the name of the state, such as "waiting": a static string. */
const char *job_state_name(enum job_state state);
/* Updates the state shown to users and the time at which it began. */
void job_note_word(struct job *job, struct tfe_wall now);
/* Moves the job from state to state as far as what is known allows, and sets its timer. */
void job_settle(struct rdzv *r, struct job *job);
/* Sends STOP to a node that has reconnected and still runs that epoch. During the switch that ends
 * the epoch it is the STOP that the other members got, so that a trainer that is saving has its
 * grace period. */
void states_stop_late(struct rdzv *r, const struct node *node, uint64_t epoch);
/* Ends the job in a final state, once that is durable. sentence is the reason, for users. */
void job_finish(struct rdzv *r, struct job *job, enum job_state state, const char *sentence);

#endif
