/* server/core/wish.h: requests that rules make of states.c: to end the running epoch, or to end the
 * job because a trainer has ended well. */
#ifndef TFE_SERVER_CORE_WISH_H
#define TFE_SERVER_CORE_WISH_H

#include <stdbool.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* Requested switch of a job. Written by wish.c. */
struct switch_wish {
    bool is_there;
    bool is_planned;      /* no trainer has failed: trainers that listen get the stop grace */
    enum tfe_cause cause; /* cause of the next epoch */
};

/* Requests a switch because something in the epoch is broken. The first cause stays, unless it was
 * that of a planned switch that has not begun. blamed: the node whose loss, exit or notice it is,
 * or NULL. */
void switch_want(struct job *job, enum tfe_cause cause, const struct node *blamed);
/* Requests a planned switch: nothing is broken, so the trainers may end in an orderly way. An
 * earlier request stays. */
void switch_plan(struct job *job, enum tfe_cause cause, const struct node *blamed);
/* Clears the request, which has been carried out or withdrawn. */
void switch_clear(struct job *job);

/* --- the job's success: a trainer of the epoch has ended well --- */

/* Progress of a job towards success. Written by wish.c. */
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
void success_take(struct rdzv *r, struct job *job, struct node *node);
/* Ends the linger period: the remaining trainers have no more time. */
void success_end_wait(struct rdzv *r, struct job *job);
/* Clears the request for the job's end, which has been carried out. */
void success_done(struct job *job);

#endif
