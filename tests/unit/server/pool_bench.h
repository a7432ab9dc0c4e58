/* tests/unit/server/pool_bench.h: the pool of a server, whose nodes, core, disk and clocks are the
 * story's. What nodes and the core are told is written down, and so is what became durable. */
#ifndef TFE_TESTS_UNIT_SERVER_POOL_BENCH_H
#define TFE_TESTS_UNIT_SERVER_POOL_BENCH_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/jobs/pool.h"
#include "server/jobs/pool_private.h"
#include "server/session.h"
#include "tests/unit/test_runner.h"

enum { BENCH_NODES = 4, BENCH_SESSIONS = BENCH_NODES + 1, BENCH_JOBS = 3 };

#define BENCH_TTL_MS 10000u
/* A lease of a node on a clock that runs fast, and a little. */
#define BENCH_LEASE_MS (10000 + 1060 + 50)
#define BENCH_RESTARTS 2u

/* A row of the disk. */
struct bench_row {
    char job[64], run_key[64], conditions[2048], nodes[512];
    uint8_t *spec;
    size_t n_spec;
    uint64_t number;
    struct tfe_wall started;
    bool is_there;
};

/* What the core knows of a job; state NULL: nothing. */
struct bench_core {
    const char *job, *state;
    const char *run_key; /* NULL: that of the pool's job */
    struct rdzv_outcome outcome;
    const char *reason; /* NULL if there is none */
    uint32_t members;
    double steps_per_s; /* 0: nothing is known */
};

extern struct pool_bench {
    struct pool *p;
    struct event_base *base;
    struct sessions all;
    struct session sessions[BENCH_SESSIONS]; /* node i speaks in the i-th one */
    struct principal agent, admin, someone;  /* someone: an admin of "a-*" alone */
    int disk;                                /* what comes of the next writes */
    bool takes_row;                          /* whether there is memory for them */
    unsigned waiting;                        /* writes that have no answer */
    struct bench_row rows[BENCH_JOBS];
    struct bench_core core[BENCH_JOBS];
    struct rdzv_found found; /* whom an operator's name means in the core … */
    int find;                /* … and whether it does */
    bool core_refuses;       /* an operator's order */
    int core_steps;          /* what comes of an event of the core's */
    char said[8192], events[8192];
} bench;

int bench_begin(void **state);
int bench_end(void **state);
/* A server that starts again with this disk. Sessions are new. */
void bench_restart(void);

void bench_pass(int64_t ms);
/* Time for what is due now. */
void bench_turn(void);
/* All that is to be written is, whatever follows from it: nothing, where the disk fails. */
void bench_durable(void);
/* … of what was asked for first alone. */
void bench_durable_once(void);
/* Of rows: sets the bool that ctx is. */
void bench_on_wake(void *ctx);

/* What was said since this was asked last, or the events; "" where it was nothing. */
const char *bench_said(void);
const char *bench_events(void);
void bench_said_is(const char *expected);
/* What was said up to now is not looked at. */
void bench_quiet(void);
/* A job of these sizes has its nodes, 0 to max - 1, by assignments 1 to max. */
void bench_placed(struct msg_spec spec);

/* Node i comes in its session, with this label (NULL: none), and works for that assignment: from 1
 * on as they are given; 0: none. */
void bench_came(unsigned i, const char *label, uint64_t assignment);
void bench_freed(unsigned i, uint64_t assignment, uint32_t code);
void bench_renews(unsigned i);
/* Its connection is gone. */
void bench_left(unsigned i);
struct pool_node *bench_node(unsigned i);

/* A job as anybody would hand it in. */
struct msg_spec bench_spec(const char *name, uint32_t min, uint32_t max);
/* The answer to an order once all is durable: "done", or what is refused. */
const char *bench_order(const struct principal *by, struct tfe_msg order);
const char *bench_submit(struct msg_spec spec);
/* The rows of all submitted jobs, by name, or of all nodes: a line each. */
const char *bench_jobs(void);
const char *bench_all_nodes(void);
/* The row of a job, its conditions and its nodes. */
const char *bench_described(const char *job);

/* The core has this state of the job from now on, and says so. */
struct bench_core *bench_core_is(const char *job, const char *state);
/* The word for people of what has become of it; "gone". */
const char *bench_state(const char *job);
/* NULL: the disk has none. */
struct bench_row *bench_row(const char *job);
/* The nodes of its row, each with its assignment. */
const char *bench_nodes(const char *job);

#endif
