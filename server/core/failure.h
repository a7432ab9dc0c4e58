/* server/core/failure.h: describes the last failure of a job's trainers in one line, "KeyError:
 * 'learning_rate' (train.py:6, rank 0 on p1)", and writes the reason of a failed job. */
#ifndef TFE_SERVER_CORE_FAILURE_H
#define TFE_SERVER_CORE_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/message/msg.h"
#include "server/core/verdict.h"

struct job;
struct node;

/* maximum length of the error in the line; a longer one is truncated */
#define FAILURE_ERROR_MAX 300
/* maximum length of the output tail that follows the line in the job's reason */
#define FAILURE_TAIL_MAX 600

/* Failure of the trainer that ended its epoch first without another trainer to blame. */
struct failure {
    uint64_t epoch;   /* number of the epoch; 0 if no trainer of this run has failed */
    uint32_t rank;    /* lowest rank that ended with this error */
    uint32_t n_same;  /* number of ranks that ended with this error */
    char replica[24]; /* "rank 0", or "worker-1" in a job with roles */
    char node[TFE_LABEL_MAX + 1];
    char error[FAILURE_ERROR_MAX + 1];
    bool is_fault;     /* the verdict charges the failure to the job */
    char source[80];   /* file and line that raised the error; "" if unknown */
    char end[40];      /* how the process ended, if the error does not say it; else "" */
    char outcome[200]; /* why the job is not restarted */
    bool ends_series;  /* the job fails because consecutive epochs made no progress */
    char tail[FAILURE_TAIL_MAX + 1];
};

/* Sets the failure of a member's trainer. outcome follows the line in the reason of a failed
 * job. */
void failure_set(struct job *job, const struct node *node, const struct msg_exited *exited,
                 enum verdict verdict, const char *outcome);
/* Counts another trainer of the failure's epoch that ended with the same error. */
void failure_add(struct job *job, const struct node *node, const struct msg_exited *exited);
/* Writes the line, or "" if no trainer of this run has failed. */
void failure_describe(const struct job *job, char ret[MSG_SENTENCE_MAX]);
/* Writes the reason of a failed job: "job NAME failed: ", the line, the outcome, the last lines of
 * output. */
void failure_sentence(const struct job *job, char ret[MSG_SENTENCE_MAX]);

#endif
