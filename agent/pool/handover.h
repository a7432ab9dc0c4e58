/* agent/pool/handover.h: data that a pool node passes to the agent of a job through an inherited
 * descriptor, so that no secret is in an environment or on a command line. Both ends are the same
 * program, so byte order and versions do not matter.
 *
 * The pool keeps the other end open; EOF tells the agent that the pool is gone. */
#ifndef TFE_AGENT_POOL_HANDOVER_H
#define TFE_AGENT_POOL_HANDOVER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/channel/endpoint.h"
#include "common/credentials/enrollment.h"
#include "common/handshake/token.h"
#include "common/message/msg.h"
#include "common/text/reason.h"

/* Environment variable with the descriptor's number. */
#define HANDOVER_VARIABLE "TFE_HANDOVER_FD"

/* A directory of the machine that is mounted in a container at its own path. */
struct handover_mount {
    char path[PATH_MAX];
    uint64_t dev, ino; /* as in stat(2) */
};

/* The job's files, --path, and the directories of checkpoints, artifacts and logs. */
#define HANDOVER_MOUNTS_MAX 5

struct handover {
    uint64_t assignment;
    char spec[MSG_SPEC_MAX + 1]; /* the job, as in ASSIGN */
    char run_key[TFE_ID_MAX + 1];
    bool has_role; /* the node takes `role` of the job */
    enum tfe_task role;
    char endpoint[ENDPOINT_TEXT_MAX]; /* HOST:PORT of the server */
    char node_name[TFE_ID_MAX + 1];
    char token[TOKEN_TEXT_MAX];
    char key[ENROLLMENT_TEXT_MAX]; /* the agent's own key, or "" if there is none */
    bool is_container;             /* the agent runs in the job's image as the trainers' user */
    bool has_logs;                 /* the trainers' user may write to --log-dir */
    bool is_on_terminal;           /* the pool's stdout or stderr is a terminal */
    struct handover_mount mounts[HANDOVER_MOUNTS_MAX];
    size_t n_mounts;
    char base[PATH_MAX];      /* parent of the agent's private directory in a container */
    char directory[PATH_MAX]; /* working directory if the image defines none */
};

/* Writes the struct to a pipe or socket, which has space for it. Returns TFE_ESYS with errno set.
 */
int handover_write(int fd, const struct handover *handover) TFE_MUST_CHECK;

/* Reads the struct and sets TFE_TOKEN and TFE_AGENT_KEY from it. Stores the descriptor,
 * which the caller owns, or -1 if this process was not started by a pool. Returns
 * TFE_ESYS with reason set. */
int handover_read(struct handover *ret, int *ret_fd, struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
