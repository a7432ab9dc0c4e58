/* agent/pool/handover.h: what an agent of the pool gives the agent that it starts for a job, by an
 * inherited descriptor: secrets are in no environment and on no command line. Both ends are one
 * program: no byte order, no versions.
 *
 * The pool keeps the other end of the descriptor open: its end of file means that the pool is
 * gone. */
#ifndef TFE_AGENT_POOL_HANDOVER_H
#define TFE_AGENT_POOL_HANDOVER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/channel/enrollment.h"
#include "common/channel/token.h"

/* The descriptor's number, in the environment of the agent. */
#define HANDOVER_VARIABLE "TFE_HANDOVER_FD"

struct handover {
    uint64_t assignment;
    char token[TOKEN_TEXT_MAX];
    char key[ENROLMENT_TEXT_MAX]; /* "": there is none */
    bool is_container;            /* the agent runs in the job's image, as the trainers' user */
    bool has_logs;                /* the trainers' user may write into --log-dir */
    char base[PATH_MAX];          /* parent of its private directory in a container */
    char directory[PATH_MAX];     /* to work in if the image names none */
};

/* Writes all of it into a pipe, which takes it at once. TFE_ESYS with errno. */
int handover_write(int fd, const struct handover *handover) TFE_MUST_CHECK;

/* Reads it. The token and the key become TFE_TOKEN and TFE_AGENT_KEY of this process. *ret_fd is -1
 * if no pool has started this process; else it is the descriptor, which is the caller's. TFE_ESYS
 * with why. */
int handover_read(struct handover *ret, int *ret_fd, struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
