/* tests/sim/explore.c: random simulation from one seed: jobs, machines, periods of faults, checks
 * after each period. */
#include "tests/sim/explore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/job_options.h"
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/faults.h"
#include "tests/sim/jobs.h"
#include "tests/sim/judge.h"
#include "tests/sim/net.h"
#include "tests/sim/node.h"
#include "tests/sim/probing.h"
#include "tests/sim/server.h"

/* Maximum number of machines that share the jobs of one name. A table goes to every member, so
 * larger clusters would take all of a run's time. */
#define GROUP_MAX 250
#define LOOK_MS 1000
/* Probability in percent that a late agent joins a job that is over. */
#define LATE_PERCENT 20
/* Maximum factor by which a lease exceeds the setting. */
#define TTL_GROWS 12
/* Longest waits of the core that have no setting: for a member that is not READY, for a script that
 * fails repeatedly, and from one growth to the next. */
#define PREPARE_MS 32000
#define BACKOFF_MS 60000
#define GROWTH_APART_MS 300000
/* Time from START to steps, or until a trainer that misses a peer ends. */
#define TRAINERS_MS 60000

/* Machines that work for one job after the other. */
struct group {
    uint32_t job;
    uint32_t generation;
};

struct explore {
    struct world world;
    struct rng rng;
    struct group *groups; /* n_groups entries */
    uint32_t n_groups;
    bool roles;
    /* time after the last fault within which a job with enough nodes must train */
    int64_t train_ms;
    int64_t grow_ms;  /* further time for which the job may train without some of them */
    uint32_t *live;   /* by job: number of its agents */
    int64_t *idle_at; /* by job: since when it has not trained as it should; SIM_NEVER if it does */
    size_t cap_live, cap_idle;
};

static uint64_t roll(struct explore *x, uint64_t low, uint64_t high)
{
    return rng_between(&x->rng, low, high);
}

static struct explore *explore_of(struct world *w)
{
    return (struct explore *)(void *)((char *)w - offsetof(struct explore, world));
}

static uint32_t one_of(struct explore *x, const uint32_t *v, size_t n)
{
    return v[roll(x, 0, n - 1)];
}
#define ONE_OF(x, ...)                                                                             \
    one_of(x, (const uint32_t[]){__VA_ARGS__},                                                     \
           sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* --- jobs --- */

static uint32_t group_size(const struct explore *x)
{
    return (x->world.n_nodes + x->n_groups - 1) / x->n_groups;
}

static struct job draw_roles(struct explore *x, uint32_t size)
{
    struct job job = {.n_ps = 0};
    if (x->roles) {
        job.n_ps = ONE_OF(x, 0, 1, 1, 1, 2, 3);
        job.n_ps = job.n_ps + 2 > size ? (size > 2) : job.n_ps;
        job.chief = size > job.n_ps + 1 && roll(x, 0, 3) > 0;
        job.evaluator = roll(x, 0, 2) == 0;
    }
    return job;
}

static void open_job(struct explore *x, uint32_t group)
{
    struct world *w = &x->world;
    struct group *g = &x->groups[group];
    char name[32];
    snprintf(name, sizeof(name), "g%u-%u", group, ++g->generation);
    uint32_t size = group_size(x);
    uint32_t max = roll(x, 0, 2) ? (uint32_t)roll(x, 1, size + 1) : size;
    uint32_t min = roll(x, 0, 1) ? 1 : (uint32_t)roll(x, 1, max);
    uint32_t nproc = roll(x, 0, 3) ? 1 : (uint32_t)roll(x, 2, 3);
    struct job roles = draw_roles(x, size);
    min += roles.n_ps + roles.chief;
    max += roles.n_ps + roles.chief;
    g->job = jobs_add(w, name, min, max, nproc);
    struct job *job = jobs_get(w, g->job);
    job->n_ps = roles.n_ps;
    job->chief = roles.chief;
    job->evaluator = roles.evaluator;
    job->max_restarts = ONE_OF(x, 0, 3, 1000, 1000000);
    job->elastic_ms = roll(x, 0, 5) ? 0 : ONE_OF(x, 20000, 200000);
    job->new_run = roll(x, 0, 5) == 0;
    job->no_grow = roll(x, 0, 9) == 0;
    job->chief_grace_ms = roll(x, 0, 4) ? MSG_UNSET : ONE_OF(x, 0, 2000, 15000);
    job->run_key = roll(x, 0, 4) == 0;
    job->preempt_grace_ms = ONE_OF(x, 0, 2000, 30000);
    job->script = roll(x, 1, 1000);
    job->grow_now = !job->no_grow && job->script % 2;
    struct trainer_spec *spec = &job->spec;
    spec->start_lo = ONE_OF(x, 50, 300, 2000);
    spec->start_hi = spec->start_lo + ONE_OF(x, 0, 500, 5000);
    spec->step_ms = ONE_OF(x, 20, 100, 500);
    spec->steps = ONE_OF(x, 0, 0, 100, 1000, 10000);
    spec->mute = roll(x, 0, 3) == 0;
    if (spec->mute) {
        check_mute(w->check, g->job);
    }
    spec->tell_ms = ONE_OF(x, 0, 500, 5000, 5000);
    spec->listens = spec->tell_ms && roll(x, 0, 2);
    spec->deaf = roll(x, 0, 4) == 0;
    /* otherwise the script's own checkpoints are its answers */
    if (spec->deaf && job->script / 6 % 3) {
        spec->checkpoint_every = 0;
    }
    spec->save_ms = ONE_OF(x, 0, 100, 1000, 8000);
    spec->memory_every = job->n_ps ? 0 : (uint32_t[]){0, 1, 20}[job->script / 2 % 3];
    /* A trainer that hangs at the end would be at fault: all must end well within the grace. */
    uint32_t grace = server_config(w)->exit_grace_ms;
    spec->finish_hi = ONE_OF(x, 0, 50, 500) * grace / 2000;
    spec->finish_hi = spec->finish_hi < grace / 4 ? spec->finish_hi : grace / 4;
    if (roll(x, 0, 4) == 0) {
        spec->fail_rank = (uint32_t)roll(x, 0, job_world(job, max) - 1);
        spec->fail_at = ONE_OF(x, 0, 5, 100);
        spec->fail_code = 1;
        spec->fail_epochs = ONE_OF(x, 1, 3, 10);
        spec->fail_start = roll(x, 0, 3) == 0;
    }
}

static uint32_t job_for(struct world *w, uint32_t node)
{
    struct explore *x = explore_of(w);
    uint32_t group = node % x->n_groups;
    struct job *job = jobs_get(w, x->groups[group].job);
    if (job->over && job->new_run && !w->nodes[node].plain && roll(x, 0, 1)) {
        return x->groups[group].job; /* the group's next run */
    }
    if (job->over && roll(x, 0, 99) >= LATE_PERCENT) {
        if (job->run_key && roll(x, 0, 1)) {
            job->run_key++; /* the next run of the same job */
        } else {
            open_job(x, group);
        }
    }
    return x->groups[group].job;
}

/* --- the simulation --- */

static uint32_t draw_agents(struct explore *x)
{
    static const uint32_t max[] = {2, 4, 8, 16, 40, 100};
    return (uint32_t)roll(x, 1, max[roll(x, 0, sizeof(max) / sizeof(max[0]) - 1)]);
}

/* Computes the limits from the configured waits, on the slowest clock: fences of what an earlier
 * server knew and of what runs, two switches that leave a node out, the gather window, the grace of
 * a script that has ended, the lease of a lost node, and the longest back-off. */
static void set_patience(struct explore *x, const struct rdzv_config *config, uint32_t fence_max)
{
    int64_t fence = (int64_t)fence_max * 1106 / 1000 * 1060 / 1000;
    int64_t one_switch = (int64_t)config->defaults.stop_grace_ms + PREPARE_MS;
    x->train_ms = 2 * fence + 2 * one_switch + config->gather_max_ms + config->exit_grace_ms +
                  BACKOFF_MS + TRAINERS_MS + FAULTS_SERVER_SLEEP_MS;
    x->grow_ms = (int64_t)config->defaults.grow_wait_ms + GROWTH_APART_MS + one_switch;
}

static void make_world(struct explore *x, const struct explore_options *run)
{
    struct world *w = &x->world;
    struct sim_options options = {.seed = run->seed, .wire = run->wire, .verbose = run->verbose};
    options.deaths = run->seed % 4 != 0; /* older agents have no proofs of termination */
    world_init(w, &options);
    w->options.pieces = run->wire && world_draw(w, 0, 0, 33) % 2 == 0;
    rng_init(&x->rng, run->seed ^ UINT64_C(0x5eed));
    x->roles = run->roles;
    w->check = check_new();
    uint32_t n = run->agents ? run->agents : draw_agents(x);
    nodes_new(w, n);
    net_new(w, n);
    jobs_new(w);
    struct rdzv_config config = {.defaults = default_options(), .max_sessions = 4 * n + 64};
    config.ttl_ms = ONE_OF(x, 3000, 5000, 10000);
    config.defaults.gather_ms = ONE_OF(x, 200, 1000, 3000);
    config.gather_max_ms = ONE_OF(x, 5000, 30000);
    config.defaults.stop_grace_ms = ONE_OF(x, 0, 1000, 5000);
    config.exit_grace_ms = ONE_OF(x, 2000, 20000, 60000);
    config.defaults.finish_idle_ms = config.exit_grace_ms;
    config.defaults.grow_wait_ms = ONE_OF(x, 1000, 60000);
    config.fence_ms = ONE_OF(x, 3, 3, 5, 10) * config.ttl_ms;
    uint32_t ttl_max = config.ttl_ms;
    if (roll(x, 0, 2) == 0) {
        /* Leases get longer if there are many, even of machines that are gone. */
        config.renew_rate = n * 3000 / config.ttl_ms / ONE_OF(x, 1, 2) + 1;
        ttl_max = TTL_GROWS * config.ttl_ms;
        /* a higher number would make them longer still */
        config.max_nodes = ttl_max / 1000 * config.renew_rate / 3;
    }
    uint32_t fence_max = config.fence_ms < 3 * ttl_max ? 3 * ttl_max : config.fence_ms;
    server_new(w, &config);
    disk_new(w);
    disk_set_latency(w, ONE_OF(x, 0, 1, 10), ONE_OF(x, 10, 50, 500));
    server_set_rate(w, (int64_t)roll(x, 950000, 1050000));
    static const uint32_t spreads[] = {0, 0, 5, 50, 300};
    uint32_t low = ONE_OF(x, 0, 1, 20);
    uint32_t spread = spreads[roll(x, 0, 4)];
    /* Only in some simulations, so that stored seeds keep their behaviour. */
    bool has_spot = run->roles && (run->seed % 5 == 1 || run->seed % 5 == 2);
    char name[NODE_NAME_MAX];
    for (uint32_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        node_name(w, i, name);
        node_set_rate(w, i, (int64_t)roll(x, 950000, 1050000));
        w->nodes[i].durable = roll(x, 0, 3) == 0;
        w->nodes[i].spot = has_spot && world_draw(w, i, 0, 15) % 3 == 0;
        w->nodes[i].spot_after = (int64_t[]){0, 0, 2000, 60000}[world_draw(w, i, 0, 17) % 4];
        w->nodes[i].fixed = world_draw(w, 0, 0, 12) % 4 == 0;
        w->nodes[i].plain = world_draw(w, i, 0, 14) % 2 == 0;
        net_link(w, i)->latency_lo = low;
        net_link(w, i)->latency_hi = low + spread;
    }
    x->n_groups = run->one_job ? 1 : (n + GROUP_MAX - 1) / GROUP_MAX;
    if (x->n_groups == 1 && n > 3 && !run->one_job && roll(x, 0, 2) == 0) {
        x->n_groups = (uint32_t)roll(x, 2, 3);
    }
    x->groups = sim_alloc(x->n_groups, sizeof(*x->groups));
    for (uint32_t g = 0; g < x->n_groups; g++) {
        open_job(x, g);
    }
    faults_new(w, roll(x, 0, UINT64_MAX - 1), ONE_OF(x, 100, 500, 2000, 10000), job_for);
    set_patience(x, &config, fence_max);
}

static void end_world(struct explore *x)
{
    struct world *w = &x->world;
    faults_free(w);
    server_free(w);
    disk_free(w);
    probing_free(w);
    trainers_free(w);
    judge_free(w);
    nodes_free(w);
    jobs_free(w);
    net_free(w);
    check_free(w->check);
    world_done(w);
    free(x->groups);
    free(x->live);
    free(x->idle_at);
}

/* --- checks after the faults --- */

/* Returns true if growth may wait: for a checkpoint, or until it costs little; for long if scripts
 * hang; for ever if no checkpoint is seen. */
static bool can_wait(const struct job *job, const struct cluster_view *view)
{
    return job->no_grow || view->hangs || view->epoch == job->left_epoch ||
           (!job->grow_now && (!job->spec.listens || job->spec.deaf));
}

/* State of a job after all faults have ended. */
struct unrest {
    const char *reason; /* what is wrong; NULL if nothing is */
    bool trains;        /* the job trains all the same: growth may take its time */
};

#define RESTLESS(reason) ((struct unrest){(reason), false})
#define TRAINS_WITHOUT ((struct unrest){"an epoch without all live nodes, or with more", true})
#define AT_REST ((struct unrest){NULL, true})

/* State of a job with roles: one node may evaluate, and slots of served workers may be empty for as
 * long as growth waits, even with fewer than min. */
static struct unrest unrest_with_roles(const struct job *job, const struct cluster_view *view,
                                       uint32_t live)
{
    uint32_t max = live < job->max ? live : job->max;
    uint32_t beside = live > job->min ? live - 1 : live; /* live nodes without the evaluator */
    uint32_t min = !job->evaluator ? max : beside < job->max ? beside : job->max;
    if (!view->trains) {
        return RESTLESS("an epoch that does not train");
    }
    min = can_wait(job, view) ? 0 : min;
    return view->working >= job_world(job, min) && view->working <= job_world(job, max)
               ? AT_REST
               : TRAINS_WITHOUT;
}

/* State of a job with so many agents. */
static struct unrest unrest(struct world *w, uint32_t index, uint32_t live)
{
    const struct job *job = jobs_get(w, index);
    struct cluster_view view = trainers_of_job(w, index);
    if (live == 0 || live < job->min) {
        bool should_continue = job->n_ps > 0 && view.clusters == 1 && view.trains;
        return view.clusters && !should_continue
                   ? RESTLESS("trainers live although there are too few nodes")
                   : AT_REST;
    }
    if (view.clusters > 1) {
        return RESTLESS("more than one epoch has living trainers");
    }
    if (view.clusters == 0) {
        return RESTLESS("enough nodes, and no epoch");
    }
    if (job_has_roles(job)) {
        return unrest_with_roles(job, &view, live);
    }
    if (!view.is_whole) {
        return RESTLESS("an epoch whose trainers are not all up");
    }
    uint32_t want = live < job->max ? live : job->max;
    bool can_miss = can_wait(job, &view) && view.world >= job->min * job->nproc;
    return view.world == want * job->nproc || (can_miss && view.world <= want * job->nproc)
               ? AT_REST
               : TRAINS_WITHOUT;
}

/* Reserves memory for all jobs; new jobs count as not training yet. */
static void make_room(struct explore *x)
{
    uint32_t jobs = jobs_count(&x->world);
    size_t before = x->cap_idle;
    while (x->cap_live < jobs) {
        x->live = sim_grow(x->live, x->cap_live, &x->cap_live, sizeof(*x->live));
    }
    while (x->cap_idle < jobs) {
        x->idle_at = sim_grow(x->idle_at, x->cap_idle, &x->cap_idle, sizeof(*x->idle_at));
    }
    for (size_t job = before; job < x->cap_idle; job++) {
        x->idle_at[job] = SIM_NEVER;
    }
}

static void forget_idle(struct explore *x)
{
    for (size_t job = 0; job < x->cap_idle; job++) {
        x->idle_at[job] = SIM_NEVER;
    }
}

static void count_live(struct explore *x)
{
    const struct world *w = &x->world;
    make_room(x);
    memset(x->live, 0, jobs_count(w) * sizeof(*x->live));
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        if (w->nodes[i].agent && !w->nodes[i].outsider && !node_leaves(w, i)) {
            x->live[w->nodes[i].job]++;
        }
    }
}

/* Returns a hash of the machines that are to leave: a change is news like a fault. */
static uint64_t leaving(const struct world *w)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        sum = (sum * 31 + node_leaves(w, i)) % UINT64_C(0xfffffffffffffc5);
    }
    return sum;
}

/* Returns true if all jobs are settled. Reports a violation if one has been idle since `since`, or
 * later, for longer than allowed, or does not grow though it should. */
static bool is_settled(struct explore *x, int64_t since)
{
    struct world *w = &x->world;
    bool settled = true;
    count_live(x);
    for (uint32_t job = 0; job < jobs_count(w); job++) {
        struct unrest now = unrest(w, job, x->live[job]);
        int64_t *idle_at = &x->idle_at[job];
        *idle_at = now.trains ? SIM_NEVER : *idle_at == SIM_NEVER ? w->now : *idle_at;
        bool is_late = (!now.trains && w->now - *idle_at >= x->train_ms) ||
                       (now.reason && w->now - since >= x->train_ms + x->grow_ms);
        if (is_late) {
            char reason[160];
            snprintf(reason, sizeof(reason), "job %s with %u agents: %s",
                     jobs_get(w, job)->name.text, x->live[job], now.reason);
            check_fail(w->check, CHECK_CONVERGES, "%s", reason);
        }
        settled = settled && !now.reason;
    }
    return settled;
}

/* Returns the number of epochs and workers ended by scripts themselves: faults that come with the
 * jobs, at times of their own. Each one prolongs a node's quarantine or the job's back-off. */
static uint32_t script_faults(struct world *w)
{
    uint32_t n = 0;
    for (uint32_t job = 0; job < jobs_count(w); job++) {
        n += jobs_get(w, job)->failed + jobs_get(w, job)->failed_up;
    }
    return n;
}

/* Runs until everything is settled; a violation if that takes too long after the last fault.
 * Returns false if the run is over. */
static bool settle(struct explore *x)
{
    struct world *w = &x->world;
    int64_t since = w->now;
    uint32_t faults = script_faults(w);
    uint64_t leave = leaving(w);
    bool settled = false;
    make_room(x);
    forget_idle(x);
    while (!settled && !check_failed(w->check) && world_run(w, w->now + LOOK_MS)) {
        if (faults != script_faults(w) || leave != leaving(w)) {
            faults = script_faults(w);
            leave = leaving(w);
            since = w->now;
            forget_idle(x);
        }
        bool is_left = !judge_leaving(w);
        settled = is_settled(x, since) && is_left;
    }
    return settled;
}

static void report(struct explore *x, const struct explore_options *options)
{
    struct world *w = &x->world;
    uint64_t first = w->n_lines > 50 ? w->n_lines - 50 : 0;
    for (uint64_t i = first; i < w->n_lines && !options->quiet; i++) {
        printf("  %s\n", w->lines[i % TRACE_LINES]);
    }
    printf("VIOLATION seed=%llu event=%llu time=%lld.%03lld %s: %s\n",
           (unsigned long long)options->seed, (unsigned long long)w->events,
           (long long)(w->now / 1000), (long long)(w->now % 1000), check_failed_rule(w->check),
           check_failed_text(w->check));
    printf(
        "replay: sim_explore --seed %llu --agents %u --events %llu%s%s%s --until %llu --verbose\n",
        (unsigned long long)options->seed, options->agents, (unsigned long long)options->events,
        options->wire ? " --wire" : "", options->one_job ? " --one-job" : "",
        options->roles ? " --roles" : "", (unsigned long long)w->events + 1);
    fflush(stdout); /* prints the seeds even if the process is killed early */
}

void explore_seed(const struct explore_options *options, struct explore_result *ret)
{
    struct explore *x = sim_alloc(1, sizeof(*x));
    struct world *w = &x->world;
    *ret = (struct explore_result){0};
    make_world(x, options);
    w->event_limit =
        options->until && options->until < options->events ? options->until : options->events;
    server_start(w);
    faults_start_idle(w, 80);
    bool should_continue = world_run(w, (int64_t)roll(x, 0, 20000));
    while (should_continue) {
        faults_begin(w);
        should_continue = world_run(w, w->now + (int64_t)ONE_OF(x, 1000, 10000, 60000, 200000));
        faults_end(w);
        faults_start_idle(w, ONE_OF(x, 0, 50, 100));
        should_continue =
            should_continue && settle(x) && world_run(w, w->now + (int64_t)roll(x, 0, 5000));
        ret->rounds += should_continue;
    }
    ret->events = w->events;
    ret->hash = w->hash;
    ret->virtual_ms = w->now;
    ret->violation = check_failed(w->check);
    if (ret->violation) {
        snprintf(ret->rule, sizeof(ret->rule), "%s", check_failed_rule(w->check));
        report(x, options);
    }
    end_world(x);
    free(x);
}
