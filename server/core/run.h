/* server/core/run.h: the run that a job is in, the named ones that have ended, and who comes late
 * to them (design 4.10). */
#ifndef TFE_SERVER_CORE_RUN_H
#define TFE_SERVER_CORE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct rdzv;
struct text;

/* Ended runs of a job whose names are remembered: a node that comes later with an older one is
 * taken for a newcomer. */
#define RUNS_ENDED_MAX 16
/* A line of a record about one: two numbers, an id, a word and a number. */
#define RUNS_LINE_MAX (TFE_ID_MAX + 64)
#define RUNS_TEXT_MAX (RUNS_ENDED_MAX * RUNS_LINE_MAX)

/* How a run ended. */
struct run_end {
    uint32_t run;
    struct tfe_id key; /* "": nobody has named it */
    enum tfe_result result;
    struct tfe_wall at; /* 0: not known */
};

/* Written by run.c. */
struct run {
    uint32_t number;   /* from 1 */
    struct tfe_id key; /* "": nobody has named it */
    bool is_new;       /* no epoch of it has been formed: the gather window is for it */
    char sentence[MSG_SENTENCE_MAX];     /* how it ended */
    struct tfe_wall ended;               /* … and when; 0: not known */
    struct run_end past[RUNS_ENDED_MAX]; /* named ones before it, the oldest first */
    uint32_t n_past;
};

/* The job's next run, of this name (NULL: none). Run 0 is none: the first one follows. */
void run_begin(struct job *job, const char *key);
/* … which is one that has begun already, with this number. */
void run_go_on(struct job *job, uint32_t number);
/* As a record says. */
void run_restore(struct job *job, uint32_t number, const char *sentence, struct tfe_wall ended);
/* An epoch of it has been formed, or adopted: nobody has to be gathered any more. */
void run_begun(struct job *job);

/* The run that is over, for late nodes: how it ended, and when. */
struct run_end run_last(const struct job *job);
/* The ended run of this name; NULL: none is known. The job's last run is not among them. */
const struct run_end *run_find(const struct job *job, const char *key);
/* For a record, and back from one. TFE_EINVAL: not what is written, or of a later run. */
void run_write_past(const struct job *job, char ret[RUNS_TEXT_MAX]);
int run_read_past(struct job *job, const char *text) TFE_MUST_CHECK;
/* "job J run N ended RESULT at TIME" */
void run_describe(struct text *text, const struct job *job, const struct run_end *run);
/* Tells a late node so, and lets it go. */
void run_tell_late(struct rdzv *r, const struct job *job, const struct run_end *run,
                   uint32_t session);

/* How it ends, and when; sentence NULL: as before. */
void run_end_as(struct job *job, struct tfe_wall when, const char *sentence);

#endif
