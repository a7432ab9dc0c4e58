/* tests/sim/overheard.c: passes traces of the rendezvous core to the simulator's checks. */
#include "tests/sim/overheard.h"

#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/hostile.h"
#include "tests/sim/jobs.h"
#include "tests/sim/judge.h"
#include "tests/sim/node.h"
#include "tests/sim/script.h"
#include "tests/sim/server.h"
#include "tests/sim/trainer.h"

/* A charge may be taken back within one lease, on the slowest clock. */
#define VERDICT_PERCENT 125

/* Returns the machine with the process that the trace is about, or NULL. */
static struct node *node_of(struct world *w, const struct rdzv_trace *t)
{
    uint32_t node = t->node ? node_find_process(w, t->node) : NAMES_NONE;
    return node == NAMES_NONE ? NULL : &w->nodes[node];
}

void overheard_trace(struct world *w, const struct rdzv_trace *t)
{
    struct node *n = NULL;
    uint32_t job = t->job ? jobs_find(w, t->job) : NAMES_NONE;
    if (job == NAMES_NONE || hostile_owns(t->job)) {
        return;
    }
    check_time(w->check, job, w->now);
    if (t->kind == TRACE_NODE_LEFT || t->kind == TRACE_NODE_LOST || t->kind == TRACE_NODE_SUSPECT ||
        t->kind == TRACE_NODE_STAYS || t->kind == TRACE_NODE_NOTICED) {
        judge_waits(w, job);
    }
    if (t->kind == TRACE_EPOCH) {
        check_epoch(w->check, job, t->epoch, t->number);
    } else if (t->kind == TRACE_RESTARTS && jobs_get(w, job)->n_ps > 0) {
        /* Each served worker is charged separately. */
    } else if (t->kind == TRACE_RESTARTS && !t->text) {
        check_charged(w->check, job, t->epoch,
                      w->now + (int64_t)server_longest_lease_ms(w) * VERDICT_PERCENT / 100);
    } else if (t->kind == TRACE_RESTARTS && strstr(t->text, "lost node")) {
        check_charge_cancelled(w->check, job, t->epoch);
    } else if (t->kind == TRACE_JOB_STATE && t->number) {
        jobs_get(w, job)->over = false; /* a new run */
        check_new_run(w->check, job);
    } else if (t->kind == TRACE_JOB_STATE && strcmp(t->text, "committing") == 0) {
        check_chosen(w->check, job, t->epoch);
        judge_formed(w, job, t->epoch);
        judge_chosen(w, job, t->epoch, server_clock(w).ms);
    } else if (t->kind == TRACE_JOB_STATE && strcmp(t->text, "waiting") == 0) {
        judge_waits(w, job);
    } else if (t->kind == TRACE_NODE_NOTICED && (n = node_of(w, t)) != NULL) {
        n->known_at = w->now;
        n->known_ms = (int64_t)t->number;
    } else if (t->kind == TRACE_NODE_EVICTED && (n = node_of(w, t)) != NULL) {
        n->evicted = t->epoch;
    } else if (t->kind == TRACE_WORKER_DONE ||
               (t->kind == TRACE_WORKER_MISSING && strstr(t->text, "in vain"))) {
        jobs_get(w, job)->left_epoch = t->epoch;
    } else if (t->kind == TRACE_JOB_FINISHED) {
        if (strstr(t->text, "succeeded") && !job_is_done(jobs_get(w, job), t->epoch)) {
            check_fail(w->check, CHECK_JOB_SUCCESS,
                       "job %s has succeeded although its chief has not", t->job);
        }
        jobs_get(w, job)->over = true;
        check_over(w->check, job);
        judge_waits(w, job); /* what follows is another run's first start */
    } else if (t->kind == TRACE_WAIT_FENCE) {
        judge_fence(w, job);
    } else if (t->kind == TRACE_REBUILT) {
        judge_rebuilt(w, job, t->epoch);
        check_rebuilt(w->check, job, t->epoch);
        trainers_rebuilt(w, job, t->epoch);
        judge_adopted(w, job, t->epoch);
    } else if (t->kind == TRACE_NODE_JOINED && (n = node_of(w, t)) != NULL) {
        n->joined_at = w->now;
        /* A node that is new to this server returns to the job. */
        check_lease_forgotten(w->check, n->index);
    } else if (t->kind == TRACE_SWITCH) {
        judge_switch(w, job, t->epoch,
                     strcmp(t->text, "joined") == 0 || strcmp(t->text, "preempted") == 0 ||
                         strcmp(t->text, "drained") == 0,
                     strcmp(t->text, "node_lost") == 0);
    } else if (t->kind == TRACE_JOB_STOPPING) {
        judge_stopping(w, job, t->epoch);
    } else if (t->kind == TRACE_MASS_LOSS) {
        judge_massed(w, job, t->epoch);
    } else if (t->kind == TRACE_SAVED) {
        script_confirmed(w, job, t->epoch);
    } else if (t->kind == TRACE_NODE_DEAD) {
        judge_dead(w, t->node);
        node_check_dead(w, job, t->epoch, t->node);
    } else if (t->kind == TRACE_NODE_LOST && t->text && strncmp(t->text, "its lease", 9) == 0 &&
               (n = node_of(w, t)) != NULL) {
        check_lease_over(w->check, n->index, node_clock(w, n->index).ms);
        judge_lost(w, job, t->epoch, n->index);
    }
}
