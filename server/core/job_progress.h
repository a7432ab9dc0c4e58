/* server/core/job_progress.h: progress of an epoch as its members report it, requests to end the
 * epoch, and the job's way to success. states.c carries the requests out. */
#ifndef TFE_SERVER_CORE_JOB_PROGRESS_H
#define TFE_SERVER_CORE_JOB_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* Progress of all members together: for each value the highest that any member has reported.
 * Written by job_progress.c. */
struct progress {
    bool has_step;
    uint64_t step;
    bool has_saved;
    uint64_t saved_step;
    bool
        has_snapshot; /* snapshot_step is set: a step of this epoch whose state is kept in memory */
    uint64_t snapshot_step;
    /* a member has reported from which step the epoch continued; the first report counts */
    bool has_from;
    uint32_t saves;
    uint64_t answers;
    uint32_t n_listen;     /* number of members whose scripts can be asked to save */
    bool ends;             /* a trainer has begun to exit with status 0 */
    bool partitioned;      /* checkpoints can be read with another number of ps */
    struct tfe_mono first; /* when a step or a checkpoint was reported first; NEVER if none was */
    struct tfe_mono last;  /* when a step or a checkpoint was reported last; NEVER if none was */
    struct tfe_mono last_save; /* when a checkpoint was reported last; NEVER if none was */
    struct tfe_mono
        last_snapshot; /* when a later step was last kept in memory; NEVER if none was */
};

/* Returns true if any progress was reported: a step or a checkpoint. */
static inline bool progress_was_reported(const struct progress *progress)
{
    return progress->has_step || progress->saves > 0;
}

/* Clears the progress for a new epoch. */
void progress_begin(struct job *job);
/* Sets *ret_step to the step from which the next epoch can continue: from disk, or from the memory
 * of a node that stays. Returns false if there is none. O(nodes). */
bool progress_safe_step(struct job *job, uint64_t *ret_step);

/* --- requests to end the epoch ---------------------------------------------------------------- */

/* Requested switch of a job. Written by job_progress.c. */
struct pending_switch {
    bool is_set;
    bool is_planned;      /* no trainer has failed: trainers that listen get the stop grace */
    enum tfe_cause cause; /* cause of the next epoch */
};

/* Requests a switch because something in the epoch is broken. The first cause stays, unless it was
 * that of a planned switch that has not begun. blamed: the node whose loss, exit or notice it is,
 * or NULL. */
void switch_request(struct job *job, enum tfe_cause cause, const struct node *blamed);
/* Requests a planned switch: nothing is broken, so the trainers may end in an orderly way. An
 * earlier request stays. */
void switch_plan(struct job *job, enum tfe_cause cause, const struct node *blamed);
/* Clears the request, which has been carried out or withdrawn. */
void switch_clear(struct job *job);

/* --- the job's success: a trainer of the epoch has ended well --- */

/* Progress of a job towards success. Written by job_progress.c. */
struct success {
    bool has_begun; /* some trainer has ended well */
    /* all required trainers have ended well: the exit codes of the others no longer matter */
    bool is_here;
    bool is_due; /* success was reached while the epoch was being stopped: the job must end now */
    uint32_t n_counted;    /* number of members that have ended well and count for success */
    uint32_t n_ended;      /* number of members other than rank 0 that have ended well */
    struct tfe_mono began; /* when the first member ended well; NEVER if none has */
    /* until when the other trainers may run after the success; NEVER if there is no limit */
    struct tfe_mono until;
};

/* Clears the success: no trainer has ended well. */
void success_clear(struct job *job);
/* Notes that a rank other than 0 has ended well. The job does not grow any more, and rank 0 is
 * ended once it shows no sign of life for long. */
void success_begin(struct rdzv *r, struct job *job);
/* Handles what RENEW reports of rank 0, from the node that runs it. */
void success_note_rank0(struct rdzv *r, struct node *node, const struct msg_renew *renew);
/* Returns when rank 0 will be ended for its silence, as things stand; NEVER if it will not be. */
struct tfe_mono success_hangs_at(const struct job *job);
/* Notes that the trainers of this member have ended well, while its epoch runs or is being stopped.
 * If they are the last ones required, requests the job's end. */
void success_count(struct rdzv *r, struct job *job, struct node *node);

#endif
