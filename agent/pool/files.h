/* agent/pool/files.h: prepares a job's files (a bundle or a commit of a repository) in its
 * directory before its agent starts. The work is done in a child process, as the trainers' user.
 *
 *   bundle --> cached, or downloaded (fetch.h) --> unpacked --> ready
 *   git -----------------------------> fetched, checked out --> ready
 *                  on an error or a stop: directory cleared --> failed */
#ifndef TFE_AGENT_POOL_FILES_H
#define TFE_AGENT_POOL_FILES_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/message/msg.h"

struct event_base;
struct files;
struct scratch;

/* Options. Pointers are borrowed for the lifetime of the files. */
struct files_options {
    struct event_base *base;
    const json_t *job;             /* a job as of job_file_parse */
    const struct scratch *scratch; /* empty */
    const char *state_dir; /* directory of the bundle cache; NULL to hold the bundle in memory */
    /* Sends a message to the server. */
    void (*send)(void *ctx, const struct tfe_msg *msg);
    /* Called once from the event loop when the agent can start. */
    void (*ready)(void *ctx);
    /* Called once from the event loop instead of ready on failure; nothing runs and
     * scratch is cleared. */
    void (*failed)(void *ctx, const char *reason);
    void *ctx;
};

/* Returns true if the job has files to prepare. */
bool files_are_needed(const json_t *job);

/* Starts the preparation. Precondition: files_are_needed. */
struct files *files_new(const struct files_options *options);
/* Frees after ready or failed, or when the process ends. Accepts NULL. */
void files_free(struct files *f);

/* Handles a reconnect to the server. */
void files_welcome(struct files *f);
/* Handles a CHUNK from the server. */
void files_handle_chunk(struct files *f, const struct msg_chunk *chunk);
/* Cancels the preparation; failed follows. Precondition: ready has not been called. */
void files_stop(struct files *f);

#endif
