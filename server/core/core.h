/* server/core/core.h: what one rendezvous core is. Private to server/core.
 *
 * How an event travels: rdzv.c (the door) -> on_*.c (one event each) -> states.c (what the job does
 * next) -> rules -> parts. What a rule has to say upwards it leaves as a wish (wish.h),
 * which states.c settles. */
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

/* Jobs that one server remembers, finished ones included: some 1 KiB each. One key opens half of
 * them at most, unless told otherwise. */
#define CORE_JOBS_MAX 10000u

/* Timers worked off in one step; a mass expiry must not hold up the renewals of the living. */
#define CORE_TIMERS_PER_STEP RDZV_PERSIST_MAX

#define NO_SESSION UINT32_MAX
#define NO_SEAT UINT32_MAX

enum timer_kind { TIMER_LEASE, TIMER_JOB, TIMER_PROBE, TIMER_QUARANTINE };

/* A timer of the core, and what it is for. */
struct core_timer {
    struct wheel_timer wheel;
    enum timer_kind kind;
};

RB_HEAD(job_tree, job);

struct rdzv {
    struct rdzv_config config;
    const struct tfe_mem *mem;
    struct tfe_mono now;
    struct tfe_mono began;      /* its first step */
    struct tfe_wall wall;       /* 0: not known */
    const struct principal *by; /* who speaks in this step; NULL: nobody, or it was not said */
    struct tfe_mono deadline;
    uint64_t steps; /* counts up, from 1 */
    struct wheel wheel;
    struct job_tree jobs;
    uint32_t n_jobs;
    struct tfe_id *aside; /* jobs whose records cannot be read, by name; shown, and nothing else */
    size_t n_aside;
    size_t cap_aside;
    struct node **by_session;
    uint32_t n_leases;
    uint64_t visits; /* counts up: node_session.visit */
    uint64_t joins;  /* counts up: node.join_order */
    struct tfe_mono last_join;
    uint64_t probes; /* counts up, from a random number on: no answer to an earlier server fits */
    struct tfe_mono tries_since; /* the second in which addresses were tried last … */
    uint32_t tries;              /* … so often */
    struct tfe_mono late_at;     /* a turn of the loop was late: no lease ends for another ttl */
    struct action_list out;
    struct ban_list bans;
    struct node *dead_nodes; /* what the next step frees: its actions may point there until then */
    struct job *dead_jobs;
    char sentence[MSG_SENTENCE_MAX]; /* of a refusal or trace of this step */
    char welcome[MSG_SENTENCE_MAX];  /* of its WELCOME */
    char tail[MSG_TAIL_MAX + 1];     /* of the EXITED of this step */
};

/* Whether this point in time has come. Never for NEVER. */
static inline bool is_past(const struct rdzv *r, struct tfe_mono when)
{
    return !tfe_mono_before(r->now, when);
}

static inline uint32_t largest(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

#endif
