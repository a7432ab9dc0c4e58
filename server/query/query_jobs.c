/* server/query/query_jobs.c: lists jobs and their nodes from the state of the core and the pool. */
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/id.h"
#include "server/core/rdzv.h"
#include "server/events/event_log.h"
#include "server/jobs/job_registry.h"
#include "server/query/record_source.h"
#include "server/session.h"
#include "server/store/writer.h"

/* A late server is reported for this long after it was late. */
#define LATE_MS 60000

struct status_rows {
    struct rows rows;
    const struct sessions *all;
    const struct rdzv *core;
    const struct principal *by;
    unsigned n_checked; /* health checks done so far (the store, then lateness) */
    struct tfe_id job;  /* current job, or the last one listed; "" before the first */
    struct tfe_id node; /* last node listed; "" before the first */
    uint32_t n_jobs;
    bool one; /* true if the request names one job */
    bool jobs_only;
    bool detail;
    bool in_job;
    bool in_series;
    unsigned condition;   /* index of the next condition */
    bool has_artifacts;   /* the condition of the artifacts was listed */
    struct tfe_id pooled; /* last pool node listed; "" before the first */
    char condition_name[CONDITION_NAME_MAX];
    char metric[MSG_METRIC_NAME_MAX + 1]; /* last metric listed; "" before the first */
    char sentence[TFE_ID_MAX + 64];
    char waits[MSG_SENTENCE_MAX]; /* what the listed node waits for */
    struct registry_texts texts;  /* texts of the listed job */
};

static const char *after(const struct tfe_id *id)
{
    return id->text[0] != '\0' ? id->text : NULL;
}

static struct msg_health health(const char *component, const char *message, struct tfe_mono since)
{
    int64_t ms = tfe_mono_sub(clock_mono(), since);
    uint32_t ago = ms < 1 ? 1 : ms > MSG_DURATION_MAX_MS ? MSG_DURATION_MAX_MS : (uint32_t)ms;
    return (struct msg_health){.component = component, .message = message, .since_ms = ago};
}

static bool store_is_ill(struct status_rows *s, struct msg_health *ret)
{
    const char *reason = "";
    struct tfe_mono since;
    switch (writer_health(s->all->writer, &reason, &since)) {
    case WRITER_FAILS:
        (void)snprintf(s->waits, sizeof(s->waits),
                       "database writes fail (%s): running epochs continue, no new epoch begins",
                       reason);
        *ret = health("store", s->waits, since);
        return true;
    case WRITER_HANGS:
        *ret = health(
            "disk",
            "a database write does not complete: running epochs continue, no new epoch begins",
            since);
        return true;
    case WRITER_WELL:
        break;
    }
    return false;
}

static bool was_late(const struct status_rows *s, struct msg_health *ret)
{
    struct tfe_mono late = rdzv_view_late(s->core);
    if (late.ms == 0 || tfe_mono_sub(clock_mono(), late) > LATE_MS) {
        return false;
    }
    *ret = health("late",
                  "the server's event loop was delayed: its machine is overloaded or was "
                  "suspended; no node is lost because of this",
                  late);
    return true;
}

static bool next_health(struct status_rows *s, struct msg_health *ret)
{
    bool is_ill = false;
    while (!is_ill && s->n_checked < 2) {
        is_ill = s->n_checked++ == 0 ? store_is_ill(s, ret) : was_late(s, ret);
    }
    return is_ill;
}

static bool next_node(struct status_rows *s, struct msg_status_node *ret)
{
    s->in_job = s->in_job && rdzv_view_node(s->core, s->job.text, after(&s->node), ret) == 0;
    if (s->in_job) {
        struct rdzv_node node;
        const struct session *of =
            rdzv_get_node(s->core, s->job.text, ret->node, &node) == 0 && node.session < s->all->max
                ? s->all->by_number[node.session]
                : NULL;
        rdzv_view_node_waits(s->core, s->job.text, ret, s->waits);
        reports_show_node(of ? of->report : NULL, ret);
    }
    return s->in_job && id_set(&s->node, ret->node) == 0;
}

static bool next_job(struct status_rows *s, struct msg_status_job *ret)
{
    do {
        if (s->one ? s->n_jobs > 0 || registry_find(s->all, s->job.text, &s->texts, ret) != 0
                   : registry_next(s->all, after(&s->job), &s->texts, ret) != 0) {
            return false;
        }
        (void)id_set(&s->job, ret->job); /* the id comes from the core or the pool and is valid */
    } while (principal_fault(s->by, MSG_STATUS, s->job.text));
    s->n_jobs++;
    s->in_job = !s->jobs_only;
    s->in_series = true;
    s->metric[0] = '\0';
    s->node.text[0] = '\0';
    return true;
}

/* Sets *ret to the next condition of a submitted job; a job that agents opened has its state as
 * its only condition. Returns false after the last one. */
static bool next_condition(struct status_rows *s, struct msg_condition_row *ret)
{
    struct msg_status_job job;
    if (registry_find(s->all, s->job.text, &s->texts, &job) != 0) {
        return false;
    }
    if (job.is_submitted) {
        return pool_show_condition(s->all->pool, s->job.text, &s->condition, s->condition_name,
                                   ret);
    }
    const struct condition_text text = condition_text(job.state);
    const bool is_used_up = rdzv_get_run(s->core, job.job).is_used_up;
    *ret = (struct msg_condition_row){.name = pool_condition_name(job.state, s->condition_name),
                                      .status = true,
                                      .reason = is_used_up ? CONDITION_USED_UP : text.reason,
                                      .at = job.since,
                                      .message = job.reason  ? job.reason
                                                 : job.waits ? job.waits
                                                             : text.says};
    return s->condition++ == 0;
}

/* Sets *ret to the condition that says where the artifacts of the run are, or why they are not
 * stored. Returns false if it was listed, or if the events in memory have none of them. */
static bool next_artifacts(struct status_rows *s, struct msg_condition_row *ret)
{
    struct msg_status_job job;
    const struct msg_event_row *event = NULL;
    if (!s->has_artifacts && registry_find(s->all, s->job.text, &s->texts, &job) == 0) {
        event = events_artifacts(s->all->events, s->job.text, job.run);
    }
    s->has_artifacts = true;
    if (!event) {
        return false;
    }
    const bool is_stored = strcmp(event->kind, "artifacts_stored") == 0;
    const char *reason = strcmp(event->kind, "artifacts_storing") == 0 ? "Storing" : "NotStored";
    *ret = (struct msg_condition_row){.name = "Artifacts",
                                      .status = is_stored,
                                      .reason = is_stored ? "Stored" : reason,
                                      .at = event->at,
                                      .message = event->message};
    return true;
}

/* Sets *ret to the next condition of the job or the next pool node that works for it. */
static bool next_detail(struct status_rows *s, struct tfe_msg *ret)
{
    if (!s->detail || s->n_jobs == 0) {
        return false;
    }
    ret->type = MSG_CONDITION_ROW;
    if (next_condition(s, &ret->u.condition_row) || next_artifacts(s, &ret->u.condition_row)) {
        return true;
    }
    ret->type = MSG_POOL_ROW;
    return pool_show_node(s->all->pool, s->job.text, &s->pooled, &ret->u.pool_row);
}

static bool next_metric(struct status_rows *s, struct msg_series_row *ret)
{
    const char *after = s->metric[0] != '\0' ? s->metric : NULL;
    s->in_series = s->in_series && series_last(s->all->series, s->job.text, after, ret);
    if (s->in_series) {
        (void)snprintf(s->metric, sizeof(s->metric), "%s", ret->name);
    }
    return s->in_series;
}

static int status_next(struct rows *rows, struct tfe_msg *ret)
{
    struct status_rows *s = (struct status_rows *)rows;
    if (next_health(s, &ret->u.health)) {
        ret->type = MSG_HEALTH;
    } else if (next_metric(s, &ret->u.series_row)) {
        ret->type = MSG_SERIES_ROW;
    } else if (next_detail(s, ret)) {
        return 0;
    } else if (next_node(s, &ret->u.status_node)) {
        ret->type = MSG_STATUS_NODE;
    } else if (next_job(s, &ret->u.status_job)) {
        ret->type = MSG_STATUS_JOB;
    } else if (s->one && s->n_jobs == 0) {
        (void)snprintf(s->sentence, sizeof(s->sentence), "there is no job \"%s\" on this server",
                       s->job.text);
        *ret =
            (struct tfe_msg){.type = MSG_REFUSED, .u.refused = {REFUSAL_NO_SUCH_JOB, s->sentence}};
    } else {
        *ret = (struct tfe_msg){.type = MSG_STATUS_END, .u.status_end = {.jobs = s->n_jobs}};
    }
    return 0;
}

int rows_status(const struct sessions *all, const struct principal *by,
                const struct msg_status *request, struct rows **ret)
{
    static const struct rows_ops ops = {.next = status_next};
    struct status_rows *s = rows_new(&ops, sizeof(*s), ret);
    if (!s) {
        return TFE_ENOMEM;
    }
    s->all = all;
    s->core = all->rdzv;
    s->by = by;
    s->one = request->job != NULL;
    s->jobs_only = request->jobs_only;
    s->detail = request->job && request->detail;
    s->texts.pool.shows_arguments = pool_shows_arguments(all->pool, by);
    if (s->one) {
        (void)id_set(&s->job, request->job); /* the codec has validated the id */
    }
    return 0;
}
