/* agent/core/progress.h: training progress of this node's trainers, reported to the server. */
#ifndef TFE_AGENT_CORE_PROGRESS_H
#define TFE_AGENT_CORE_PROGRESS_H

#include "agent/core/step_context.h"

struct progress {
    /* Reports of all local trainers merged; epoch 0 if nothing runs. `memory`, the state retained
     * in this node's memory, outlives its epoch. */
    struct msg_progress all;
    uint32_t nodes;               /* number of nodes in the epoch */
    uint64_t listeners;           /* bitmap by local rank of the trainers whose scripts listen */
    bool is_sent;                 /* the server has the current values */
    struct tfe_mono next_send_at; /* earliest time of the next message about steps */
};
_Static_assert(MSG_NPROC_MAX <= 64, "a bit of listeners each");

/* Starts with empty progress for a new epoch. */
void progress_begin(struct progress *p, const struct step_context *t, uint64_t epoch,
                    uint32_t nodes);
/* Starts with empty progress for a restart within the same epoch. */
void progress_restart(struct progress *p, const struct step_context *t, uint64_t epoch);
/* Records that no trainer of the epoch runs any more. */
void progress_end(struct progress *p);

/* Merges the report of one trainer. Returns TFE_EINVAL if local is not below nproc. */
int progress_apply(struct progress *p, struct step_context *t, uint32_t local,
                   const struct msg_progress *report);
/* Records that a trainer of the epoch does not use the cluster assigned to it. */
void progress_set_alone(struct progress *p, struct step_context *t, uint64_t epoch);
void progress_welcome(struct progress *p, struct step_context *t);
void progress_tick(struct progress *p, struct step_context *t);

/* Returns the state retained in memory, as last reported by the trainers. */
const struct msg_memory *progress_memory(const struct progress *p);

/* Returns the time of the next progress_tick. */
struct tfe_mono progress_deadline(const struct progress *p, const struct step_context *t);

#endif
