/* server/core/run.h: runs of a job: the present one, the named ones that have ended, and the reply
 * to nodes that come late to those (design 4.10). */
#ifndef TFE_SERVER_CORE_RUN_H
#define TFE_SERVER_CORE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/base/time.h"
#include "common/message/msg.h"
#include "server/core/rdzv.h"

struct job;
struct rdzv;
struct text;

/* Runs of a job. Written by run.c. */
struct run {
    uint32_t number;   /* number of the present run, from 1 */
    struct tfe_id key; /* name that the agents gave the present run, or "" */
    bool is_new;       /* no epoch of the run has been formed yet: the gather window applies */
    char sentence[MSG_SENTENCE_MAX];         /* reason of the run's end */
    struct tfe_wall ended;                   /* time of the run's end; 0 if unknown */
    struct rdzv_run_end past[RDZV_RUNS_MAX]; /* earlier named runs, the oldest first */
    uint32_t n_past;
};

/* Starts the job's next run with this name (NULL: none). The first run follows run 0. */
void run_begin(struct job *job, const char *key);
/* Continues a run of this number that has begun under an earlier server. */
void run_go_on(struct job *job, uint32_t number);
/* Sets the present run from a record. */
void run_restore(struct job *job, uint32_t number, const char *sentence, struct tfe_wall ended);
/* Notes that an epoch of the run has been formed or adopted: the gather window is closed. */
void run_begun(struct job *job);

/* Returns how and when the run ended. Precondition: the job is over. */
struct rdzv_run_end run_last(const struct job *job);
/* Returns the earlier ended run of this name, or NULL. The job's last run is not included. */
const struct rdzv_run_end *run_find(const struct job *job, const char *key);
/* Appends "job J run N ended RESULT at TIME". */
void run_describe(struct text *text, const struct job *job, const struct rdzv_run_end *run);
/* Sends a late node how its run ended, and closes its session. */
void run_send_end(struct rdzv *r, const struct job *job, const struct rdzv_run_end *run,
                  uint32_t session);

/* Sets when and why the run ends. sentence NULL keeps the reason. */
void run_end_as(struct job *job, struct tfe_wall when, const char *sentence);

#endif
