/* tests/sim/check.c: invariants of the simulation, checked against what trainers do and what nodes
 * were granted. */
#include "tests/sim/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/world.h"

/* Number of a job's epochs that are remembered; older ones are dropped once no trainer of theirs
 * lives. */
#define VIEWS_MAX 16

static const struct {
    const char *name;
    const char *sentence;
} rules[CHECK__COUNT] = {
#define CHECK_ROW(NAME, name, sentence) [CHECK_##NAME] = {#name, sentence},
    CHECK_RULES(CHECK_ROW)
#undef CHECK_ROW
};

/* One epoch as its members know it, and which of its trainers live. */
struct view {
    struct view *older;
    uint32_t era;
    uint64_t epoch;
    uint64_t digest; /* digest of the table; 0 if no member knows it yet */
    uint32_t world;
    uint32_t *holder; /* by rank: node + 1 to which the rank was given */
    uint32_t *live;   /* by rank: node + 1 whose trainer of the rank lives */
    uint32_t n_live;
    uint32_t own_faults;
    uint32_t charged;
    /* server process that charged; a charge that it had not written when it died does not count */
    uint32_t charged_by;
    bool silence;
    bool finished;
};

/* Period from one loss of a job's record to the next. */
struct era {
    uint64_t highest; /* highest epoch that has started */
    /* the job continues from one of two epochs with the same number, and it is unknown which */
    bool is_split;
    uint64_t stepped;
    bool is_over;
    uint64_t seen;     /* highest epoch that a node has reported to the present server as seen */
    uint64_t reported; /* highest epoch that a node has reported to the present server as running */
    uint64_t reported_digest;
    uint64_t chosen; /* number of the next epoch */
    uint64_t known;  /* highest epoch known to be running when the next one was started */
    uint64_t known_digest;
    uint64_t over; /* highest epoch known to be running before an epoch that has made a step */
    uint64_t over_digest;
};

struct job_check {
    uint32_t min, max, nproc;
    uint32_t era;
    struct era *eras;
    size_t cap_eras;
    uint64_t charged_epoch; /* charged epoch that is not checked yet; 0 if none */
    int64_t verdict_at;
    bool mute;
    struct view *views; /* epochs, the newest first */
};

struct node_check {
    int64_t lease_end;
    int64_t fence_end;
    int64_t stood_at; /* the clock stood still when it showed this */
    bool clock_stood; /* the clock has stood still since the last grant */
};

#define NODE_FRESH                                                                                 \
    ((struct node_check){.lease_end = INT64_MIN, .fence_end = INT64_MIN, .stood_at = INT64_MIN})

struct check {
    bool on[CHECK__COUNT];
    bool failed;
    enum check_rule rule;
    char text[256];
    uint32_t server;
    struct job_check *jobs;
    size_t n_jobs, cap_jobs;
    struct node_check *nodes;
    size_t n_nodes, cap_nodes;
};

const char *check_rule_name(enum check_rule rule)
{
    return rules[rule].name;
}

const char *check_rule_sentence(enum check_rule rule)
{
    return rules[rule].sentence;
}

struct check *check_new(void)
{
    struct check *c = sim_alloc(1, sizeof(*c));
    for (int i = 0; i < CHECK__COUNT; i++) {
        c->on[i] = true;
    }
    return c;
}

static void view_free(struct view *view)
{
    free(view->holder);
    free(view->live);
    free(view);
}

void check_free(struct check *c)
{
    if (!c) {
        return;
    }
    for (size_t i = 0; i < c->n_jobs; i++) {
        while (c->jobs[i].views) {
            struct view *view = c->jobs[i].views;
            c->jobs[i].views = view->older;
            view_free(view);
        }
        free(c->jobs[i].eras);
    }
    free(c->jobs);
    free(c->nodes);
    free(c);
}

void check_force(struct check *c, enum check_rule rule, bool on)
{
    c->on[rule] = on;
}

bool check_failed(const struct check *c)
{
    return c && c->failed;
}

const char *check_failed_rule(const struct check *c)
{
    return c->failed ? rules[c->rule].name : NULL;
}

const char *check_failed_text(const struct check *c)
{
    return c->failed ? c->text : NULL;
}

void check_fail(struct check *c, enum check_rule rule, const char *format, ...)
{
    if (!c->on[rule] || c->failed) {
        return;
    }
    c->failed = true;
    c->rule = rule;
    va_list args;
    va_start(args, format);
    vsnprintf(c->text, sizeof(c->text), format, args);
    va_end(args);
}

/* --- jobs and their epochs --- */

static struct job_check *job_of(struct check *c, uint32_t job)
{
    while (c->n_jobs <= job) {
        c->jobs = sim_grow(c->jobs, c->n_jobs, &c->cap_jobs, sizeof(*c->jobs));
        struct job_check *j = &c->jobs[c->n_jobs++];
        *j = (struct job_check){.max = UINT32_MAX, .nproc = 1};
        j->eras = sim_grow(j->eras, 0, &j->cap_eras, sizeof(*j->eras));
        j->eras[0] = (struct era){0};
    }
    return &c->jobs[job];
}

static struct era *era_of(struct job_check *j)
{
    return &j->eras[j->era];
}

void check_job(struct check *c, uint32_t job, uint32_t min, uint32_t max, uint32_t nproc)
{
    struct job_check *j = job_of(c, job);
    j->min = min;
    j->max = max;
    j->nproc = nproc;
}

void check_resized(struct check *c, uint32_t job, uint32_t min, uint32_t max)
{
    struct job_check *j = job_of(c, job);
    j->min = min;
    j->max = max > j->max ? max : j->max;
}

void check_mute(struct check *c, uint32_t job)
{
    job_of(c, job)->mute = true;
}

void check_server_begins(struct check *c)
{
    c->server++;
    for (size_t i = 0; i < c->n_jobs; i++) {
        check_reports_dropped(c, (uint32_t)i);
        /* the charge died with its server, or will be reported again */
        c->jobs[i].charged_epoch = 0;
        if (!c->on[CHECK_ACROSS_RESTARTS]) {
            check_forgotten(c, (uint32_t)i);
        }
    }
}

void check_forgotten(struct check *c, uint32_t job)
{
    struct job_check *j = job_of(c, job);
    j->era++;
    j->eras = sim_grow(j->eras, j->era, &j->cap_eras, sizeof(*j->eras));
    *era_of(j) = (struct era){0};
    j->charged_epoch = 0;
}

void check_rolled_back(struct check *c, uint32_t job, uint64_t epoch)
{
    struct era *era = era_of(job_of(c, job));
    era->highest = epoch;
    era->stepped = epoch;
    era->chosen = epoch;
}

/* Removes and returns what was seen of the epoch in an era in which no server started it: after
 * its record was lost (perhaps more than once) and before a server adopted it. */
static struct view *remove_early_view(struct job_check *j, uint64_t epoch)
{
    for (struct view **at = &j->views; *at; at = &(*at)->older) {
        struct view *view = *at;
        if (view->epoch == epoch && view->digest == 0) {
            *at = view->older;
            return view;
        }
    }
    return NULL;
}

void check_rebuilt(struct check *c, uint32_t job, uint64_t epoch)
{
    struct job_check *j = job_of(c, job);
    struct view *runs = j->views;
    while (runs && (runs->epoch != epoch || runs->digest == 0)) {
        runs = runs->older; /* the newest epoch that a node knows is the running one */
    }
    for (const struct view *view = runs; view; view = view->older) {
        bool is_other = view->epoch == epoch && view->digest != 0 && view->digest != runs->digest;
        era_of(j)->is_split = era_of(j)->is_split || is_other;
    }
    struct view *early;
    while (runs && (early = remove_early_view(j, epoch)) != NULL) {
        runs->own_faults += early->own_faults;
        runs->silence = runs->silence || early->silence;
        runs->finished = runs->finished || early->finished;
        view_free(early);
    }
    if (runs) {
        runs->era = j->era;
    }
    era_of(j)->highest = epoch;
    era_of(j)->stepped = epoch;
    era_of(j)->chosen = epoch;
}

void check_reports_dropped(struct check *c, uint32_t job)
{
    struct era *era = era_of(job_of(c, job));
    era->seen = 0;
    era->reported = 0;
}

void check_join_received(struct check *c, uint32_t job, uint64_t seen, uint64_t running,
                         uint64_t digest)
{
    struct era *era = era_of(job_of(c, job));
    era->seen = seen > era->seen ? seen : era->seen;
    /* otherwise it looks like an abandoned epoch */
    if (running > era->reported && running >= era->chosen) {
        era->reported = running;
        era->reported_digest = digest;
    }
}

void check_chosen(struct check *c, uint32_t job, uint64_t epoch)
{
    struct era *era = era_of(job_of(c, job));
    if (epoch <= era->chosen) {
        return; /* reported again, or with its end */
    }
    if (epoch <= era->seen) {
        check_fail(c, CHECK_EPOCH_NUMBER,
                   "epoch %llu is chosen although a node has seen epoch %llu",
                   (unsigned long long)epoch, (unsigned long long)era->seen);
    }
    era->chosen = epoch;
}

uint32_t check_era(const struct check *c, uint32_t job)
{
    return job < c->n_jobs ? c->jobs[job].era : 0;
}

static struct view *view_find(const struct job_check *j, uint32_t era, uint64_t epoch)
{
    for (struct view *view = j->views; view; view = view->older) {
        if (view->epoch == epoch && view->era == era) {
            return view;
        }
    }
    return NULL;
}

static void forget_old_views(struct job_check *j)
{
    unsigned n = 0;
    for (struct view **at = &j->views; *at;) {
        struct view *view = *at;
        if (++n > VIEWS_MAX && view->n_live == 0) {
            *at = view->older;
            view_free(view);
        } else {
            at = &view->older;
        }
    }
}

static struct view *view_get(struct job_check *j, uint32_t era, uint64_t epoch)
{
    struct view *view = view_find(j, era, epoch);
    if (view) {
        return view;
    }
    view = sim_alloc(1, sizeof(*view));
    view->era = era;
    view->epoch = epoch;
    view->older = j->views;
    j->views = view;
    forget_old_views(j);
    return view;
}

void check_epoch(struct check *c, uint32_t job, uint64_t epoch, uint64_t members)
{
    struct job_check *j = job_of(c, job);
    struct era *era = era_of(j);
    if (epoch <= era->highest) {
        check_fail(c, CHECK_EPOCH_NUMBER, "epoch %llu starts after epoch %llu",
                   (unsigned long long)epoch, (unsigned long long)era->highest);
    }
    if (era->is_over) {
        check_fail(c, CHECK_JOB_FINISHED, "epoch %llu starts in a finished job",
                   (unsigned long long)epoch);
    }
    if (members > j->max) {
        check_fail(c, CHECK_MAX_NODES, "epoch %llu has %llu members, max is %u",
                   (unsigned long long)epoch, (unsigned long long)members, j->max);
    }
    if (members < j->min) {
        check_fail(c, CHECK_MIN_NODES, "epoch %llu has %llu members, min is %u",
                   (unsigned long long)epoch, (unsigned long long)members, j->min);
    }
    era->highest = epoch;
    era->known = era->reported;
    era->known_digest = era->reported_digest;
    (void)view_get(j, j->era, epoch);
}

/* Checks that the epoch's table is the same for every node that receives it. */
static bool view_agrees(struct check *c, struct view *view, uint32_t world, uint64_t digest)
{
    if (view->digest == 0) {
        view->digest = digest;
        view->world = world;
        view->holder = sim_alloc(world, sizeof(*view->holder));
        view->live = sim_alloc(world, sizeof(*view->live));
    }
    if (view->digest != digest || view->world != world) {
        check_fail(c, CHECK_ONE_TABLE, "epoch %llu has two tables, of %u and of %u trainers",
                   (unsigned long long)view->epoch, view->world, world);
        return false;
    }
    return true;
}

void check_start(struct check *c, uint32_t job, uint64_t epoch, uint32_t node,
                 const struct check_part *part)
{
    struct job_check *j = job_of(c, job);
    struct view *view = view_get(j, j->era, epoch);
    uint32_t world = part->world;
    if (!view_agrees(c, view, world, part->digest)) {
        return;
    }
    if ((uint64_t)world > (uint64_t)j->max * j->nproc) {
        check_fail(c, CHECK_MAX_NODES, "epoch %llu has %u trainers, max is %u nodes of %u",
                   (unsigned long long)epoch, world, j->max, j->nproc);
    }
    for (uint32_t r = part->rank; r < part->rank + part->n; r++) {
        if (r >= world || (view->holder[r] && view->holder[r] != node + 1)) {
            check_fail(c, CHECK_ONE_RANK,
                       "rank %u of epoch %llu is assigned to node %u and to node %u", r,
                       (unsigned long long)epoch, r < world ? view->holder[r] - 1 : 0, node);
            return;
        }
        view->holder[r] = node + 1;
    }
}

void check_trainer_begins(struct check *c, uint32_t era, uint32_t job, uint64_t epoch,
                          uint32_t node, uint32_t rank, uint32_t world, uint64_t digest)
{
    struct job_check *j = job_of(c, job);
    struct view *view = view_get(j, era, epoch);
    if (view->digest != 0 && view->digest != digest && j->eras[era].is_split) {
        return; /* the job continues with the other epoch, of which this rank starts again */
    }
    if (!view_agrees(c, view, world, digest)) {
        return;
    }
    if (rank >= world || view->live[rank]) {
        check_fail(c, CHECK_ONE_RANK, "rank %u of epoch %llu runs on node %u and on node %u", rank,
                   (unsigned long long)epoch, rank < world ? view->live[rank] - 1 : 0, node);
        return;
    }
    view->live[rank] = node + 1;
    view->n_live++;
}

void check_trainer_ends(struct check *c, uint32_t era, uint32_t job, uint64_t epoch, uint32_t rank)
{
    struct view *view = view_find(job_of(c, job), era, epoch);
    if (view && view->live && rank < view->world && view->live[rank]) {
        view->live[rank] = 0;
        view->n_live--;
    }
}

void check_step(struct check *c, uint32_t era, uint32_t job, uint64_t epoch)
{
    struct job_check *j = job_of(c, job);
    struct era *own = &j->eras[era];
    uint64_t later = own->stepped;
    bool is_late = epoch < later;
    for (uint32_t next = era + 1; next <= j->era; next++) {
        /* An epoch of the same number in another history may run without being known. */
        const struct view *view = view_find(j, era, epoch);
        if (epoch == j->eras[next].over && view && view->digest == j->eras[next].over_digest) {
            is_late = true;
            later = j->eras[next].stepped;
        }
    }
    if (is_late && !own->is_split) {
        check_fail(c, CHECK_ONE_PROGRESS, "epoch %llu makes a step after epoch %llu has made one",
                   (unsigned long long)epoch, (unsigned long long)later);
    }
    own->stepped = epoch;
    if (epoch == own->chosen) {
        own->over = own->known;
        own->over_digest = own->known_digest;
    }
}

void check_own_fault(struct check *c, uint32_t era, uint32_t job, uint64_t epoch)
{
    view_get(job_of(c, job), era, epoch)->own_faults++;
}

void check_silence(struct check *c, uint32_t era, uint32_t job, uint64_t epoch)
{
    view_get(job_of(c, job), era, epoch)->silence = true;
}

void check_finished(struct check *c, uint32_t era, uint32_t job, uint64_t epoch)
{
    view_get(job_of(c, job), era, epoch)->finished = true;
}

/* A server that has lost its database continues with the epoch that its members report: finds the
 * era in which that epoch ran. */
static uint32_t own_faults(const struct job_check *j, uint64_t epoch)
{
    uint32_t n = 0;
    for (const struct view *view = j->views; view; view = view->older) {
        n += view->epoch == epoch ? view->own_faults : 0;
    }
    return n;
}

/* Checks a charge that can no longer be cancelled. */
static void judge_charge(struct check *c, struct job_check *j)
{
    uint64_t epoch = j->charged_epoch;
    const struct view *view = view_find(j, j->era, epoch);
    j->charged_epoch = 0;
    if (view && own_faults(j, epoch) == 0 && !(view->silence && (j->mute || view->finished))) {
        check_fail(c, view->silence ? CHECK_CHARGE_SILENT : CHECK_CHARGE_FAULT,
                   "epoch %llu is charged although none of its trainers failed by itself",
                   (unsigned long long)epoch);
    }
}

void check_charged(struct check *c, uint32_t job, uint64_t epoch, int64_t verdict_at)
{
    struct job_check *j = job_of(c, job);
    struct view *view = view_get(j, j->era, epoch);
    if (view->charged_by != c->server) {
        view->charged_by = c->server;
        view->charged = 0;
    }
    if (++view->charged > 1) {
        check_fail(c, CHECK_CHARGE_ONCE, "epoch %llu is charged again", (unsigned long long)epoch);
    }
    j->charged_epoch = epoch;
    j->verdict_at = verdict_at;
}

void check_charge_cancelled(struct check *c, uint32_t job, uint64_t epoch)
{
    struct job_check *j = job_of(c, job);
    struct view *view = view_get(j, j->era, epoch);
    if (view->charged_by != c->server || view->charged == 0) {
        check_fail(c, CHECK_CHARGE_REFUND,
                   "a charge is cancelled in epoch %llu, which was not charged",
                   (unsigned long long)epoch);
    }
    view->charged = 0;
    j->charged_epoch = 0;
}

void check_time(struct check *c, uint32_t job, int64_t now)
{
    struct job_check *j = job_of(c, job);
    if (j->charged_epoch && now >= j->verdict_at) {
        judge_charge(c, j);
    }
}

void check_new_run(struct check *c, uint32_t job)
{
    era_of(job_of(c, job))->is_over = false;
}

void check_over(struct check *c, uint32_t job)
{
    struct job_check *j = job_of(c, job);
    era_of(j)->is_over = true;
    if (j->charged_epoch) {
        judge_charge(c, j);
    }
}

/* --- nodes --- */

static struct node_check *node_of(struct check *c, uint32_t node)
{
    while (c->n_nodes <= node) {
        c->nodes = sim_grow(c->nodes, c->n_nodes, &c->cap_nodes, sizeof(*c->nodes));
        c->nodes[c->n_nodes++] = NODE_FRESH;
    }
    return &c->nodes[node];
}

void check_node_begins(struct check *c, uint32_t node)
{
    *node_of(c, node) = NODE_FRESH;
}

void check_granted(struct check *c, uint32_t node, int64_t from, int64_t ttl_ms, int64_t fence_ms)
{
    struct node_check *n = node_of(c, node);
    /* The latest grant counts, as for the agent: a restarted server does not know a longer lease of
     * a node that was in no epoch. */
    n->lease_end = from + ttl_ms;
    n->clock_stood = from <= n->stood_at;
    check_fence_granted(c, node, from + fence_ms);
}

void check_fence_granted(struct check *c, uint32_t node, int64_t end)
{
    struct node_check *n = node_of(c, node);
    if (end > n->fence_end) {
        n->fence_end = end;
    }
}

int64_t check_fence_end(const struct check *c, uint32_t node)
{
    return node < c->n_nodes ? c->nodes[node].fence_end : INT64_MIN;
}

void check_clock_stood(struct check *c, uint32_t node, int64_t clock)
{
    node_of(c, node)->clock_stood = true;
    node_of(c, node)->stood_at = clock;
}

bool check_lease_stood(const struct check *c, uint32_t node)
{
    return node < c->n_nodes && c->nodes[node].clock_stood;
}

void check_lease_forgotten(struct check *c, uint32_t node)
{
    node_of(c, node)->lease_end = INT64_MIN;
}

void check_lease_over(struct check *c, uint32_t node, int64_t clock)
{
    const struct node_check *n = node_of(c, node);
    if (clock < n->lease_end && !n->clock_stood) {
        check_fail(c, CHECK_LEASE_HONORED, "the lease of node %u ends %lld ms early on its clock",
                   node, (long long)(n->lease_end - clock));
    }
}

void check_fence_set(struct check *c, uint32_t node, int64_t deadline)
{
    const struct node_check *n = node_of(c, node);
    if (deadline > n->fence_end) {
        check_fail(c, CHECK_FENCE_GRANTED, "node %u sets a fence %lld ms after what it was granted",
                   node,
                   (long long)(n->fence_end == INT64_MIN ? deadline : deadline - n->fence_end));
    }
}

void check_idle_report(struct check *c, uint32_t node, const char *message, uint32_t trainers_alive)
{
    if (trainers_alive) {
        check_fail(c, CHECK_IDLE_REPORTS, "node %u sends %s while %u of its trainers run", node,
                   message, trainers_alive);
    }
}

void check_leased(struct check *c, uint32_t node, int64_t clock)
{
    const struct node_check *n = node_of(c, node);
    if (n->lease_end != INT64_MIN && clock > n->lease_end) {
        check_fail(c, CHECK_LEASED_START,
                   "node %u starts a trainer %lld ms after the end of its lease", node,
                   (long long)(clock - n->lease_end));
    }
}

void check_dead(struct check *c, uint32_t job, uint64_t epoch, uint32_t node)
{
    struct job_check *j = job_of(c, job);
    const struct view *view = view_find(j, j->era, epoch);
    for (uint32_t rank = 0; view && view->live && rank < view->world; rank++) {
        if (view->live[rank] == node + 1) {
            check_fail(c, CHECK_DEATH_PROOF,
                       "node %u is proven dead although it runs rank %u of epoch %llu", node, rank,
                       (unsigned long long)epoch);
        }
    }
}

void check_answers(struct check *c, uint32_t job, uint64_t epoch, uint32_t node, uint32_t answering)
{
    /* A node whose clock stood still starts trainers that are overdue for all others. */
    (void)job;
    if (!node_of(c, node)->clock_stood) {
        check_fail(c, CHECK_PROBE_PORTS,
                   "node %u answers probes on a port of epoch %llu, which starts on node %u",
                   answering, (unsigned long long)epoch, node);
    }
}

void check_memory(struct check *c, const char *owner, size_t bytes, size_t limit)
{
    if (bytes > limit) {
        check_fail(c, CHECK_MEMORY_LIMIT, "%s holds %zu bytes, its limit is %zu", owner, bytes,
                   limit);
    }
}

void check_honest(struct check *c, const char *who, const char *what, int rc)
{
    check_fail(c, CHECK_HONEST_EVENT, "%s rejects %s with error %d", who, what, rc);
}
