/* server/core/epoch.h: one agreed cluster: formed, opened, told, adopted. */
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

/* Written by epoch.c. */
struct epoch {
    uint64_t number;  /* 0: none yet */
    uint64_t highest; /* seen anywhere, as far as that is believed: the next one is above it */
    uint32_t n_heard; /* times that nodes have raised it since the last one was formed */
    uint32_t n_seats;
    uint32_t n_ps; /* among them; another wish of the job counts from the next epoch on */
    struct node *
        *seats;      /* by index, the job's capacity; roster.h says which places they stand for */
    uint64_t digest; /* of its table */
    enum tfe_cause cause;
    struct tfe_mono started;
    uint32_t n_accounted;
    uint32_t n_listening; /* members that said so */
    bool has_listened;    /* all of them, at one time */
    bool is_adopted;      /* from before this server: what members tell first is no news */
    bool is_open;         /* durable, and somebody has been told START */
    bool has_fixed_ports; /* some member: the next epoch may have trainers where this one has */
    bool has_progressed;  /* by what was known when its switch, or the job's end, began */
    bool is_first;        /* none of its run was open before */
    /* The others are told once the leader listens, or by then; NEVER: everybody has been told. */
    struct tfe_mono leader_until;
};

/* What a server that was away, or has lost its disk, knows of the epoch that runs. */
struct epoch_past {
    uint64_t number;
    enum tfe_cause cause;
    uint64_t digest; /* of its table; 0: that of its members' rows */
    uint32_t n_ps;   /* 0: as many as the job wants now */
    bool must_match; /* … and no other will do */
};

/* One more of its members is accounted for. */
static inline void epoch_count_accounted(struct epoch *epoch)
{
    epoch->n_accounted++;
}

/* One of them is not any more, or listens no more: its trainers start again. */
static inline void epoch_uncount_accounted(struct epoch *epoch)
{
    epoch->n_accounted--;
}

static inline void epoch_uncount_listening(struct epoch *epoch)
{
    epoch->n_listening--;
}

/* Its trainers have made a step together. */
static inline void epoch_note_progress(struct epoch *epoch)
{
    epoch->has_progressed = true;
}

/* For an epoch that is to be adopted. */
static inline void epoch_seat(struct epoch *epoch, uint32_t seat, struct node *node)
{
    epoch->seats[seat] = node;
}

/* Room for so many seats. TFE_ENOMEM. */
int epoch_reserve(struct rdzv *r, struct epoch *epoch, size_t seats) TFE_MUST_CHECK;
/* A node says that it has seen this one: the next is above it. It is believed up to MSG_LEAP above
 * the last one of this server, or one lie would use the numbers up; and what raises
 * it again and again before an epoch comes of it raises it by more each time, so that lies have the
 * whole job asked again a few times only. False: that was known, or is not believed. */
bool epoch_hear(struct job *job, uint64_t seen);
/* Nobody of it that it cannot go on without has come to an end, or is missing for good. */
bool epoch_is_whole(const struct job *job);
/* Another process has come with the id of a member, which may train on. */
bool epoch_has_twin(const struct job *job);
/* One more of its members listens: whether that is everybody, for the first time. */
bool epoch_count_listening(struct job *job);

/* Chooses members and places from the ready nodes and makes the table. Precondition: at least min
 * nodes are ready. */
void epoch_form(struct rdzv *r, struct job *job);
/* It is durable: its table to everybody, START to the leader, which must listen before the others
 * connect or all of them lose a second in TensorFlow's back-off. */
void epoch_open(struct rdzv *r, struct job *job);
/* Who is connected and no member, for the epoch after this one. */
void epoch_prepare_spares(struct rdzv *r, struct job *job);
/* The number of the next epoch for something that is none; that one has the number behind it, for
 * which nobody is READY yet. */
uint64_t epoch_take_number(struct job *job);
/* START to all who have not had it. */
void epoch_tell_rest(struct rdzv *r, struct job *job);
/* What a member that came back has missed. */
void epoch_tell_again(struct rdzv *r, struct job *job, struct node *node);
/* Takes the epoch that runs as it is; its members are on the seats. False: their rows are not the
 * ones of that digest; there is no epoch then. */
bool epoch_adopt(struct rdzv *r, struct job *job, uint32_t n_seats, const struct epoch_past *past);
/* The last one of a job that is over, as a record says. */
void epoch_restore_last(struct job *job, uint64_t number, enum tfe_cause cause);
/* There is none any more: the job is over, and so are its members' places. */
void epoch_leave(struct job *job);
/* A new run: nothing of the last one, if there was one, needs to be waited for. */
void epoch_begin_run(struct job *job);

#endif
