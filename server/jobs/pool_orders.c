/* server/jobs/pool_orders.c: orders about submitted jobs. Each is acknowledged once it is durable.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/channel/admission.h"
#include "server/jobs/bundles.h"
#include "server/jobs/pool_private.h"
#include "server/query/operator.h"

static int order_next(struct rows *rows, struct tfe_msg *ret)
{
    struct pool_order *order = (struct pool_order *)rows;
    if (order->job) {
        return TFE_EMORE;
    }
    *ret = order->refusal != 0 ? (struct tfe_msg){.type = MSG_REFUSED,
                                                  .u.refused = {order->refusal, order->sentence}}
                               : (struct tfe_msg){.type = MSG_DONE};
    return 0;
}

static void order_free(struct rows *rows)
{
    struct pool_order *order = (struct pool_order *)rows;
    if (order->job) {
        LIST_REMOVE(order, link);
    }
    free(order);
}

static void __attribute__((format(printf, 3, 4)))
refuse(struct pool_order *order, enum tfe_refusal code, const char *format, ...)
{
    va_list args;
    order->refusal = code;
    va_start(args, format);
    (void)vsnprintf(order->sentence, sizeof(order->sentence), format, args);
    va_end(args);
}

static void refuse_memory(struct pool_order *order)
{
    refuse(order, REFUSAL_LIMIT_REACHED, "the server is out of memory (try again later)");
}

/* Acknowledges the order once the present version of the job is durable. */
static void wait_for(struct pool_order *order, struct pool_job *job)
{
    pool_job_touch(job);
    order->job = job;
    order->version = job->version;
    LIST_INSERT_HEAD(&job->orders, order, link);
}

/* --- SUBMIT --- */

/* Returns true if agents that were started by hand train or wait under this name. */
static bool is_taken(const struct pool *p, const char *name)
{
    struct msg_status_job row;
    return rdzv_find_job(p->config.core, name, &row) == 0 && row.state != STATE_SET_ASIDE &&
           !msg_job_is_over(row.state);
}

/* by: the new submitter, or NULL to keep the present one. */
static void begin(struct pool *p, struct pool_order *order, const struct principal *by,
                  const char *name, const json_t *spec, const char *event)
{
    struct pool_job *job = NULL;
    const struct msg_event_row row = {.kind = "submitted", .job = name};
    int rc = pool_job_begin(p, name, &job);
    rc = rc == 0 ? pool_job_set(job, spec) : rc;
    if (rc == TFE_EFULL) {
        refuse(order, REFUSAL_LIMIT_REACHED,
               "job queue is full: the server holds %u submitted jobs (forget finished jobs)",
               POOL_JOBS_MAX);
        return;
    }
    if (rc != 0) {
        refuse_memory(order);
        if (job && job->spec) {
            pool_job_is(job, STATE_FAILED, "NotStored", "the server was out of memory");
            job->is_over = true;
        } else if (job) {
            pool_job_free(job);
        }
        return;
    }
    if (by) {
        job->is_submitter_known = true;
        memcpy(job->submitter, by->origin, sizeof(job->submitter));
    }
    pool_job_is_usual(job, (enum tfe_job_state)CONDITION_CREATED);
    events_report(p->config.events, &row, "the job %s: nodes %u:%u, priority %u", event,
                  (unsigned)job->needs.min_nodes, (unsigned)job->needs.max_nodes,
                  (unsigned)job->needs.priority);
    wait_for(order, job);
}

/* A scoped token may not preempt other jobs. Returns the reason of a refusal, or NULL. */
static const char *presumed(const struct principal *by, const struct pool_needs *needs)
{
    if (strcmp(by->scope, PRINCIPAL_EVERY_JOB) == 0) {
        return NULL;
    }
    if (needs->preempt) {
        return "preempt: not allowed with this token: preemption needs a token for all jobs";
    }
    return needs->priority > MSG_PRIORITY_DEFAULT ? "priority: not allowed with this token: a "
                                                    "priority above 500 needs a token for all jobs"
                                                  : NULL;
}

/* Returns true if the token has used its quota of remembered jobs. Every remembered job under one
 * of its names counts, including those that other tokens submitted. */
static bool has_enough(const struct pool *p, const struct principal *by)
{
    const struct pool_job *job;
    uint32_t n = 0;
    if (strcmp(by->scope, PRINCIPAL_EVERY_JOB) == 0) {
        return false;
    }
    TAILQ_FOREACH(job, &p->jobs, link)
    {
        n += !job->is_gone && !principal_fault(by, MSG_SUBMIT, job->name.text);
    }
    return n >= admission_quota(POOL_JOBS_MAX, POOL_JOBS_RESERVE, p->n_jobs - n) ||
           p->n_jobs + POOL_JOBS_RESERVE >= POOL_JOBS_MAX;
}

static uint32_t min_of(const struct pool_needs *needs)
{
    return needs->min_nodes + needs->n_ps + needs->chief + needs->evaluator;
}

/* Returns true, with the refusal sent, if the minimum exceeds the quota: the job could never run.
 */
static bool is_above_quota(const struct pool *p, struct pool_order *order, const char *name,
                           const struct pool_needs *needs)
{
    const struct placement_quota quota = placement_quota(p->placement, name);
    if (!quota.pattern || min_of(needs) <= quota.nodes) {
        return false;
    }
    refuse(order, REFUSAL_BAD_REQUEST,
           "nodes: the job needs at least %u, and the quota of jobs %s is %u in total",
           (unsigned)min_of(needs), quota.pattern, (unsigned)quota.nodes);
    return true;
}

/* Returns true, with the refusal sent, if the job has its old minimum and would have to wait for a
 * larger one that other jobs of its quota use. */
static bool would_wait(struct pool_order *order, const struct pool_job *job,
                       const struct pool_needs *needs)
{
    struct placement_view view;
    if (!pool_job_view(job, &view) || view.state != PLACEMENT_JOB_PLACED ||
        min_of(needs) <= min_of(&job->needs) || min_of(needs) <= view.max_min) {
        return false;
    }
    refuse(order, REFUSAL_CONFLICT,
           "nodes: the job would need at least %u, and other jobs of its quota leave %u now",
           (unsigned)min_of(needs), (unsigned)view.max_min);
    return true;
}

/* Handles SUBMIT with a valid job. */
static void submit_job(struct pool *p, struct pool_order *order, const struct principal *by,
                       const char *name, const json_t *spec)
{
    const struct pool_job *job = pool_job_find(p, name);
    const struct pool_needs needs = pool_needs_of(p, spec);
    const char *fault = presumed(by, &needs);
    if (fault) {
        refuse(order, REFUSAL_BAD_REQUEST, "%s", fault);
    } else if (needs.bundle[0] != '\0' && !bundles_has(p->bundles, needs.bundle, by)) {
        refuse(order, REFUSAL_BAD_REQUEST,
               "bundle: the server has no bundle %s of this token (upload it with tfe-ctl submit "
               "--bundle)",
               needs.bundle);
    } else if (job && (!job->is_over || job->lingers)) {
        refuse(order, REFUSAL_CONFLICT, "job \"%s\" has not ended (cancel it or use another name)",
               name);
    } else if (is_taken(p, name)) {
        refuse(order, REFUSAL_CONFLICT,
               "job \"%s\" already exists and was opened by manually started agents (use another "
               "name)",
               name);
    } else if (!job && has_enough(p, by)) {
        refuse(order, REFUSAL_LIMIT_REACHED,
               "job limit of this token is reached: its share of the %u jobs on the server is used "
               "up (forget finished jobs)",
               POOL_JOBS_MAX);
    } else if (!is_above_quota(p, order, name, &needs)) {
        begin(p, order, by, name, spec, "was submitted");
    }
}

static void submit(struct pool *p, struct pool_order *order, const struct principal *by,
                   const struct msg_submit *msg)
{
    struct tfe_reason reason;
    json_t *spec = NULL;
    int rc = job_file_parse(msg->spec, &spec, &reason);
    if (rc == TFE_ENOMEM) {
        refuse_memory(order);
    } else if (rc != 0) {
        refuse(order, REFUSAL_BAD_REQUEST, "%s", reason.text);
    } else if (strcmp(job_text(spec, "name"), msg->job) != 0) {
        refuse(order, REFUSAL_BAD_REQUEST,
               "name: the job's name differs from the name in the message");
    } else {
        submit_job(p, order, by, msg->job, spec);
    }
    json_decref(spec);
}

static void rerun(struct pool *p, struct pool_order *order, struct pool_job *job)
{
    if (!job->is_over || job->lingers) {
        refuse(order, REFUSAL_CONFLICT, "job \"%s\" has not ended (cancel it first)",
               job->name.text);
    } else if (is_taken(p, job->name.text)) {
        refuse(order, REFUSAL_CONFLICT, "job \"%s\" is still ending (try again)", job->name.text);
    } else if (!is_above_quota(p, order, job->name.text, &job->needs)) {
        json_t *spec = pool_job_spec(job);
        if (spec && json_object_set_new(spec, "suspend", json_false()) == 0) {
            begin(p, order, NULL, job->name.text, spec, "was restarted");
        } else {
            refuse_memory(order);
        }
        json_decref(spec);
    }
}

/* --- SCALE, SUSPEND, RESUME, CANCEL, RERUN --- */

/* Passes the order to the core. Returns false, with the refusal sent, if the core refuses it. */
static bool order_core(struct pool *p, struct pool_order *order, const struct principal *by,
                       const struct tfe_msg *msg)
{
    struct operator_response answer;
    operator_execute(p->config.core, p->config.ops->order, p->config.ops_ctx, by, msg, &answer);
    if (answer.msg.type == MSG_REFUSED) {
        refuse(order, answer.msg.u.refused.code, "%s", answer.msg.u.refused.sentence);
    }
    return answer.msg.type != MSG_REFUSED;
}

/* Replaces some fields of the job by those of `fields`, which is NULL if out of memory; takes over
 * its reference. */
static void change(struct pool *p, struct pool_order *order, struct pool_job *job, json_t *fields)
{
    json_t *spec = pool_job_spec(job);
    if (!fields || !spec || json_object_update(spec, fields) != 0 || pool_job_set(job, spec) != 0 ||
        (job->is_placed && pool_place(p, job) != 0)) {
        refuse_memory(order);
    } else {
        wait_for(order, job);
    }
    json_decref(spec);
    json_decref(fields);
}

static void scale(struct pool *p, struct pool_order *order, const struct principal *by,
                  struct pool_job *job, const struct msg_scale *scale)
{
    struct pool_needs needs = job->needs;
    struct msg_status_job row;
    const struct tfe_msg msg = {.type = MSG_SCALE, .u.scale = *scale};
    needs.min_nodes = scale->min_nodes;
    needs.max_nodes = scale->max_nodes;
    needs.n_ps = scale->n_ps != MSG_UNSET ? scale->n_ps : needs.n_ps;
    if (scale->n_ps != MSG_UNSET && job->needs.n_ps == 0) {
        refuse(order, REFUSAL_BAD_REQUEST, "job \"%s\" has no ps", job->name.text);
    } else if (!is_above_quota(p, order, job->name.text, &needs) &&
               !would_wait(order, job, &needs) &&
               (!pool_job_in_core(job, &row) || order_core(p, order, by, &msg))) {
        change(p, order, job,
               json_pack("{s{sisi}si}", "workers", "min", (int)needs.min_nodes, "max",
                         (int)needs.max_nodes, "ps", (int)needs.n_ps));
    }
}

static void suspend(struct pool *p, struct pool_order *order, struct pool_job *job, bool is_on)
{
    struct msg_event_row row = {.kind = "resumed", .job = job->name.text};
    if (job->needs.suspend == is_on) {
        wait_for(order, job); /* nothing changes; acknowledged once the present state is durable */
        return;
    }
    if (is_on) {
        row.kind = "suspended";
    }
    job->started.ms = 0;
    job->ends = TFE_MONO_NEVER;
    events_report(p->config.events, &row,
                  is_on ? "the job is suspended: its nodes return to the pool"
                        : "the job is resumed and waits for nodes");
    change(p, order, job, json_pack("{sb}", "suspend", is_on));
}

static void cancel(struct pool *p, struct pool_order *order, const struct principal *by,
                   struct pool_job *job)
{
    const struct tfe_msg msg = {.type = MSG_CANCEL, .u.cancel.job = job->name.text};
    const struct msg_event_row event = {.kind = "job_finished", .job = job->name.text};
    struct msg_status_job row;
    if (job->is_over) { /* a finished job stays as it is */
        if (job->lingers) {
            pool_end_lingering(p, job);
        }
        wait_for(order, job);
    } else if (!pool_job_in_core(job, &row)) {
        events_report(p->config.events, &event, "the job " RDZV_CANCELLED);
        pool_end(p, job, STATE_CANCELLED, "JobCancelled", "it " RDZV_CANCELLED);
        wait_for(order, job);
    } else if (order_core(p, order, by, &msg)) {
        pool_end(p, job, STATE_CANCELLED, "JobCancelled", "it " RDZV_CANCELLED);
        wait_for(order, job);
    }
}

bool pool_handle_bundle(struct pool *p, const struct principal *by,
                        const struct msg_bundle_put *put)
{
    return bundles_put(p->bundles, by, put);
}

/* Returns the submitted job of this name; NULL if there is none, or if it is over and agents
 * started by hand have opened a later run of its name. */
static struct pool_job *find_own(const struct pool *p, const char *name)
{
    struct pool_job *job = pool_job_find(p, name);
    const bool is_own =
        job && strcmp(rdzv_get_run(p->config.core, name).key, job->run_key.text) == 0;
    return job && job->is_over && !job->lingers && !is_own && is_taken(p, name) ? NULL : job;
}

static bool is_order(const struct pool_job *job, int type)
{
    /* All other orders about a job that agents opened are handled by the core. */
    return type == MSG_SUBMIT || type == MSG_SUSPEND || type == MSG_RESUME || type == MSG_RERUN ||
           (job && (type == MSG_SCALE || type == MSG_CANCEL));
}

static void refuse_unsubmitted(const struct pool *p, struct pool_order *order, const char *name,
                               int type)
{
    struct msg_status_job row;
    if (rdzv_find_job(p->config.core, name, &row) != 0) {
        refuse(order, REFUSAL_NO_SUCH_JOB, "there is no job \"%s\" on this server", name);
    } else if (type == MSG_RERUN) {
        refuse(order, REFUSAL_CONFLICT,
               "cannot restart job \"%s\": it was opened by manually started agents (start them "
               "again with --new-run)",
               name);
    } else {
        refuse(order, REFUSAL_CONFLICT,
               "cannot suspend or resume job \"%s\": it was opened by manually started agents "
               "(stop or start the agents)",
               name);
    }
}

int rows_pool_order(struct pool *p, const struct principal *by, const struct tfe_msg *msg,
                    struct rows **ret)
{
    static const struct rows_ops ops = {.next = order_next, .free = order_free};
    const char *name = msg_job(msg);
    const int type = (int)msg->type;
    *ret = NULL;
    if (type == MSG_BUNDLE_HAVE) {
        return rows_bundle(p->bundles, by, &msg->u.bundle_have, ret);
    }
    struct pool_job *job = name ? find_own(p, name) : NULL;
    if (!is_order(job, type)) {
        return 0;
    }
    struct pool_order *order = calloc(1, sizeof(*order));
    if (!order) {
        return TFE_ENOMEM;
    }
    order->rows.ops = &ops;
    *ret = &order->rows;
    if (type == MSG_SUBMIT) {
        submit(p, order, by, &msg->u.submit);
    } else if (!job) {
        refuse_unsubmitted(p, order, name, type);
    } else if (type == MSG_RERUN) {
        rerun(p, order, job);
    } else if (job->is_over && type != MSG_CANCEL) {
        refuse(order, REFUSAL_CONFLICT, "job \"%s\" has ended", name);
    } else if (type == MSG_SCALE) {
        scale(p, order, by, job, &msg->u.scale);
    } else if (type == MSG_CANCEL) {
        cancel(p, order, by, job);
    } else {
        suspend(p, order, job, type == MSG_SUSPEND);
    }
    pool_wake(p, clock_mono()); /* the deletion is written then */
    return 0;
}
