/* server/core/told.h: what the members of an epoch have told of how far it has come. */
#ifndef TFE_SERVER_CORE_TOLD_H
#define TFE_SERVER_CORE_TOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;

/* All members together: each the most that one of them has told. Written by told.c. */
struct told {
    bool has_step;
    uint64_t step;
    bool has_saved;
    uint64_t saved_step;
    bool has_kept; /* in memory, in this epoch */
    uint64_t kept_step;
    bool has_from; /* where the epoch went on: what was told first counts */
    uint32_t saves;
    uint64_t answers;
    uint32_t n_listen;         /* members whose scripts can be asked to save */
    bool ends;                 /* a trainer has begun to exit 0 */
    bool partitioned;          /* checkpoints fit another number of ps */
    struct tfe_mono first;     /* a step or a checkpoint was told; NEVER */
    struct tfe_mono last;      /* … for the last time */
    struct tfe_mono last_save; /* a checkpoint was; NEVER */
    struct tfe_mono last_kept; /* a later step was kept; NEVER */
};

/* Any progress: a step, or a checkpoint. */
static inline bool told_any(const struct told *told)
{
    return told->has_step || told->saves > 0;
}

/* A new epoch, of which nothing is known. */
void told_begin(struct job *job);
/* These take what is more than was told before, and say whether it was. is_news: it has happened
 * just now, or it was told to a server before this one. */
bool told_step(struct job *job, struct tfe_mono now, uint64_t step);
bool told_saved_step(struct job *job, uint64_t step);
bool told_saves(struct job *job, struct tfe_mono now, uint32_t saves, bool is_news);
bool told_kept(struct job *job, struct tfe_mono now, const struct msg_memory *memory, bool is_news);
bool told_from(struct job *job);
bool told_answer(struct job *job, uint64_t answers);
bool told_ends(struct job *job, bool ends);
/* Nothing is decided by it at once. */
void told_partitioned(struct job *job, bool partitioned);
/* A member's scripts can be asked from now on, or cannot any more. */
void told_listens(struct job *job, bool listens);
/* From which step the next epoch can go on, for all that is known: from the disk, or from what a
 * node keeps that will be in it. False: from none. O(nodes). */
bool told_safe_step(struct job *job, uint64_t *ret_step);

#endif
