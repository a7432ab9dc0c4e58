/* agent/pool/container.h: the container of a job that names an image: it is there before the job's
 * agent starts, and until that has ended. A process of its own keeps it (engine.h). */
#ifndef TFE_AGENT_POOL_CONTAINER_H
#define TFE_AGENT_POOL_CONTAINER_H

#include <stdbool.h>
#include <sys/types.h>

#include "agent/pool/engine.h"
#include "common/base/error.h"
#include "common/net/why.h"

struct container;
struct event_base;

/* What an agent has to know of one that stands. */
struct container_facts {
    pid_t pid;               /* of a process in there */
    const char *directory;   /* the image's own; "": it has none */
    const char *const *envp; /* its variables; NULL ends them */
};

struct container_wish {
    struct event_base *base;
    const struct engine_wish *engine; /* for the call */
    /* Once, from the loop; the facts are borrowed for the call. */
    void (*ready)(void *ctx, const struct container_facts *facts);
    /* Last of all, from the loop: it is gone. why: it never stood, and scratch is cleared, for that
     * reason; or it ended unasked; "": it was stopped. */
    void (*ended)(void *ctx, const char *why);
    void *ctx;
};

/* Begins. TFE_ESYS with why: no callback comes. */
int container_new(const struct container_wish *wish, struct container **ret,
                  struct tfe_why *why) TFE_MUST_CHECK;
/* After ended, or as the whole process ends: it goes by itself then. NULL is allowed. */
void container_free(struct container *c);

/* Whether it stands, or has stood. */
bool container_is_up(const struct container *c);
/* The process that keeps it, which leads a session, and has others below it. */
pid_t container_pid(const struct container *c);
/* Borrowed: it stands for as long as a process has this; -1: it was stopped. */
int container_fd(const struct container *c);
/* It goes, once nobody else has container_fd. */
void container_stop(struct container *c);

#endif
