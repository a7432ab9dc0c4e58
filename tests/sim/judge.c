/* tests/sim/judge.c: oracle: checks the server's decisions against the true state of machines and
 * time: which epochs it stops, which node leads, what its ledger contains. */
#include "tests/sim/judge.h"

#include <stdlib.h>

#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/jobs.h"
#include "tests/sim/net.h"
#include "tests/sim/probing.h"
#include "tests/sim/server.h"

/* Time after a disturbance within which messages under way arrive and connections are made
 * again. */
#define CALM_MS 3000
/* Duration of a planned switch besides the grace, the disk and the latencies: kills, the end of
 * probing. */
#define SWITCH_MS 2500
/* A notice with this much warning can be answered by a planned switch; it is done this long before
 * the deadline. */
#define NOTICE_MS 15000
#define DEADLINE_MS 500
/* As in the core: fewer silent members are no mass loss. */
#define MASS_MIN 3
#define NEVER INT64_MIN

/* What is known of a job's epochs under the present server process. */
struct times {
    uint64_t epoch;
    int64_t gathered;
    int64_t at[EPOCH__TIMES]; /* times in the ledger; NEVER if not reported */
};

struct job_judge {
    int64_t disturbed_at;
    /* The last planned STOP of a calm cluster: its members. */
    bool is_planned;
    int64_t stopped_at;
    uint64_t stopped;
    uint64_t members;
    /* The last epoch that has started, and its leader. */
    uint64_t epoch;
    uint32_t led_era;
    int64_t began_at;
    int64_t waited_at; /* when something happened that may cause a switch */
    uint32_t leader;
    uint32_t leader_process;
    struct times now, before;
    uint32_t era; /* era of the highest epoch */
    uint64_t highest;
    int64_t chosen_at;     /* when the server assigned the slots of the highest epoch */
    uint64_t told_to_stop; /* last epoch that was told to stop */
    uint64_t massed;       /* epoch in which the server held leases for a mass loss */
    uint64_t switched; /* epoch that the server is about to end: silent nodes are not waited for */
    /* until when nodes may run an epoch that the server's record does not know */
    int64_t unknown_until;
};

/* Number of probes of one server that are remembered. */
#define PROBES 65536

struct judge {
    int64_t server_since;
    uint32_t server; /* number of server processes so far */
    struct asked {
        uint64_t id;
        uint64_t asked;  /* event in which the probe was sent */
        uint32_t about;  /* machine that is probed */
        uint32_t server; /* server process that sent the probe, because probe numbers repeat */
    } probes[PROBES];
    uint64_t buried; /* event in which a proof of termination came last */
    struct job_judge *jobs;
    size_t n, cap;
};

static struct judge *the_judge(struct world *w)
{
    if (!w->judge) {
        w->judge = sim_alloc(1, sizeof(*w->judge));
    }
    return w->judge;
}

static struct job_judge *judge_of(struct world *w, uint32_t job)
{
    struct judge *all = the_judge(w);
    while (all->n <= job) {
        all->jobs = sim_grow(all->jobs, all->n, &all->cap, sizeof(*all->jobs));
        all->jobs[all->n++] = (struct job_judge){.disturbed_at = -CALM_MS};
    }
    return &all->jobs[job];
}

void judge_free(struct world *w)
{
    if (w->judge) {
        free(w->judge->jobs);
        free(w->judge);
        w->judge = NULL;
    }
}

void judge_disturbed(struct world *w, uint32_t node)
{
    uint32_t job = w->nodes[node].job;
    if (job != NAMES_NONE) {
        judge_of(w, job)->disturbed_at = w->now;
        judge_of(w, job)->is_planned = false;
    }
    for (uint32_t local = 0; local < w->nodes[node].cap_trainers; local++) {
        if (w->nodes[node].trainers[local].cluster) {
            w->nodes[node].trainers[local].cluster->calm = false;
            w->nodes[node].trainers[local].cluster->warned = false;
        }
    }
}

/* --- which epochs are stopped ----------------------------------------------------------------- */

static bool is_valid(struct world *w, const struct cluster *c, const struct member *m)
{
    const struct node *n = &w->nodes[m->node];
    return m->lives && node_is_sound(w, m->node) && n->noticed == 0 && !n->signalled &&
           !check_lease_stood(w->check, m->node) && n->epoch == c->epoch &&
           (tfe_mono_is_never(n->fence) ||
            clock_when(&n->clock, n->fence) > w->now + server_config(w)->ttl_ms);
}

/* Returns true if all machines of the cluster are healthy and no earlier disturbance has
 * consequences any more. */
static bool is_calm(struct world *w, const struct cluster *c)
{
    bool calm = c->state == CLUSTER_TRAINING && c->n_blocked == 0 && !c->hangs && !c->stop_sent &&
                w->now - judge_of(w, c->job)->disturbed_at >= CALM_MS;
    for (uint32_t rank = 0; calm && rank < c->world; rank++) {
        calm = is_valid(w, c, &c->members[rank]);
    }
    return calm;
}

void judge_trains(struct world *w, struct cluster *c)
{
    /* A server stops an epoch that its record does not know. */
    c->calm = c->era == check_era(w->check, c->job) &&
              judge_of(w, c->job)->told_to_stop != c->epoch && !server_is_disturbed(w) &&
              is_calm(w, c);
    for (uint32_t rank = 0; c->calm && rank < c->world; rank++) {
        c->calm = node_is_well(w, c->members[rank].node);
    }
}

void judge_trains_again(struct world *w, struct cluster *c)
{
    const struct job_judge *j = judge_of(w, c->job);
    if (j->epoch == c->epoch && j->led_era == c->era && j->waited_at < j->began_at &&
        w->judge->server_since < j->began_at) {
        judge_trains(w, c);
    }
}

void judge_restart(struct world *w)
{
    const struct rdzv_record *record;
    the_judge(w)->server_since = w->now;
    w->judge->server++;
    for (uint32_t job = 0; job < w->judge->n; job++) {
        w->judge->jobs[job].now = w->judge->jobs[job].before = (struct times){0};
        w->judge->jobs[job].is_planned = false;
    }
    for (uint32_t i = 0; (record = disk_record(w, i)) != NULL; i++) {
        uint32_t job = jobs_find(w, record->job);
        struct cluster *c =
            job == NAMES_NONE || record->over ? NULL : cluster_of_epoch(w, job, record->epoch);
        if (c) {
            c->carried = c->calm = c->era == check_era(w->check, job) && is_calm(w, c);
        }
    }
}

static uint64_t mix(uint64_t sum, uint32_t node)
{
    return sum + (node + 1) * UINT64_C(0x9e3779b97f4a7c15) * (node + 7);
}

/* Returns the cluster of the node's trainers of this epoch, or NULL. */
static struct cluster *cluster_on(struct world *w, uint32_t node, uint64_t epoch)
{
    const struct node *n = &w->nodes[node];
    struct cluster *c = n->cap_trainers ? n->trainers[0].cluster : NULL;
    return c && c->epoch == epoch && !c->evaluates ? c : NULL;
}

bool judge_drains(struct world *w, uint32_t node, uint64_t epoch)
{
    const struct node *n = &w->nodes[node];
    struct cluster *c = cluster_on(w, node, epoch);
    bool drains =
        c && judge_of(w, c->job)->switched != epoch && cluster_can_miss(c, n->trainers[0].rank);
    if (drains) {
        c->calm = false;
    }
    return drains;
}

/* Returns true if the server knows that the chief has started, only losses of workers have
 * happened, and another worker is left. */
static bool can_go_on(struct world *w, const struct cluster *c)
{
    const struct job_judge *j = judge_of(w, c->job);
    uint32_t left = 0;
    if (!cluster_is_served(c) || c->state != CLUSTER_TRAINING || c->hangs || c->stop_sent ||
        c->n_blocked > 0 || c->era != check_era(w->check, c->job) || c->first_told_at == 0 ||
        w->now - c->first_told_at < CALM_MS || w->now - j->disturbed_at < CALM_MS ||
        w->judge->server_since > c->first_told_at || server_is_disturbed(w) ||
        jobs_get(w, c->job)->all_workers) {
        return false;
    }
    for (uint32_t rank = 0; rank < c->world; rank++) {
        const struct member *m = &c->members[rank];
        bool is_well = m->lives && is_valid(w, c, m) && node_is_well(w, m->node) &&
                       w->nodes[m->node].evicted != c->epoch;
        if (!is_well && !cluster_can_miss(c, rank)) {
            return false;
        }
        left += is_well && (cluster_can_miss(c, rank) || !c->has_chief) && rank < c->ps_from;
    }
    return left > 0 && left >= jobs_get(w, c->job)->min_running;
}

void judge_switch(struct world *w, uint32_t job, uint64_t epoch, bool planned, bool by_loss)
{
    struct cluster *c = cluster_of_epoch(w, job, epoch);
    if (c && by_loss && can_go_on(w, c)) {
        check_fail(w->check, CHECK_WORKER_LOSS,
                   "epoch %llu ends for the loss of a worker although another worker is left",
                   (unsigned long long)epoch);
    }
    judge_of(w, job)->switched = epoch;
    if (c && c->carried && planned) {
        c->calm = false;
    }
}

/* The epoch is stopped or breaks although it trains on healthy machines. */
static void needless(struct world *w, const struct cluster *c, const char *what)
{
    check_fail(w->check, c->carried ? CHECK_SERVER_RESTART : CHECK_NEEDLESS_STOP, "epoch %llu: %s",
               (unsigned long long)c->epoch, what);
}

void judge_stop(struct world *w, uint32_t node, uint64_t epoch, bool planned)
{
    struct cluster *c = cluster_on(w, node, epoch);
    if (w->nodes[node].job != NAMES_NONE) {
        /* the epoch may not have started yet */
        judge_of(w, w->nodes[node].job)->told_to_stop = epoch;
    }
    if (!c) {
        return;
    }
    struct job_judge *j = judge_of(w, c->job);
    if (c->calm && !planned && c->state == CLUSTER_TRAINING) {
        needless(w, c, "is stopped");
    }
    /* A node that was to be added may just have been disturbed, and comes too late. */
    if (c->calm && planned && !j->is_planned && disk_is_well(w) &&
        w->now - j->disturbed_at >= CALM_MS) {
        j->is_planned = true;
        j->stopped_at = w->now;
        j->stopped = c->epoch;
        j->members = 0;
        for (uint32_t rank = 0; rank < c->world; rank++) {
            j->members = mix(j->members, c->members[rank].node);
        }
    }
    c->calm = false;
}

void judge_stopping(struct world *w, uint32_t job, uint64_t epoch)
{
    struct cluster *c = cluster_of_epoch(w, job, epoch);
    judge_of(w, job)->told_to_stop = epoch;
    if (c) {
        c->calm = false;
    }
}

void judge_breaks(struct world *w, const struct cluster *c, const char *reason)
{
    if (c->calm && server_is_up(w) && !jobs_get(w, c->job)->over) {
        needless(w, c, reason);
    }
}

/* --- which nodes are lost, and when ----------------------------------------------------------- */

static bool is_long_silent(const struct world *w, const struct node *n)
{
    return w->now - n->heard_at > (int64_t)n->ttl_ms * 3 / 2;
}

void judge_lost(struct world *w, uint32_t job, uint64_t epoch, uint32_t node)
{
    const struct node *lost = &w->nodes[node];
    const struct cluster *c = cluster_on(w, node, epoch);
    /* If two processes had the node's id, the server may have received messages of the other one
     * since. */
    if (!lost->is_twin && server_late_for(w, lost)) {
        check_fail(w->check, CHECK_LATE_SERVER,
                   "the lease of node %u is expired by a server whose own loop was late", node);
    }
    if (!c || c->state != CLUSTER_TRAINING || c->stop_sent || c->era != check_era(w->check, job) ||
        judge_of(w, job)->massed == epoch || judge_of(w, job)->switched == epoch ||
        is_long_silent(w, lost)) {
        return;
    }
    uint32_t nodes = 0;
    for (uint32_t rank = 0; rank < c->world; rank++) {
        const struct member *m = &c->members[rank];
        const struct node *n = &w->nodes[m->node];
        if (!m->lives || n->is_twin || w->now - n->heard_at < (int64_t)n->ttl_ms * 9 / 10) {
            return;
        }
        /* A served worker that was silent for long, or evicted, is lost already, wherever its
         * process lives. */
        bool is_lost = cluster_can_miss(c, rank) && (n->evicted == epoch || is_long_silent(w, n));
        nodes += m->local == 0 && !is_lost;
    }
    if (nodes < MASS_MIN) {
        return;
    }
    check_fail(
        w->check, CHECK_MASS_LOSS,
        "the lease of node %u is expired although the server received nothing from any member",
        node);
}

void judge_massed(struct world *w, uint32_t job, uint64_t epoch)
{
    judge_of(w, job)->massed = epoch;
}

/* A notice contains the remaining time, so the server's deadline is later by the latency of the
 * message. */
#define HEARD_MS 100

/* Returns true if the cluster was warned and nothing has disturbed it since this time. */
static bool is_warned(const struct cluster *c, int64_t since)
{
    return c->warned && c->warned_since <= since;
}

static void trains_at_end(struct world *w, const struct cluster *c, uint32_t node)
{
    check_fail(w->check, CHECK_NOTICE_OBEYED, "node %u trains in epoch %llu when its machine ends",
               node, (unsigned long long)c->epoch);
}

/* Checks half a second before a machine goes away of which the agent was warned long before; or
 * when the machine goes away by the server's clock, if that is later: that clock may run slow, and
 * a switch may be so short that it starts at the last moment. */
static void on_deadline(struct world *w, const struct sim_event *event)
{
    const struct node *n = &w->nodes[event->who];
    struct cluster *c = n->process == event->tag && n->agent && n->job != NAMES_NONE
                            ? cluster_on(w, event->who, event->arg)
                            : NULL;
    if (!c || n->epoch != event->arg || !n->noticed || n->warned_at > n->told_at ||
        !is_warned(c, n->told_at) || c->leave_by != event->at || c->stop_sent ||
        c->state != CLUSTER_TRAINING || !node_is_well(w, event->who) ||
        n->known_at + n->known_ms > event->at + DEADLINE_MS + HEARD_MS) {
        return;
    }
    int64_t by = server_when(w, n->known_at, n->known_ms);
    if (by >= w->now) {
        c->leave_by = by + 1;
        world_again(w, event, c->leave_by);
        return;
    }
    trains_at_end(w, c, event->who);
}

bool judge_can_follow(struct world *w, uint32_t node, int64_t ms)
{
    const struct node *n = &w->nodes[node];
    const struct cluster *c =
        n->agent && n->job != NAMES_NONE && n->epoch ? cluster_on(w, node, n->epoch) : NULL;
    return c && ms >= NOTICE_MS && c->era == check_era(w->check, n->job) && is_calm(w, c) &&
           !server_is_disturbed(w) && disk_is_well(w) && node_is_well(w, node);
}

void judge_notice(struct world *w, uint32_t node, int64_t ms)
{
    struct node *n = &w->nodes[node];
    struct cluster *c = cluster_on(w, node, n->epoch);
    c->warned = true;
    c->warned_since = w->now;
    c->leave_by = w->now + ms - DEADLINE_MS;
    n->told_at = w->now;
    world_at(w, c->leave_by, on_deadline, node, n->process, n->epoch);
}

/* Tolerance for a deadline, with a slow clock of the server and of another agent. */
#define CLOCKS_PERCENT 111

/* Returns the cluster of the node's last epoch, or its evaluator, while it trains; else NULL. */
static struct cluster *training_on(struct world *w, uint32_t node)
{
    const struct node *n = &w->nodes[node];
    const struct trainer *t = n->agent && n->cap_trainers ? &n->trainers[0] : NULL;
    struct cluster *c = t && t->state == TRAINER_UP && !t->stopping ? t->cluster : NULL;
    return c && c->epoch == n->epoch && c->state == CLUSTER_TRAINING && !c->stop_sent ? c : NULL;
}

/* Returns true if nothing prevents the server from learning of the notice and the nodes from
 * learning of the end. */
static bool can_leave(struct world *w, const struct cluster *c)
{
    bool can = c->n_blocked == 0 && !c->hangs && c->era == check_era(w->check, c->job) &&
               !server_is_disturbed(w) && disk_is_well(w) &&
               w->now - judge_of(w, c->job)->disturbed_at >= CALM_MS &&
               (c->evaluates || server_epoch(w, jobs_get(w, c->job)->name.text) == c->epoch);
    for (uint32_t rank = 0; can && rank < c->world; rank++) {
        const struct member *m = &c->members[rank];
        const struct node *n = &w->nodes[m->node];
        can = cluster_can_miss(c, rank) || (m->lives && node_is_well(w, m->node) && !n->signalled &&
                                            !n->is_twin && !check_lease_stood(w->check, m->node));
    }
    return can;
}

/* Checks that the node has left by its deadline, on every clock. */
static void on_left(struct world *w, const struct sim_event *event)
{
    const struct node *n = &w->nodes[event->who];
    const struct cluster *c = n->process == event->tag ? training_on(w, event->who) : NULL;
    if (c && is_warned(c, n->judged_since) && n->leave_by == event->at &&
        n->warned_at <= n->judged_since && node_leaves(w, event->who) && can_leave(w, c)) {
        trains_at_end(w, c, event->who);
    }
}

bool judge_leaving(struct world *w)
{
    bool is_in = false;
    for (uint32_t node = 0; node < w->n_nodes; node++) {
        struct node *n = &w->nodes[node];
        struct cluster *c = node_leaves(w, node) ? training_on(w, node) : NULL;
        if (!c) {
            continue;
        }
        is_in = true;
        int64_t by = clock_when(&n->clock, node_goes_by(w, node));
        bool is_judged = is_warned(c, n->judged_since) && n->leave_by > w->now;
        if (by == SIM_NEVER || by - w->now < NOTICE_MS || n->signalled || n->is_twin || is_judged ||
            !node_is_well(w, node) || !can_leave(w, c)) {
            continue;
        }
        if (!c->warned) {
            c->warned = true;
            c->warned_since = w->now;
        }
        n->judged_since = w->now;
        n->leave_by = n->heeded_at + (by - n->heeded_at) * CLOCKS_PERCENT / 100 + DEADLINE_MS;
        int64_t known = n->known_at + n->known_ms * CLOCKS_PERCENT / 100 + DEADLINE_MS;
        n->leave_by = n->leave_by > known ? n->leave_by : known;
        world_at(w, n->leave_by, on_left, node, n->process, 0);
    }
    return is_in;
}

/* --- which node leads ------------------------------------------------------------------------- */

/* Returns the machine of this row, or NULL if another process than the chosen one is there now. */
static const struct node *member_of(struct world *w, const struct cluster *c,
                                    const struct msg_row *row)
{
    uint32_t node = probing_machine(w, row->host);
    const struct node *n = node == NAMES_NONE ? NULL : &w->nodes[node];
    return n && n->agent && n->ports[c->epoch & 1][0] == row->port ? n : NULL;
}

/* Returns true if the node's machine was never announced to go away and no other process has its
 * id: the server counts the other process's seniority too. */
static bool stays(const struct node *n)
{
    return n && !n->was_noticed && !n->signalled && !n->is_twin;
}

static bool has_led(const struct job_judge *j, const struct node *n)
{
    return n->index == j->leader && n->process == j->leader_process;
}

/* Another node than the epoch's leader should lead it. */
static void another_leads(struct world *w, const struct cluster *c, const struct node *leader,
                          const struct node *n, const char *reason)
{
    check_fail(w->check, CHECK_RANK0_CHOICE, "epoch %llu is led by node %u, node %u %s",
               (unsigned long long)c->epoch, leader->index, n->index, reason);
}

static void judge_leader(struct world *w, const struct cluster *c, const struct agent_place *place)
{
    struct job_judge *j = judge_of(w, c->job);
    bool has_roles = job_has_roles(jobs_get(w, c->job));
    const struct node *leader = member_of(w, c, &place->rows[0]);
    if (j->led_era != c->era) {
        j->epoch = 0; /* of a record that is lost */
        j->led_era = c->era;
    }
    bool follows = c->epoch == j->epoch + 1 && c->era == check_era(w->check, c->job) &&
                   (j->epoch == 0 || j->leader != NAMES_NONE);
    for (uint32_t rank = 1; stays(leader) && rank < c->world; rank++) {
        const struct node *n = place->rows[rank].role == TASK_PS
                                   ? NULL /* a ps is not moved to lead */
                                   : member_of(w, c, &place->rows[rank]);
        if (!stays(n) || (!n->durable && leader->durable)) {
            continue;
        }
        if (n->durable && !leader->durable) {
            another_leads(w, c, leader, n, "is durable");
        } else if (has_roles) {
            continue; /* seniority decides about membership, and ps are chosen first */
        } else if (follows && has_led(j, n) && n->joined_at < j->began_at) {
            another_leads(w, c, leader, n, "has led the last epoch");
        } else if (follows && !has_led(j, leader) && n->joined_at > w->judge->server_since &&
                   n->told_memory.epoch == leader->told_memory.epoch &&
                   n->joined_at + 1 < leader->joined_at) {
            another_leads(w, c, leader, n, "joined earlier");
        }
    }
    j->epoch = c->epoch;
    j->began_at = w->now;
    j->leader = leader ? leader->index : NAMES_NONE;
    j->leader_process = leader ? leader->process : 0;
}

/* Checks what the server knew of spot machines before it assigned the slots; a node that declares
 * itself durable is no spot machine. */
static void judge_spot(struct world *w, const struct cluster *c, const struct agent_place *place)
{
    struct job_judge *j = judge_of(w, c->job);
    const struct msg_row *rows = place->rows;
    bool has_roles = rows[0].role == TASK_CHIEF || rows[c->world - 1].role == TASK_PS;
    if (!has_roles || j->highest != c->epoch || j->era != c->era) {
        return; /* second case: adopted, and chosen by a server that is gone */
    }
    const struct node *spot = NULL;
    const struct node *worker = NULL;
    for (uint32_t rank = 0; rank < c->world; rank++) {
        const struct node *n = member_of(w, c, &rows[rank]);
        bool serves = rank == 0 || rows[rank].role == TASK_PS;
        if (!stays(n)) {
            continue;
        }
        if (!spot && serves && !n->durable && n->spot_heard_at < j->chosen_at) {
            spot = n;
        }
        if (!worker && !serves && rows[rank].role == TASK_WORKER &&
            n->spot_heard_at > j->chosen_at) {
            worker = n;
        }
    }
    if (spot && worker) {
        check_fail(w->check, CHECK_SPOT_LAST,
                   "in epoch %llu node %u is chief or ps on a spot machine, and node %u is not",
                   (unsigned long long)c->epoch, spot->index, worker->index);
    }
}

void judge_forms(struct world *w, const struct cluster *c, const struct agent_place *place)
{
    struct job_judge *j = judge_of(w, c->job);
    uint64_t members = 0;
    for (uint32_t rank = 0; rank < c->world; rank++) {
        uint32_t node = probing_machine(w, place->rows[rank].host);
        if (node == NAMES_NONE) {
            return;
        }
        members = mix(members, node);
        const struct node *n = &w->nodes[node];
        if (n->job == c->job && (!n->agent || member_of(w, c, &place->rows[rank]))) {
            if (n->ready_for < c->epoch) {
                check_fail(w->check, CHECK_MEMBERS_READY,
                           "the table of epoch %llu lists node %u, which was not ready for it",
                           (unsigned long long)c->epoch, node);
            }
        }
    }
    judge_leader(w, c, place);
    judge_spot(w, c, place);
    if (j->is_planned && j->stopped < c->epoch && j->members == members) {
        check_fail(w->check, CHECK_NEEDLESS_STOP,
                   "a planned stop of epoch %llu leads to an epoch of the same nodes",
                   (unsigned long long)j->stopped);
    }
    j->is_planned = false;
}

/* --- times ------------------------------------------------------------------------------------ */

void judge_chosen(struct world *w, uint32_t job, uint64_t epoch, int64_t now)
{
    struct job_judge *j = judge_of(w, job);
    uint32_t era = check_era(w->check, job);
    if (era != j->era || epoch > j->highest) { /* otherwise the job's end */
        j->era = era;
        j->highest = epoch;
        j->chosen_at = w->now;
        j->before = j->now;
        j->now = (struct times){.epoch = epoch, .gathered = now};
        for (size_t i = 0; i < EPOCH__TIMES; i++) {
            j->now.at[i] = NEVER;
        }
    }
}

void judge_joins(struct world *w, uint32_t node, const struct msg_join *join)
{
    uint64_t epoch =
        join->running_epoch || !join->exited ? join->running_epoch : join->exited->epoch;
    if (join->running) {
        w->nodes[node].spoken = (struct spoken){.server = the_judge(w)->server,
                                                .job = w->nodes[node].job,
                                                .epoch = epoch,
                                                .nodes = join->running->nodes,
                                                .digest = join->running->digest};
    }
}

/* Maximum number of epochs with one number in a run; each belongs to a history that was lost. */
#define HISTORIES 16

/* Counts every node that has reported the epoch to this server, even if it no longer does. Of
 * several epochs with this number, the one with most nodes. */
void judge_rebuilt(struct world *w, uint32_t job, uint64_t epoch)
{
    struct {
        uint64_t digest;
        uint32_t nodes, spoke;
    } told[HISTORIES] = {{0}};
    uint32_t best = 0;
    for (uint32_t node = 0; node < w->n_nodes; node++) {
        const struct spoken *s = &w->nodes[node].spoken;
        uint32_t i = 0;
        if (s->job != job || s->server != the_judge(w)->server || s->epoch != epoch) {
            continue;
        }
        while (i + 1 < HISTORIES && told[i].spoke && told[i].digest != s->digest) {
            i++;
        }
        told[i].digest = s->digest;
        told[i].nodes = s->nodes;
        told[i].spoke++;
        best = (uint64_t)told[i].spoke * told[best].nodes > (uint64_t)told[best].spoke * s->nodes
                   ? i
                   : best;
    }
    if (2 * told[best].spoke <= told[best].nodes) {
        check_fail(w->check, CHECK_MAJORITY,
                   "epoch %llu is adopted although only %u of its %u nodes have reported it",
                   (unsigned long long)epoch, told[best].spoke, told[best].nodes);
    }
}

void judge_welcomed(struct world *w, uint32_t node)
{
    w->nodes[node].welcomed = w->events;
}

void judge_asks(struct world *w, const struct msg_probe *probe)
{
    uint32_t node = node_find_process(w, probe->node);
    struct judge *all = the_judge(w);
    all->probes[probe->probe % PROBES] = (struct asked){
        .id = probe->probe, .asked = w->events, .about = node, .server = all->server};
    if (node != NAMES_NONE && w->nodes[node].probe != probe->probe) {
        w->nodes[node].probe = probe->probe;
        /* the result of the last probe says nothing about this process */
        w->nodes[node].refused = 0;
    }
}

void judge_answered(struct world *w, const struct msg_probed *probed)
{
    const struct asked *p = &the_judge(w)->probes[probed->probe % PROBES];
    if (probed->result == PROBE_REFUSED && p->server == w->judge->server &&
        p->id == probed->probe && p->about != NAMES_NONE &&
        w->nodes[p->about].probe == probed->probe) {
        w->nodes[p->about].refused = p->asked;
    }
}

void judge_buries(struct world *w)
{
    the_judge(w)->buried = w->events + 1; /* the step that handles it */
}

void judge_dead(struct world *w, const char *id)
{
    uint32_t node = node_find_process(w, id);
    if (node != NAMES_NONE && the_judge(w)->buried != w->events &&
        w->nodes[node].refused < w->nodes[node].welcomed) {
        check_fail(w->check, CHECK_PROOF_CURRENT,
                   "node %u is proven dead without evidence since it came back", node);
    }
}

void judge_adopted(struct world *w, uint32_t job, uint64_t epoch)
{
    struct job_judge *j = judge_of(w, job);
    j->era = check_era(w->check, job);
    j->highest = epoch;
}

/* Until one fence has passed a member may report a later epoch than the record's, and then until
 * its own fence has passed. */
void judge_record_lost(struct world *w, uint32_t job)
{
    judge_of(w, job)->unknown_until = w->now + 2 * server_longest_fence_ms(w);
}

void judge_fence(struct world *w, uint32_t job)
{
    struct job_judge *j = judge_of(w, job);
    j->is_planned = j->is_planned && w->now >= j->unknown_until;
}

/* Another node goes away or stays, or fewer are left than needed: the planned switch does not take
 * place. */
void judge_waits(struct world *w, uint32_t job)
{
    judge_of(w, job)->waited_at = w->now;
    judge_of(w, job)->is_planned = false;
}

void judge_formed(struct world *w, uint32_t job, uint64_t epoch)
{
    const struct job_judge *j = judge_of(w, job);
    int64_t bound =
        SWITCH_MS + server_config(w)->defaults.stop_grace_ms + 8 * (int64_t)net_latency(w);
    if (j->is_planned && !server_is_disturbed(w) && w->now - j->stopped_at > bound) {
        check_fail(w->check, CHECK_SWITCH_TIME,
                   "epoch %llu is formed %lld ms after the stop of the last epoch, limit %lld",
                   (unsigned long long)epoch, (long long)(w->now - j->stopped_at),
                   (long long)bound);
    }
}

void judge_ledger(struct world *w, uint32_t job, const struct rdzv_ledger *ledger, int64_t now)
{
    struct job_judge *j = judge_of(w, job);
    if (ledger->row.epoch != j->now.epoch) {
        return; /* adopted: its start was not seen */
    }
    for (size_t i = 0; i < EPOCH__TIMES; i++) {
        if (tfe_mono_is_never(ledger->at[i])) {
            continue;
        }
        int64_t said = ledger->at[i].ms;
        int64_t stopped = j->before.epoch ? j->before.at[EPOCH_ENDED] : NEVER;
        int64_t is = j->now.at[i] != NEVER ? j->now.at[i]
                     : i == EPOCH_GATHERED ? j->now.gathered
                     : i == EPOCH_STOPPED  ? (stopped == NEVER ? said : stopped)
                     : i == EPOCH_DETECTED ? (said > now ? now : said)
                                           : now;
        if (said != is) {
            check_fail(w->check, CHECK_LEDGER,
                       "time %zu of epoch %llu is %lld, the ledger says %lld", i,
                       (unsigned long long)ledger->row.epoch, (long long)is, (long long)said);
        }
        j->now.at[i] = said;
    }
}
