/* server/core/on_operator.c: commands of operators: drain, evict, grow, resize, stop, forget. */
#include <string.h>

#include "common/text/text.h"
#include "server/core/core.h"
#include "server/core/handlers.h"
#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/join_limits.h"
#include "server/core/layout.h"
#include "server/core/node.h"
#include "server/core/notice.h"
#include "server/core/persist.h"
#include "server/core/plan.h"
#include "server/core/states.h"
#include "server/core/worker_restart.h"

void on_drain(struct rdzv *r, struct node *node, uint32_t within_ms)
{
    struct job *job = node->job;
    bool was_drained = node->notice.is_drained;
    if (was_drained && within_ms == MSG_UNSET) {
        return;
    }
    if (!was_drained) {
        send_trace(r, TRACE_NODE_DRAINING, job, node, 0, node->name);
    }
    node->notice.is_drained = true;
    notice_apply(r, node, NOTICE_OPERATOR, within_ms);
    drain_end(r, node);
    if (!was_drained && node_is_member(node) && !node->is_gone && persist_covers_epoch(job)) {
        persist_or_defer(r, job); /* a restarted server continues the drain */
    }
}

void on_evict(struct rdzv *r, struct node *node)
{
    send_trace(r, TRACE_NODE_EVICTED, node->job, node, 0, node->name);
    evicted_add(r, &node->job->name, &node->id);
    if (node_is_connected(node)) {
        send_refused(r, node->session.number, REFUSAL_EVICTED, evicted_sentence);
        node_detach(r, node);
    }
    worker_leave(r, node, CAUSE_DRAINED, false);
}

int on_grow(struct job *job)
{
    int rc = plan_order_growth(job);
    if (rc == 0) {
        job_touch(job);
    }
    return rc;
}

/* Returns true if the script can read its checkpoints with another number of ps and there are
 * enough nodes. If not, the reason is in r->sentence. */
static bool can_have_ps(struct rdzv *r, const struct job *job, uint32_t min, uint32_t n_ps)
{
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    text_addf(&text, "job \"%s\" cannot have %u ps now: ", job->name.text, n_ps);
    if (job->spec.n_ps == 0) {
        text_add(&text, "it was opened without ps (--ps)");
    } else if (n_ps == 0 || n_ps > MSG_NODES_MAX) {
        text_addf(&text, "a job with ps has from 1 to %u", MSG_NODES_MAX);
    } else if (job->state != JOB_RUNNING) {
        text_addf(&text,
                  "it is %s, and the number of ps changes only at a checkpoint of a running epoch",
                  job_state_name(job->state));
    } else if (!job->progress.partitioned) {
        text_add(&text, "its script has not created a partitioner (tfe.strategy(partitioner=...)), "
                        "which its checkpoints need");
    } else if (!layout_would_suffice(job, min, n_ps)) {
        text_addf(&text, "too few connected nodes can be ps in addition to%s %u worker%s",
                  job->spec.chief ? " a chief and" : "", min, min == 1 ? "" : "s");
    } else {
        return true;
    }
    return false;
}

int on_resize(struct rdzv *r, struct job *job, uint32_t min, uint32_t max, uint32_t n_ps)
{
    struct job_spec spec = job->spec;
    bool was_resized = job->is_resized;
    if (job_is_over(job) || job->persist.is_over || job->persist.is_gone) {
        return TFE_ESTATE;
    }
    spec.min_nodes = min;
    spec.max_nodes = max;
    if (!job_spec_is_valid(&spec)) {
        return TFE_EINVAL;
    }
    bool has_other_ps = n_ps != MSG_UNSET && n_ps != spec.n_ps;
    if (has_other_ps) {
        if (!can_have_ps(r, job, min, n_ps)) {
            return TFE_EAUTH;
        }
        spec.n_ps = n_ps;
    }
    job->is_resized = true; /* the running epoch may have more nodes than the new max */
    if (job_reserve(r, job, (size_t)job->n_nodes + 1, &spec)) {
        job->is_resized = was_resized;
        return TFE_ENOMEM;
    }
    job->spec = spec;
    job->is_ps_resized = job->is_ps_resized || has_other_ps;
    send_trace(r, TRACE_JOB_RESIZED, job, NULL, max, NULL);
    if (persist_covers_epoch(job)) {
        persist_or_defer(r, job); /* a restarted server keeps the new sizes */
    }
    job_touch(job);
    return 0;
}

void on_stop_job(struct rdzv *r, struct job *job)
{
    if (job_is_over(job) || job->persist.is_over || job->persist.is_gone) {
        return; /* the job has ended or is about to, and its result stays */
    }
    send_trace(r, TRACE_JOB_STOPPING, job, NULL, 0, NULL);
    if (job->state == JOB_RUNNING && job->success.is_here && job->spec.linger) {
        job->success.until = r->now; /* the job has succeeded: end the linger period */
        job_touch(job);
        return;
    }
    if (job->state == JOB_RUNNING && job->epoch.n_accounted == 0) {
        /* Members get STOP before FINISH, so that they report the end of their trainers before
         * their connections close. */
        for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
            const struct node *node = job->epoch.slots[slot];
            if (node_is_connected(node)) {
                send_stop(r, node, job->epoch.number);
            }
        }
    }
    text_setf(r->sentence, sizeof(r->sentence), "job %s " RDZV_CANCELLED, job->name.text);
    job_finish(r, job, JOB_CANCELLED, r->sentence);
    job_touch(job);
}

/* Maximum number of jobs forgotten in one step. */
#define FORGET_MAX 32

struct job *on_forget_aside(struct rdzv *r, const char *name)
{
    struct job_spec spec;
    size_t i = 0;
    while (i < r->n_aside && strcmp(r->aside[i].text, name) != 0) {
        i++;
    }
    job_spec_init(&spec);
    struct job *job = i < r->n_aside ? job_new(r, name, &spec, NULL) : NULL;
    if (job) {
        r->aside[i] = r->aside[--r->n_aside];
        job_insert(r, job);
    }
    return job;
}

int on_forget(struct rdzv *r, struct job *job)
{
    if (!job_is_idle(r, job)) {
        return TFE_ESTATE;
    }
    persist_forget(r, job);
    return 0;
}

void on_forget_old(struct rdzv *r, struct tfe_wall before)
{
    struct job *job;
    int n = 0;
    RB_FOREACH(job, job_tree, &r->jobs)
    {
        if (n < FORGET_MAX && job_is_idle(r, job) && job_idle_since(r, job).ms < before.ms) {
            persist_forget(r, job);
            n++;
        }
    }
}
