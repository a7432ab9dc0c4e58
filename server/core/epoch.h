/* server/core/epoch.h: an epoch (one agreed cluster): forming, starting and adopting it, and each
 * member's part in it. */
#ifndef TFE_SERVER_CORE_EPOCH_H
#define TFE_SERVER_CORE_EPOCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* The current epoch of a job. Written by epoch.c. */
struct epoch {
    uint64_t number; /* number of the epoch; 0 if there was none yet */
    /* highest credible number that any node has reported; the next epoch's is above it */
    uint64_t highest;
    uint32_t n_raised; /* how often nodes have raised the number since the last epoch was formed */
    uint32_t n_slots;
    /* number of ps among the slots; a changed option counts from the next epoch on */
    uint32_t n_ps;
    /* members by slot, with the job's capacity; layout.h says which replicas a slot has */
    struct node **slots;
    uint64_t digest; /* digest of the epoch's table */
    enum tfe_cause cause;
    struct tfe_mono started;
    uint32_t n_accounted;
    uint32_t n_listening; /* number of members whose trainers are listening */
    bool has_listened;    /* all members were listening at one time */
    /* the epoch began under an earlier server: the members' first reports are no news */
    bool is_adopted;
    bool is_open; /* the epoch is durable and START has been sent to some member */
    /* some member uses fixed ports, so trainers of the next epoch may have the same addresses */
    bool has_fixed_ports;
    bool has_progressed; /* progress had been made when the switch, or the job's end, began */
    bool is_first;       /* no epoch of the run had started before this one */
    /* START goes to the other members once the leader listens, or at this time; NEVER once it has
     * been sent to all */
    struct tfe_mono leader_until;
};

/* What a server that was away, or has lost its disk, knows of the running epoch. */
struct epoch_past {
    uint64_t number;
    enum tfe_cause cause;
    uint64_t digest; /* digest of the epoch's table; 0: compute it from the members' rows */
    uint32_t n_ps;   /* number of ps in the epoch; 0: as many as the job wants now */
    bool must_match; /* adoption fails if the computed digest differs from this one */
};

/* Puts the node into a slot of an epoch that is to be adopted. */
static inline void epoch_set_slot(struct epoch *epoch, uint32_t slot, struct node *node)
{
    epoch->slots[slot] = node;
}

/* Reserves memory for this many slots. Returns 0 or TFE_ENOMEM. */
int epoch_reserve(struct rdzv *r, struct epoch *epoch, size_t slots) TFE_MUST_CHECK;
/* A node reports that it has seen this epoch number: raises the next number above it. Accepted up
 * to MSG_LEAP above the last epoch of this server, or one false report would use the numbers up.
 * Repeated reports raise the number by increasing amounts, so that false ones can make the job
 * repeat READY only a few times. Returns false if the number was known or is not accepted. */
bool epoch_raise_number(struct job *job, uint64_t seen);
/* Returns true if no member without which the epoch cannot continue has ended or is lost. */
bool epoch_is_intact(const struct job *job);
/* Returns true if another process has joined with the id of a member whose first process may still
 * train. */
bool epoch_has_duplicate(const struct job *job);

/* Chooses members and slots from the ready nodes and makes the table. Precondition: at least min
 * nodes are ready. */
void epoch_form(struct rdzv *r, struct job *job);
/* Starts a durable epoch: sends the table to all members and START to the leader. The leader must
 * listen before the others connect, or all of them lose a second in TensorFlow's back-off. */
void epoch_open(struct rdzv *r, struct job *job);
/* Sends PREPARE for the next epoch to all connected nodes that are not members. */
void epoch_prepare_spares(struct rdzv *r, struct job *job);
/* Takes the next epoch number for something that is no epoch (the evaluator). The next epoch gets
 * the number after it, for which no node is READY yet. */
uint64_t epoch_reserve_number(struct job *job);
/* Sends START to all members that have not received it. */
void epoch_start_rest(struct rdzv *r, struct job *job);
/* Sends the table and START again to a member that has reconnected. */
void epoch_resend_start(struct rdzv *r, struct job *job, struct node *node);
/* Adopts the running epoch, whose members are in their slots. Returns false if their rows do not
 * match the digest; the job has no epoch then. */
bool epoch_adopt(struct rdzv *r, struct job *job, uint32_t n_slots, const struct epoch_past *past);
/* Sets the last epoch of a job that is over, from its record. */
void epoch_restore_last(struct job *job, uint64_t number, enum tfe_cause cause);
/* Ends the epoch: the job is over, and its members' slots are free. */
void epoch_leave(struct job *job);
/* Starts a new run: trainers of the last run, if any, are not waited for. */
void epoch_begin_run(struct job *job);

/* --- a member's part in the epoch ------------------------------------------------------------- */

/* Slot of a member. For other nodes all fields are zero, except index and idle_since. Written by
 * epoch.c, and the last group of fields by worker_restart.c. */
struct slot {
    uint32_t index;    /* index of the slot in the epoch, or NO_SLOT */
    bool is_accounted; /* no trainer of this member in this epoch runs any more */
    /* rank 0 only: since when it has shown no sign of life; NEVER if it shows some */
    struct tfe_mono idle_since;
    bool has_counted;  /* counted: its trainers ended well, for the job's success */
    bool is_started;   /* START was sent to it, or will be when it reconnects */
    bool is_listening; /* its trainers accept connections */
    bool is_restored;  /* restored from a record: unknown whether its process received START */
    bool is_dead;      /* suspect: probes have proven that its trainers are dead */
    bool has_reported; /* it has reported progress of this epoch */
    bool listens;      /* its scripts can be asked to save, by its latest report */
    /* Another process has joined with the node's id. The first one's trainers run until their fence
     * at previous_fence_end, unless its agent learns that it was replaced. */
    bool is_taken_over;
    uint32_t
        n_void_starts; /* number of STARTs that it has answered with JOIN on the same connection */
    struct tfe_mono previous_fence_end;
    bool is_alone;             /* its trainers do not use the cluster that they were given */
    uint64_t start_visit;      /* connection on which START was last sent to it */
    uint64_t save_sent;        /* number of the last SAVE sent on this connection */
    uint64_t snapshot_answers; /* number of the last SAVE for which its memory keeps the state */
    /* For a worker without which the epoch can continue (worker_restart.h): */
    bool is_done;        /* its trainers have ended with exit status 0 and are not started again */
    bool is_due;         /* its trainers have ended and are started again at `due` */
    bool will_drain;     /* its trainers are stopped at `due` */
    bool is_draining;    /* STOP has been sent to its trainers */
    uint32_t n_futile;   /* consecutive restarts without a step in between */
    uint32_t pause_ms;   /* pause before the latest restart */
    uint64_t n_restarts; /* number of the last RESTART */
    uint64_t began_step; /* the job's step at the latest restart */
    struct tfe_mono due;
};

#define SLOT_NONE ((struct slot){.index = NO_SLOT, .idle_since = TFE_MONO_NEVER})

/* Clears the slot: the epoch is over, or the node has left it. */
void slot_clear(struct node *node);
/* Gives the node its slot in an adopted epoch: its trainers are assumed to run. */
void slot_adopt(struct node *node, uint32_t index, bool is_listening);
/* Gives the node its slot in an adopted epoch, from a record. */
void slot_restore(struct node *node, uint32_t index);

/* Marks the member as accounted for, by its agent's report: no trainer of it in the current epoch
 * runs any more. */
void slot_account(struct node *node);
/* Counts the member's good end for the job's success. Returns false if it was counted before. */
bool slot_count_success(struct node *node);
/* Marks the member as dead and accounted for, because other nodes found its ports closed. */
void slot_prove_dead(struct node *node);
/* Notes that the node has reconnected: a proof of its death is void, and messages may have been
 * lost. */
void slot_note_reconnect(struct node *node);
/* Marks the member as unaccounted: a trainer of it runs or is about to. */
void slot_unaccount(struct node *node);
/* Marks the member's trainers as listening. Returns true if now all members listen for the first
 * time. */
bool slot_set_listening(struct node *node);
void slot_clear_listening(struct node *node);
void slot_set_progress(struct node *node, const struct msg_progress *progress);
/* Marks the slot as taken over: another process has joined with the node's id. The first one's
 * fence ends at fence_end. */
void slot_take_over(struct node *node, struct tfe_mono fence_end);
/* Counts a START that was answered with JOIN on the same connection. Returns true if that was once
 * too often. */
bool slot_void_start(struct node *node);
/* Raises the number of RESTARTs to one that the node has reported. */
void slot_note_restarts(struct node *node, uint64_t restart);
/* Returns by when trainers of this slot whose end is unknown must have ended. */
struct tfe_mono slot_fence_end(const struct node *node);

#endif
