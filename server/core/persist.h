/* server/core/persist.h: a job's record: validating it and writing it to the store. */
#ifndef TFE_SERVER_CORE_PERSIST_H
#define TFE_SERVER_CORE_PERSIST_H

#include <stdbool.h>
#include <stdint.h>

#include "server/core/rdzv.h"
#include "server/core/states.h"

struct job;
struct rdzv;

/* The newest record of a job, and what is known to be stored. Written by persist.c. */
struct persist {
    uint64_t durable_epoch;  /* number of the last epoch that is durable or being written */
    uint32_t durable_ttl_ms; /* longest lease that a restarted server would know of */
    uint32_t granted_ttl_ms; /* longest lease granted so far; written by lease.c */
    uint64_t sequence;
    uint64_t requested_step; /* number of the step that has a PERSIST action for this record */
    bool is_open;
    bool is_gone;   /* the record says that the job is forgotten */
    bool is_over;   /* the record says that the job has ended in the state `ending` */
    bool is_due;    /* write the job again once the present record has been answered */
    bool is_test;   /* the record is only written to see whether the store accepts writes */
    bool is_proven; /* the store has just accepted such a test write */
    enum job_state ending;
    struct tfe_mono retry_at; /* the last try failed: time of the next one; NEVER otherwise */
    uint32_t backoff_ms;
    struct rdzv_record record;
    struct rdzv_member *members; /* array with the job's capacity of slots */
    uint16_t *ports; /* ports by row, because a node's own are those of its latest READY */
};

/* Reserves memory for this many rows and slots. Returns 0 or TFE_ENOMEM; arrays that have grown
 * stay so. */
int persist_reserve(struct rdzv *r, struct persist *w, size_t rows, size_t slots) TFE_MUST_CHECK;
void persist_free(struct rdzv *r, struct persist *w);
/* Starts the first run of a job or the next one. */
void persist_begin_run(struct persist *w);

/* Returns true if the job's epoch is stored, or about to be. An epoch rebuilt from only a part of
 * its members never is. */
bool persist_covers_epoch(const struct job *job);
/* Starts writing the job as it is now, with its ending if it is about to end. */
void persist_job(struct rdzv *r, struct job *job);
/* Writes the job now, or once an earlier record of another epoch has been answered. */
void persist_or_defer(struct rdzv *r, struct job *job);
/* Writes the job if persist_or_defer has put that off and it is possible now. */
void persist_if_due(struct rdzv *r, struct job *job);
/* Writes that the job ends in this state, as all later records do. */
void persist_end(struct rdzv *r, struct job *job, enum job_state ending);
/* Writes that the job is forgotten. */
void persist_forget(struct rdzv *r, struct job *job);
/* Returns true if the store has just accepted a record; else starts a test write. A switch that can
 * wait must not stop trainers for an epoch that cannot be written (design 8). */
bool persist_is_proven(struct rdzv *r, struct job *job);
/* Retries a failed write when it is due. */
void persist_retry(struct rdzv *r, struct job *job);
/* Handle the store's answer for the record of this sequence number. Return true if it is the newest
 * record. */
bool persist_handle_done(struct job *job, uint64_t sequence);
bool persist_handle_failure(struct rdzv *r, struct job *job, uint64_t sequence);

#endif
