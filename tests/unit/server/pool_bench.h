/* tests/unit/server/pool_bench.h: a test harness for the server's pool. The test controls nodes,
 * core, disk and clocks. The harness records the messages sent to nodes and to the core, and the
 * rows that became durable. */
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
/* Lease of a node whose clock runs fast, plus a margin of 50 ms. */
#define BENCH_LEASE_MS (10000 + 1060 + 50)
#define BENCH_RESTARTS 2u

/* A job's row in the fake database. */
struct bench_row {
    char job[64], run_key[64], conditions[2048], nodes[512];
    uint8_t *spec;
    size_t n_spec;
    uint64_t number;
    struct tfe_wall started;
    bool is_there;
};

/* The fake core's state of one job; state is NULL if the core does not know the job. */
struct bench_core {
    const char *job, *state;
    const char *run_key; /* NULL selects the key of the pool's own run */
    struct rdzv_outcome outcome;
    const char *reason; /* NULL if the run has no reason */
    uint32_t members;
    double steps_per_s; /* 0 if unknown */
};

extern struct pool_bench {
    struct pool *p;
    struct event_base *base;
    struct sessions all;
    struct session sessions[BENCH_SESSIONS]; /* sessions[i] belongs to node i */
    struct principal agent, admin, someone;  /* someone: an admin with scope "a-*" only */
    int disk;                                /* result of the next writes: 0 or an error */
    bool takes_row;                          /* false if the writer has no memory for a row */
    unsigned waiting;                        /* writes without a result yet */
    struct bench_row rows[BENCH_JOBS];
    struct bench_core core[BENCH_JOBS];
    struct rdzv_found found; /* the core's nodes that match an operator's name */
    int find;                /* result of the core's look-up of that name */
    bool core_refuses;       /* true if the core refuses an operator's order */
    int core_steps;          /* the core's result for an event */
    char said[8192], events[8192];
} bench;

int bench_begin(void **state);
int bench_end(void **state);
/* Restarts the server with the same database and new sessions. */
void bench_restart(void);

void bench_pass(int64_t ms);
/* Runs the pool once, for everything that is due now. */
void bench_turn(void);
/* Completes all writes, including those that follow from them. Does nothing if the disk fails. */
void bench_durable(void);
/* Completes only the oldest outstanding write. */
void bench_durable_once(void);
/* Wake-up callback of a response; ctx is a bool that it sets. */
void bench_on_wake(void *ctx);

/* Returns the messages recorded since the last call (bench_events: the events), or "". */
const char *bench_said(void);
const char *bench_events(void);
void bench_said_is(const char *expected);
/* Discards the messages recorded so far. */
void bench_quiet(void);
/* Submits a job and places it on nodes 0 to max - 1, by assignments 1 to max. */
void bench_placed(struct msg_spec spec);

/* Connects node i in its session, with a label (NULL for none), while it works for this
 * assignment; assignments count from 1, and 0 is none. */
void bench_came(unsigned i, const char *label, uint64_t assignment);
void bench_freed(unsigned i, uint64_t assignment, uint32_t code);
void bench_renews(unsigned i);
/* Ends the connection of node i. */
void bench_left(unsigned i);
struct pool_node *bench_node(unsigned i);

/* Returns an ordinary job specification. */
struct msg_spec bench_spec(const char *name, uint32_t min, uint32_t max);
/* Executes an order and waits until it is durable. Returns "done" or the refusal. */
const char *bench_order(const struct principal *by, struct tfe_msg order);
const char *bench_submit(struct msg_spec spec);
/* Return the rows of all submitted jobs (by name) or of all nodes, one line each. */
const char *bench_jobs(void);
const char *bench_all_nodes(void);
/* Returns the job's row with its conditions and nodes. */
const char *bench_described(const char *job);

/* Sets the core's state of the job and notifies the pool. */
struct bench_core *bench_core_is(const char *job, const char *state);
/* Returns the job's state as users see it, or "gone". */
const char *bench_state(const char *job);
/* Returns the job's stored row, or NULL if there is none. */
struct bench_row *bench_row(const char *job);
/* Returns the nodes in the job's stored row, each with its assignment. */
const char *bench_nodes(const char *job);

#endif
