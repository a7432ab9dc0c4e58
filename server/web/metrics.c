/* server/web/metrics.c: see metrics.h. One scrape queries gauges, then jobs, then the epochs of a
 * few jobs that have changed. */
#include "server/web/metrics.h"

#include <dirent.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/timer.h"
#include "common/records/epoch_summary.h"
#include "common/records/schemas.h"
#include "server/web/calls.h"
#include "server/web/http.h"
#include "server/web/reply.h"
#include "server/web/request.h"
#include "server/web/shares.h"

/* Maximum number of epoch ledgers that one scrape queries. For other jobs the sums of an earlier
 * scrape are used. */
#define LEDGERS_PER_SCRAPE 10
/* Age at which the ledger of a running job is queried again. */
#define LEDGER_OLD_MS 60000

/* Sums of a job's ledger. */
struct ledger_sum {
    struct tfe_id job;
    uint64_t epoch;
    struct tfe_mono at;
    bool is_known;
    int64_t running_ms, standstill_ms;
    double useful; /* percent; negative if unknown */
};

struct metrics {
    struct web *web;
    struct ledger_sum sums[METRICS_JOBS_MAX];
    double started; /* seconds since 1970 */
};

struct scrape {
    struct metrics *metrics;
    struct record_list gauges;
    struct record_list jobs;
    size_t next;      /* index of the job to check next */
    unsigned ledgers; /* ledgers queried by this scrape */
    bool is_open;     /* OpenMetrics; otherwise Prometheus' text format */
    bool is_up;
};

enum type { TYPE_GAUGE, TYPE_COUNTER, TYPE_HISTOGRAM };

/* --- lines --- */

struct out {
    struct evbuffer *to;
    bool is_open;
};

static void head(const struct out *out, const char *family, enum type type, const char *help)
{
    static const char *const types[] = {"gauge", "counter", "histogram"};
    const char *total = type == TYPE_COUNTER && !out->is_open ? "_total" : "";
    (void)evbuffer_add_printf(out->to, "# HELP %s%s %s\n# TYPE %s%s %s\n", family, total, help,
                              family, total, types[type]);
}

static void put_label(struct evbuffer *to, const char *value)
{
    for (; *value != '\0'; value++) {
        (void)evbuffer_add_printf(to, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
    }
}

/* Writes one line; without a label if job is NULL. */
static void job_line(const struct out *out, const char *family, const char *job, double value)
{
    (void)evbuffer_add_printf(out->to, "%s{job=\"", family);
    put_label(out->to, job);
    (void)evbuffer_add_printf(out->to, "\"} %.15g\n", value);
}

static void line(const struct out *out, const char *family, double value)
{
    (void)evbuffer_add_printf(out->to, "%s %.15g\n", family, value);
}

static void one(const struct out *out, const char *family, enum type type, const char *help,
                double value)
{
    char name[96];
    head(out, family, type, help);
    (void)snprintf(name, sizeof(name), "%s%s", family, type == TYPE_COUNTER ? "_total" : "");
    line(out, name, value);
}

/* --- the server's numbers --- */

static const struct family {
    const char *gauge; /* name of the server's gauge, without _total, _bucket, _sum */
    const char *name;
    enum type type;
    double scale; /* factor from the gauge to the metric */
    const char *help;
} families[] = {
    {"build_info", "tfe_build_info", TYPE_GAUGE, 1, "Version and commit of the server."},
    {"sessions", "tfe_sessions", TYPE_GAUGE, 1, "Connections that have shown a token."},
    {"sessions_max", "tfe_sessions_max", TYPE_GAUGE, 1, "Maximum number of connections."},
    {"half_open", "tfe_half_open", TYPE_GAUGE, 1, "Connections without a token yet."},
    {"queued_bytes", "tfe_queued_bytes", TYPE_GAUGE, 1, "Bytes queued for peers."},
    {"jobs", "tfe_jobs", TYPE_GAUGE, 1, "Jobs that the server knows."},
    {"leases", "tfe_leases", TYPE_GAUGE, 1, "Nodes that hold a lease."},
    {"nodes_connected", "tfe_nodes_connected", TYPE_GAUGE, 1, "Nodes with a connection."},
    {"pool_nodes", "tfe_pool_nodes", TYPE_GAUGE, 1, "Nodes of the pool by state."},
    {"pool_jobs", "tfe_pool_jobs", TYPE_GAUGE, 1, "Submitted jobs by state."},
    {"pool_queue_oldest_ms", "tfe_pool_queue_oldest_seconds", TYPE_GAUGE, 0.001,
     "How long the oldest job of the queue has waited for nodes."},
    {"pool_assigned", "tfe_pool_assigned", TYPE_COUNTER, 1, "Nodes that were given to a job."},
    {"pool_released", "tfe_pool_released", TYPE_COUNTER, 1, "Nodes that were taken from one."},
    {"renewals", "tfe_renewals", TYPE_COUNTER, 1, "Renewals of leases."},
    {"refusals", "tfe_refusals", TYPE_COUNTER, 1, "Messages that were refused."},
    {"epochs", "tfe_epochs", TYPE_COUNTER, 1, "Epochs that began."},
    {"standstill_ms", "tfe_epoch_phase_seconds", TYPE_HISTOGRAM, 0.001,
     "Duration of the phases of an epoch's start; whole: from its cause to its first step."},
    {"loop_lag_ms", "tfe_loop_lag_seconds", TYPE_HISTOGRAM, 0.001,
     "Delay of the server's event loop."},
    {"store_up", "tfe_store_up", TYPE_GAUGE, 1, "Whether the database accepts writes."},
    {"store_waiting_rows", "tfe_store_waiting_rows", TYPE_GAUGE, 1, "Rows not written yet."},
    {"store_write_ms", "tfe_store_write_seconds", TYPE_HISTOGRAM, 0.001,
     "Duration of database transactions."},
    {"server_cpu_ms", "tfe_server_cpu_seconds", TYPE_COUNTER, 0.001,
     "Processor time of the server."},
    {"server_memory_peak_bytes", "tfe_server_memory_peak_bytes", TYPE_GAUGE, 1,
     "Peak memory of the server."},
};

/* Returns the family of a gauge and, in *ret, the suffix of its name, as "_bucket". NULL if tfe-web
 * does not know it. */
static const struct family *family_of(const char *gauge, const char **ret_rest)
{
    static const char *const rests[] = {"", "_total", "_bucket", "_sum"};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const size_t n = strlen(families[i].gauge);
        for (size_t k = 0; k < sizeof(rests) / sizeof(rests[0]); k++) {
            if (strncmp(gauge, families[i].gauge, n) == 0 && strcmp(gauge + n, rests[k]) == 0) {
                *ret_rest = rests[k];
                return &families[i];
            }
        }
    }
    return NULL;
}

/* Writes "phase=stop,le=100" as {phase="stop",le="0.1"}. without_le: omits the label le, which sums
 * and counts do not have. */
static void put_labels(struct evbuffer *to, const char *labels, double scale, bool without_le)
{
    const char *before = "{";
    while (*labels != '\0') {
        size_t n = strcspn(labels, ",");
        size_t key = strcspn(labels, "=");
        bool is_le = key == 2 && strncmp(labels, "le", 2) == 0;
        if (key < n && !(is_le && without_le)) {
            (void)evbuffer_add_printf(to, "%s%.*s=\"", before, (int)key, labels);
            if (is_le && strncmp(labels + 3, "inf", 3) == 0) {
                (void)evbuffer_add_printf(to, "+Inf");
            } else if (is_le) {
                (void)evbuffer_add_printf(to, "%g", strtod(labels + 3, NULL) * scale);
            } else {
                char value[MSG_GAUGE_LABELS_MAX];
                (void)snprintf(value, sizeof(value), "%.*s", (int)(n - key - 1), labels + key + 1);
                put_label(to, value);
            }
            (void)evbuffer_add_printf(to, "\"");
            before = ",";
        }
        labels += n;
        labels += *labels == ',';
    }
    (void)evbuffer_add_printf(to, "%s", before[0] == ',' ? "} " : " ");
}

static void put_gauges(const struct out *out, const struct record_list *gauges)
{
    const struct family *at = NULL;
    for (size_t i = 0; i < gauges->n; i++) {
        const struct msg_gauge *gauge = gauges->v[i].at;
        const char *rest;
        const struct family *family = family_of(gauge->name, &rest);
        if (!family) {
            continue; /* from a newer server */
        }
        if (family != at) {
            head(out, family->name, family->type, family->help);
            at = family;
        }
        bool is_bucket = strcmp(rest, "_bucket") == 0;
        (void)evbuffer_add_printf(out->to, "%s%s", family->name, rest);
        put_labels(out->to, gauge->labels, family->scale, false);
        (void)evbuffer_add_printf(out->to, "%.15g\n",
                                  (double)gauge->value * (is_bucket ? 1 : family->scale));
        const char *le = is_bucket ? strstr(gauge->labels, "le=inf") : NULL;
        if (le) {
            (void)evbuffer_add_printf(out->to, "%s_count", family->name);
            put_labels(out->to, gauge->labels, family->scale, true);
            (void)evbuffer_add_printf(out->to, "%" PRIu64 "\n", gauge->value);
        }
    }
}

/* --- jobs --- */

static bool is_running(const struct msg_status_job *job)
{
    return job->state == STATE_RUNNING;
}

static struct ledger_sum *sum_of(struct metrics *metrics, const char *job)
{
    for (size_t i = 0; i < METRICS_JOBS_MAX; i++) {
        if (strcmp(metrics->sums[i].job.text, job) == 0) {
            return &metrics->sums[i];
        }
    }
    return NULL;
}

enum of_job {
    JOB_MEMBERS,
    JOB_NODES,
    JOB_MIN,
    JOB_MAX,
    JOB_EPOCH,
    JOB_IS_RUNNING,
    JOB_IS_WAITING,
    JOB_RESTARTS,
    JOB_RESTARTS_LEFT,
    JOB_STEP,
    JOB_STEPS_PER_S,
    JOB_STATE_MEMORY,
    JOB_STANDSTILL,
    JOB_TRAINED,
    JOB_USEFUL,
    JOB__COUNT
};

static const struct {
    const char *name, *help;
    bool is_of_one; /* a sum over jobs has no meaning */
} job_families[JOB__COUNT] = {
    [JOB_MEMBERS] = {"tfe_job_members", "Nodes of the job's epoch.", false},
    [JOB_NODES] = {"tfe_job_nodes", "Nodes of the job, including spares.", false},
    [JOB_MIN] = {"tfe_job_nodes_min", "Minimum number of nodes.", false},
    [JOB_MAX] = {"tfe_job_nodes_max", "Maximum number of nodes.", false},
    [JOB_EPOCH] = {"tfe_job_epoch", "Number of its epoch.", true},
    [JOB_IS_RUNNING] = {"tfe_job_running", "Whether it trains.", false},
    [JOB_IS_WAITING] = {"tfe_job_waiting", "Whether it waits for something.", false},
    [JOB_RESTARTS] = {"tfe_job_restarts_used", "Restarts of its budget that are used up.", false},
    [JOB_RESTARTS_LEFT] = {"tfe_job_restarts_left", "Restarts that its budget has left.", false},
    [JOB_STEP] = {"tfe_job_step", "Last step that its scripts reported.", true},
    [JOB_STEPS_PER_S] = {"tfe_job_steps_per_second",
                         "Steps per second, if its scripts report steps.", false},
    [JOB_STATE_MEMORY] = {"tfe_job_state_memory_bytes",
                          "Memory that its agents lend for the state of their trainers.", false},
    [JOB_STANDSTILL] = {"tfe_job_standstill_seconds", "Total downtime.", false},
    [JOB_TRAINED] = {"tfe_job_trained_seconds", "Total training time.", false},
    [JOB_USEFUL] = {"tfe_job_useful_ratio",
                    "Training time as a share of training time and downtime.", true},
};

/* Returns false if the value is unknown. */
static bool value_of(struct metrics *metrics, const struct msg_status_job *job, enum of_job what,
                     double *ret)
{
    const struct ledger_sum *sum = what >= JOB_STANDSTILL ? sum_of(metrics, job->job) : NULL;
    bool has_sum = sum && sum->is_known;
    switch (what) {
    case JOB_MEMBERS:
        *ret = job->members;
        return true;
    case JOB_NODES:
        *ret = job->nodes;
        return true;
    case JOB_MIN:
        *ret = job->min_nodes;
        return true;
    case JOB_MAX:
        *ret = job->max_nodes;
        return true;
    case JOB_EPOCH:
        *ret = (double)job->epoch;
        return true;
    case JOB_IS_RUNNING:
        *ret = is_running(job);
        return true;
    case JOB_IS_WAITING:
        *ret = job->waits != NULL;
        return true;
    case JOB_RESTARTS:
        *ret = job->restarts;
        return true;
    case JOB_RESTARTS_LEFT:
        *ret = job->restarts_left;
        return true;
    case JOB_STEP:
        *ret = (double)job->step;
        return job->has_step;
    case JOB_STEPS_PER_S:
        *ret = job->steps_per_s;
        return job->has_steps_per_s;
    case JOB_STATE_MEMORY:
        *ret = (double)job->memory_bytes;
        return true;
    case JOB_STANDSTILL:
        *ret = has_sum ? (double)sum->standstill_ms / 1000 : 0;
        return has_sum;
    case JOB_TRAINED:
        *ret = has_sum ? (double)sum->running_ms / 1000 : 0;
        return has_sum;
    case JOB_USEFUL:
        *ret = has_sum ? sum->useful / 100 : 0;
        return has_sum && sum->useful >= 0;
    case JOB__COUNT:
        break;
    }
    return false;
}

static void put_jobs(const struct out *out, struct metrics *metrics, const struct record_list *jobs)
{
    for (unsigned what = 0; what < JOB__COUNT; what++) {
        unsigned n = 0;
        unsigned rest = 0;
        double others = 0;
        head(out, job_families[what].name, TYPE_GAUGE, job_families[what].help);
        for (size_t i = 0; i < jobs->n; i++) {
            const struct msg_status_job *job = jobs->v[i].at;
            double value;
            if (jobs->v[i].schema != &schema_job || msg_job_is_over(job->state)) {
                continue;
            }
            bool is_known = value_of(metrics, job, (enum of_job)what, &value);
            if (n++ < METRICS_JOBS_MAX) {
                if (is_known) {
                    job_line(out, job_families[what].name, job->job, value);
                }
            } else if (is_known && !job_families[what].is_of_one) {
                others += value;
                rest++;
            }
        }
        if (rest > 0) {
            job_line(out, job_families[what].name, "", others);
        }
    }
}

/* --- this program --- */

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void put_own(const struct out *out, const struct metrics *metrics)
{
    const struct web *web = metrics->web;
    struct rusage use;
    struct rlimit files;
    long pages = 0;
    char line[128];
    FILE *statm = fopen("/proc/self/statm", "re");
    if (statm) {
        const char *resident = fgets(line, sizeof(line), statm) ? strchr(line, ' ') : NULL;
        pages = resident ? strtol(resident, NULL, 10) : 0;
        (void)fclose(statm);
    }
    unsigned open_files = 0;
    DIR *fds = opendir("/proc/self/fd");
    while (fds && readdir(fds)) {
        open_files++;
    }
    if (fds) {
        (void)closedir(fds);
    }
    one(out, "tfe_web_connections", TYPE_GAUGE, "HTTP connections.", http_connections(web->http));
    one(out, "tfe_web_connections_shut", TYPE_COUNTER,
        "HTTP connections closed for being slow or to make room.", (double)http_shut(web->http));
    one(out, "tfe_web_requests", TYPE_COUNTER, "HTTP requests.", (double)web->n_requests);
    one(out, "tfe_web_pages", TYPE_GAUGE, "Open event streams.",
        shares_count(web->shares, SHARE_STREAMS));
    one(out, "tfe_web_pages_cut", TYPE_COUNTER, "Event streams closed by tfe-web.",
        (double)web->n_cut);
    if (getrusage(RUSAGE_SELF, &use) == 0) {
        one(out, "process_cpu_seconds", TYPE_COUNTER, "Processor time of this program.",
            seconds(use.ru_utime) + seconds(use.ru_stime));
    }
    one(out, "process_resident_memory_bytes", TYPE_GAUGE, "Memory of this program.",
        (double)pages * (double)sysconf(_SC_PAGESIZE));
    one(out, "process_open_fds", TYPE_GAUGE, "Open descriptors of this program.",
        open_files > 3 ? open_files - 3 : 0);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        one(out, "process_max_fds", TYPE_GAUGE, "Maximum number of descriptors of this program.",
            (double)files.rlim_cur);
    }
    one(out, "process_start_time_seconds", TYPE_GAUGE, "When this program started, since 1970.",
        metrics->started);
}

/* --- a scrape --- */

static void scrape_free(void *own)
{
    struct scrape *scrape = own;
    record_list_done(&scrape->gauges);
    record_list_done(&scrape->jobs);
    free(scrape);
}

static void show(struct call *call)
{
    struct scrape *scrape = call->own;
    struct out out = {.to = evbuffer_new(), .is_open = scrape->is_open};
    if (!out.to) {
        reply_problem(call_end(call), 503, "no_memory", "out of memory");
        return;
    }
    one(&out, "tfe_up", TYPE_GAUGE, "Whether the server responds.", scrape->is_up);
    put_gauges(&out, &scrape->gauges);
    if (scrape->is_up) {
        put_jobs(&out, scrape->metrics, &scrape->jobs);
    }
    put_own(&out, scrape->metrics);
    if (out.is_open) {
        (void)evbuffer_add_printf(out.to, "# EOF\n");
    }
    const char *type = out.is_open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                   : "text/plain; version=0.0.4; charset=utf-8";
    reply_buffer(call_end(call), type, out.to);
    evbuffer_free(out.to);
}

static bool is_old(const struct ledger_sum *sum, const struct msg_status_job *job,
                   struct tfe_mono now)
{
    return !sum || !sum->is_known || sum->epoch != job->epoch ||
           (is_running(job) && tfe_mono_sub(now, sum->at) > LEDGER_OLD_MS);
}

/* Returns the entry for the job: its own, a free one, or the one that was read longest ago. */
static struct ledger_sum *place_of(struct metrics *metrics, const char *job)
{
    struct ledger_sum *place = sum_of(metrics, job);
    for (size_t i = 0; !place && i < METRICS_JOBS_MAX; i++) {
        place = metrics->sums[i].job.text[0] == '\0' ? &metrics->sums[i] : NULL;
    }
    for (size_t i = 0;
         !sum_of(metrics, job) && (!place || place->job.text[0] != '\0') && i < METRICS_JOBS_MAX;
         i++) {
        if (!place || tfe_mono_before(metrics->sums[i].at, place->at)) {
            place = &metrics->sums[i];
        }
    }
    return place;
}

static void next_ledger(struct call *call);

static void on_ledger(struct call *call)
{
    struct scrape *scrape = call->own;
    struct ledger_sum *sum = place_of(scrape->metrics, call->name);
    const struct msg_status_job *job = scrape->jobs.v[scrape->next - 1].at;
    struct epochs_total total;
    epochs_compute(&call->ask.list, clock_wall());
    epochs_sum(&call->ask.list, clock_wall(), &total);
    *sum = (struct ledger_sum){.epoch = job->epoch,
                               .at = clock_mono(),
                               .is_known = true,
                               .running_ms = total.running,
                               .standstill_ms = total.standstill_all,
                               .useful = total.useful};
    (void)id_set(&sum->job, call->name);
    record_list_done(&call->ask.list);
    next_ledger(call);
}

/* The job was forgotten meanwhile, or the server is not reachable. */
static void on_no_ledger(struct call *call)
{
    if (call->is_late) {
        show(call);
    } else {
        next_ledger(call);
    }
}

static void next_ledger(struct call *call)
{
    struct scrape *scrape = call->own;
    struct tfe_mono now = clock_mono();
    unsigned n = 0;
    for (; scrape->next < scrape->jobs.n && scrape->ledgers < LEDGERS_PER_SCRAPE &&
           n < METRICS_JOBS_MAX;
         n++) {
        const struct record *row = &scrape->jobs.v[scrape->next++];
        const struct msg_status_job *job = row->at;
        if (row->schema != &schema_job || msg_job_is_over(job->state) || job->epoch == 0 ||
            !is_old(sum_of(scrape->metrics, job->job), job, now)) {
            continue;
        }
        scrape->ledgers++;
        (void)snprintf(call->name, sizeof(call->name), "%s", job->job);
        call->message = (struct tfe_msg){.type = MSG_EPOCHS, .u.epochs = {.job = call->name}};
        call->answer = on_ledger;
        call->failed = on_no_ledger;
        call_send(call);
        return;
    }
    show(call);
}

static void on_jobs(struct call *call)
{
    struct scrape *scrape = call->own;
    scrape->jobs = call->ask.list;
    call->ask.list = (struct record_list){.v = NULL};
    next_ledger(call);
}

static void ask_jobs(struct call *call)
{
    ((struct scrape *)call->own)->is_up = true;
    call->message = (struct tfe_msg){.type = MSG_STATUS, .u.status.jobs_only = true};
    call->answer = on_jobs;
    call->failed = show;
    call_send(call);
}

static void on_gauges(struct call *call)
{
    struct scrape *scrape = call->own;
    scrape->gauges = call->ask.list;
    call->ask.list = (struct record_list){.v = NULL};
    ask_jobs(call);
}

/* A token for some jobs may not see the server's gauges. */
static void on_no_gauges(struct call *call)
{
    if (call->end == CLIENT_REFUSED) {
        ask_jobs(call);
    } else {
        show(call);
    }
}

/* Prometheus sends its time limit. The response has to come before it, even if the server is
 * silent: Prometheus discards a late response, and tfe-web would seem to be down. */
static void heed_patience(struct call *call)
{
    const char *said = http_header(call->req, "X-Prometheus-Scrape-Timeout-Seconds");
    double ms = said ? strtod(said, NULL) * 1000 * 3 / 4 : 0;
    if (ms >= 1 && ms < CALL_MS) {
        (void)timer_after(call->deadline, (int64_t)ms);
    }
}

void metrics_show(struct request *r)
{
    const char *accept = http_header(r->req, "Accept");
    struct call *call = call_new(r, r->view);
    struct scrape *scrape = call ? calloc(1, sizeof(*scrape)) : NULL;
    if (!call) {
        return;
    }
    if (!scrape) {
        reply_problem(call_end(call), 503, "no_memory", "out of memory");
        return;
    }
    heed_patience(call);
    scrape->metrics = r->web->metrics;
    scrape->is_open = accept && strstr(accept, "application/openmetrics-text");
    call->own = scrape;
    call->own_free = scrape_free;
    call->message = (struct tfe_msg){.type = MSG_GAUGES};
    call->answer = on_gauges;
    call->failed = on_no_gauges;
    call_send(call);
}

int metrics_new(struct web *web, struct metrics **ret)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));
    if (!metrics) {
        return TFE_ENOMEM;
    }
    metrics->web = web;
    metrics->started = (double)clock_wall().ms / 1000;
    *ret = metrics;
    return 0;
}

void metrics_free(struct metrics *metrics)
{
    free(metrics);
}
