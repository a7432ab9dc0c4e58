/* server/query/query_metrics.c: lists the server's metrics. All values are read in one call, so
 * that they are consistent. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "common/base/version.h"
#include "common/channel/channel.h"
#include "server/events/counters.h"
#include "server/jobs/job_registry.h"
#include "server/jobs/pool.h"
#include "server/session.h"

#define REFUSAL_FITS(NAME, number, name)                                                           \
    _Static_assert((number) < COUNTERS_CODES, "refusals are counted by code");
TFE_REFUSALS(REFUSAL_FITS)
#undef REFUSAL_FITS
#define CAUSE_FITS(NAME, number, name)                                                             \
    _Static_assert((number) < COUNTERS_CAUSES, "epochs are counted by cause");
TFE_CAUSES(CAUSE_FITS)
#undef CAUSE_FITS

struct one {
    const char *name;
    char labels[MSG_GAUGE_LABELS_MAX];
    uint64_t value;
};

struct gauge_rows {
    struct rows rows;
    struct one *v;
    size_t n, cap, told;
    bool failed; /* true if memory ran out */
};

/* Implements pool_gauge_fn. */
static void add(void *ctx, const char *name, const char *key, const char *of, uint64_t value)
{
    struct gauge_rows *s = ctx;
    if (s->n == s->cap) {
        size_t cap = s->cap > 0 ? s->cap * 2 : 128;
        struct one *v = realloc(s->v, cap * sizeof(*v));
        s->failed = s->failed || !v;
        if (!v) {
            return;
        }
        s->v = v;
        s->cap = cap;
    }
    struct one *one = &s->v[s->n++];
    *one = (struct one){.name = name, .value = value};
    if (key) {
        (void)snprintf(one->labels, sizeof(one->labels), "%s=%s", key, of);
    }
}

/* Adds cumulative buckets with the label `le`, after the other label if there is one. */
static void add_spread(struct gauge_rows *s, const char *bucket, const char *sum, const char *key,
                       const char *of, const struct histogram *spread)
{
    static const int bounds[HISTOGRAM_BOUNDS] = HISTOGRAM_BOUNDS_MS;
    uint64_t total = 0;
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        char le[64];
        char bound[16] = "inf";
        if (i < HISTOGRAM_BOUNDS) {
            (void)snprintf(bound, sizeof(bound), "%d", bounds[i]);
        }
        total += spread->n[i];
        if (key) {
            (void)snprintf(le, sizeof(le), "%s,le=%s", of, bound);
        }
        add(s, bucket, key ? key : "le", key ? le : bound, total);
    }
    add(s, sum, key, of, spread->sum_ms);
}

/* Shows the version and the commit as labels, as Prometheus' *_info metrics do. */
static void add_build(struct gauge_rows *s)
{
    char labels[MSG_GAUGE_LABELS_MAX];
    (void)snprintf(labels, sizeof(labels), "%s,commit=%s", TFE_VERSION, tfe_commit);
    add(s, "build_info", "version", labels, 1);
}

static void add_sessions(struct gauge_rows *s, const struct sessions *all)
{
    uint64_t queued = 0;
    const struct session *session;
    TAILQ_FOREACH(session, &all->list, link)
    {
        queued += session->channel ? channel_queued(session->channel) : 0;
    }
    add(s, "sessions", "role", "agent", sessions_shown(all) - admission_count(all->asking));
    add(s, "sessions", "role", "operator", admission_count(all->asking));
    add(s, "sessions_max", NULL, NULL, all->n_max);
    add(s, "half_open", NULL, NULL, admission_count(all->unauthenticated));
    add(s, "queued_bytes", NULL, NULL, queued);
}

static void add_jobs(struct gauge_rows *s, const struct sessions *all)
{
    struct registry_texts texts = {.pool = {.shows_arguments = false}};
    struct msg_status_job job;
    struct tfe_id after = {.text = ""};
    uint64_t jobs = 0, leases = 0, connected = 0;
    while (registry_next(all, jobs > 0 ? after.text : NULL, &texts, &job) == 0) {
        (void)id_set(&after, job.job); /* the id comes from the core or the pool and is valid */
        jobs++;
        leases += job.nodes;
        connected += job.connected;
    }
    add(s, "jobs", NULL, NULL, jobs);
    add(s, "leases", NULL, NULL, leases);
    add(s, "nodes_connected", NULL, NULL, connected);
}

static void add_counts(struct gauge_rows *s, const struct counters *g)
{
    static const char *const phases[] = {
#define GAUGES_PHASE_NAME(from, to, name) name,
        COUNTERS_PHASES(GAUGES_PHASE_NAME)
#undef GAUGES_PHASE_NAME
    };
    static const enum tfe_refusal codes[] = {
#define REFUSAL_VALUE(NAME, number, name) NAME,
        TFE_REFUSALS(REFUSAL_VALUE)
#undef REFUSAL_VALUE
    };
    static const enum tfe_cause causes[] = {
#define CAUSE_VALUE(NAME, number, name) NAME,
        TFE_CAUSES(CAUSE_VALUE)
#undef CAUSE_VALUE
    };
    add(s, "renewals_total", NULL, NULL, g->renewals);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        add(s, "refusals_total", "code", msg_refusal_name(codes[i]), g->refusals[codes[i]]);
    }
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        add(s, "epochs_total", "cause", msg_cause_name(causes[i]), g->epochs[causes[i]]);
    }
    for (size_t i = 0; i < PHASE__COUNT; i++) {
        add_spread(s, "standstill_ms_bucket", "standstill_ms_sum", "phase", phases[i],
                   &g->phases[i]);
    }
    add_spread(s, "loop_lag_ms_bucket", "loop_lag_ms_sum", NULL, NULL, &g->loop);
}

static void add_store(struct gauge_rows *s, struct writer *writer)
{
    struct writer_load load;
    const char *reason;
    struct tfe_mono since;
    writer_measure(writer, &load);
    add(s, "store_up", NULL, NULL, writer_health(writer, &reason, &since) == WRITER_WELL);
    add(s, "store_waiting_rows", NULL, NULL, load.waiting);
    add_spread(s, "store_write_ms_bucket", "store_write_ms_sum", NULL, NULL, &load.writes);
}

static uint64_t ms_of(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_usec / 1000;
}

static void add_process(struct gauge_rows *s)
{
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) == 0) {
        add(s, "server_cpu_ms_total", "mode", "user", ms_of(use.ru_utime));
        add(s, "server_cpu_ms_total", "mode", "system", ms_of(use.ru_stime));
        add(s, "server_memory_peak_bytes", NULL, NULL, (uint64_t)use.ru_maxrss * 1024);
    }
}

static int gauges_next(struct rows *rows, struct tfe_msg *ret)
{
    struct gauge_rows *s = (struct gauge_rows *)rows;
    *ret = (struct tfe_msg){.type = MSG_STATUS_END};
    if (s->told < s->n) {
        const struct one *one = &s->v[s->told++];
        *ret = (struct tfe_msg){.type = MSG_GAUGE, .u.gauge = {one->name, one->labels, one->value}};
    }
    return 0;
}

static void gauges_free(struct rows *rows)
{
    free(((struct gauge_rows *)rows)->v);
    free(rows);
}

int rows_gauges(const struct sessions *all, struct rows **ret)
{
    static const struct rows_ops ops = {.next = gauges_next, .free = gauges_free};
    struct gauge_rows *s = rows_new(&ops, sizeof(*s), ret);
    if (!s) {
        return TFE_ENOMEM;
    }
    add_build(s);
    add_sessions(s, all);
    add_jobs(s, all);
    pool_count(all->pool, add, s);
    add_counts(s, all->gauges);
    add_store(s, all->writer);
    add_process(s);
    if (s->failed) {
        gauges_free(&s->rows);
        return TFE_ENOMEM;
    }
    return 0;
}
