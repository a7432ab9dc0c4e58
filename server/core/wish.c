/* server/core/wish.c: requests that rules make of states.c: end the epoch, or end the job with
 * success. */
#include "server/core/wish.h"

#include "server/core/job.h"

static void blame(struct job *job, const struct node *node)
{
    if (node && (!job->wish.is_there || job->wish.is_planned)) {
        ledger_blame(job, node);
    }
}

static void want(struct job *job, enum tfe_cause cause)
{
    /* A planned switch that waits only for the disk is overridden by any other reason. */
    if (!job->wish.is_there || (job->state == JOB_RUNNING && job->wish.is_planned)) {
        job->wish.is_there = true;
        job->wish.cause = cause;
    }
    /* something in the epoch is broken now, so a planned switch becomes an unplanned one */
    job->wish.is_planned = false;
}

void switch_want(struct job *job, enum tfe_cause cause, const struct node *blamed)
{
    blame(job, blamed);
    want(job, cause);
}

void switch_plan(struct job *job, enum tfe_cause cause, const struct node *blamed)
{
    blame(job, blamed);
    if (!job->wish.is_there) {
        want(job, cause);
        job->wish.is_planned = true;
    }
}

void switch_clear(struct job *job)
{
    job->wish.is_there = false;
}

void success_clear(struct job *job)
{
    job->success = (struct success){.began = TFE_MONO_NEVER, .until = TFE_MONO_NEVER};
}

void success_begin(struct rdzv *r, struct job *job)
{
    job->success.has_begun = true;
    job->success.n_ended++;
    job->success.began = tfe_mono_min(job->success.began, r->now);
}

void success_note_rank0(struct rdzv *r, struct node *node, const struct msg_renew *renew)
{
    struct job *job = node->job;
    struct success *success = &job->success;
    if (job->state != JOB_RUNNING || !node_is_member(node) || !roster_is_chief(job, node)) {
        return;
    }
    seat_set_idle(node, renew->idle_ms > 0 ? tfe_mono_add(r->now, -(int64_t)renew->idle_ms)
                                           : TFE_MONO_NEVER);
    if (renew->others_ended && !success->has_begun) {
        success_begin(r, job);
    }
    if (success->has_begun) {
        job_touch(job);
    }
}

struct tfe_mono success_hangs_at(const struct job *job)
{
    const struct success *success = &job->success;
    const struct node *chief = roster_chief(job);
    bool is_judged = success->has_begun && !success->is_here && job->spec.finish_idle_ms > 0 &&
                     roster_needed(job) == 1 && chief && !chief->seat.is_accounted &&
                     node_is_connected(chief) && !tfe_mono_is_never(chief->seat.idle_since);
    if (!is_judged) {
        return TFE_MONO_NEVER;
    }
    /* Before the first good end it may have been waiting for the other trainers. */
    return tfe_mono_add(tfe_mono_max(chief->seat.idle_since, success->began),
                        job->spec.finish_idle_ms);
}

void success_take(struct rdzv *r, struct job *job, struct node *node)
{
    struct success *success = &job->success;
    bool counts = roster_counts(job, node) && seat_count_success(node);
    success->n_counted += counts;
    bool is_last = counts && success->n_counted == roster_needed(job);
    if (job->state != JOB_RUNNING) {
        success->is_due = success->is_due || is_last;
        return;
    }
    success->has_begun = true;
    success->is_here = success->is_here || is_last;
    if (!is_last) {
        success_begin(r, job); /* no limit is set for the remaining trainers */
    }
    if (is_last && !job->spec.linger) {
        success->until = tfe_mono_add(r->now, r->config.exit_grace_ms);
    }
    if (is_last && job->spec.linger) {
        success->until = TFE_MONO_NEVER; /* also if another member had ended before */
        send_trace(r, TRACE_LINGERS, job, node, 0, NULL);
    }
}

void success_end_wait(struct rdzv *r, struct job *job)
{
    job->success.until = r->now;
}

void success_done(struct job *job)
{
    job->success.is_due = false;
}
