/* server/core/verdict.h: how the trainers of an epoch ended, what that means, and who pays for it
 * (design 4.11).
 *
 * The words: a *cause* is why an epoch began, an *ending* is what an agent knows of how its trainer
 * ended, and the *verdict* is what follows from it. */
#ifndef TFE_SERVER_CORE_VERDICT_H
#define TFE_SERVER_CORE_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

enum verdict {
    VERDICT_FINISHED,
    VERDICT_AGAIN,       /* well, and it starts again all the same */
    VERDICT_STOPPED,     /* by us: the agent did it itself, for it lost its guard, say */
    VERDICT_COORDINATOR, /* … because the server was not there for longer than the fence */
    VERDICT_LOST_NODE,
    VERDICT_PREEMPTED,
    VERDICT_PEER_CAUSED,
    VERDICT_OWN_FAULT,
    VERDICT_OUT_OF_MEMORY,
    VERDICT_START_TIMEOUT,
    VERDICT_PROGRESS_TIMEOUT,
    VERDICT__COUNT
};

/* What follows from it. */
struct verdict_effect {
    const char *name;
    bool is_charged;     /* to the job-global budget, with back-off */
    bool breaks_row;     /* of epochs that came to nothing */
    enum tfe_cause next; /* of the next epoch */
    const char
        *words; /* behind how it ended, in the sentence of a failed job; NULL: that says it */
};
extern const struct verdict_effect verdict_effects[VERDICT__COUNT];

/* The restarts that a job has, and what is known of the last epoch that ended by its trainers'
 * exits. Written by verdict.c. */
struct budget {
    uint32_t used;              /* above the job's max_restarts: it fails */
    uint32_t used_was;          /* before this epoch's charge */
    bool is_used_up;            /* that is by its last charge, and not because one was for good */
    bool has_progressed;        /* an earlier epoch of this run has */
    uint64_t epoch;             /* the epoch that the following is about */
    bool is_settled;            /* the exit that explains its end is known */
    bool is_open;               /* charged, and may still be taken back */
    struct tfe_mono verdict_at; /* not any more from then on */
    struct tfe_mono not_before; /* the next epoch starts no sooner */
    uint32_t backoff_ms;
    uint32_t fruitless_was; /* before this epoch's end */
    struct tfe_mono not_before_was;
    uint32_t fruitless; /* epochs in a row that ended so without progress */
    uint32_t widest; /* the most members of an epoch since the last progress; 0: none has begun */
    char sentence[MSG_SENTENCE_MAX]; /* how the job fails if this was too much */
};

/* --- verdict_rules.c: from what is known of an end to the verdict --- */

/* An epoch that ran for so long has made progress, where its script tells nothing. */
#define VERDICT_PROGRESS_MS 60000
/* Whether the running epoch has made progress: something was told, or, where nobody ever tells, it
 * has run for a while. */
bool verdict_has_progressed(const struct rdzv *r, const struct job *job);
/* Of its own accord, with exit status 0. */
bool verdict_is_good(const struct msg_exited *exited);
/* Whether this role's trainer starts again after it has ended so, or well; and whether it never
 * does after a fault of this verdict. By the job's restart policy for the role. */
bool verdict_is_again(const struct job *job, enum tfe_task task, const struct msg_exited *exited);
bool verdict_is_permanent(const struct job *job, enum tfe_task task,
                          const struct msg_exited *exited, enum verdict verdict);
/* Where the exception that ended a Python program is told: the first line after its last traceback
 * that is not indented. NULL: there is none. */
const char *verdict_exception(const char *tail);
/* Of a trainer that did not end well, from what is known of it. was_away: the node had lost the
 * server. */
enum verdict verdict_find(const struct rdzv *r, const struct node *node,
                          const struct msg_exited *exited, bool was_away);
/* Likewise, of a chief that does not end: nobody's fault while a member, itself for one, is out of
 * sight. */
enum verdict verdict_find_hang(const struct rdzv *r, const struct job *job);

/* --- verdict.c: what follows --- */

/* A new run; or (budget) as a record says, of the run before the server's restart. */
void verdict_begin_run(struct job *job, struct budget budget);

/* Whether the EXITED can come from a node with so many trainers. */
bool exited_is_sound(const struct msg_exited *exited, uint32_t nproc);
/* An EXITED that is sound, of whatever epoch: NOTED, and what follows from it. was_away: it came in
 * a JOIN. */
void ending_take(struct rdzv *r, struct node *node, const struct msg_exited *exited, bool was_away);
/* A member that was not accounted for says how its trainers ended: what follows for the epoch. */
void verdict_take(struct rdzv *r, struct node *node, const struct msg_exited *exited,
                  bool was_away);
/* Another rank has ended well, and the chief has shown no sign of life for too long. */
void verdict_take_hang(struct rdzv *r, struct job *job);
/* A node was lost or has left: what its peers' trainers did in the epoch that it was a member of
 * followed from that. */
void verdict_excuse(struct rdzv *r, const struct node *node);

/* Whether the job has failed by what is known. If not, *ret_wait is when the next epoch may start
 * (in the past: now). */
bool verdict_is_final(const struct rdzv *r, const struct job *job, struct tfe_mono *ret_wait);
/* The epoch is about to be stopped: who was in one that got further is no bad newcomer. */
void verdict_note_progress(struct rdzv *r, struct job *job);
/* The members of a new epoch are known: a node that has joined ends the row of fruitless ones, too.
 * More members than any epoch had since the last progress: one that leaves and returns does not
 * count again. */
void verdict_begin_epoch(struct job *job);
/* What the running epoch's progress makes up for, by now; true: a restarted server must know. */
bool verdict_earn(struct rdzv *r, struct job *job);
/* When there will be more to earn. */
struct tfe_mono verdict_earns_at(const struct job *job);
/* When the running epoch will have earned the budget back; NEVER if nothing of it is used. */
struct tfe_mono verdict_refill_at(const struct job *job);

#endif
