/* server/core/failure.h: the last failure of a job's trainers as one line for people, "KeyError:
 * 'learning_rate' (train.py:6, rank 0 on p1)", and the sentence that a failed job ends with. */
#ifndef TFE_SERVER_CORE_FAILURE_H
#define TFE_SERVER_CORE_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/message/msg.h"
#include "server/core/verdict.h"

struct job;
struct node;

/* Longest error of the line; a longer one is cut. */
#define FAILURE_ERROR_MAX 300
/* Longest part of the error tail that follows the line in the job's sentence. */
#define FAILURE_TAIL_MAX 600

/* The trainer that ended its epoch first without another one to blame. */
struct failure {
    uint64_t epoch;   /* 0 if no trainer of this run has failed */
    uint32_t rank;    /* the lowest rank that ended with this error */
    uint32_t n_same;  /* ranks that did */
    char replica[24]; /* "rank 0"; "worker-1" if the job has roles */
    char node[TFE_LABEL_MAX + 1];
    char error[FAILURE_ERROR_MAX + 1];
    bool is_fault;       /* the verdict charges it to the job */
    char source[80];     /* file and line that raised it; "" if not known */
    char end[40];        /* how the process ended, if the error does not say it; or "" */
    char outcome[200];   /* why the job is not tried again */
    bool is_last_of_row; /* the job fails because consecutive epochs made no progress */
    char tail[FAILURE_TAIL_MAX + 1];
};

/* Sets the failure of a member's trainer. outcome follows the line in the sentence of a failed
 * job. */
void failure_set(struct job *job, const struct node *node, const struct msg_exited *exited,
                 enum verdict verdict, const char *outcome);
/* Counts another trainer of the failure's epoch that ended with the same error. */
void failure_add(struct job *job, const struct node *node, const struct msg_exited *exited);
/* Writes the line, or "" if no trainer of this run has failed. */
void failure_describe(const struct job *job, char ret[MSG_SENTENCE_MAX]);
/* Writes how the job fails by it: "job NAME failed: ", the line, the outcome, the last output. */
void failure_sentence(const struct job *job, char ret[MSG_SENTENCE_MAX]);

#endif
