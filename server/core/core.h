/* server/core/core.h: the actions of one step. Memory is reserved before anything changes, so
 * that adding an action cannot fail. */
#ifndef TFE_SERVER_CORE_CORE_H
#define TFE_SERVER_CORE_CORE_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/assert.h"
#include "common/base/wheel.h"
#include "server/core/join_limits.h"
#include "server/core/rdzv.h"

struct job;
struct node;

struct action_list {
    struct rdzv_action *v;
    size_t n;
    size_t cap;
};

/* Reserves memory for every action that one event can cause in the job (NULL: in no job). Returns 0
 * or TFE_ENOMEM. */
int actions_reserve(struct rdzv *r, const struct job *job) TFE_MUST_CHECK;

/* Appends an action of this type, zeroed otherwise. */
struct rdzv_action *send_action(struct rdzv *r, enum rdzv_action_type type);
/* Appends a SEND of a message of this type to a connected node, zeroed otherwise. */
struct tfe_msg *send_node(struct rdzv *r, const struct node *node, enum tfe_msg_type type);
void send_close(struct rdzv *r, uint32_t session);
/* Sends FINISH with the result, then closes the session. */
void send_finish(struct rdzv *r, uint32_t session, enum tfe_result result, uint32_t run,
                 const char *sentence);
/* Sends REFUSED, then closes the session. */
void send_refused(struct rdzv *r, uint32_t session, enum tfe_refusal code, const char *sentence);
/* Sends REFUSED with REFUSAL_COMMIT_MISMATCH and the job's commit, then closes the session. */
void send_refused_commit(struct rdzv *r, uint32_t session, uint64_t commit, const char *sentence);
/* Sends STOP for an epoch in which no failure is known. */
void send_stop(struct rdzv *r, const struct node *node, uint64_t epoch);
void send_noted(struct rdzv *r, const struct node *node, uint64_t epoch);
/* Appends a trace. Returns it, valid until the next action, for setting the fields that are rarely
 * used. */
struct rdzv_trace *send_trace(struct rdzv *r, enum rdzv_trace_kind kind, const struct job *job,
                              const struct node *node, uint64_t number, const char *text);

/* Maximum number of jobs that one server remembers, finished ones included: about 1 KiB each. By
 * default one key may open half of them. */
#define CORE_JOBS_MAX 10000u

/* Maximum number of timers handled in one step, so that a mass expiry does not delay the renewals
 * of live nodes. */
#define CORE_TIMERS_PER_STEP RDZV_PERSIST_MAX

#define NO_SESSION UINT32_MAX
#define NO_SLOT UINT32_MAX

enum timer_kind { TIMER_LEASE, TIMER_JOB, TIMER_PROBE, TIMER_QUARANTINE };

/* A timer of the core with its purpose. */
struct core_timer {
    struct wheel_timer wheel;
    enum timer_kind kind;
};

RB_HEAD(job_tree, job);

struct rdzv {
    struct rdzv_config config;
    const struct tfe_mem *mem;
    struct tfe_mono now;
    struct tfe_mono began; /* time of the first step */
    struct tfe_wall wall;  /* wall-clock time of the present step; 0 if unknown */
    /* sender of the present event; NULL if there is none or it is unknown */
    const struct principal *by;
    struct tfe_mono deadline;
    uint64_t steps; /* number of steps so far; the first step is 1 */
    struct wheel wheel;
    struct job_tree jobs;
    uint32_t n_jobs;
    struct tfe_id *aside; /* names of jobs whose records are unreadable; they are only listed */
    size_t n_aside;
    size_t cap_aside;
    struct node **by_session;
    uint32_t n_leases;
    uint64_t visits; /* number of connections so far; source of node_session.visit */
    uint64_t joins;  /* counter, source of node.join_order */
    struct tfe_mono last_join;
    /* id of the last probe; starts at a random number, so that replies to an earlier server's
     * probes match none */
    uint64_t probes;
    struct tfe_mono tries_since; /* start of the second in which address probes are being counted */
    uint32_t tries;              /* number of address probes started in that second */
    /* time of the last late iteration of the event loop: no lease ends for one ttl after it; 0 if
     * never */
    struct tfe_mono late_at;
    struct action_list out;
    struct evicted_list evicted;
    /* nodes and jobs to be freed by the next step, because actions of this step may point to
     * them */
    struct node *dead_nodes;
    struct job *dead_jobs;
    char sentence[MSG_SENTENCE_MAX]; /* text of a refusal or a trace of this step */
    char
        welcome[MSG_SENTENCE_MAX]; /* buffer for the sentence of the WELCOME that this step sends */
    char tail[MSG_TAIL_MAX + 1];   /* output tail of this step's EXITED */
};

/* Returns true if the time has come. Always false for NEVER. */
static inline bool is_past(const struct rdzv *r, struct tfe_mono when)
{
    return !tfe_mono_before(r->now, when);
}

static inline uint32_t largest(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

#endif
