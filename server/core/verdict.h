/* server/core/verdict.h: how trainers of an epoch ended, what that means, and what is charged for
 * it (design 4.11).
 *
 * Terms: a *cause* is why an epoch began, an *ending* is what an agent knows of how its trainer
 * ended, and the *verdict* is the server's conclusion. */
#ifndef TFE_SERVER_CORE_VERDICT_H
#define TFE_SERVER_CORE_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"
#include "server/core/core.h"

struct job;
struct node;
struct rdzv;

enum verdict {
    VERDICT_FINISHED,
    VERDICT_AGAIN, /* the trainer ended well and is started again (policy Always) */
    /* the agent itself stopped the trainer, after it lost its guard, for example */
    VERDICT_STOPPED,
    /* the agent stopped the trainer because the server was away for longer than the fence */
    VERDICT_COORDINATOR,
    VERDICT_LOST_NODE,
    VERDICT_PREEMPTED,
    VERDICT_PEER_CAUSED,
    VERDICT_OWN_FAULT,
    VERDICT_OUT_OF_MEMORY,
    VERDICT_START_TIMEOUT,
    VERDICT_PROGRESS_TIMEOUT,
    VERDICT_UNRECOVERABLE, /* the script exited with VERDICT_USELESS_CODE */
    VERDICT__COUNT
};

/* Exit status by which a script reports that a restart cannot help (EX_DATAERR of sysexits(3)). */
#define VERDICT_USELESS_CODE 65

/* Consequences of a verdict. */
struct verdict_effect {
    const char *name;
    bool is_charged;     /* counts against the job's restart budget, with back-off */
    bool breaks_row;     /* resets the count of consecutive epochs that failed before progress */
    enum tfe_cause next; /* cause of the next epoch */
    /* added to the ending in the text of a failed job; NULL if the ending says enough */
    const char *detail;
};
extern const struct verdict_effect verdict_effects[VERDICT__COUNT];

/* Restart budget of a job, and what is known of the last epoch that ended by exits of its trainers.
 * Written by verdict.c. */
struct budget {
    uint32_t used;     /* restarts charged; the job fails if they exceed max_restarts */
    uint32_t used_was; /* restarts charged before this epoch's charge */
    bool is_used_up;   /* the last charge exceeded the budget, and it was not a permanent failure */
    bool has_progressed; /* an earlier epoch of this run has made progress */
    uint64_t epoch;      /* number of the epoch that the following fields are about */
    bool is_settled;     /* the exit that explains the epoch's end is known */
    bool is_open;        /* this epoch's end is charged, and the charge can still be cancelled */
    struct tfe_mono verdict_at; /* after this time the charge stands */
    struct tfe_mono not_before; /* the next epoch must not start earlier */
    uint32_t backoff_ms;
    uint32_t failed_epochs_was; /* failed_epochs before this epoch's end */
    struct tfe_mono not_before_was;
    uint32_t failed_epochs; /* consecutive epochs that failed before progress */
    uint32_t widest; /* the most members of an epoch since the last progress; 0 if none has begun */
};

/* --- verdict_rules.c: from the evidence to the verdict --- */

/* This many consecutive epochs that failed before progress fail the job, even if no ending was
 * charged. */
#define VERDICT_FAILED_EPOCHS_MAX 5u
/* If the script reports no progress, an epoch counts as having made progress after this long. */
#define VERDICT_PROGRESS_MS 60000
/* Returns true if the running epoch has made progress: a step or a checkpoint was reported or, for
 * scripts that never report, it has run for VERDICT_PROGRESS_MS. */
bool verdict_has_progressed(const struct rdzv *r, const struct job *job);
/* Returns true if the trainer ended by itself with exit status 0. */
bool verdict_is_good(const struct msg_exited *exited);
/* Returns true if the trainer exited by itself with VERDICT_USELESS_CODE. */
bool verdict_is_useless(const struct msg_exited *exited);
/* verdict_is_again: returns true if a trainer of this role that ended well is started again.
 * verdict_is_permanent: returns true if a trainer of this role is never started again after a fault
 * of this verdict. Both follow the job's restart policy for the role. */
bool verdict_is_again(const struct job *job, enum tfe_task task, const struct msg_exited *exited);
bool verdict_is_permanent(const struct job *job, enum tfe_task task,
                          const struct msg_exited *exited, enum verdict verdict);
/* Returns the verdict on a trainer that did not end well. was_away: the node had lost the
 * server. */
enum verdict verdict_find(const struct rdzv *r, const struct node *node,
                          const struct msg_exited *exited, bool was_away);
/* Returns the verdict on a chief that shows no sign of life. It is not at fault while a member,
 * itself included, is disconnected. */
enum verdict verdict_find_hang(const struct rdzv *r, const struct job *job);

/* --- verdict.c: consequences of a verdict --- */

/* Sets the budget: an empty one for a new run, or the recorded one after a restart. */
void verdict_begin_run(struct job *job, struct budget budget);

/* Returns true if the EXITED is valid for a node with this many trainers. */
bool exited_is_valid(const struct msg_exited *exited, uint32_t nproc);
/* Handles a valid EXITED of any epoch: sends NOTED and applies the consequences. was_away: the
 * report was part of a JOIN. */
void ending_handle(struct rdzv *r, struct node *node, const struct msg_exited *exited,
                   bool was_away);
/* Handles how the trainers of an unaccounted member ended, with the consequences for the epoch. */
void verdict_apply(struct rdzv *r, struct node *node, const struct msg_exited *exited,
                   bool was_away);
/* Ends a chief that has shown no sign of life for too long after another rank ended well. */
void verdict_apply_hang(struct rdzv *r, struct job *job);
/* A node was lost or has left: takes back charges for its peers' exits in the epoch of which it was
 * a member. */
void verdict_excuse(struct rdzv *r, const struct node *node);

/* Returns true if the failure that ended the epoch ends the job too, unless a node is lost that
 * explains it; for that the core waits a lease. */
bool verdict_is_pending(const struct rdzv *r, const struct job *job);
/* Returns true if the job has failed by what is known. If not, sets *ret_wait to when the next
 * epoch may start (in the past: now). */
bool verdict_is_final(const struct rdzv *r, const struct job *job, struct tfe_mono *ret_wait);
/* Notes the progress of an epoch that is about to be stopped: its members are no longer candidates
 * for quarantine. */
void verdict_note_progress(struct rdzv *r, struct job *job);
/* Notes the number of members of a new epoch. If it exceeds that of all epochs since the last
 * progress, failed_epochs is reset; a node that leaves and returns does not count again. */
void verdict_begin_epoch(struct job *job);
/* Resets what the running epoch's progress has made up for. Returns true if the record must be
 * written. */
bool verdict_earn(struct rdzv *r, struct job *job);
/* Returns when verdict_earn will next have an effect. */
struct tfe_mono verdict_earns_at(const struct job *job);
/* Returns when the running epoch will have refilled the budget; NEVER if nothing of it is used. */
struct tfe_mono verdict_refill_at(const struct job *job);

/* --- scripts that cannot start --- */

/* Maximum length of an exception's name; longer ones are truncated. */
#define FIRST_START_EXCEPTION_MAX 64

/* First exits of the running epoch. Written by verdict.c. */
struct first_start {
    /* number of the epoch whose first exit may be that of a script that cannot start */
    uint64_t epoch;
    uint32_t n_dead; /* number of members that ended with the same exit status and exception; 0 once
                        a member ended in another way */
    uint32_t code;   /* exit status of these members */
    char exception[FIRST_START_EXCEPTION_MAX]; /* name of the exception that ended these members, or
                                                  "" */
    struct tfe_mono until; /* time limit for the remaining members to end in the same way */
};

/* Returns until when the server waits for other ranks to end with the same exit status and
 * exception; a time in the past if it does not wait. The wait is at most the back-off that such an
 * end causes anyway. */
struct tfe_mono first_start_until(const struct job *job);
/* Returns true if all members have ended with the same exit status and exception. */
bool first_start_has_failed(const struct job *job);

/* --- quarantine of newcomers ------------------------------------------------------------------ */

/* Quarantine of a node. Written by verdict.c. */
struct quarantine {
    struct core_timer timer; /* end of the quarantine; not set if the node is not in quarantine */
    uint32_t wait_ms;
    bool is_proven; /* the node was a member of an epoch of this run that made progress */
};

static inline bool quarantine_is_on(const struct quarantine *quarantine)
{
    return wheel_is_set(&quarantine->timer.wheel);
}

#define QUARANTINE_NEW ((struct quarantine){.timer.kind = TIMER_QUARANTINE})

void quarantine_end(struct rdzv *r, struct node *node);
/* Marks all members as proven: the epoch has made progress, or is assumed to have. */
void quarantine_prove_all(struct job *job);

#endif
