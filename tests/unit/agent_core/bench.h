/* tests/unit/agent_core/bench.h: fixture: an agent's core with explicit events and virtual
 * time. Its actions are logged as text:
 *
 *     CONNECT | DISCONNECT | HANG_UP | SWEEP | HOLD 3 fresh | FENCE 1120000 | EXIT 143 sentence
 *     ANSWER 7000 7001 | ANSWER no | PROBE 5 suspect x host 1 2
 *     JOIN highest=1 running=1 exited=0:0        SPAWN epoch=1 rank=0 restarts=0 a:1 b:2
 *     ~void_start epoch=1 number=0 why
 */
#ifndef TFE_TESTS_UNIT_AGENT_CORE_BENCH_H
#define TFE_TESTS_UNIT_AGENT_CORE_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent.h"
#include "common/message/cluster_table.h"
#include "tests/job_options.h"
#include "tests/unit/base/flaky.h"
#include "tests/unit/test_runner.h"

#define TTL_MS 10000
#define FENCE_MS 120000

struct bench {
    struct flaky flaky;
    struct tfe_mem mem;
    struct agent *a;
    struct agent_config config;
    int64_t now;
    int64_t deadline;
    int spins; /* consecutive ticks that requested another one immediately */
    bool retries;
    uint64_t failed;
    char log[65536]; /* result of the last action */
    size_t n_log;
    uint64_t history;
    uint32_t fence_of_start; /* sent in START; 0 to omit it */
    uint32_t nodes;          /* number of nodes sent in START; 0 for two */
    bool shows_running;      /* also logs the running field of JOIN */
    /* Values taken from the agent's actions. */
    uint64_t renewal;      /* number of the last RENEW */
    uint64_t ready_digest; /* table named by the last READY */
    bool over;
    int exit_code;
};

int step(struct bench *b, struct agent_event event);

/* --- actions; each clears the log of the previous one --- */

int act(struct bench *b, struct agent_event event);
void does(struct bench *b, struct agent_event event);
void hears(struct bench *b, struct tfe_msg msg);
void pass_until(struct bench *b, int64_t until);
void pass(struct bench *b, int64_t ms);
void connected(struct bench *b);
void lost(struct bench *b, enum agent_link how);
void welcome(struct bench *b);
void renewed(struct bench *b, uint64_t number);

/* Advances the time; the server answers every renewal. */
void pass_answered(struct bench *b, int64_t ms);
void prepare(struct bench *b, uint64_t epoch);
void ports_held(struct bench *b, uint64_t epoch);
size_t rows_of(const struct bench *b, struct msg_row rows[8]);
void table(struct bench *b, uint64_t epoch);
void start(struct bench *b, uint64_t epoch);
void stop(struct bench *b, uint64_t epoch);
void noted(struct bench *b, uint64_t epoch);
void trainer_exited(struct bench *b, uint32_t local, uint32_t code, uint32_t signal);
void swept(struct bench *b);
void signalled(struct bench *b, uint32_t signo);

/* --- queries --- */

#define assert_saw(b, part)                                                                        \
    do {                                                                                           \
        if (!strstr((b)->log, (part))) {                                                           \
            fail_msg("not seen: %s\nbut:\n%s", (part), (b)->log);                                  \
        }                                                                                          \
    } while (0)

#define assert_not_saw(b, part)                                                                    \
    do {                                                                                           \
        if (strstr((b)->log, (part))) {                                                            \
            fail_msg("seen: %s\nin:\n%s", (part), (b)->log);                                       \
        }                                                                                          \
    } while (0)

int times_seen(const struct bench *b, const char *part);

/* --- lifetime --- */

struct bench *bench_new(uint32_t nproc, uint64_t seed);
void begin(struct bench *b);
struct bench *a_bench(void);
void bench_free(struct bench *b);
/* Frees all that are left; after each test. */
int benches_end(void **state);
#define FIXTURE NULL, benches_end

/* Returns an agent that has received WELCOME and no request yet. */
struct bench *a_joined_bench(uint32_t nproc);
void run_epoch(struct bench *b, uint64_t epoch);
struct bench *a_running_bench(uint32_t nproc);

#endif
