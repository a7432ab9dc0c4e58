/* bench/core_cost.c: the cost of the rendezvous core alone: a renewal by the number of leases, the
 * longest step when all leases expire in one tick, and events of running jobs, by job size. Prints
 * one JSON object per line.
 *
 * Usage: tfe-bench-core renew LEASES COUNT | expire LEASES waiting|running | jobs NODES
 * lose|leave|crash|notice|finish
 *
 * `renew` prints nanoseconds of processor time per renewal, and allocations during renewals;
 * callgrind counts the instructions. `expire`: the cost of the simultaneous expiry of the leases of
 * waiting nodes, or of running jobs of 10,000 nodes each. `jobs`: two jobs of NODES / 2 join, probe
 * each other's addresses and run; then in the first job a node vanishes or leaves, all trainers
 * crash, all machines get a notice, or all trainers succeed: steps and time until all nodes have
 * received the consequences, and the memory that the core holds. */
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/machine.h"
#include "common/base/mem.h"
#include "server/core/rdzv.h"
#include "tests/job_options.h"

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

/* Returns the processor time of this process, to exclude other processes on the machine. */
static double now_ns(void)
{
    return (double)machine_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static int step(struct rdzv_event event)
{
    event.now = (struct tfe_mono){now};
    return rdzv_step(core, &event, &actions);
}

/* Joins nodes to jobs of at most 50,000 nodes each that wait for one more. */
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
                                               .spec = job_of_size(job_max + 1, job_max + 1, 1)}};
        const int rc = step((struct rdzv_event){.type = RDZV_MESSAGE, .session = i, .msg = &msg});
        if (rc) {
            return rc;
        }
    }
    return 0;
}

/* callgrind measures this function and two below by name. */
__attribute__((noinline)) static int renew(uint32_t leases, uint32_t count)
{
    const unsigned long long before = allocations;
    /* Renews in an order unrelated to the memory layout, as on a server. */
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

/* --- running jobs ----------------------------------------------------------------------------- */

/* The response of an agent or of the disk to an action. An action's strings are invalid after the
 * next step, so responses are stored here in the order of the actions. */
struct reply {
    enum { REPLY_PERSISTED, REPLY_READY, REPLY_LISTENING, REPLY_EXITED, REPLY_PROBED } type;
    uint32_t session;
    uint64_t number; /* epoch, probe or sequence number */
    bool answering;  /* READY: the node still answers probes; PROBED: the address responds */
    char job[2];
};

static struct reply *replies;
static size_t replies_first;
static size_t replies_end;
static size_t replies_cap;
static uint64_t *running; /* by session: epoch of its last START */
static uint64_t *asked;   /* by session: epoch of its last PREPARE */
static unsigned long long steps;
static unsigned long long started;  /* STARTs since the counter was reset */
static unsigned long long finished; /* FINISHes since the counter was reset */

static void reply(struct reply r)
{
    if (replies_first == replies_end) {
        replies_first = replies_end = 0;
    }
    if (replies_end == replies_cap) {
        replies_cap = replies_cap ? 2 * replies_cap : 1024;
        replies = realloc(replies, replies_cap * sizeof *replies);
        if (!replies) {
            abort();
        }
    }
    replies[replies_end++] = r;
}

static void hear(const struct rdzv_action *a)
{
    const struct tfe_msg *msg = &a->msg;
    struct reply r = {.session = a->session};
    if (a->type == RDZV_PERSIST) {
        r.type = REPLY_PERSISTED;
        r.number = a->record->sequence;
        (void)snprintf(r.job, sizeof r.job, "%s", a->record->job);
        reply(r);
    } else if (a->type == RDZV_SEND && msg->type == MSG_PREPARE) {
        r.type = REPLY_READY;
        r.number = asked[a->session] = msg->u.prepare.epoch;
        r.answering = msg->u.prepare.answer;
        reply(r);
    } else if (a->type == RDZV_SEND && msg->type == MSG_PROBE) {
        r.type = REPLY_PROBED;
        r.number = msg->u.probe.probe;
        r.answering = msg->u.probe.kind == PROBE_ADDRESS;
        reply(r);
    } else if (a->type == RDZV_SEND && msg->type == MSG_START) {
        started++;
        r.type = REPLY_LISTENING;
        r.number = running[a->session] = msg->u.start.epoch;
        reply(r);
    } else if (a->type == RDZV_SEND && msg->type == MSG_STOP && running[a->session] != 0) {
        r.type = REPLY_EXITED;
        r.number = running[a->session];
        running[a->session] = 0;
        reply(r);
    } else if (a->type == RDZV_SEND && msg->type == MSG_FINISH) {
        finished++;
    }
}

/* Runs a step and stores the responses to its actions for answer_all. */
static int play(const struct rdzv_event *event)
{
    steps++;
    if (step(*event)) {
        return 1;
    }
    for (size_t i = 0; i < actions.n; i++) {
        hear(&actions.v[i]);
    }
    return 0;
}

static int say(uint32_t session, const struct tfe_msg *msg)
{
    return play(&(struct rdzv_event){.type = RDZV_MESSAGE, .session = session, .msg = msg});
}

static int say_exited(uint32_t session, uint64_t epoch, uint32_t code, const char *tail)
{
    running[session] = 0;
    return say(session,
               &(struct tfe_msg){.type = MSG_EXITED,
                                 .u.exited = {.epoch = epoch, .code = code, .tail = tail}});
}

static int give(const struct reply *r)
{
    const uint16_t port = (uint16_t)(10000 + 2 * (r->session % 25000) + (r->number & 1));
    struct tfe_msg msg = {.type = MSG_LISTENING, .u.listening.epoch = r->number};
    switch (r->type) {
    case REPLY_PERSISTED:
        return play(
            &(struct rdzv_event){.type = RDZV_PERSISTED, .job = r->job, .sequence = r->number});
    case REPLY_READY:
        if (asked[r->session] != r->number) {
            return 0;
        }
        msg = (struct tfe_msg){.type = MSG_READY,
                               .u.ready = {.epoch = r->number,
                                           .host = "10.0.0.1",
                                           .ports = &port,
                                           .n_ports = 1,
                                           .answering = r->answering}};
        break;
    case REPLY_LISTENING:
        break;
    case REPLY_EXITED:
        msg = (struct tfe_msg){.type = MSG_EXITED,
                               .u.exited = {.epoch = r->number, .stopped = true, .tail = ""}};
        break;
    case REPLY_PROBED:
        msg = (struct tfe_msg){
            .type = MSG_PROBED,
            .u.probed = {.probe = r->number,
                         .result = r->answering ? PROBE_ANSWERED_OURS : PROBE_REFUSED}};
        break;
    }
    return say(r->session, &msg);
}

/* Sends responses until none are left. */
static int answer_all(void)
{
    while (replies_first < replies_end) {
        const struct reply r = replies[replies_first++];
        if (give(&r)) {
            return 1;
        }
    }
    return 0;
}

static int join_jobs(uint32_t nodes, uint32_t per_job)
{
    for (uint32_t i = 0; i < nodes; i++) {
        char node[32];
        const char job[2] = {(char)('a' + i / per_job), '\0'};
        (void)snprintf(node, sizeof node, "node-%08u", i * 2654435761u);
        const struct tfe_msg msg = {.type = MSG_JOIN,
                                    .u.join = {.job = job,
                                               .node = node,
                                               .node_name = node,
                                               .spec = job_of_size(per_job - 1, per_job, 1)}};
        if (say(i, &msg)) {
            return 1;
        }
    }
    return answer_all();
}

/* Simulates a vanished node of the first job: its connection ends, and its ports no longer
 * respond. */
static int lose(uint32_t half)
{
    const uint32_t who = half / 2;
    running[who] = 0;
    return play(&(struct rdzv_event){.type = RDZV_CLOSED, .session = who});
}

/* Simulates an orderly leave of a node of the first job. */
static int leave(uint32_t half)
{
    const uint32_t who = half / 2;
    running[who] = 0;
    return say(who, &(struct tfe_msg){.type = MSG_GOODBYE});
}

/* Simulates a trainer failure from which all other trainers die before they can be stopped. */
static int crash(uint32_t half)
{
    const uint64_t epoch = running[0];
    int rc = say_exited(half / 2, epoch, 1, "Traceback (most recent call last):\nValueError: x\n");
    for (uint32_t i = 0; i < half && rc == 0; i++) {
        if (i != half / 2) {
            rc = say_exited(i, epoch, 1, "Collective ops is aborted by: a peer\n");
        }
    }
    now += 2000; /* back-off */
    return rc || answer_all() || play(&(struct rdzv_event){.type = RDZV_TICK});
}

/* Sends a preemption notice for all nodes. */
static int notice(uint32_t half)
{
    int rc = 0;
    for (uint32_t i = 0; i < half && rc == 0; i++) {
        rc = say(i, &(struct tfe_msg){.type = MSG_NOTICE,
                                      .u.notice = {.kind = NOTICE_PREEMPT, .deadline_ms = 600000}});
    }
    return rc;
}

/* Ends all trainers successfully, rank 0 first. */
static int finish(uint32_t half)
{
    int rc = 0;
    for (uint32_t i = 0; i < half && rc == 0; i++) {
        rc = say_exited(i, running[i], 0, "");
    }
    return rc;
}

static const struct {
    const char *name;
    int (*happen)(uint32_t half);
    uint32_t starts;      /* the next epoch starts with half minus this many members */
    bool ends;            /* all nodes receive the end of the job */
    bool should_continue; /* nothing changes yet */
} ways[] = {
    {.name = "lose", .happen = lose, .starts = 1},
    {.name = "leave", .happen = leave, .starts = 1},
    {.name = "crash", .happen = crash},
    {.name = "notice", .happen = notice, .should_continue = true},
    {.name = "finish", .happen = finish, .ends = true},
};

__attribute__((noinline)) static int jobs_begin(uint32_t nodes, uint32_t per_job)
{
    return join_jobs(nodes, per_job);
}

__attribute__((noinline)) static int jobs_go_on(size_t way, uint32_t half)
{
    return ways[way].happen(half) || answer_all();
}

static int start_jobs(uint32_t nodes, uint32_t per_job)
{
    running = calloc(nodes + 1, sizeof *running);
    asked = calloc(nodes + 1, sizeof *asked);
    if (!running || !asked || jobs_begin(nodes, per_job) || started != nodes) {
        (void)fprintf(stderr, "the jobs did not start: %llu of %u\n", started, nodes);
        return 1;
    }
    started = 0;
    return 0;
}

static int run_jobs(uint32_t nodes, const char *name)
{
    const uint32_t half = nodes / 2;
    size_t way = 0;
    while (way < sizeof ways / sizeof ways[0] && strcmp(ways[way].name, name) != 0) {
        way++;
    }
    if (way == sizeof ways / sizeof ways[0]) {
        return 2;
    }
    const double joined_at = now_ns();
    if (start_jobs(2 * half, half)) {
        return 1;
    }
    const unsigned long long before = steps;
    const unsigned long long holds = held;
    const double began = now_ns();
    const bool done = jobs_go_on(way, half) == 0;
    if (!done || finished != (ways[way].ends ? half : 0) ||
        started != (ways[way].ends || ways[way].should_continue ? 0 : half - ways[way].starts)) {
        (void)fprintf(stderr, "%s: %llu of %u started, %llu finished\n", name, started, half,
                      finished);
        return 1;
    }
    (void)printf(
        "{\"nodes\": %u, \"steps\": %llu, \"ms\": %.3f, \"join_ms\": %.3f, \"bytes\": %llu}\n",
        2 * half, steps - before, (now_ns() - began) / 1e6, (began - joined_at) / 1e6, holds);
    return 0;
}

/* Measures the expiry of all leases, with nodes that no longer respond. */
static int expire(uint32_t leases)
{
    double longest = 0;
    unsigned n = 0;
    unsigned over = 0;
    /* The core detects that the server was late and extends the leases once. */
    now += 3600 * 1000;
    for (int64_t end = now + 7200 * 1000; now < end;) {
        const double began = now_ns();
        if (step((struct rdzv_event){.type = RDZV_TICK})) {
            return 1;
        }
        const double took = now_ns() - began;
        longest = took > longest ? took : longest;
        n++;
        for (size_t i = 0; i < actions.n; i++) {
            over += actions.v[i].type == RDZV_SEND && actions.v[i].msg.type == MSG_LEASE_ENDED;
        }
        if (actions.deadline.ms > now) {
            if (actions.deadline.ms > end) {
                break;
            }
            now = actions.deadline.ms;
        }
    }
    (void)printf("{\"leases\": %u, \"longest_ms\": %.3f, \"steps\": %u}\n", leases, longest / 1e6,
                 n);
    return over != leases;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        return 2;
    }
    const uint32_t leases = (uint32_t)strtoul(argv[2], NULL, 10);
    const struct rdzv_config config = {.incarnation = 1,
                                       .ttl_ms = 10000,
                                       .defaults = default_options(),
                                       .gather_max_ms = 30000,
                                       .probe_rate =
                                           UINT32_MAX, /* virtual time does not pass here */
                                       .max_sessions = leases + 1};
    const bool runs =
        strcmp(argv[1], "jobs") == 0 || (argc == 4 && strcmp(argv[3], "running") == 0);
    if (leases == 0 || rdzv_new(&config, &mem, &core) || (!runs && join_all(leases))) {
        (void)fprintf(stderr, "the core cannot hold so many\n");
        return 1;
    }
    int rc = 2;
    if (strcmp(argv[1], "jobs") == 0 && argc == 4) {
        rc = run_jobs(leases, argv[3]);
    } else if (strcmp(argv[1], "renew") == 0 && argc == 4) {
        rc = renew(leases, (uint32_t)strtoul(argv[3], NULL, 10));
    } else if (strcmp(argv[1], "expire") == 0 && argc == 4) {
        rc = (runs && start_jobs(leases, 10000)) || expire(leases);
    }
    rdzv_free(core);
    return rc;
}
