/* agent/pool/files.h: what a job brings along, laid out in its directory before its agent starts: a
 * bundle, or a commit of a repository. A process of its own does it, as the trainers' user.
 *
 *   bundle ──► cached, or fetched (fetch.h) ──► unpacked ──► ready
 *   git ─────────────────────────────► fetched, checked out ──► ready
 *                     what fails, or is stopped, is cleared away ──► failed
 */
#ifndef TFE_AGENT_POOL_FILES_H
#define TFE_AGENT_POOL_FILES_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/message/msg.h"
#include "common/text/reason.h"

struct event_base;
struct files;
struct scratch;

/* Borrowed for the files' life, but for assign. */
struct files_options {
    struct event_base *base;
    const struct msg_assign *assign;
    const struct scratch *scratch; /* empty */
    const char *state_dir;         /* bundles are kept there; NULL: in memory, for this job */
    /* To the server. */
    void (*send)(void *ctx, const struct tfe_msg *msg);
    /* Once, from the loop. The agent may start, as assign has it … */
    void (*ready)(void *ctx, const struct msg_assign *assign);
    /* … or not, for that reason; nothing runs, and scratch is cleared. */
    void (*failed)(void *ctx, const char *reason);
    void *ctx;
};

/* Whether a job brings any. */
bool files_are_wanted(const struct msg_spec *spec);

/* TFE_EINVAL, TFE_ESYS with why: no callback comes. */
int files_new(const struct files_options *options, struct files **ret,
              struct tfe_reason *reason) TFE_MUST_CHECK;
/* After ready or failed, or as the whole process ends. NULL is allowed. */
void files_free(struct files *f);

/* The connection to the server is there again. */
void files_welcome(struct files *f);
/* A CHUNK of the server's. */
void files_handle_chunk(struct files *f, const struct msg_chunk *chunk);
/* Not ready yet: it ends, and failed() comes. */
void files_stop(struct files *f);

#endif
