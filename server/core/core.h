/* server/core/core.h: state of one rendezvous core. Private to server/core.
 *
 * Path of an event: rdzv.c (entry point), on_*.c (one handler per event), states.c (the job's next
 * state), rules, parts. A rule requests an epoch switch or the job's end by a field of the job
 * (wish.h); states.c carries the request out. */
#ifndef TFE_SERVER_CORE_CORE_H
#define TFE_SERVER_CORE_CORE_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/assert.h"
#include "common/base/wheel.h"
#include "server/core/actions.h"
#include "server/core/ban.h"
#include "server/core/rdzv.h"

struct job;
struct node;

/* Maximum number of jobs that one server remembers, finished ones included: about 1 KiB each. By
 * default one key may open half of them. */
#define CORE_JOBS_MAX 10000u

/* Maximum number of timers handled in one step, so that a mass expiry does not delay the renewals
 * of live nodes. */
#define CORE_TIMERS_PER_STEP RDZV_PERSIST_MAX

#define NO_SESSION UINT32_MAX
#define NO_SEAT UINT32_MAX

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
    struct ban_list bans;
    /* nodes and jobs to be freed by the next step, because actions of this step may point to
     * them */
    struct node *dead_nodes;
    struct job *dead_jobs;
    char sentence[MSG_SENTENCE_MAX]; /* text of a refusal or a trace of this step */
    char welcome[MSG_SENTENCE_MAX];  /* text of this step's WELCOME */
    char tail[MSG_TAIL_MAX + 1];     /* output tail of this step's EXITED */
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
