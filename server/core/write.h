/* server/core/write.h: a job's record on its way to the disk. */
#ifndef TFE_SERVER_CORE_WRITE_H
#define TFE_SERVER_CORE_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/core/late.h"
#include "server/core/rdzv.h"
#include "server/core/states.h"

struct job;
struct rdzv;

/* The newest record of a job on its way to the disk. */
struct write {
    uint64_t sequence;
    uint64_t asked_in; /* the step that has a PERSIST for it */
    bool is_open;
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
    char past[PAST_MAX * PAST_LINE_MAX];
};

/* Asks for the job to be written as it is now; is_over with the ending it is about to have. */
void write_job(struct rdzv *r, struct job *job);
/* … once an earlier record of another epoch is answered. */
void write_in_turn(struct rdzv *r, struct job *job);
/* Whether the disk has just taken a record; else asks it to take the present one once more. A
 * switch that nobody needs must not stop trainers for an epoch that cannot be written (DESIGN 8).
 */
bool write_is_sure(struct rdzv *r, struct job *job);
/* Asks once more for what failed. */
void write_again(struct rdzv *r, struct job *job);
void on_persisted(struct rdzv *r, struct job *job, uint64_t sequence);
void on_persist_failed(struct rdzv *r, struct job *job, uint64_t sequence);
/* Another server has written to the same store. */
void on_conflict(struct rdzv *r);

#endif
