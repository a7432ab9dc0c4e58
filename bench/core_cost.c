/* bench/core_cost.c: what the rendezvous core costs by itself: a renewal by the number of leases, and the longest
 * step when all leases end in one tick. Prints one JSON object a line.
 *
 * Usage: tfe-bench-core renew LEASES COUNT | expire LEASES | loss NODES
 * `renew` prints nanoseconds per renewal and allocations during them; instructions are callgrind's business.
 * `loss`: two jobs of NODES / 2 run; one node leaves: steps and time until the next epoch has been told to
 * all, and the memory that the core holds. */
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/mem.h"
#include "server/core/rdzv.h"

static unsigned long long allocations;
static unsigned long long held;

static void *resize(void *ctx, void *old, size_t n)
{
    (void)ctx;
    held -= old ? malloc_usable_size(old) : 0;
    if (n == 0) {
        free(old);
        return NULL;
    }
    allocations++;
    void *new = realloc(old, n);
    held += malloc_usable_size(new ? new : old);
    return new;
}

static const struct tfe_mem mem = {.resize = resize};

static struct rdzv *core;
static int64_t now = 1000000;
static struct rdzv_actions actions;

static double now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int step(struct rdzv_event event)
{
    event.now = (struct tfe_mono){now};
    return rdzv_step(core, &event, &actions);
}

/* Leases of jobs of at most 50,000 nodes each that wait for one more. */
static int join_all(uint32_t leases)
{
    const uint32_t job_max = 50000;
    for (uint32_t i = 0; i < leases; i++) {
        char job[32];
        char node[32];
        (void)snprintf(job, sizeof job, "job-%u", i / job_max);
        (void)snprintf(node, sizeof node, "node-%08u", i * 2654435761u);
        const struct tfe_msg msg = {.type = MSG_JOIN,
                                    .u.join = {.job = job,
                                               .node = node,
                                               .node_name = node,
                                               .min_nodes = job_max + 1,
                                               .max_nodes = job_max + 1,
                                               .nproc = 1,
                                               .max_restarts = MSG_UNSET,
                                               .gather_ms = MSG_UNSET,
                                               .grow_wait_ms = MSG_UNSET,
                                               .stop_grace_ms = MSG_UNSET,
                                               .elastic_timeout_ms = MSG_UNSET,
                                               .chief_grace_ms = MSG_UNSET}};
        const int rc = step((struct rdzv_event){.type = RDZV_MESSAGE, .session = i, .msg = &msg});
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int renew(uint32_t leases, uint32_t count)
{
    const unsigned long long before = allocations;
    /* In an order that is not that of memory, as on a server. */
    uint32_t at = 0;
    const double began = now_ns();
    for (uint32_t i = 0; i < count; i++) {
        const struct tfe_msg msg = {.type = MSG_RENEW, .u.renew.number = i + 1};
        at = (at + 7919) % leases;
        if (i % 64 == 0) {
            now++;
        }
        if (step((struct rdzv_event){.type = RDZV_MESSAGE, .session = at, .msg = &msg})) {
            return 1;
        }
    }
    (void)printf("{\"leases\": %u, \"ns\": %.1f, \"allocations\": %llu}\n", leases,
                 (now_ns() - began) / count, allocations - before);
    return 0;
}

static int expire(uint32_t leases)
{
    double longest = 0;
    unsigned steps = 0;
    now += 3600 * 1000; /* the server was late, says the core: once more of the same, in its own time */
    for (int64_t end = now + 7200 * 1000; now < end;) {
        const double began = now_ns();
        if (step((struct rdzv_event){.type = RDZV_TICK})) {
            return 1;
        }
        const double took = now_ns() - began;
        longest = took > longest ? took : longest;
        steps++;
        if (actions.deadline.ms > now) {
            if (actions.deadline.ms > end) {
                break;
            }
            now = actions.deadline.ms;
        }
    }
    (void)printf("{\"leases\": %u, \"longest_ms\": %.3f, \"steps\": %u}\n", leases, longest / 1e6, steps);
    return 0;
}

/* --- a loss -------------------------------------------------------------------------------------- */

struct actor {
    uint64_t prepare; /* asked to get ready for it */
    uint64_t started;
};

static struct actor *actors;
static unsigned long long steps;
static unsigned long long started; /* STARTs of the newest epochs */

/* A step, and what the actors and the disk answer to it, until nobody has anything left to say. */
static int play(const struct rdzv_event *event);

static int answer_all(void)
{
    /* What an action points to is gone with the next step: keep what is to be said. */
    static struct {
        uint32_t session;
        uint64_t epoch;
        bool is_start;
    } *said;
    static size_t cap;
    size_t n = 0;
    size_t n_records = 0;
    struct {
        char job[64];
        uint64_t sequence;
    } records[8];
    if (actions.n > cap) {
        cap = 2 * actions.n;
        free(said);
        said = calloc(cap, sizeof *said);
        if (!said) {
            return 1;
        }
    }
    for (size_t i = 0; i < actions.n; i++) {
        const struct rdzv_action *a = &actions.v[i];
        if (a->type == RDZV_PERSIST && n_records < 8) {
            (void)snprintf(records[n_records].job, sizeof records[0].job, "%s", a->record->job);
            records[n_records++].sequence = a->record->sequence;
        } else if (a->type == RDZV_SEND && a->msg.type == MSG_PREPARE) {
            actors[a->session].prepare = a->msg.u.prepare.epoch;
            said[n].session = a->session;
            said[n].is_start = false;
            said[n++].epoch = a->msg.u.prepare.epoch;
        } else if (a->type == RDZV_SEND && a->msg.type == MSG_START) {
            actors[a->session].started = a->msg.u.start.epoch;
            started++;
            said[n].session = a->session;
            said[n].is_start = true;
            said[n++].epoch = a->msg.u.start.epoch;
        }
    }
    for (size_t i = 0; i < n; i++) {
        /* Later steps may have more to answer: they keep a list of their own behind this one's. */
        const uint32_t session = said[i].session;
        const uint16_t port = (uint16_t)(10000 + 2 * (session % 25000) + (said[i].epoch & 1));
        struct tfe_msg msg = {.type = MSG_LISTENING, .u.listening.epoch = said[i].epoch};
        if (!said[i].is_start) {
            if (actors[session].prepare != said[i].epoch) {
                continue;
            }
            msg = (struct tfe_msg){.type = MSG_READY,
                                   .u.ready = {.epoch = said[i].epoch,
                                               .host = "10.0.0.1",
                                               .ports = &port,
                                               .n_ports = 1}};
        }
        steps++;
        if (step((struct rdzv_event){.type = RDZV_MESSAGE, .session = session, .msg = &msg})) {
            return 1;
        }
        /* The step of the last READY asks for the record, that of rank 0's LISTENING starts the rest. */
        for (size_t k = 0; k < actions.n; k++) {
            const struct rdzv_action *a = &actions.v[k];
            if (a->type == RDZV_PERSIST && n_records < 8) {
                (void)snprintf(records[n_records].job, sizeof records[0].job, "%s", a->record->job);
                records[n_records++].sequence = a->record->sequence;
            } else if (a->type == RDZV_SEND && a->msg.type == MSG_START) {
                started++;
            }
        }
    }
    for (size_t i = 0; i < n_records; i++) {
        const struct rdzv_event event = {
            .type = RDZV_PERSISTED, .job = records[i].job, .sequence = records[i].sequence};
        if (play(&event)) {
            return 1;
        }
    }
    return 0;
}

static int play(const struct rdzv_event *event)
{
    steps++;
    return step(*event) || answer_all();
}

static int join_jobs(uint32_t nodes)
{
    const uint32_t half = nodes / 2;
    for (uint32_t i = 0; i < 2 * half; i++) {
        char node[32];
        (void)snprintf(node, sizeof node, "node-%08u", i * 2654435761u);
        const struct tfe_msg msg = {.type = MSG_JOIN,
                                    .u.join = {.job = i < half ? "a" : "b",
                                               .node = node,
                                               .node_name = node,
                                               .min_nodes = half - 1,
                                               .max_nodes = half,
                                               .nproc = 1,
                                               .max_restarts = MSG_UNSET,
                                               .gather_ms = MSG_UNSET,
                                               .grow_wait_ms = MSG_UNSET,
                                               .stop_grace_ms = MSG_UNSET,
                                               .elastic_timeout_ms = MSG_UNSET,
                                               .chief_grace_ms = MSG_UNSET}};
        if (play(&(struct rdzv_event){.type = RDZV_MESSAGE, .session = i, .msg = &msg})) {
            return 1;
        }
    }
    return 0;
}

static int loss(uint32_t nodes)
{
    const uint32_t half = nodes / 2;
    actors = calloc(nodes + 1, sizeof *actors);
    if (!actors || join_jobs(nodes) || started != 2 * half) {
        (void)fprintf(stderr, "the jobs did not start: %llu of %u\n", started, 2 * half);
        return 1;
    }
    const unsigned long long before = steps;
    const unsigned long long holds = held;
    const double began = now_ns();
    started = 0;
    const struct tfe_msg msg = {.type = MSG_GOODBYE};
    if (play(&(struct rdzv_event){.type = RDZV_MESSAGE, .session = half / 2, .msg = &msg}) ||
        started != half - 1) {
        (void)fprintf(stderr, "the next epoch did not start: %llu of %u\n", started, half - 1);
        return 1;
    }
    (void)printf("{\"nodes\": %u, \"steps\": %llu, \"ms\": %.3f, \"bytes\": %llu}\n", 2 * half,
                 steps - before, (now_ns() - began) / 1e6, holds);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        return 2;
    }
    const uint32_t leases = (uint32_t)strtoul(argv[2], NULL, 10);
    const struct rdzv_config config = {.incarnation = 1,
                                       .ttl_ms = 10000,
                                       .gather_ms = 3000,
                                       .gather_max_ms = 30000,
                                       .max_sessions = leases + 1};
    const bool loses = strcmp(argv[1], "loss") == 0;
    if (leases == 0 || rdzv_new(&config, &mem, &core) || (!loses && join_all(leases))) {
        (void)fprintf(stderr, "the core cannot hold so many\n");
        return 1;
    }
    int rc = 2;
    if (loses) {
        rc = loss(leases);
    } else if (strcmp(argv[1], "renew") == 0 && argc == 4) {
        rc = renew(leases, (uint32_t)strtoul(argv[3], NULL, 10));
    } else if (strcmp(argv[1], "expire") == 0) {
        rc = expire(leases);
    }
    rdzv_free(core);
    return rc;
}
