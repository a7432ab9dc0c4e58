/* server/core/told.h: progress of an epoch, as its members report it. */
#ifndef TFE_SERVER_CORE_TOLD_H
#define TFE_SERVER_CORE_TOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;

/* Progress of all members together: for each value the highest that any member has reported.
 * Written by told.c. */
struct told {
    bool has_step;
    uint64_t step;
    bool has_saved;
    uint64_t saved_step;
    bool has_kept; /* kept_step is set: a step of this epoch whose state is kept in memory */
    uint64_t kept_step;
    /* a member has reported from which step the epoch went on; the first report counts */
    bool has_from;
    uint32_t saves;
    uint64_t answers;
    uint32_t n_listen;     /* number of members whose scripts can be asked to save */
    bool ends;             /* a trainer has begun to exit with status 0 */
    bool partitioned;      /* checkpoints can be read with another number of ps */
    struct tfe_mono first; /* when a step or a checkpoint was reported first; NEVER if none was */
    struct tfe_mono last;  /* when a step or a checkpoint was reported last; NEVER if none was */
    struct tfe_mono last_save; /* when a checkpoint was reported last; NEVER if none was */
    struct tfe_mono last_kept; /* when a later step was last kept in memory; NEVER if none was */
};

/* Returns true if any progress was reported: a step or a checkpoint. */
static inline bool told_any(const struct told *told)
{
    return told->has_step || told->saves > 0;
}

/* Clears the progress for a new epoch. */
void told_begin(struct job *job);
/* Each of these applies one reported value if it exceeds the earlier ones, and returns true if it
 * did. is_news: it happened just now, and was not reported to an earlier server. */
bool told_step(struct job *job, struct tfe_mono now, uint64_t step);
bool told_saved_step(struct job *job, uint64_t step);
bool told_saves(struct job *job, struct tfe_mono now, uint32_t saves, bool is_news);
bool told_kept(struct job *job, struct tfe_mono now, const struct msg_memory *memory, bool is_news);
bool told_from(struct job *job);
bool told_answer(struct job *job, uint64_t answers);
bool told_ends(struct job *job, bool ends);
/* Notes whether checkpoints can be read with another number of ps. Nothing follows at once. */
void told_partitioned(struct job *job, bool partitioned);
/* Counts one member more, or less, whose scripts can be asked to save. */
void told_listens(struct job *job, bool listens);
/* Sets *ret_step to the step from which the next epoch can continue: from disk, or from the memory
 * of a node that stays. Returns false if there is none. O(nodes). */
bool told_safe_step(struct job *job, uint64_t *ret_step);

#endif
