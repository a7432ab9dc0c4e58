/* tests/sim/hostile.c: a hostile member with a valid key. */
#include "tests/sim/hostile.h"

#include <stdio.h>
#include <string.h>

#include "common/message/cluster_table.h"
#include "tests/sim/check.h"
#include "tests/sim/jobs.h"
#include "tests/sim/names.h"
#include "tests/sim/node.h"
#include "tests/sim/server.h"

#define OWN "evil"
#define SESSIONS 4
#define SAYS_MAX 40
#define JOBS 16
#define JOB_MS 3000

bool hostile_owns(const char *job)
{
    return strncmp(job, OWN, strlen(OWN)) == 0;
}

static uint64_t roll(struct rng *rng, uint64_t low, uint64_t high)
{
    return rng_between(rng, low, high);
}

/* Returns a number: usually one near a meaningful value, or an extreme one. */
static uint64_t number(struct rng *rng, uint64_t near)
{
    const uint64_t v[] = {near,
                          near + 1,
                          near + 2,
                          0,
                          1,
                          near + MSG_LEAP,
                          MSG_RUN_MAX,
                          UINT32_MAX,
                          MSG_EPOCH_LIMIT - 1,
                          MSG_NUMBER_MAX,
                          MSG_STEP_MAX,
                          roll(rng, 0, UINT64_MAX - 1)};
    return v[roll(rng, 0, roll(rng, 0, 1) ? 1 : sizeof(v) / sizeof(v[0]) - 1)];
}

/* Chooses jobs in turn, because the server remembers what was reported of a job. */
static void some_job(const struct world *w, char job[8])
{
    (void)snprintf(job, 8, OWN "%u", (unsigned)(w->now / JOB_MS % JOBS));
}

static void know_job(struct world *w, const char *job)
{
    if (jobs_find(w, job) == NAMES_NONE) {
        (void)jobs_add(w, job, 1, 3, 1);
    }
}

/* Returns an id of its own, or of an honest machine's agent. */
static const char *some_id(struct world *w, struct rng *rng, char own[8])
{
    const struct node *node = &w->nodes[roll(rng, 0, w->n_nodes - 1)];
    (void)snprintf(own, 8, "h%u", (unsigned)roll(rng, 0, 5));
    return node->id[0] != '\0' && roll(rng, 0, 3) == 0 ? node->id : own;
}

static void say_join(struct world *w, struct rng *rng, uint32_t place)
{
    char job[8];
    char own[8];
    uint16_t port = 1000;
    some_job(w, job);
    know_job(w, job);
    uint64_t epoch = server_epoch(w, job);
    struct msg_exited exited = {
        .epoch = number(rng, epoch), .code = (uint8_t)roll(rng, 0, 1), .tail = "x"};
    uint32_t nodes = roll(rng, 0, 2) ? 1 : 2;
    struct msg_running running = {.run = (uint32_t)number(rng, 1),
                                  .rank = (uint32_t)roll(rng, 0, nodes - 1),
                                  .nodes = nodes,
                                  .world = nodes,
                                  .digest = roll(rng, 0, 2),
                                  .host = "h",
                                  .ports = &port,
                                  .n_ports = 1,
                                  .cause = CAUSE_START};
    struct tfe_msg msg = {.type = MSG_JOIN};
    struct msg_join *join = &msg.u.join;
    *join = (struct msg_join){.job = job,
                              .node = some_id(w, rng, own),
                              .node_name = "hostile",
                              .new_run = roll(rng, 0, 1),
                              .run_key = roll(rng, 0, 3) ? NULL : own,
                              .durable = roll(rng, 0, 1),
                              .pid = (uint32_t)roll(rng, 0, 2),
                              .highest_epoch = number(rng, epoch),
                              .exited = roll(rng, 0, 3) ? NULL : &exited,
                              .running = roll(rng, 0, 1) ? NULL : &running};
    job_spec_init(&join->spec);
    join->spec.max_nodes = roll(rng, 0, 9) ? 3 : 1;
    join->spec.max_restarts = roll(rng, 0, 1) ? 1000000 : 0;
    join->spec.script_digest = roll(rng, 0, 1);
    join->running_epoch = roll(rng, 0, 1) ? join->highest_epoch : 0;
    server_hostile(w, place, &msg);
}

static void say_other(struct world *w, struct rng *rng, uint32_t place)
{
    char job[8];
    uint16_t port = (uint16_t)roll(rng, 1, 65535);
    some_job(w, job);
    uint64_t epoch = number(rng, server_epoch(w, job));
    const struct tfe_msg all[] = {
        {.type = MSG_READY,
         .u.ready = {epoch, "h", &port, 1, roll(rng, 0, 1), roll(rng, 0, 2) == 0}},
        {.type = MSG_READY, .u.ready = {server_epoch(w, job) + 1, "h", &port, 1, 0, false}},
        {.type = MSG_LISTENING, .u.listening = {epoch}},
        {.type = MSG_EXITED,
         .u.exited = {.epoch = epoch, .code = (uint8_t)roll(rng, 0, 1), .tail = "x"}},
        {.type = MSG_PROGRESS,
         .u.progress = {.epoch = epoch,
                        .has_step = true,
                        .step = number(rng, 100),
                        .has_saved = roll(rng, 0, 1),
                        .saved_step = number(rng, 100),
                        .saves = (uint32_t)number(rng, 1),
                        .answers = number(rng, 1),
                        .listens = roll(rng, 0, 1),
                        .memory = {.has_snapshot = true, .epoch = epoch, .step = epoch},
                        .has_from = true,
                        .from_step = epoch,
                        .ends = roll(rng, 0, 1),
                        .snapshot_answers = number(rng, 1)}},
        {.type = MSG_NOTICE,
         .u.notice = {.kind = (enum tfe_notice)roll(rng, 1, 5),
                      .deadline_ms = (uint32_t)number(rng, 1000),
                      .withdrawn = roll(rng, 0, 1)}},
        {.type = MSG_PROBED, .u.probed = {number(rng, 7), (enum tfe_probe_result)roll(rng, 1, 5)}},
        {.type = MSG_RENEW, .u.renew = {number(rng, 1)}},
        {.type = MSG_GOODBYE},
    };
    server_hostile(w, place, &all[roll(rng, 0, sizeof(all) / sizeof(all[0]) - 1)]);
}

/* Simulates a job of one node with an invented history: it runs, ends well, is stopped, starts
 * anew. */
static void say_life(struct world *w, struct rng *rng, uint32_t place)
{
    char job[8];
    uint16_t port = 1000;
    some_job(w, job);
    struct msg_running running = {.run = (uint32_t)number(rng, 1),
                                  .nodes = 1,
                                  .world = 1,
                                  .host = "h",
                                  .ports = &port,
                                  .n_ports = 1,
                                  .cause = CAUSE_START};
    struct msg_row row = {0, "h", port, TASK_WORKER, 0};
    running.digest = table_digest(&row, 1);
    struct tfe_msg join = {.type = MSG_JOIN, .u.join = {.job = job, .node = "h0", .node_name = ""}};
    job_spec_init(&join.u.join.spec);
    uint64_t n = roll(rng, 1, 3);
    server_hostile(w, place, NULL);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t epoch = number(rng, server_epoch(w, job));
        join.u.join.highest_epoch = epoch;
        join.u.join.running_epoch = epoch;
        join.u.join.running = roll(rng, 0, 1) ? &running : NULL;
        join.u.join.new_run = true;
        know_job(w, job);
        server_hostile(w, place, &join);
        say_other(w, rng, place);
        if (roll(rng, 0, 2) == 0) {
            server_order(w, RDZV_STOP_JOB, job, NULL);
        }
        server_hostile(w, place,
                       &(struct tfe_msg){.type = MSG_EXITED,
                                         .u.exited = {.epoch = server_epoch(w, job), .tail = ""}});
        server_hostile(
            w, place,
            &(struct tfe_msg){.type = MSG_READY,
                              .u.ready = {server_epoch(w, job) + 1, "h", &port, 1, 0, false}});
    }
}

void hostile_speak(struct world *w, struct rng *rng)
{
    uint64_t n = roll(rng, 1, SAYS_MAX);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t place = (uint32_t)roll(rng, 0, SESSIONS - 1);
        if (roll(rng, 0, 9) == 0) {
            say_life(w, rng, place);
        } else if (roll(rng, 0, 3) == 0) {
            say_join(w, rng, place);
        } else {
            say_other(w, rng, place);
        }
    }
    if (roll(rng, 0, 3) == 0) {
        server_hostile(w, (uint32_t)roll(rng, 0, SESSIONS - 1), NULL);
    }
}
