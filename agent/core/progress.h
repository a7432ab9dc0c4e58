/* agent/core/progress.h: how far the trainers of this node have come, told to the server. */
#ifndef TFE_AGENT_CORE_PROGRESS_H
#define TFE_AGENT_CORE_PROGRESS_H

#include "agent/core/turn.h"

struct progress {
    struct msg_progress all;  /* what all trainers of this node have told; epoch 0: nothing runs */
    struct msg_memory memory; /* … of what is kept here, which outlives its epoch */
    uint32_t nodes;           /* in the epoch */
    uint64_t listeners;       /* which of them listen, by local rank */
    bool is_told;             /* … to the server, as it is */
    struct tfe_mono next;     /* when something may be told again */
};
_Static_assert(MSG_NPROC_MAX <= 64, "a bit of listeners each");

/* A new epoch runs here: nothing is known of it. */
void progress_begin(struct progress *p, const struct turn *t, uint64_t epoch, uint32_t nodes);
/* The same one, once more. */
void progress_again(struct progress *p, const struct turn *t, uint64_t epoch);
/* Nothing of it runs any more. */
void progress_end(struct progress *p);

/* TFE_EINVAL: no such trainer. */
int progress_take(struct progress *p, struct turn *t, uint32_t local,
                  const struct msg_progress *told);
/* A trainer of the epoch does not use the cluster that it was given. */
void progress_set_alone(struct progress *p, struct turn *t, uint64_t epoch);
void progress_welcome(struct progress *p, struct turn *t);
void progress_tick(struct progress *p, struct turn *t);

/* What is kept here, for all that the trainers have told. */
const struct msg_memory *progress_memory(const struct progress *p);

/* When it wants to be ticked. */
struct tfe_mono progress_deadline(const struct progress *p, const struct turn *t);

#endif
