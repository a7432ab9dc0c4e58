/* server/core/wish.h: what a rule has to say upwards: that the running epoch ends, or
 * that the job does, because somebody has ended well. states.c alone carries it out. */
#ifndef TFE_SERVER_CORE_WISH_H
#define TFE_SERVER_CORE_WISH_H

#include <stdbool.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* Written by wish.c. */
struct switch_wish {
    bool is_there;
    bool is_planned;      /* nobody has failed: trainers that listen have the stop grace */
    enum tfe_cause cause; /* of the next epoch */
};

/* Something of the epoch is broken. The first cause stays, but for one that was only planned and
 * not begun. blamed: whose loss, exit or notice it is; NULL: nobody's. */
void switch_want(struct job *job, enum tfe_cause cause, const struct node *blamed);
/* Nothing is broken: its trainers may come to their end in an orderly way. A wish that is there
 * stays. */
void switch_plan(struct job *job, enum tfe_cause cause, const struct node *blamed);
/* It has been carried out, or nobody has it any more. */
void switch_clear(struct job *job);

/* --- somebody of the epoch has ended well: the job is about to --- */

/* Written by wish.c. */
struct success {
    bool has_begun;        /* somebody has ended well */
    bool is_here;          /* whose success counts have: the others' exit codes no longer matter */
    bool is_due;           /* … while their epoch was being left: the job has to end now */
    uint32_t n_counted;    /* of those whose success counts, who have ended well */
    uint32_t n_ended;      /* members other than rank 0 that have ended well */
    struct tfe_mono began; /* when the first of them had; NEVER */
    struct tfe_mono
        until; /* after the success the others have so long; NEVER: as long as it takes */
};

/* Nobody has. */
void success_clear(struct job *job);
/* Records that a rank other than 0 has, which decides nothing: the job does not grow any more, and
 * rank 0 is ended once it shows no sign of life for long. */
void success_begin(struct rdzv *r, struct job *job);
/* What RENEW says of rank 0, from its node. */
void success_note_rank0(struct rdzv *r, struct node *node, const struct msg_renew *renew);
/* When rank 0 is to be ended for its silence, as things stand; NEVER: not. */
struct tfe_mono success_hangs_at(const struct job *job);
/* The trainers of this member have, while its epoch runs, or while it is being left: where they are
 * the last of those that it takes, that is a wish which states.c settles. */
void success_take(struct rdzv *r, struct job *job, struct node *node);
/* The others' time is over, where they were let run. */
void success_end_wait(struct rdzv *r, struct job *job);
/* The wish is settled. */
void success_done(struct job *job);

#endif
