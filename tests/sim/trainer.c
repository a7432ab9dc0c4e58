/* tests/sim/trainer.c: simulated trainers and their clusters.
 *
 * A cluster is what TensorFlow makes of one epoch: all trainers that were given the same table. It
 * trains once all of them are up, makes a step only while all of them respond, and ends for all
 * when one is gone: quickly if a kernel reports that, late if only heartbeats are missed. */
#include "tests/sim/trainer.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/message/cluster_table.h"
#include "tests/sim/check.h"
#include "tests/sim/cluster.h"
#include "tests/sim/jobs.h"
#include "tests/sim/judge.h"
#include "tests/sim/net.h"
#include "tests/sim/node.h"
#include "tests/sim/node_agent.h"
#include "tests/sim/probing.h"
#include "tests/sim/script.h"
#include "tests/sim/server.h"

/* Interval for retrying an event that a frozen process cannot handle. */
#define FROZEN_LOOK_MS 100
/* Interval for retrying an event of a process that is stuck in the kernel. */
#define STUCK_LOOK_MS 100
/* A chief goes on without workers: every so many steps it is checked whether all is well again. */
#define CALM_STEPS 16

/* Clusters of all jobs, by id, for the events that name one. */
struct clusters {
    struct cluster **by_id;
    size_t n, cap;
    struct cluster **by_job;
    size_t n_jobs, cap_jobs;
};

static struct clusters *clusters_of(struct world *w);

static void on_up(struct world *w, const struct sim_event *event);
static void on_own_end(struct world *w, const struct sim_event *event);
static void on_peers_end(struct world *w, const struct sim_event *event);
static void on_reaped(struct world *w, const struct sim_event *event);
static void on_step(struct world *w, const struct sim_event *event);
static void on_no_answer(struct world *w, const struct sim_event *event);

static struct clusters *clusters_of(struct world *w)
{
    if (!w->clusters) {
        w->clusters = sim_alloc(1, sizeof(*w->clusters));
    }
    return w->clusters;
}

static struct cluster **clusters_of_job(struct world *w, uint32_t job)
{
    struct clusters *all = clusters_of(w);
    while (all->n_jobs <= job) {
        all->by_job = sim_grow(all->by_job, all->n_jobs, &all->cap_jobs, sizeof(*all->by_job));
        all->by_job[all->n_jobs++] = NULL;
    }
    return &all->by_job[job];
}

struct cluster *cluster_by_id(const struct world *w, uint32_t id)
{
    return w->clusters->by_id[id];
}

struct cluster *cluster_of_epoch(struct world *w, uint32_t job, uint64_t epoch)
{
    struct cluster *c = *clusters_of_job(w, job);
    while (c && c->epoch != epoch) {
        c = c->next;
    }
    return c;
}

static void cluster_free(struct world *w, struct cluster *c)
{
    struct cluster **at = clusters_of_job(w, c->job);
    while (*at != c) {
        at = &(*at)->next;
    }
    *at = c->next;
    w->clusters->by_id[c->id] = NULL;
    free(c->members);
    free(c->table);
    free(c);
}

void trainers_free(struct world *w)
{
    if (!w->clusters) {
        return;
    }
    for (size_t job = 0; job < w->clusters->n_jobs; job++) {
        while (w->clusters->by_job[job]) {
            cluster_free(w, w->clusters->by_job[job]);
        }
    }
    free(w->clusters->by_id);
    free(w->clusters->by_job);
    free(w->clusters);
    w->clusters = NULL;
}

uint64_t cluster_draw(const struct world *w, const struct cluster *c, uint32_t rank, uint64_t what,
                      uint32_t lo, uint32_t hi)
{
    return hi <= lo ? lo
                    : lo + world_draw(w, c->job * UINT64_C(1000003) + c->epoch, rank, what) %
                               (hi - lo + 1);
}

const struct trainer_spec *cluster_spec(struct world *w, const struct cluster *c)
{
    return &jobs_get(w, c->job)->spec;
}

struct trainer *cluster_trainer(struct world *w, const struct cluster *c, uint32_t rank)
{
    const struct member *m = &c->members[rank];
    return &w->nodes[m->node].trainers[m->local];
}

void cluster_say(struct world *w, const struct cluster *c, const char *what, const char *reason)
{
    char name[TFE_ID_MAX + 32];
    snprintf(name, sizeof(name), "%s/%llu", jobs_get(w, c->job)->name.text,
             (unsigned long long)c->epoch);
    world_trace(w, "cluster", what, "%s world=%u step=%llu%s%s", name, c->world,
                (unsigned long long)c->step, reason[0] ? " " : "", reason);
}

/* --- clusters --- */

bool cluster_is_served(const struct cluster *c)
{
    return c->ps_from < c->world;
}

static bool is_worker(const struct cluster *c, uint32_t rank)
{
    return cluster_is_served(c) && rank > 0 && rank < c->ps_from;
}

bool cluster_can_miss(const struct cluster *c, uint32_t rank)
{
    return c->has_trained && is_worker(c, rank);
}

/* Returns true if the cluster can work: a chief without any worker waits for one, unless the script
 * ends its workers itself. */
static bool has_hands(struct world *w, const struct cluster *c)
{
    /* A first worker works itself, and a script whose workers end needs none of them. */
    bool has = !cluster_is_served(c) || !c->has_chief || c->n_done > 0;
    for (uint32_t rank = 1; !has && rank < c->ps_from; rank++) {
        has = c->members[rank].lives && cluster_trainer(w, c, rank)->state == TRAINER_UP;
    }
    return has;
}

/* The first trainer of the cluster starts: checks that no agent answers probes on a port to which
 * it may connect. */
static void check_nobody_answers(struct world *w, const struct node *first, uint32_t era,
                                 const struct agent_place *place)
{
    for (size_t i = 0; i < place->n_rows; i++) {
        uint32_t node = probing_machine(w, place->rows[i].host);
        const struct node *n = node == NAMES_NONE ? NULL : &w->nodes[node];
        /* With fixed ports a stopped node is READY for the next epoch on the same ports. */
        for (size_t p = 0; n && !n->fixed && p < n->n_answers; p++) {
            if (n->answers[p] == place->rows[i].port && era == check_era(w->check, first->job)) {
                check_answers(w->check, first->job, place->epoch, first->index, node);
            }
        }
    }
}

static bool is_in(const struct cluster *c, struct address at)
{
    for (uint32_t rank = 0; rank < c->world; rank++) {
        if (c->table[rank].machine == at.machine && c->table[rank].port == at.port) {
            return true;
        }
    }
    return false;
}

/* Returns the machine at the address if a trainer of the cluster runs there, or NULL. */
static const struct node *runs_on(const struct world *w, const struct cluster *c)
{
    for (uint32_t rank = 0; rank < c->world; rank++) {
        const struct member *m = &c->members[rank];
        const struct node *n = m->lives ? &w->nodes[m->node] : NULL;
        if (n && !m->stood && !n->suspended && n->trainers[m->local].state != TRAINER_DYING) {
            return n;
        }
    }
    return NULL;
}

/* The first trainer of a cluster starts: checks that no trainer of an earlier epoch that is still
 * in TensorFlow's constructor finds it, or another one of its cluster, at the address of a peer of
 * its own. */
static void check_nobody_looks(struct world *w, const struct cluster *c)
{
    for (const struct cluster *old = c->next; old; old = old->next) {
        const struct node *looks = old->era == c->era && old->epoch < c->epoch && !old->has_trained
                                       ? runs_on(w, old)
                                       : NULL;
        for (uint32_t rank = 0; looks && rank < old->world; rank++) {
            if (is_in(c, old->table[rank])) {
                check_fail(w->check, CHECK_NO_STALE_PEER,
                           "epoch %llu uses a port at which %s still looks for epoch %llu",
                           (unsigned long long)c->epoch, looks->name,
                           (unsigned long long)old->epoch);
                looks = NULL;
            }
        }
    }
}

static struct cluster *cluster_new(struct world *w, uint32_t job, uint32_t era, uint64_t epoch,
                                   uint32_t world)
{
    struct clusters *all = clusters_of(w);
    struct cluster **head = clusters_of_job(w, job);
    struct cluster *c = sim_alloc(1, sizeof(*c));
    c->job = job;
    c->era = era;
    c->epoch = epoch;
    c->world = c->ps_from = world;
    c->members = sim_alloc(world, sizeof(*c->members));
    c->table = sim_alloc(world, sizeof(*c->table));
    c->next = *head;
    *head = c;
    all->by_id = sim_grow(all->by_id, all->n, &all->cap, sizeof(*all->by_id));
    c->id = (uint32_t)all->n;
    all->by_id[all->n++] = c;
    return c;
}

/* Returns the cluster of this table, or NULL. A restarted served worker belongs to the living
 * cluster, even if an older disk has begun another era since. */
static struct cluster *cluster_of_table(struct world *w, uint32_t job, uint32_t era, uint64_t epoch,
                                        uint64_t digest)
{
    struct cluster *same = NULL;
    for (struct cluster *c = *clusters_of_job(w, job); c; c = c->next) {
        if (c->epoch == epoch && c->digest == digest && !c->evaluates) {
            same = c->era == era || (!same && cluster_is_served(c)) ? c : same;
        }
    }
    return same;
}

static struct cluster *cluster_get(struct world *w, const struct node *node, uint32_t era,
                                   const struct agent_place *place, uint64_t digest)
{
    uint32_t job = node->job;
    struct cluster *c = cluster_of_table(w, job, era, place->epoch, digest);
    if (c) {
        return c;
    }
    c = cluster_new(w, job, era, place->epoch, (uint32_t)place->n_rows);
    c->digest = digest;
    for (uint32_t rank = 0; rank < c->world; rank++) {
        c->table[rank] =
            (struct address){probing_machine(w, place->rows[rank].host), place->rows[rank].port};
    }
    c->has_chief = place->rows[0].role == TASK_CHIEF;
    c->ps_from = 0;
    while (c->ps_from < c->world && place->rows[c->ps_from].role != TASK_PS) {
        c->ps_from++;
    }
    check_nobody_answers(w, node, era, place);
    check_nobody_looks(w, c);
    judge_forms(w, c, place);
    return c;
}

void cluster_go_on(struct world *w, struct cluster *c)
{
    if (c->state == CLUSTER_TRAINING && !c->hangs && c->n_blocked == 0 && !c->step_queued &&
        !c->saves && !c->stands && c->n_stopping == 0 && !c->evaluates && has_hands(w, c)) {
        c->step_queued = true;
        world_at(w, w->now + cluster_spec(w, c)->step_ms, on_step, c->id, 0, 0);
    }
}

/* Notes that the server learns late of this end from a member whose connection stalls. */
static void note_silence(struct world *w, const struct cluster *c)
{
    for (uint32_t rank = 0; rank < c->world; rank++) {
        const struct link *link = net_link(w, c->members[rank].node);
        if (link->stalled || link->cut_up || server_late_until(w) > w->now) {
            check_silence(w->check, c->era, c->job, c->epoch);
            return;
        }
    }
}

/* All trainers that are up notice the failure between lo and hi from now on. */
static void cluster_break(struct world *w, struct cluster *c, uint32_t lo, uint32_t hi,
                          const char *reason)
{
    if (c->state == CLUSTER_BROKEN || c->state == CLUSTER_FINISHED) {
        return;
    }
    c->state = CLUSTER_BROKEN;
    cluster_say(w, c, "breaks", reason);
    judge_breaks(w, c, reason);
    note_silence(w, c);
    if (c->planned) {
        check_fail(w->check, CHECK_PLANNED_STOP, "a planned stop of epoch %llu loses steps at %s",
                   (unsigned long long)c->epoch, reason);
    }
    if (c->stop_sent && c->confirmed_at && !script_is_news(w, c) &&
        script_safe_step(w, c) < c->step) {
        check_fail(
            w->check, CHECK_SAVED_STEP,
            "epoch %llu is stopped for a checkpoint after step %llu; the next starts at %llu",
            (unsigned long long)c->epoch, (unsigned long long)c->step,
            (unsigned long long)script_safe_step(w, c));
    }
    for (uint32_t rank = 0; rank < c->world; rank++) {
        if (c->members[rank].lives && cluster_trainer(w, c, rank)->state == TRAINER_UP &&
            (rank == 0 || !cluster_is_served(c))) {
            world_at(w, w->now + (int64_t)cluster_draw(w, c, rank, 1, lo, hi), on_peers_end,
                     c->members[rank].node, cluster_trainer(w, c, rank)->tag,
                     c->members[rank].local);
        }
    }
}

/* Handles the end of a member's process. */
static void cluster_lose(struct world *w, struct trainer *t, uint32_t lo, uint32_t hi,
                         const char *reason)
{
    struct cluster *c = t->cluster;
    const struct trainer_spec *spec = cluster_spec(w, c);
    if (t->state == TRAINER_UP) {
        c->n_up--;
    }
    if (t->blocked) {
        t->blocked = false;
        c->n_blocked--;
    }
    t->state = TRAINER_DYING;
    if (cluster_can_miss(c, t->rank) ||
        (c->state == CLUSTER_FORMING && is_worker(c, t->rank))) { /* its chief waits */
        cluster_say(w, c, "misses", reason);
        return;
    }
    if (c->state == CLUSTER_FORMING) {
        /* A trainer that waits in TensorFlow's constructor notices only missing heartbeats. */
        lo = hi = spec->vanished_ms;
    }
    cluster_break(w, c, lo, hi, reason);
}

/* The process has been reaped, or its machine is gone: the entry is free. */
static void trainer_forget(struct world *w, struct trainer *t)
{
    struct cluster *c = t->cluster;
    if (t->stopping) {
        t->stopping = false;
        c->n_stopping--;
    }
    if (!c->evaluates) {
        check_trainer_ends(w->check, c->era, c->job, c->epoch, t->rank);
    }
    c->members[t->rank].lives = false;
    t->state = TRAINER_NONE;
    t->cluster = NULL;
    t->tag++;
    if (--c->n_lives == 0) {
        cluster_free(w, c);
    }
}

void cluster_finish(struct world *w, struct cluster *c, const char *what, uint32_t within_ms)
{
    c->state = CLUSTER_FINISHED;
    cluster_say(w, c, what, "");
    for (uint32_t rank = 0; rank < (cluster_is_served(c) ? 1 : c->world); rank++) {
        world_at(w, w->now + (int64_t)cluster_draw(w, c, rank, 2, 0, within_ms), on_own_end,
                 c->members[rank].node, cluster_trainer(w, c, rank)->tag, c->members[rank].local);
    }
}

/* Returns true if the script of this job ends itself here. */
static bool script_fails(struct world *w, struct cluster *c)
{
    struct job *job = jobs_get(w, c->job);
    const struct trainer_spec *spec = &job->spec;
    if (spec->fail_code == 0 || job->failed >= spec->fail_epochs || spec->fail_rank >= c->world ||
        c->step - c->first_step < spec->fail_at) {
        return false;
    }
    const struct member *m = &c->members[spec->fail_rank];
    bool should_continue = cluster_can_miss(c, spec->fail_rank);
    if (m->lives) {
        job->failed++;
        trainer_end(w, &w->nodes[m->node], m->local, spec->fail_code, 0);
    }
    return !should_continue;
}

static void on_step(struct world *w, const struct sim_event *event)
{
    struct cluster *c = w->clusters->by_id[event->who];
    if (!c) {
        return;
    }
    c->step_queued = false;
    if (c->state != CLUSTER_TRAINING || c->n_blocked > 0 || c->hangs || c->n_stopping > 0 ||
        !has_hands(w, c)) {
        return;
    }
    struct job *job = jobs_get(w, c->job);
    c->step++;
    if (c->n_stood < c->world) {
        check_step(w->check, c->era, c->job, c->epoch);
        /* otherwise no clock of the cluster can have kept its fence: design 5 covers rates, not
         * stops */
    }
    job->reached = c->step > job->reached ? c->step : job->reached;
    bool saved = job->spec.checkpoint_every && c->step % job->spec.checkpoint_every == 0 &&
                 c->step > job->checkpoint;
    if (saved) {
        job->checkpoint = c->step;
    }
    if (script_fails(w, c)) {
        return;
    }
    script_stepped(w, c, saved);
    if (cluster_is_served(c) && !c->calm && c->step % CALM_STEPS == 0) {
        judge_trains_again(w, c); /* a worker that is back is no longer an excuse */
    }
    if (job->spec.steps && c->step >= job->spec.steps) {
        check_finished(w->check, c->era, c->job, c->epoch);
        script_ends(w, c);
        cluster_finish(w, c, "finishes", job->spec.finish_hi);
        return;
    }
    cluster_go_on(w, c);
}

/* Returns where tfe.Checkpointer's ranks continue: at the newest state that one of them keeps in
 * memory or, if that is newer, on the disk. */
static uint64_t begins_at(struct world *w, const struct cluster *c)
{
    struct msg_memory best = {.has_snapshot = false};
    for (uint32_t rank = 0; rank < c->world; rank++) {
        const struct msg_memory *m = &w->nodes[c->members[rank].node].memory;
        bool is_newer = m->epoch > best.epoch || (m->epoch == best.epoch && m->step > best.step);
        best = m->has_snapshot && is_newer ? *m : best;
    }
    uint64_t saved = jobs_get(w, c->job)->checkpoint;
    return best.step > saved ? best.step : saved;
}

/* A trainer that does not respond no longer counts as a worker. */
static void let_go(struct world *w, struct cluster *c)
{
    for (uint32_t rank = 1; rank < c->ps_from && cluster_is_served(c); rank++) {
        struct trainer *t = cluster_trainer(w, c, rank);
        c->n_blocked -= t->blocked;
        t->blocked = false;
    }
}

static void begin_training(struct world *w, struct cluster *c)
{
    c->state = CLUSTER_TRAINING;
    c->has_trained = true;
    let_go(w, c);
    c->first_step = c->step = begins_at(w, c);
    script_goes_on(w, c);
    cluster_say(w, c, "trains", "");
    if (!c->evaluates) {
        judge_trains(w, c);
    }
    if (!script_fails(w, c)) {
        cluster_go_on(w, c);
    }
}

/* Returns true if all trainers for which the chief, or the first one, waits are up. */
static bool is_there(const struct cluster *c)
{
    return c->state == CLUSTER_FORMING && c->n_up + c->n_done == c->world;
}

/* Returns true if the cluster is on more than one machine. */
static bool has_peers(struct world *w, const struct cluster *c)
{
    return c->world > job_trainers(jobs_get(w, c->job), 0, c->world);
}

/* Returns true if some trainer runs and waits for a response, so that it misses the others. */
static bool somebody_runs(struct world *w, const struct cluster *c)
{
    for (uint32_t rank = 0; rank < c->world; rank++) {
        const struct member *m = &c->members[rank];
        if (m->lives && !w->nodes[m->node].suspended &&
            !w->nodes[m->node].trainers[m->local].frozen) {
            return true;
        }
    }
    return false;
}

/* A trainer has not responded for so long that heartbeats count it as gone. */
static void on_no_answer(struct world *w, const struct sim_event *event)
{
    struct cluster *c = w->clusters->by_id[event->who];
    if (c && event->tag == c->block_tag && c->n_blocked > 0 && somebody_runs(w, c)) {
        cluster_break(w, c, 0, 500, "a peer does not answer");
    }
}

/* --- trainers --- */

/* An earlier chief could overwrite what the new one saves, even if it finds no ps any more. */
static void check_earlier_chiefs(struct world *w, const struct cluster *c)
{
    for (const struct cluster *old = c->next; old; old = old->next) {
        const struct member *m = &old->members[0];
        bool lives = cluster_is_served(old) && old->era == c->era && old->epoch < c->epoch &&
                     m->lives && !m->stood && !w->nodes[m->node].suspended &&
                     cluster_trainer(w, old, 0)->state != TRAINER_DYING;
        if (lives) {
            check_fail(w->check, CHECK_ONE_CHIEF,
                       "the chief of epoch %llu starts while that of epoch %llu runs",
                       (unsigned long long)c->epoch, (unsigned long long)old->epoch);
        }
    }
}

static bool is_listed(const struct world *w, const struct node *node, uint32_t local,
                      const struct agent_place *place)
{
    const struct msg_row *row = &place->rows[place->rank + local];
    uint32_t at = probing_machine(w, row->host);
    return at == node->index && row->port == node->ports[node->fixed ? 0 : place->epoch & 1][local];
}

void trainer_start(struct world *w, struct node *node, uint32_t local,
                   const struct agent_place *place)
{
    struct trainer *t = &node->trainers[local];
    uint32_t era = net_agent_era(w, node->index);
    uint64_t digest = table_digest(place->rows, place->n_rows);
    bool evaluates = place->rank >= place->n_rows;
    struct cluster *c = evaluates ? cluster_new(w, node->job, era, place->epoch, 1)
                                  : cluster_get(w, node, era, place, digest);
    uint32_t rank = evaluates ? 0 : place->rank + local;
    c->evaluates = evaluates;
    era = c->era;
    if (!evaluates) { /* an evaluator's number is its own and in no record */
        check_trainer_begins(w->check, era, node->job, place->epoch, node->index, rank, c->world,
                             digest);
        if (!is_listed(w, node, local, place)) {
            check_fail(
                w->check, CHECK_OWN_ADDRESS,
                "rank %u of epoch %llu starts on node %u, which the table does not list for it",
                rank, (unsigned long long)place->epoch, node->index);
        }
    }
    if (check_failed(w->check) || c->members[rank].lives) {
        w->stop = true; /* two trainers of one rank: nothing sensible can follow */
        return;
    }
    c->n_done -= c->members[rank].is_done;
    c->members[rank] = (struct member){.node = node->index, .local = local, .lives = true};
    c->n_lives++;
    node->n_alive++;
    if (rank == 0 && cluster_is_served(c)) {
        check_earlier_chiefs(w, c);
    }
    *t = (struct trainer){.state = TRAINER_STARTING,
                          .port = evaluates ? place->own.port : place->rows[rank].port,
                          .tag = t->tag + 1,
                          .rank = rank,
                          .cluster = c};
    if (check_lease_stood(w->check, node->index)) {
        trainer_clock_stood(node, local); /* and events that delay its end may come late */
    }
    const struct trainer_spec *spec = cluster_spec(w, c);
    world_at(w, w->now + (int64_t)cluster_draw(w, c, rank, 3, spec->start_lo, spec->start_hi),
             on_up, node->index, t->tag, local);
    trainer_look(w, node, local);
}

static struct trainer *event_trainer(struct world *w, const struct sim_event *event)
{
    struct node *node = &w->nodes[event->who];
    struct trainer *t = event->arg < node->cap_trainers ? &node->trainers[event->arg] : NULL;
    if (!t || t->tag != event->tag || t->state == TRAINER_NONE) {
        return NULL;
    }
    if (node_defers(w, event->who, event)) {
        return NULL;
    }
    return t;
}

/* Returns the trainer, unless its process is frozen and cannot act by itself. */
static struct trainer *running_trainer(struct world *w, const struct sim_event *event)
{
    struct trainer *t = event_trainer(w, event);
    if (t && t->frozen) {
        world_again(w, event, w->now + FROZEN_LOOK_MS);
        return NULL;
    }
    return t;
}

static void on_up(struct world *w, const struct sim_event *event)
{
    struct trainer *t = running_trainer(w, event);
    if (!t || t->state != TRAINER_STARTING) {
        return;
    }
    struct cluster *c = t->cluster;
    if (cluster_spec(w, c)->fail_start) {
        jobs_get(w, c->job)->failed_up++;
        trainer_end(w, &w->nodes[event->who], (uint32_t)event->arg, cluster_spec(w, c)->fail_start,
                    0);
        return;
    }
    t->state = TRAINER_UP;
    t->listens = true;
    node_trainer_up(w, event->who);
    script_up(w, &w->nodes[event->who], (uint32_t)event->arg);
    c->n_up++;
    if (c->state == CLUSTER_BROKEN && (t->rank == 0 || !cluster_is_served(c))) {
        /* It waits for peers that will not come. */
        world_at(w, w->now + cluster_spec(w, c)->vanished_ms, on_peers_end, event->who, t->tag,
                 event->arg);
    } else if (is_there(c)) {
        begin_training(w, c);
    } else {
        cluster_go_on(w, c); /* its chief has its work done there again */
    }
}

/* The process ends at once; its parent reads its exit status. */
static void leave(struct world *w, struct node *node, uint32_t local, uint32_t code,
                  uint32_t signal, bool is_own)
{
    trainer_forget(w, &node->trainers[local]);
    node_trainer_gone(w, node->index, local, code, signal, is_own);
}

/* The epoch has succeeded with its chief, or with the last of all workers. */
static void note_well(struct world *w, const struct trainer *t)
{
    struct cluster *c = t->cluster;
    struct job *job = jobs_get(w, c->job);
    c->n_well++;
    if (job->all_workers ? c->n_well == c->world : t->rank == 0 && !c->evaluates) {
        job_note_done(job, c->epoch);
    }
}

void trainer_end(struct world *w, struct node *node, uint32_t local, uint32_t code, uint32_t signal)
{
    struct trainer *t = local < node->cap_trainers ? &node->trainers[local] : NULL;
    if (!t || (t->state != TRAINER_STARTING && t->state != TRAINER_UP)) {
        return;
    }
    struct cluster *c = t->cluster;
    const struct trainer_spec *spec = cluster_spec(w, c);
    c->planned = c->calm = false; /* this end was the trainer's own */
    if (code == 0 && signal == 0) {
        note_well(w, t);
    }
    check_own_fault(w->check, c->era, c->job, c->epoch);
    cluster_lose(w, t, spec->peers_lo, spec->peers_hi, node->name);
    if (code == 0 && signal == 0 && is_worker(c, t->rank)) {
        c->members[t->rank].is_done = true;
        c->n_done++;
        if (is_there(c)) {
            begin_training(w, c);
        }
    }
    leave(w, node, local, code, signal, true);
}

/* The last step has been made. */
static void on_own_end(struct world *w, const struct sim_event *event)
{
    struct trainer *t = running_trainer(w, event);
    if (t && t->state == TRAINER_UP) {
        t->cluster->n_up--;
        if (t->blocked) {
            t->cluster->n_blocked--;
        }
        note_well(w, t);
        leave(w, &w->nodes[event->who], (uint32_t)event->arg, 0, 0, true);
    }
}

/* The cluster has failed, and this trainer has noticed. */
static void on_peers_end(struct world *w, const struct sim_event *event)
{
    struct trainer *t = running_trainer(w, event);
    if (t && t->state == TRAINER_UP) {
        t->cluster->n_up--;
        if (t->blocked) {
            t->cluster->n_blocked--;
        }
        leave(w, &w->nodes[event->who], (uint32_t)event->arg, 1, 0, false);
    }
}

void trainer_kill(struct world *w, struct node *node, uint32_t local)
{
    struct trainer *t = local < node->cap_trainers ? &node->trainers[local] : NULL;
    if (!t || (t->state != TRAINER_STARTING && t->state != TRAINER_UP)) {
        return;
    }
    struct cluster *c = t->cluster;
    const struct trainer_spec *spec = cluster_spec(w, c);
    int64_t at = w->now + (int64_t)cluster_draw(w, c, t->rank, 4, spec->kill_lo, spec->kill_hi);
    if (node->kill_stuck_until > w->now) {
        trainer_silence(w, node, local); /* as in on_reaped */
    }
    cluster_lose(w, t, spec->peers_lo, spec->peers_hi, node->name);
    world_at(w, at, on_reaped, node->index, t->tag, local);
}

static void on_reaped(struct world *w, const struct sim_event *event)
{
    struct trainer *t = event_trainer(w, event);
    struct node *node = &w->nodes[event->who];
    if (t && node->kill_stuck_until > w->now) {
        trainer_silence(w, node, (uint32_t)event->arg); /* its peers may report before it can */
        world_again(w, event, w->now + STUCK_LOOK_MS);
    } else if (t) {
        leave(w, node, (uint32_t)event->arg, 0, 9, false);
    }
}

void trainer_vanish(struct world *w, struct node *node, uint32_t local)
{
    struct trainer *t = local < node->cap_trainers ? &node->trainers[local] : NULL;
    if (!t || t->state == TRAINER_NONE) {
        return;
    }
    struct cluster *c = t->cluster;
    check_silence(w->check, c->era, c->job, c->epoch);
    if (t->state != TRAINER_DYING) {
        uint32_t late = cluster_spec(w, c)->vanished_ms;
        cluster_lose(w, t, late, late + 500, node->name);
    }
    trainer_forget(w, t);
    node->n_alive--;
}

uint32_t trainers_not_killed(const struct node *node)
{
    uint32_t n = 0;
    for (uint32_t local = 0; local < node->cap_trainers; local++) {
        enum trainer_state state = node->trainers[local].state;
        n += state == TRAINER_STARTING || state == TRAINER_UP;
    }
    return n;
}

/* Returns true if the cluster has a trainer that the node cannot reach. */
static bool misses_peers(struct world *w, const struct node *node, const struct cluster *c)
{
    bool misses = node->peers_cut && has_peers(w, c);
    for (uint32_t rank = 0; node->parted_from != NAMES_NONE && rank < c->world; rank++) {
        misses = misses || c->table[rank].machine == node->parted_from;
    }
    return misses;
}

void trainer_look(struct world *w, struct node *node, uint32_t local)
{
    struct trainer *t = local < node->cap_trainers ? &node->trainers[local] : NULL;
    if (!t || (t->state != TRAINER_STARTING && t->state != TRAINER_UP)) {
        return;
    }
    struct cluster *c = t->cluster;
    bool is_away = misses_peers(w, node, c);
    bool blocked = t->frozen || node->suspended || is_away;
    if (blocked == t->blocked || (blocked && cluster_can_miss(c, t->rank))) {
        return;
    }
    t->blocked = blocked;
    check_silence(w->check, c->era, c->job, c->epoch);
    c->n_blocked += blocked ? 1u : UINT32_MAX; /* subtracts one */
    if (c->n_blocked == 0) {
        cluster_go_on(w, c);
    } else if (!blocked || c->n_blocked == 1) {
        const struct trainer_spec *spec = cluster_spec(w, c);
        world_at(w, w->now + (is_away ? spec->vanished_ms : spec->frozen_ms), on_no_answer, c->id,
                 ++c->block_tag, 0);
    }
}

/* Reports to the agent whether its trainers show signs of life. */
static void tell_idle(struct world *w, struct node *node, bool is_idle)
{
    if (node->agent) {
        node_agent_later(
            w, node, 1,
            (struct node_report){.type = AGENT_IDLE, .code = is_idle, .epoch = node->epoch});
    }
}

void trainer_freeze(struct world *w, struct node *node, uint32_t local, bool frozen)
{
    struct trainer *t = local < node->cap_trainers ? &node->trainers[local] : NULL;
    if (t && t->state != TRAINER_NONE) {
        t->frozen = frozen;
        if (t->rank == 0) {
            tell_idle(w, node, frozen);
        }
        if (frozen && t->cluster && !has_peers(w, t->cluster)) {
            /* No other node is in the epoch. */
            check_own_fault(w->check, t->cluster->era, t->cluster->job, t->cluster->epoch);
        }
        trainer_look(w, node, local);
    }
}

void trainer_silence(struct world *w, struct node *node, uint32_t local)
{
    const struct cluster *c = node->trainers[local].cluster;
    if (c) {
        check_silence(w->check, c->era, c->job, c->epoch);
    }
}

void trainer_clock_stood(struct node *node, uint32_t local)
{
    const struct trainer *t = &node->trainers[local];
    if (t->cluster && !t->cluster->members[t->rank].stood) {
        t->cluster->members[t->rank].stood = true;
        t->cluster->n_stood++;
    }
}

void trainer_hang(struct world *w, struct node *node, uint32_t local)
{
    struct trainer *t = local < node->cap_trainers ? &node->trainers[local] : NULL;
    if (t && t->cluster && !is_worker(t->cluster, t->rank)) {
        t->cluster->hangs = true;
        tell_idle(w, node, true);
    }
}

void trainers_rebuilt(struct world *w, uint32_t job, uint64_t epoch)
{
    struct cluster *c = cluster_of_epoch(w, job, epoch);
    if (c) {
        c->era = check_era(w->check, job);
    }
}

struct cluster_view trainers_of_job(struct world *w, uint32_t job)
{
    struct cluster_view view = {0};
    for (const struct cluster *c = *clusters_of_job(w, job); c; c = c->next) {
        if (c->evaluates) {
            continue;
        }
        view.clusters++;
        if (c->epoch >= view.epoch) {
            view.epoch = c->epoch;
            view.world = c->world;
            view.up = c->n_up;
            view.working = c->n_up + c->n_done;
            view.trains = c->state == CLUSTER_TRAINING && has_hands(w, c);
            view.hangs = c->hangs;
            view.is_whole = c->state == CLUSTER_TRAINING && c->n_up == c->world;
        }
    }
    return view;
}
