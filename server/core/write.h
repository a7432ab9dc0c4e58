/* server/core/write.h: a job's record on its way to the disk. */
#ifndef TFE_SERVER_CORE_WRITE_H
#define TFE_SERVER_CORE_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/core/job_state.h"
#include "server/core/rdzv.h"
#include "server/core/run.h"

struct job;
struct rdzv;

/* The newest record of a job on its way to the disk, and what is known to be there. Written by
 * write.c. */
struct write {
    uint64_t durable_epoch;  /* the last one that was PERSISTED, or is being so */
    uint32_t durable_ttl_ms; /* the largest that a restarted server would know of */
    uint32_t granted_ttl_ms; /* … that was granted so far */
    uint64_t sequence;
    uint64_t asked_in; /* the step that has a PERSIST for it */
    bool is_open;
    bool is_gone; /* it says that the job is forgotten */
    bool is_over; /* it says that the job has ended so: */
    bool is_due;  /* … or will, once the record before it is answered */
    bool proves;  /* it is only there to see whether the disk takes anything */
    bool is_sure; /* it has just done so */
    enum job_state ending;
    struct tfe_mono again; /* the last try failed: when to try again, else NEVER */
    uint32_t backoff_ms;
    struct rdzv_record record;
    struct rdzv_member *members; /* the job's capacity of seats */
    uint16_t *ports;             /* of rows: a member's own are those that it was READY with last */
    char past[RUNS_TEXT_MAX];
};

/* A lease of this length has been granted. */
static inline void write_note_granted(struct write *w, uint32_t ttl_ms)
{
    w->granted_ttl_ms = ttl_ms > w->granted_ttl_ms ? ttl_ms : w->granted_ttl_ms;
}

/* Room for so many rows and seats. TFE_ENOMEM: what has succeeded stands. */
int write_reserve(struct rdzv *r, struct write *w, size_t rows, size_t seats) TFE_MUST_CHECK;
void write_done(struct rdzv *r, struct write *w);
/* What a record of the job says that lies on the disk. */
void write_restore(struct write *w, const struct rdzv_record *record);
/* The first run of a job, or the next one. */
void write_begin_run(struct write *w);

/* Whether its epoch is on the disk, or about to be: one that was put together from a part of its
 * members never is. */
bool write_is_kept(const struct job *job);
/* Asks for the job to be written as it is now; is_over with the ending it is about to have. */
void write_job(struct rdzv *r, struct job *job);
/* … once an earlier record of another epoch is answered. */
void write_in_turn(struct rdzv *r, struct job *job);
/* … if that is so by now. */
void write_what_is_due(struct rdzv *r, struct job *job);
/* The job ends in that state: what is written from now on says so. */
void write_end(struct rdzv *r, struct job *job, enum job_state ending);
/* The job is forgotten: nothing of it is kept. */
void write_gone(struct rdzv *r, struct job *job);
/* Whether the disk has just taken a record; else asks it to take the present one once more. A
 * switch that nobody needs must not stop trainers for one that cannot be written (design 8). */
bool write_is_sure(struct rdzv *r, struct job *job);
/* Asks once more for what failed, when it is time. */
void write_again(struct rdzv *r, struct job *job);
/* The record of this number is on the disk, or could not be written. Both: whether it is the
 * newest. */
bool write_take_done(struct job *job, uint64_t sequence);
bool write_take_failure(struct rdzv *r, struct job *job, uint64_t sequence);

#endif
