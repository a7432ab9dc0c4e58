/* server/web/metrics.c: see metrics.h. One scrape queries gauges, then jobs, then the epochs of a
 * few jobs that have changed. */
#include "server/web/metrics.h"

#include <dirent.h>
#include <event2/buffer.h>
#include <math.h>
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
    double trained_s, standstill_s;
    double useful; /* ratio; NAN if unknown */
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

/* --- lines --- */

struct out {
    struct evbuffer *to;
    bool is_open;
};

/* Begins a family. Prometheus' text format names a counter with its suffix, OpenMetrics without. */
static void head(const struct out *out, const char *family, const char *type, const char *help)
{
    const char *total = strcmp(type, "counter") == 0 && !out->is_open ? "_total" : "";
    (void)evbuffer_add_printf(out->to, "# HELP %s%s %s\n# TYPE %s%s %s\n", family, total, help,
                              family, total, type);
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

/* Writes a family with one line. */
static void one(const struct out *out, const char *family, const char *type, const char *help,
                double value)
{
    head(out, family, type, help);
    (void)evbuffer_add_printf(out->to, "%s%s %.15g\n", family,
                              strcmp(type, "counter") == 0 ? "_total" : "", value);
}

/* --- the server's numbers --- */

/* Begins the family of its first number, whose name has the suffix of its type. */
static void put_family(const struct out *out, const struct msg_gauge *gauge)
{
    char family[96];
    const char *suffix = strcmp(gauge->type, "counter") == 0     ? "_total"
                         : strcmp(gauge->type, "histogram") == 0 ? "_bucket"
                                                                 : "";
    const size_t n = strlen(gauge->name);
    const size_t n_suffix = strlen(suffix);
    const bool has_suffix = n > n_suffix && strcmp(gauge->name + n - n_suffix, suffix) == 0;
    (void)snprintf(family, sizeof(family), "%.*s", (int)(has_suffix ? n - n_suffix : n),
                   gauge->name);
    head(out, family, gauge->type, gauge->help);
}

/* Writes "phase=stop,le=0.1" as {phase="stop",le="0.1"}. */
static void put_labels(struct evbuffer *to, const char *labels)
{
    const char *before = "{";
    while (*labels != '\0') {
        char value[MSG_GAUGE_LABELS_MAX];
        const size_t n = strcspn(labels, ",");
        const size_t key = strcspn(labels, "=");
        if (key < n) {
            (void)snprintf(value, sizeof(value), "%.*s", (int)(n - key - 1), labels + key + 1);
            (void)evbuffer_add_printf(to, "%s%.*s=\"", before, (int)key, labels);
            put_label(to, value);
            (void)evbuffer_add_printf(to, "\"");
            before = ",";
        }
        labels += n;
        labels += *labels == ',';
    }
    (void)evbuffer_add_printf(to, "%s", before[0] == ',' ? "}" : "");
}

static void put_gauges(const struct out *out, const struct record_list *gauges)
{
    for (size_t i = 0; i < gauges->n; i++) {
        const struct msg_gauge *gauge = gauges->v[i].at;
        if (gauge->type && gauge->help) {
            put_family(out, gauge);
        }
        (void)evbuffer_add_printf(out->to, "%s", gauge->name);
        put_labels(out->to, gauge->labels);
        (void)evbuffer_add_printf(out->to, " %.15g\n", gauge->value);
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

/* Numbers of a job that are no fields of its record. NAN: unknown. */
static double running(struct metrics *metrics, const struct msg_status_job *job)
{
    return is_running(job);
}

static double waiting(struct metrics *metrics, const struct msg_status_job *job)
{
    return job->waits != NULL;
}

static double standstill(struct metrics *metrics, const struct msg_status_job *job)
{
    const struct ledger_sum *sum = sum_of(metrics, job->job);
    return sum ? sum->standstill_s : NAN;
}

static double trained(struct metrics *metrics, const struct msg_status_job *job)
{
    const struct ledger_sum *sum = sum_of(metrics, job->job);
    return sum ? sum->trained_s : NAN;
}

static double useful(struct metrics *metrics, const struct msg_status_job *job)
{
    const struct ledger_sum *sum = sum_of(metrics, job->job);
    return sum ? sum->useful : NAN;
}

static const struct job_family {
    const char *name, *help;
    const char *key; /* key of the field in the job's record; NULL if `value` computes it */
    double (*value)(struct metrics *metrics, const struct msg_status_job *job);
    bool is_of_one; /* a sum over jobs has no meaning */
} job_families[] = {
    {"tfe_job_members", "Nodes of the job's epoch.", .key = "members"},
    {"tfe_job_nodes", "Nodes of the job, including spares.", .key = "nodes_known"},
    {"tfe_job_nodes_min", "Minimum number of nodes.", .key = "min"},
    {"tfe_job_nodes_max", "Maximum number of nodes.", .key = "max"},
    {"tfe_job_epoch", "Number of its epoch.", .key = "epoch", .is_of_one = true},
    {"tfe_job_running", "Whether it trains.", .value = running},
    {"tfe_job_waiting", "Whether it waits for something.", .value = waiting},
    {"tfe_job_restarts_used", "Used restarts of its budget.", .key = "restarts"},
    {"tfe_job_restarts_left", "Remaining restarts of its budget.", .key = "restarts_left"},
    {"tfe_job_step", "Last step that its scripts reported.", .key = "step", .is_of_one = true},
    {"tfe_job_steps_per_second", "Steps per second, if its scripts report steps.",
     .key = "steps_per_s"},
    {"tfe_job_state_memory_bytes", "Memory that its agents lend for the state of their trainers.",
     .key = "memory_bytes"},
    {"tfe_job_standstill_seconds", "Total downtime.", .value = standstill},
    {"tfe_job_trained_seconds", "Total training time.", .value = trained},
    {"tfe_job_useful_ratio", "Training time as a share of training time and downtime.",
     .value = useful, .is_of_one = true},
};

/* Returns NAN if the value is unknown. */
static double value_of(struct metrics *metrics, const struct msg_status_job *job,
                       const struct job_family *family)
{
    char buf[RECORD_TEXT_MAX];
    const void *row = job;
    if (!family->key) {
        return family->value(metrics, job);
    }
    const struct record_field *field = record_find_field(&schema_job, family->key, NULL, &row);
    const struct record_value value = record_value(field, row, buf);
    if (value.form == RECORD_IS_REAL) {
        return value.real;
    }
    return value.form == RECORD_IS_NUMBER ? (double)value.number : NAN;
}

static void put_job_family(const struct out *out, struct metrics *metrics,
                           const struct record_list *jobs, const struct job_family *family)
{
    unsigned n = 0;
    unsigned rest = 0;
    double others = 0;
    head(out, family->name, "gauge", family->help);
    for (size_t i = 0; i < jobs->n; i++) {
        const struct msg_status_job *job = jobs->v[i].at;
        if (jobs->v[i].schema != &schema_job || msg_job_is_over(job->state)) {
            continue;
        }
        const double value = value_of(metrics, job, family);
        const bool has_line = n++ < METRICS_JOBS_MAX;
        if (isnan(value)) {
            continue;
        }
        if (has_line) {
            job_line(out, family->name, job->job, value);
        } else if (!family->is_of_one) {
            others += value;
            rest++;
        }
    }
    if (rest > 0) {
        job_line(out, family->name, "", others);
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
    one(out, "tfe_web_connections", "gauge", "HTTP connections.", http_connections(web->http));
    one(out, "tfe_web_connections_shut", "counter",
        "HTTP connections closed for being slow or to make room.", (double)http_shut(web->http));
    one(out, "tfe_web_requests", "counter", "HTTP requests.", (double)web->n_requests);
    one(out, "tfe_web_pages", "gauge", "Open event streams.",
        shares_count(web->shares, SHARE_STREAMS));
    one(out, "tfe_web_pages_cut", "counter", "Event streams closed by tfe-web.",
        (double)web->n_cut);
    if (getrusage(RUSAGE_SELF, &use) == 0) {
        one(out, "process_cpu_seconds", "counter", "Processor time of this program.",
            seconds(use.ru_utime) + seconds(use.ru_stime));
    }
    one(out, "process_resident_memory_bytes", "gauge", "Memory of this program.",
        (double)pages * (double)sysconf(_SC_PAGESIZE));
    one(out, "process_open_fds", "gauge", "Open descriptors of this program.",
        open_files > 3 ? open_files - 3 : 0);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        one(out, "process_max_fds", "gauge", "Maximum number of descriptors of this program.",
            (double)files.rlim_cur);
    }
    one(out, "process_start_time_seconds", "gauge", "When this program started, since 1970.",
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
    one(&out, "tfe_up", "gauge", "Whether the server responds.", scrape->is_up);
    put_gauges(&out, &scrape->gauges);
    for (size_t i = 0; scrape->is_up && i < sizeof(job_families) / sizeof(job_families[0]); i++) {
        put_job_family(&out, scrape->metrics, &scrape->jobs, &job_families[i]);
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
    return !sum || sum->epoch != job->epoch ||
           (is_running(job) && tfe_mono_sub(now, sum->at) > LEDGER_OLD_MS);
}

/* Returns the entry for the job: its own, or the one that was read longest ago; a free one was
 * never read. */
static struct ledger_sum *place_of(struct metrics *metrics, const char *job)
{
    struct ledger_sum *place = sum_of(metrics, job);
    for (size_t i = 0; !sum_of(metrics, job) && i < METRICS_JOBS_MAX; i++) {
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
    epochs_compute(&call->request.list, clock_wall());
    epochs_sum(&call->request.list, clock_wall(), &total);
    *sum = (struct ledger_sum){.epoch = job->epoch,
                               .at = clock_mono(),
                               .trained_s = (double)total.running / 1e3,
                               .standstill_s = (double)total.standstill_all / 1e3,
                               .useful = total.useful >= 0 ? total.useful / 100 : NAN};
    (void)id_set(&sum->job, call->name);
    record_list_done(&call->request.list);
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
    scrape->jobs = call->request.list;
    call->request.list = (struct record_list){.v = NULL};
    next_ledger(call);
}

static void request_jobs(struct call *call)
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
    scrape->gauges = call->request.list;
    call->request.list = (struct record_list){.v = NULL};
    request_jobs(call);
}

/* A token for some jobs may not see the server's gauges. */
static void on_no_gauges(struct call *call)
{
    if (call->end == CLIENT_REFUSED) {
        request_jobs(call);
    } else {
        show(call);
    }
}

/* Applies the time limit that Prometheus sends. The response must precede it even if the server is
 * silent: Prometheus discards a late response, and tfe-web would seem to be down. */
static void apply_scrape_timeout(struct call *call)
{
    const char *header = http_header(call->req, "X-Prometheus-Scrape-Timeout-Seconds");
    double ms = header ? strtod(header, NULL) * 1000 * 3 / 4 : 0;
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
    apply_scrape_timeout(call);
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
