/* server/events/agent_reports.c: machine info, statistics and metrics reported by agents. */
#include "server/events/agent_reports.h"

#include <bsd/sys/tree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/base/clock.h"
#include "common/base/id.h"
#include "common/text/text.h"
#include "server/events/straggler.h"
#include "server/events/throughput.h"

/* Minimum interval between the server's own points of a series, and between a script's points. */
#define OWN_POINT_MS 5000
#define POINT_MS 900
/* Time after the last metrics of a rank during which other ranks' metrics are ignored. */
#define REPORTER_MS 10000
/* Minimum interval between checkpoint events, because scripts may save every second. */
#define CHECKPOINT_MS 10000
/* Interval of straggler detection, longer in a large job, because it sorts all reports. */
#define TOKEN_CHECK_MS 5000
#define JUDGE_EACH_MS 2

struct job_report;

struct report {
    LIST_ENTRY(report) link;
    struct job_report *job;
    struct tfe_id node;
    struct msg_machine_info
        *machine_info; /* machine info in one block with its texts; NULL if unknown */
    struct msg_machine_stats machine_stats;
    struct tfe_mono stats_at;
    uint64_t stats_epoch;
    struct straggler slow;
    enum tfe_notice notice; /* last notice; 0 if none */
    struct tfe_wall notice_at, notice_deadline;
    char name[TFE_LABEL_MAX + 1];
};
LIST_HEAD(report_list, report);

struct job_report {
    RB_ENTRY(job_report) link;
    struct tfe_id job;
    struct report_list nodes;
    uint32_t n_nodes;
    uint32_t run;
    uint64_t epoch;
    struct throughput throughput;
    uint64_t total, samples;
    uint32_t reporter;           /* rank whose metrics are stored */
    struct tfe_mono reported_at; /* time of the last stored metrics */
    struct tfe_mono own_at;      /* time when the server's own points are due */
    struct tfe_mono judge_at;
    struct tfe_mono checkpoint_at; /* time before which no checkpoint event is due */
    uint32_t saves;
    bool has_saved;
    uint64_t saved_step;
    struct tfe_wall saved_at; /* when the newest checkpoint was reported; 0 if none was */
    struct report *slowest;   /* slowest straggler; NULL if there is none */
};
RB_HEAD(job_report_tree, job_report);

struct reports {
    const struct rdzv *core;
    struct events *events;
    struct series *series;
    struct job_report_tree jobs; /* jobs with a report of a session, or with known progress */
};

static int compare(const struct job_report *a, const struct job_report *b)
{
    return id_compare(&a->job, &b->job);
}

RB_GENERATE_INTERNAL(job_report_tree, job_report, link, compare, __attribute__((unused)) static)

int reports_new(const struct rdzv *core, struct events *events, struct series *series,
                struct reports **ret)
{
    struct reports *all = calloc(1, sizeof(*all));
    if (!all) {
        return TFE_ENOMEM;
    }
    *all = (struct reports){.core = core, .events = events, .series = series};
    RB_INIT(&all->jobs);
    *ret = all;
    return 0;
}

static void drop_job(struct reports *all, struct job_report *job)
{
    RB_REMOVE(job_report_tree, &all->jobs, job);
    free(job);
}

void reports_free(struct reports *all)
{
    while (all && !RB_EMPTY(&all->jobs)) {
        drop_job(all, RB_ROOT(&all->jobs));
    }
    free(all);
}

/* --- lookup ----------------------------------------------------------------------------------- */

static struct job_report *find(const struct reports *all, const char *name)
{
    struct job_report key;
    struct job_report_tree *tree = (struct job_report_tree *)(uintptr_t)&all->jobs;
    return id_set(&key.job, name) == 0 ? RB_FIND(job_report_tree, tree, &key) : NULL;
}

static struct job_report *job_of(struct reports *all, const char *name)
{
    struct job_report *job = find(all, name);
    if (!job && (job = calloc(1, sizeof(*job))) != NULL) {
        (void)id_set(&job->job, name); /* job names of the core are valid ids */
        LIST_INIT(&job->nodes);
        RB_INSERT(job_report_tree, &all->jobs, job);
    }
    return job;
}

static struct report *report_new(struct reports *all, const struct rdzv_node *place)
{
    struct report *r = calloc(1, sizeof(*r));
    struct job_report *job = r ? job_of(all, place->job) : NULL;
    if (!job) {
        free(r);
        return NULL;
    }
    r->job = job;
    (void)id_set(&r->node, place->node);
    text_setf(r->name, sizeof(r->name), "%s", place->name[0] != '\0' ? place->name : place->node);
    LIST_INSERT_HEAD(&job->nodes, r, link);
    job->n_nodes++;
    return r;
}

void reports_drop(struct reports *all, struct report **at)
{
    struct report *r = *at;
    *at = NULL;
    if (!r) {
        return;
    }
    struct job_report *job = r->job;
    LIST_REMOVE(r, link);
    job->slowest = job->slowest == r ? NULL : job->slowest;
    /* The progress of a job that is suspended or over stays until the job is forgotten. */
    if (--job->n_nodes == 0 && !job->throughput.has_step && job->saved_at.ms == 0) {
        drop_job(all, job);
    }
    free(r->machine_info);
    free(r);
}

void reports_forget(struct reports *all, const char *name)
{
    struct job_report *job = find(all, name);
    if (job && job->n_nodes == 0) {
        drop_job(all, job);
    } else if (job) {
        job->run =
            0; /* a node of a closing session is left: a later job of this name starts anew */
    }
}

/* Resets what belongs to the previous epoch or run. */
static void enter(struct job_report *job, const struct rdzv_node *place)
{
    if (job->epoch == place->epoch && job->run == place->run) {
        return;
    }
    if (job->run != place->run) {
        job->total = job->samples = 0;
        job->throughput.has_step = false;
        job->has_saved = false;
        job->saved_at.ms = 0;
    }
    job->run = place->run;
    job->epoch = place->epoch;
    job->saves = 0;
    job->reporter = UINT32_MAX;
    job->slowest = NULL;
    throughput_begin(&job->throughput);
}

/* --- machine info and notices ----------------------------------------------------------------- */

static size_t text_size(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static const char *put(char **end, const char *text)
{
    char *at = *end;
    if (!text) {
        return NULL;
    }
    *end = stpcpy(at, text) + 1;
    return at;
}

static void handle_machine_info(struct report *r, const struct msg_machine_info *f)
{
    const size_t n = sizeof(*f) + text_size(f->gpu) + text_size(f->tensorflow) +
                     text_size(f->cloud) + text_size(f->zone) + text_size(f->instance) +
                     text_size(f->failed_check);
    struct msg_machine_info *copy = malloc(n);
    if (!copy) {
        return;
    }
    char *end = (char *)(copy + 1);
    *copy = *f;
    copy->gpu = put(&end, f->gpu);
    copy->tensorflow = put(&end, f->tensorflow);
    copy->cloud = put(&end, f->cloud);
    copy->zone = put(&end, f->zone);
    copy->instance = put(&end, f->instance);
    copy->failed_check = put(&end, f->failed_check);
    free(r->machine_info);
    r->machine_info = copy;
}

static void handle_notice(struct report *r, const struct msg_notice *notice)
{
    r->notice = notice->withdrawn ? (enum tfe_notice)0 : notice->kind;
    r->notice_at = clock_wall();
    r->notice_deadline.ms = notice->withdrawn || notice->deadline_ms == MSG_UNSET
                                ? 0
                                : r->notice_at.ms + notice->deadline_ms;
}

/* --- stragglers ------------------------------------------------------------------------------- */

static void report_straggler(struct reports *all, const struct job_report *job,
                             const struct report *r, bool is_slow)
{
    char ours[32];
    char others[32];
    const struct msg_event_row row = {.kind = "slow",
                                      .level = is_slow ? EVENT_WARN : EVENT_INFO,
                                      .job = job->job.text,
                                      .epoch = job->epoch,
                                      .node = r->node.text,
                                      .name = r->name};
    if (!is_slow) {
        events_report(all->events, &row, "%s is as fast as the other nodes again", r->name);
        return;
    }
    events_report(all->events, &row,
                  "%s is slow: a step %s %s, compared with %s on the other nodes (median)", r->name,
                  r->slow.by_work ? "uses the processors for" : "takes",
                  straggler_duration_text(r->slow.own_us, ours),
                  straggler_duration_text(r->slow.others_us, others));
}

static void judge(struct reports *all, struct job_report *job, struct tfe_mono now)
{
    struct straggler_detector token_check;
    struct report *r;
    if (tfe_mono_before(now, job->judge_at) || straggler_begin(&token_check, job->n_nodes) != 0) {
        return;
    }
    job->judge_at = tfe_mono_add(now, TOKEN_CHECK_MS + (int64_t)job->n_nodes * JUDGE_EACH_MS);
    LIST_FOREACH(r, &job->nodes, link)
    {
        if (r->stats_epoch == job->epoch) {
            straggler_add(&token_check, &r->machine_stats);
        }
    }
    straggler_sort(&token_check);
    job->slowest = NULL;
    LIST_FOREACH(r, &job->nodes, link)
    {
        const struct straggler was = r->slow;
        straggler_update(&token_check, r->stats_epoch == job->epoch ? &r->machine_stats : NULL,
                         &r->slow);
        if (straggler_changed(&was, &r->slow)) {
            report_straggler(all, job, r, r->slow.is_slow);
        }
        if (r->slow.is_slow &&
            (!job->slowest || r->slow.times_milli > job->slowest->slow.times_milli)) {
            job->slowest = r;
        }
    }
    straggler_end(&token_check);
}

static void handle_machine_stats(struct reports *all, struct report *r,
                                 const struct msg_machine_stats *machine_stats,
                                 const struct rdzv_node *place)
{
    r->machine_stats = *machine_stats;
    r->stats_at = clock_mono();
    r->stats_epoch = place->has_rank ? place->epoch : 0;
    judge(all, r->job, r->stats_at);
}

/* --- progress and metrics of scripts ---------------------------------------------------------- */

static void add_point(struct reports *all, const struct job_report *job, const char *name,
                      double value)
{
    const struct msg_series_row point = {.job = job->job.text,
                                         .run = job->run,
                                         .name = name,
                                         .epoch = job->epoch,
                                         .step = job->throughput.step,
                                         .value = value};
    (void)series_add(all->series, &point);
}

static void add_own_points(struct reports *all, struct job_report *job, struct tfe_mono now)
{
    double rate;
    if (tfe_mono_before(now, job->own_at)) {
        return;
    }
    job->own_at = tfe_mono_add(now, OWN_POINT_MS);
    if (throughput_steps(&job->throughput, now, &rate)) {
        add_point(all, job, "steps_per_s", rate);
    }
    if (throughput_samples(&job->throughput, now, &rate)) {
        add_point(all, job, "samples_per_s", rate);
    }
}

/* True if a report's metrics are stored. All workers report nearly the same, so only the lowest
 * rank's are. */
static bool is_counted(struct job_report *job, const struct rdzv_node *place, struct tfe_mono now)
{
    if (place->rank > job->reporter && tfe_mono_sub(now, job->reported_at) < REPORTER_MS) {
        return false;
    }
    if (place->rank == job->reporter && tfe_mono_sub(now, job->reported_at) < POINT_MS) {
        return false;
    }
    job->reporter = place->rank;
    job->reported_at = now;
    return true;
}

static void handle_metrics(struct reports *all, struct job_report *job, const struct msg_metrics *m,
                           const struct rdzv_node *place)
{
    const struct tfe_mono now = clock_mono();
    if (!place->has_rank || m->epoch != place->epoch) {
        return;
    }
    if (m->total > 0) {
        job->total = m->total;
    }
    if (m->samples > job->samples) {
        job->samples = m->samples;
    }
    throughput_add(&job->throughput, now, m->step, m->samples);
    if (!is_counted(job, place, now)) {
        return;
    }
    for (size_t i = 0; i < m->n_metrics; i++) {
        const struct msg_series_row point = {.job = job->job.text,
                                             .run = job->run,
                                             .name = m->metrics[i].name,
                                             .epoch = m->epoch,
                                             .step = m->step,
                                             .value = m->metrics[i].value};
        (void)series_add(all->series, &point);
    }
    add_own_points(all, job, now);
}

static void report_checkpoint(struct reports *all, struct job_report *job, const struct report *r)
{
    const struct tfe_mono now = clock_mono();
    const struct msg_event_row row = {.kind = "checkpoint",
                                      .job = job->job.text,
                                      .run = job->run,
                                      .epoch = job->epoch,
                                      .node = r->node.text,
                                      .name = r->name};
    if (tfe_mono_before(now, job->checkpoint_at)) {
        return;
    }
    job->checkpoint_at = tfe_mono_add(now, CHECKPOINT_MS);
    if (job->has_saved) {
        events_report(all->events, &row, "a checkpoint of step %llu was written",
                      (unsigned long long)job->saved_step);
    } else {
        events_report(all->events, &row, "a checkpoint was written");
    }
}

static void handle_progress(struct reports *all, struct report *r, const struct msg_progress *p,
                            const struct rdzv_node *place)
{
    struct job_report *job = r->job;
    if (!place->has_rank || p->epoch != place->epoch) {
        return;
    }
    const struct tfe_mono now = clock_mono();
    if (p->has_step) {
        throughput_add(&job->throughput, now, p->step, 0);
        add_own_points(all, job, now);
    }
    bool is_later = p->has_saved && (!job->has_saved || p->saved_step > job->saved_step);
    if (is_later) {
        job->has_saved = true;
        job->saved_step = p->saved_step;
    }
    if (is_later || p->saves > job->saves) {
        job->saved_at = clock_wall();
    }
    if (p->saves > job->saves) {
        job->saves = p->saves;
        report_checkpoint(all, job, r);
    }
}

static void handle_artifact(struct reports *all, const struct report *r,
                            const struct msg_artifact *a, const struct rdzv_node *place)
{
    const struct msg_event_row kinds[] = {
        [ARTIFACT_STORING] = {.kind = "artifacts_storing",
                              .level = a->error ? EVENT_WARN : EVENT_INFO},
        [ARTIFACT_STORED] = {.kind = "artifacts_stored"},
        [ARTIFACT_FAILED] = {.kind = "artifacts_not_stored", .level = EVENT_ERROR},
    };
    struct msg_event_row row = kinds[a->state];
    const char *error = a->error ? a->error : "";
    if (!place->has_rank || place->rank != 0 || a->epoch != place->epoch) {
        return;
    }
    row.job = place->job;
    row.epoch = a->epoch;
    row.node = r->node.text;
    row.name = r->name;
    if (a->state == ARTIFACT_STORED) {
        events_report(all->events, &row, "%llu %s, %.3g MB, at %s", (unsigned long long)a->files,
                      a->files == 1 ? "file" : "files", (double)a->bytes / 1e6, a->place);
    } else if (a->state == ARTIFACT_FAILED) {
        events_report(all->events, &row, "not stored at %s: %s", a->place, error);
    } else if (a->error) {
        events_report(all->events, &row, "not stored yet at %s: %s", a->place, error);
    } else {
        events_report(all->events, &row, "storing at %s", a->place);
    }
}

void reports_handle(struct reports *all, uint32_t session, struct report **at,
                    const struct tfe_msg *msg)
{
    struct rdzv_node place;
    if (!reports_is_only_handler(msg->type) && msg->type != MSG_MACHINE_INFO &&
        msg->type != MSG_PROGRESS && msg->type != MSG_NOTICE) {
        return;
    }
    if (rdzv_get_session_node(all->core, session, &place) != 0) {
        return;
    }
    struct report *r = *at = *at ? *at : report_new(all, &place);
    if (!r) {
        return;
    }
    enter(r->job, &place);
    switch ((int)msg->type) {
    case MSG_MACHINE_INFO:
        handle_machine_info(r, &msg->u.machine_info);
        break;
    case MSG_MACHINE_STATS:
        handle_machine_stats(all, r, &msg->u.machine_stats, &place);
        break;
    case MSG_METRICS:
        handle_metrics(all, r->job, &msg->u.metrics, &place);
        break;
    case MSG_ARTIFACT:
        handle_artifact(all, r, &msg->u.artifact, &place);
        break;
    case MSG_PROGRESS:
        handle_progress(all, r, &msg->u.progress, &place);
        break;
    case MSG_NOTICE:
        handle_notice(r, &msg->u.notice);
        break;
    }
}

/* --- responses to STATUS ---------------------------------------------------------------------- */

void reports_show_job(const struct reports *all, struct msg_status_job *row)
{
    const struct job_report *job = find(all, row->job);
    if (!job || job->run != row->run) {
        return;
    }
    const struct tfe_mono now = clock_mono();
    row->has_step = job->throughput.has_step;
    row->step = job->throughput.step;
    row->total = job->total;
    row->samples = job->samples;
    row->has_saved = job->has_saved;
    row->saved_step = job->saved_step;
    row->saved = job->saved_at;
    if (job->epoch != row->epoch || row->state != STATE_RUNNING) {
        return;
    }
    row->has_steps_per_s = throughput_steps(&job->throughput, now, &row->steps_per_s);
    row->has_samples_per_s = throughput_samples(&job->throughput, now, &row->samples_per_s);
    if (job->slowest) {
        row->slow = job->slowest->name;
        row->straggler_times_milli = job->slowest->slow.times_milli;
    }
}

void reports_show_node(const struct report *r, struct msg_status_node *row)
{
    if (!r) {
        return;
    }
    if (r->machine_info) {
        row->machine_info = *r->machine_info;
    }
    row->machine_stats = r->machine_stats;
    if (r->stats_epoch == r->job->epoch) {
        row->times_milli = r->slow.times_milli;
        row->slow = r->slow.is_slow;
    } else {
        row->machine_stats.step_us = row->machine_stats.work_us = 0;
    }
    row->notice = r->notice != 0 ? msg_notice_name(r->notice) : NULL;
    row->notice_at = r->notice_at;
    row->notice_deadline = r->notice_deadline;
}
