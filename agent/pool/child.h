/* agent/pool/child.h: the agent process of an assignment: a tfe-agent that runs as a child
 * process or in a container. */
#ifndef TFE_AGENT_POOL_CHILD_H
#define TFE_AGENT_POOL_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/message/msg.h"
#include "common/text/reason.h"

struct event_base;
struct pool_child;
struct scratch;

/* How the agent ended: exit status, or 128 plus the signal number, and its last
 * message, "" if none. */
struct pool_end {
    uint32_t code;
    char message[MSG_SENTENCE_MAX];
};

/* Code of an assignment whose agent could not be started, as in POSIX shells. */
#define POOL_NOT_STARTED 126
/* Exit code of a job whose files could not be brought, which a later try may (EX_TEMPFAIL). */
#define POOL_NOT_READY 75

/* Options of a child. Pointers are borrowed for the call unless stated otherwise. */
struct pool_child_options {
    struct event_base *base;
    char *const *argv;     /* NULL-terminated; argv[0] is a path or is looked up in PATH */
    char *const *envp;     /* NULL-terminated */
    const char *directory; /* working directory */
    const struct handover *handover;
    const struct scratch *scratch; /* the child's directories; borrowed for its lifetime */
    const char *engine;            /* container engine that runs argv, or NULL for no container */
    const char *container;         /* name of the container; borrowed like engine */
    const struct rlimit *cores;    /* core dump limit of the child and its trainers */
    /* Called from the event loop after the child has ended, all its descendants are gone except
     * a guard that serves a proof of termination, and scratch is cleared. May free the child. */
    void (*ended)(void *ctx, const struct pool_end *end);
    /* Called once from the event loop if a descendant cannot be killed; its pid has been logged. */
    void (*stuck)(void *ctx);
    void *ctx;
};

/* Starts the child. It receives SIGTERM when this process dies, and then leaves its job. Only
 * one child may exist at a time. Returns TFE_ESYS with reason set. */
int pool_child_start(const struct pool_child_options *options, struct pool_child **ret,
                     struct tfe_reason *reason) TFE_MUST_CHECK;

/* Removes the job's log files below root when the job ends (clean_policy All); root NULL keeps
 * them. Borrows both strings for the child's lifetime. */
void pool_child_log(struct pool_child *c, const char *root, const char *job);

/* Returns the pid, or 0 if the child has ended but descendants are alive. */
pid_t pool_child_pid(const struct pool_child *c);
/* Returns true if the child has ended and a descendant cannot be killed. */
bool pool_child_is_stuck(const struct pool_child *c);
/* Marks the job as finished, even if the child is terminated before it learns that. */
void pool_child_over(struct pool_child *c);

/* Sends SIGTERM so that the agent leaves its job in an orderly way, SIGINT (leave at once) after
 * within_ms, and SIGKILL if that does not help. A second call skips the wait. */
void pool_child_stop(struct pool_child *c, uint32_t within_ms);

/* Frees a child that has ended. Accepts NULL. */
void pool_child_free(struct pool_child *c);

#endif
