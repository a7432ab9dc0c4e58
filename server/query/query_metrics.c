/* server/query/query_metrics.c: lists the server's metrics. All values are read in one call, so
 * that they are consistent. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "common/base/version.h"
#include "common/channel/channel.h"
#include "common/records/schemas.h"
#include "server/core/rdzv.h"
#include "server/events/counters.h"
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

struct gauge_rows {
    struct rows rows;
    struct record_list list;
    size_t n_sent;
    bool failed; /* true if memory ran out */
    /* the family to which samples are added */
    const char *type, *name, *help;
    bool has_sample; /* its first sample, which carries type and help, was added */
};

static const char gauge[] = "gauge", counter[] = "counter", histogram[] = "histogram";

static void begin(struct gauge_rows *s, const char *type, const char *name, const char *help)
{
    s->type = type;
    s->name = name;
    s->help = help;
    s->has_sample = false;
}

static void add_sample(struct gauge_rows *s, const char *suffix, const char *labels, double value)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s%s", s->name, suffix);
    const struct msg_gauge sample = {.name = name,
                                     .labels = labels,
                                     .value = value,
                                     .type = s->has_sample ? NULL : s->type,
                                     .help = s->has_sample ? NULL : s->help};
    s->has_sample = true;
    s->failed = record_list_add(&s->list, &schema_gauge, &sample) != 0 || s->failed;
}

/* Adds a sample of a gauge or counter with one label. */
static void add(struct gauge_rows *s, const char *key, const char *of, double value)
{
    char labels[MSG_GAUGE_LABELS_MAX];
    (void)snprintf(labels, sizeof(labels), "%s=%s", key, of);
    add_sample(s, s->type == counter ? "_total" : "", labels, value);
}

/* Adds a gauge or counter without labels. */
static void add_one(struct gauge_rows *s, const char *type, const char *name, const char *help,
                    double value)
{
    begin(s, type, name, help);
    add_sample(s, type == counter ? "_total" : "", "", value);
}

/* Adds a histogram's cumulative buckets with the label `le` in seconds, sum and count. labels: ""
 * or other labels. */
static void add_histogram(struct gauge_rows *s, const char *labels, const struct histogram *h)
{
    static const int bounds[HISTOGRAM_BOUNDS] = HISTOGRAM_BOUNDS_MS;
    uint64_t total = 0;
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        char bucket[MSG_GAUGE_LABELS_MAX];
        char bound[16] = "+Inf";
        if (i < HISTOGRAM_BOUNDS) {
            (void)snprintf(bound, sizeof(bound), "%g", bounds[i] / 1e3);
        }
        total += h->n[i];
        (void)snprintf(bucket, sizeof(bucket), "%s%sle=%s", labels, labels[0] != '\0' ? "," : "",
                       bound);
        add_sample(s, "_bucket", bucket, (double)total);
    }
    add_sample(s, "_sum", labels, (double)h->sum_ms / 1e3);
    add_sample(s, "_count", labels, (double)total);
}

/* Shows the version and the commit as labels, as Prometheus' *_info metrics do. */
static void add_build(struct gauge_rows *s)
{
    char labels[MSG_GAUGE_LABELS_MAX];
    (void)snprintf(labels, sizeof(labels), "version=%s,commit=%s", TFE_VERSION, tfe_commit);
    begin(s, gauge, "tfe_build_info", "Version and commit of the server.");
    add_sample(s, "", labels, 1);
}

static void add_sessions(struct gauge_rows *s, const struct sessions *all)
{
    uint64_t queued = 0;
    const struct session *session;
    TAILQ_FOREACH(session, &all->list, link)
    {
        queued += session->channel ? channel_queued(session->channel) : 0;
    }
    begin(s, gauge, "tfe_sessions", "Connections that have shown a token.");
    add(s, "role", "agent", sessions_shown(all) - admission_count(all->operators));
    add(s, "role", "operator", admission_count(all->operators));
    add_one(s, gauge, "tfe_sessions_max", "Maximum number of connections.", all->n_max);
    add_one(s, gauge, "tfe_half_open", "Connections without a token yet.",
            admission_count(all->unauthenticated));
    add_one(s, gauge, "tfe_queued_bytes", "Bytes queued for peers.", (double)queued);
}

/* Adds up the rows of the core. Those of the registry would have each job's text and waiting reason
 * made for nothing, which takes a third of a second with as many jobs as the pool remembers. */
static void add_jobs(struct gauge_rows *s, const struct sessions *all)
{
    struct msg_status_job job;
    struct tfe_id after = {.text = ""};
    uint64_t jobs = 0, leases = 0, connected = 0;
    while (rdzv_view_job(all->rdzv, jobs > 0 ? after.text : NULL, &job) == 0) {
        (void)id_set(&after, job.job); /* job names of the core are valid ids */
        jobs++;
        leases += job.nodes;
        connected += job.connected;
    }
    jobs += pool_count_unjoined(all->pool);
    add_one(s, gauge, "tfe_jobs", "Jobs that the server knows.", (double)jobs);
    add_one(s, gauge, "tfe_leases", "Nodes that hold a lease.", (double)leases);
    add_one(s, gauge, "tfe_nodes_connected", "Nodes with a connection.", (double)connected);
}

static void add_states(struct gauge_rows *s, const struct pool_count *counts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        add(s, "state", counts[i].state, counts[i].n);
    }
}

static void add_pool(struct gauge_rows *s, struct pool *pool)
{
    struct pool_counts counts;
    pool_count(pool, &counts);
    begin(s, gauge, "tfe_pool_nodes", "Nodes of the pool by state.");
    add_states(s, counts.nodes, sizeof(counts.nodes) / sizeof(counts.nodes[0]));
    begin(s, gauge, "tfe_pool_jobs", "Submitted jobs by state.");
    add_states(s, counts.jobs, sizeof(counts.jobs) / sizeof(counts.jobs[0]));
    add_one(s, gauge, "tfe_pool_queue_oldest_seconds",
            "How long the oldest job of the queue has waited for nodes.",
            (double)counts.oldest_ms / 1e3);
    add_one(s, counter, "tfe_pool_assigned", "Nodes that were given to a job.",
            (double)counts.assigned);
    add_one(s, counter, "tfe_pool_released", "Nodes that were taken from one.",
            (double)counts.released);
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
    char labels[MSG_GAUGE_LABELS_MAX];
    add_one(s, counter, "tfe_renewals", "Renewals of leases.", (double)g->renewals);
    begin(s, counter, "tfe_refusals", "Messages that were refused.");
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        add(s, "code", msg_refusal_name(codes[i]), (double)g->refusals[codes[i]]);
    }
    begin(s, counter, "tfe_epochs", "Epochs that began.");
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        add(s, "cause", msg_cause_name(causes[i]), (double)g->epochs[causes[i]]);
    }
    begin(s, histogram, "tfe_epoch_phase_seconds",
          "Duration of the phases of an epoch's start; whole: from its cause to its first step.");
    for (size_t i = 0; i < PHASE__COUNT; i++) {
        (void)snprintf(labels, sizeof(labels), "phase=%s", phases[i]);
        add_histogram(s, labels, &g->phases[i]);
    }
    begin(s, histogram, "tfe_loop_lag_seconds", "Delay of the server's event loop.");
    add_histogram(s, "", &g->loop);
}

static void add_store(struct gauge_rows *s, struct writer *writer)
{
    struct writer_load load;
    const char *reason;
    struct tfe_mono since;
    writer_measure(writer, &load);
    add_one(s, gauge, "tfe_store_up", "Whether the database accepts writes.",
            writer_health(writer, &reason, &since) == WRITER_WELL);
    add_one(s, gauge, "tfe_store_waiting_rows", "Rows not written yet.", load.waiting);
    begin(s, histogram, "tfe_store_write_seconds", "Duration of database transactions.");
    add_histogram(s, "", &load.writes);
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void add_process(struct gauge_rows *s)
{
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) == 0) {
        begin(s, counter, "tfe_server_cpu_seconds", "Processor time of the server.");
        add(s, "mode", "user", seconds(use.ru_utime));
        add(s, "mode", "system", seconds(use.ru_stime));
        add_one(s, gauge, "tfe_server_memory_peak_bytes", "Peak memory of the server.",
                (double)use.ru_maxrss * 1024);
    }
}

static int gauges_next(struct rows *rows, struct tfe_msg *ret)
{
    struct gauge_rows *s = (struct gauge_rows *)rows;
    *ret = (struct tfe_msg){.type = MSG_STATUS_END};
    if (s->n_sent < s->list.n) {
        const struct msg_gauge *sample = s->list.v[s->n_sent++].at;
        *ret = (struct tfe_msg){.type = MSG_GAUGE, .u.gauge = *sample};
    }
    return 0;
}

static void gauges_free(struct rows *rows)
{
    record_list_done(&((struct gauge_rows *)rows)->list);
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
    add_pool(s, all->pool);
    add_counts(s, all->gauges);
    add_store(s, all->writer);
    add_process(s);
    if (s->failed) {
        gauges_free(&s->rows);
        return TFE_ENOMEM;
    }
    return 0;
}
