/* server/jobs/pool.c: timers of the pool, its start and its end. */
#include "server/jobs/pool.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/cli/log.h"
#include "server/auth/keyring.h"
#include "server/events/agent_reports.h"
#include "server/jobs/bundles.h"
#include "server/jobs/pool_private.h"
#include "server/session.h"

/* A job that has less than its minimum for this long releases its nodes if other jobs wait. */
#define GANG_WAIT_MS 60000
/* Assignment numbers must never repeat those of an earlier server, whatever its disk kept: they
 * start from the wall clock, with this many numbers per millisecond. */
#define ASSIGNMENTS_EACH_MS 1000u
/* Interval of throughput measurements, and the change that is passed to the scheduler. */
#define THROUGHPUT_INTERVAL_MS 2000
#define GAIN_NEWS_MILLI 50u

/* --- timers --- */

/* Returns true if the core may forget the job: its run is over there and none of its trainers can
 * be alive, or no agent ever joined. */
static bool core_forgets(const struct pool *p, const struct pool_job *job)
{
    struct msg_status_job row;
    return !pool_job_in_core(job, &row) ||
           p->config.ops->order(p->config.ops_ctx,
                                &(struct rdzv_event){.type = RDZV_FORGET, .job = job->name.text}) ==
               0;
}

/* Passes the throughput of a growing job to the scheduler, which grows the jobs first that gain
 * most from a node. If a script reports only steps, synchronous workers count one batch each,
 * because the script does not say whether each worker has a batch of its own. */
static void update_throughput(struct pool *p, struct pool_job *job)
{
    struct msg_status_job row;
    if (job->is_over || job->needs.min_nodes == job->needs.max_nodes ||
        pool_job_state(job) != STATE_RUNNING) {
        return;
    }
    if (tfe_mono_before(clock_mono(), job->gain_at)) {
        pool_wake(p, job->gain_at);
        return;
    }
    job->gain_at = tfe_mono_add(clock_mono(), THROUGHPUT_INTERVAL_MS);
    pool_wake(p, job->gain_at);
    if (!pool_job_in_core(job, &row)) {
        return;
    }
    reports_show_job(p->config.reports, &row);
    const uint32_t others = job->needs.n_ps + job->needs.chief + job->needs.evaluator;
    if (row.members <= others || !(row.has_samples_per_s || row.has_steps_per_s)) {
        return;
    }
    if (row.has_samples_per_s != job->by_samples) {
        job->by_samples = row.has_samples_per_s;
        job->gain = (struct gain){.now.workers = 0};
    }
    const uint32_t workers = row.members - others;
    const uint32_t at_once = job->needs.n_ps > 0 ? 1 : workers;
    gain_add(&job->gain, workers, job->by_samples ? row.samples_per_s : row.steps_per_s * at_once);
    const uint32_t milli = gain_milli(&job->gain);
    log_debug("job_pace", LOG_S("job", job->name.text), LOG_U("workers", workers),
              LOG_U("gain_milli", milli));
    const uint32_t by =
        milli > job->gain_reported ? milli - job->gain_reported : job->gain_reported - milli;
    if (by >= GAIN_NEWS_MILLI && pool_step(p, (struct placement_event){.type = PLACEMENT_JOB_GAIN,
                                                                       .job = job->name.text,
                                                                       .gain_milli = milli}) == 0) {
        job->gain_reported = milli;
    }
}

static void check_jobs(struct pool *p)
{
    for (struct pool_job *job = TAILQ_FIRST(&p->jobs), *next; job; job = next) {
        next = TAILQ_NEXT(job, link);
        if (job->is_stale) {
            pool_refresh(p, job);
        }
        update_throughput(p, job);
        if (job->is_gone || tfe_mono_before(clock_mono(), job->ends)) {
            pool_wake(p, job->ends);
        } else if (!job->is_over) {
            pool_fail(p, job, "DeadlineExceeded", "it ran longer than its active deadline");
        } else if (job->lingers) {
            pool_end_lingering(p, job);
            pool_wake(p, clock_mono());
        } else if (!TAILQ_EMPTY(&job->nodes) || !core_forgets(p, job) ||
                   pool_forget(p, job->name.text) != 0) {
            job->ends = tfe_mono_add(clock_mono(), POOL_CHECK_MS);
            pool_wake(p, job->ends);
        }
    }
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct pool *p = ctx;
    (void)fd;
    (void)what;
    p->fires = TFE_MONO_NEVER;
    pool_nodes_check(p);
    pool_files_check(p);
    check_jobs(p);
    if (!tfe_mono_before(clock_mono(), p->deadline)) {
        (void)pool_step(p, (struct placement_event){.type = PLACEMENT_TICK});
    }
    pool_wake(p, p->deadline);
    pool_write(p);
}

/* --- start and end --- */

/* Returns true if a remembered job names the bundle; a finished job counts, because it may run
 * again. */
static bool is_named(void *ctx, const char *digest)
{
    const struct pool *p = ctx;
    const struct pool_job *job;
    TAILQ_FOREACH(job, &p->jobs, link)
    {
        if (strcmp(job->needs.bundle, digest) == 0) {
            return true;
        }
    }
    return false;
}

/* Implements keyring_quota_fn. */
static void apply_quota(void *ctx, const char *scope, uint32_t nodes)
{
    struct pool *p = ctx;
    const int rc = pool_step(
        p, (struct placement_event){.type = PLACEMENT_QUOTA, .pattern = scope, .nodes = nodes});
    if (rc != 0) {
        log_error("quota_not_taken", LOG_S("jobs", scope), LOG_S("reason", tfe_error_sentence(rc)));
    }
}

int pool_new(const struct pool_config *config, struct pool **ret)
{
    static const struct placement_config settings = {.gang_wait_ms = GANG_WAIT_MS};
    struct pool *p = calloc(1, sizeof(*p));
    if (!p) {
        return TFE_ENOMEM;
    }
    p->config = *config;
    TAILQ_INIT(&p->queues);
    p->fires = TFE_MONO_NEVER;
    p->deadline = TFE_MONO_NEVER;
    RB_INIT(&p->nodes);
    TAILQ_INIT(&p->leases);
    TAILQ_INIT(&p->jobs);
    p->placement =
        placement_new(&heap_mem, &settings, (uint64_t)clock_wall().ms * ASSIGNMENTS_EACH_MS);
    const struct bundles_config bundles = {
        .base = config->base, .directory = config->bundle_dir, .is_named = is_named, .ctx = p};
    if (!p->placement || bundles_new(&bundles, &p->bundles) != 0 ||
        evtimer_assign(&p->timer, config->base, on_timer, p) != 0) {
        pool_free(p);
        return TFE_ENOMEM;
    }
    keyring_watch_quotas(config->keys, apply_quota, p);
    *ret = p;
    return 0;
}

void pool_free(struct pool *p)
{
    if (!p) {
        return;
    }
    keyring_watch_quotas(p->config.keys, NULL, NULL);
    while (!RB_EMPTY(&p->nodes)) {
        pool_node_drop(p, RB_ROOT(&p->nodes));
    }
    while (!TAILQ_EMPTY(&p->jobs)) {
        pool_job_free(TAILQ_FIRST(&p->jobs));
    }
    if (event_initialized(&p->timer)) {
        (void)event_del(&p->timer);
    }
    bundles_free(p->bundles);
    placement_free(p->placement);
    free(p->shown);
    free(p);
}

/* Restores a node that worked for the job; it has one lease to reconnect. */
static int restore_node(struct pool *p, struct pool_job *job, const char *id, uint64_t assignment,
                        enum tfe_task task)
{
    struct pool_node *node = id_is_valid(id) ? pool_node_find(p, id) : NULL;
    if (!id_is_valid(id) || (node && node->assignment > assignment)) {
        return 0;
    }
    if (node) { /* the row of the job that the node left was not written any more */
        (void)pool_step(p, (struct placement_event){.type = PLACEMENT_NODE_GONE, .node = id});
        pool_node_drop(p, node);
    }
    node = pool_node_new(p, id);
    if (!node) {
        return TFE_ENOMEM;
    }
    int rc = pool_step(p, (struct placement_event){.type = PLACEMENT_RESTORED,
                                                   .node = id,
                                                   .job = job->name.text,
                                                   .assignment = assignment,
                                                   .task = task});
    if (rc != 0) {
        pool_node_drop(p, node);
        return rc == TFE_ENOMEM ? rc : 0;
    }
    pool_node_attach(p, node, job, assignment, task);
    node->is_assign_sent = true;
    return 0;
}

/* ctx is a struct pool */
static int load_job(void *ctx, const struct store_submission *row)
{
    struct pool *p = ctx;
    struct pool_job *job;
    struct pack nodes;
    int rc = pool_job_load(p, row, &nodes, &job);
    if (rc == TFE_EINVAL) {
        log_error("submission_set_aside", LOG_S("job", row->job));
        return 0;
    }
    rc = rc == 0 ? pool_place(p, job) : rc;
    if (rc != 0 && rc != TFE_ENOMEM) { /* an invalid row is skipped, so that the server starts
                                          without that job */
        log_error("submission_set_aside", LOG_S("job", row->job),
                  LOG_S("reason", tfe_error_sentence(rc)));
        pool_job_free(job);
        return 0;
    }
    while (rc == 0 && nodes.at < nodes.n) {
        const char *id = "";
        uint64_t assignment = 0;
        uint32_t task = 0;
        pool_job_pack_node(&nodes, &id, &assignment, &task);
        if (nodes.rc != 0) {
            break;
        }
        rc = restore_node(p, job, id, assignment, (enum tfe_task)task);
    }
    if (rc == 0 && job->is_over) {
        struct msg_status_job is;
        job->lingers = pool_job_state(job) == STATE_SUCCEEDED && job->needs.may_linger &&
                       pool_job_in_core(job, &is) && is.state == STATE_RUNNING;
        rc = pool_step(p, (struct placement_event){.type = PLACEMENT_JOB_OVER,
                                                   .job = job->name.text,
                                                   .keeps_nodes = job->lingers});
    }
    if (rc == 0) {
        job->written = job->version;
        pool_set_end(job);
    }
    return rc;
}

int pool_load(struct pool *p, struct store *store, struct tfe_reason *reason)
{
    return store_read_submissions(store, load_job, p, reason);
}

void pool_keep(struct pool *p, struct writer *writer)
{
    p->writer = writer;
    pool_write(p);
}
