/* server/core/epoch.h: an epoch (one agreed cluster): forming, starting and adopting it. */
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
    uint32_t n_heard; /* how often nodes have raised the number since the last epoch was formed */
    uint32_t n_seats;
    /* number of ps among the slots; a changed option counts from the next epoch on */
    uint32_t n_ps;
    /* members by slot, with the job's capacity; roster.h says which replicas a slot has */
    struct node **seats;
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
    bool is_first;       /* no earlier epoch of the run was open */
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

/* Counts one more accounted member. */
static inline void epoch_count_accounted(struct epoch *epoch)
{
    epoch->n_accounted++;
}

/* Counts one accounted member less: its trainers start again. */
static inline void epoch_uncount_accounted(struct epoch *epoch)
{
    epoch->n_accounted--;
}

static inline void epoch_uncount_listening(struct epoch *epoch)
{
    epoch->n_listening--;
}

/* Notes that the trainers have made a step together. */
static inline void epoch_note_progress(struct epoch *epoch)
{
    epoch->has_progressed = true;
}

/* Puts the node into a slot of an epoch that is to be adopted. */
static inline void epoch_seat(struct epoch *epoch, uint32_t seat, struct node *node)
{
    epoch->seats[seat] = node;
}

/* Reserves memory for this many slots. Returns 0 or TFE_ENOMEM. */
int epoch_reserve(struct rdzv *r, struct epoch *epoch, size_t seats) TFE_MUST_CHECK;
/* A node reports that it has seen this epoch number: raises the next number above it. Accepted up
 * to MSG_LEAP above the last epoch of this server, or one false report would use the numbers up.
 * Repeated reports raise the number by increasing amounts, so that false ones can make the job
 * repeat READY only a few times. Returns false if the number was known or is not accepted. */
bool epoch_hear(struct job *job, uint64_t seen);
/* Returns true if no member without which the epoch cannot go on has ended or is lost. */
bool epoch_is_whole(const struct job *job);
/* Returns true if another process has joined with the id of a member whose first process may still
 * train. */
bool epoch_has_twin(const struct job *job);
/* Counts one more listening member. Returns true if now all members listen for the first time. */
bool epoch_count_listening(struct job *job);

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
uint64_t epoch_take_number(struct job *job);
/* Sends START to all members that have not received it. */
void epoch_tell_rest(struct rdzv *r, struct job *job);
/* Sends the table and START again to a member that has reconnected. */
void epoch_tell_again(struct rdzv *r, struct job *job, struct node *node);
/* Adopts the running epoch, whose members are in their slots. Returns false if their rows do not
 * match the digest; the job has no epoch then. */
bool epoch_adopt(struct rdzv *r, struct job *job, uint32_t n_seats, const struct epoch_past *past);
/* Sets the last epoch of a job that is over, from its record. */
void epoch_restore_last(struct job *job, uint64_t number, enum tfe_cause cause);
/* Ends the epoch: the job is over, and its members' slots are free. */
void epoch_leave(struct job *job);
/* Starts a new run: trainers of the last run, if any, are not waited for. */
void epoch_begin_run(struct job *job);

#endif
