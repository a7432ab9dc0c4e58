/* bench/core_cost.c: what the rendezvous core costs by itself: a renewal by the number of leases, and the longest
 * step when all leases end in one tick. Prints one JSON object a line.
 *
 * Usage: tfe-bench-core renew LEASES COUNT | expire LEASES
 * `renew` prints nanoseconds per renewal and allocations during them; instructions are callgrind's business. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/mem.h"
#include "server/core/rdzv.h"

static unsigned long long allocations;

static void *resize(void *ctx, void *old, size_t n)
{
    (void)ctx;
    if (n == 0) {
        free(old);
        return NULL;
    }
    allocations++;
    return realloc(old, n);
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
    if (leases == 0 || rdzv_new(&config, &mem, &core) || join_all(leases)) {
        (void)fprintf(stderr, "the core cannot hold so many\n");
        return 1;
    }
    int rc = 2;
    if (strcmp(argv[1], "renew") == 0 && argc == 4) {
        rc = renew(leases, (uint32_t)strtoul(argv[3], NULL, 10));
    } else if (strcmp(argv[1], "expire") == 0) {
        rc = expire(leases);
    }
    rdzv_free(core);
    return rc;
}
