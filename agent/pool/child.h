/* agent/pool/child.h: the agent that works for an assignment: a tfe-agent as by hand, below this
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

/* How it ended: its exit status, 128 and the number where a signal killed it, and what it said of
 * it, "" nothing. */
struct pool_end {
    uint32_t code;
    char says[MSG_SENTENCE_MAX];
};

/* … of an assignment that no agent could be started for, as a shell says it. */
#define POOL_NOT_STARTED 126

/* All is borrowed, for the call if nothing else is said. */
struct pool_child_options {
    struct event_base *base;
    char *const *argv;     /* NULL ends them; argv[0] is the program, by path or PATH */
    char *const *envp;     /* likewise */
    const char *directory; /* to work in */
    const struct handover *handover;
    const struct scratch *scratch; /* the child's directories; borrowed for its life */
    const char *engine;            /* runs argv in a container; NULL: no container */
    const char *container;         /* the container's name; both borrowed */
    const struct rlimit *cores;    /* its limit of core dumps, which its trainers have */
    /* From the loop, once it has ended, nothing that it has started lives any more, but a guard
     * that has its death certificate to give, and scratch is cleared: the child may be freed then.
     */
    void (*ended)(void *ctx, const struct pool_end *end);
    /* From the loop, once, where something that it has started does not die: it was named. */
    void (*stuck)(void *ctx);
    void *ctx;
};

/* Starts it. It gets SIGTERM when this process dies, whatever ends that: it leaves its job then.
 * One child at a time. TFE_ESYS with why. */
int pool_child_start(const struct pool_child_options *options, struct pool_child **ret,
                     struct tfe_reason *reason) TFE_MUST_CHECK;

/* The end of its job takes its logs along (clean_policy All): --log-dir, NULL: they stay; and the
 * job. Borrowed for the child's life. */
void pool_child_log(struct pool_child *c, const char *root, const char *job);

/* 0: it has ended, and something that it has started lives yet. */
pid_t pool_child_pid(const struct pool_child *c);
/* … and that does not die, and was named. */
bool pool_child_is_stuck(const struct pool_child *c);
/* Its job is over, even where it is ended before it has heard so. */
void pool_child_over(struct pool_child *c);

/* SIGTERM, by which it leaves its job in an orderly way; the signal for at once in within_ms (0:
 * with it), and SIGKILL where that has not helped. Called again, it is at once. */
void pool_child_stop(struct pool_child *c, uint32_t within_ms);

/* It must have ended. NULL is allowed. */
void pool_child_free(struct pool_child *c);

#endif
