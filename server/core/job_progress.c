/* server/core/job_progress.c: progress of an epoch as its members report it, requests to end the
 * epoch, and the job's way to success. */
#include "server/core/job_progress.h"

#include "server/core/epoch.h"
#include "server/core/job.h"
#include "server/core/layout.h"
#include "server/core/ledger.h"
#include "server/core/node.h"
#include "server/core/states.h"

void told_begin(struct job *job)
{
    job->told = (struct told){.first = TFE_MONO_NEVER,
                              .last = TFE_MONO_NEVER,
                              .last_save = TFE_MONO_NEVER,
                              .last_kept = TFE_MONO_NEVER};
}

/* Notes the time of reported progress. */
static void note_progress(struct told *told, struct tfe_mono now)
{
    told->first = tfe_mono_min(told->first, now);
    told->last = now;
}

bool told_step(struct job *job, struct tfe_mono now, uint64_t step)
{
    struct told *told = &job->told;
    if (told->has_step && step <= told->step) {
        return false;
    }
    told->has_step = true;
    told->step = step;
    note_progress(told, now);
    return true;
}

bool told_saved_step(struct job *job, uint64_t step)
{
    struct told *told = &job->told;
    if (told->has_saved && step <= told->saved_step) {
        return false;
    }
    told->has_saved = true;
    told->saved_step = step;
    return true;
}

bool told_saves(struct job *job, struct tfe_mono now, uint32_t saves, bool is_news)
{
    struct told *told = &job->told;
    if (saves <= told->saves) {
        return false;
    }
    told->saves = saves;
    told->last_save = is_news ? now : told->last_save;
    note_progress(told, now);
    return true;
}

bool told_kept(struct job *job, struct tfe_mono now, const struct msg_memory *memory, bool is_news)
{
    struct told *told = &job->told;
    if (!memory->has_kept || memory->epoch != job->epoch.number ||
        (told->has_kept && memory->step <= told->kept_step)) {
        return false;
    }
    told->has_kept = true;
    told->kept_step = memory->step;
    told->last_kept = is_news ? now : told->last_kept;
    return true;
}

bool told_from(struct job *job)
{
    struct told *told = &job->told;
    if (told->has_from) {
        return false;
    }
    told->has_from = true;
    return true;
}

bool told_answer(struct job *job, uint64_t answers)
{
    struct told *told = &job->told;
    if (answers <= told->answers) {
        return false;
    }
    told->answers = answers;
    return true;
}

bool told_ends(struct job *job, bool ends)
{
    bool is_news = ends && !job->told.ends;
    job->told.ends |= ends;
    return is_news;
}

void told_partitioned(struct job *job, bool partitioned)
{
    job->told.partitioned |= partitioned;
}

void told_listens(struct job *job, bool listens)
{
    job->told.n_listen += listens ? 1 : UINT32_MAX;
}

bool told_safe_step(struct job *job, uint64_t *ret_step)
{
    bool has = job->plan.has_saved;
    uint64_t step = has ? job->plan.saved_step : 0;
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        const struct msg_memory m = node->ready.memory;
        bool stays = !node->is_gone && !node->seat.is_dead && !node->notice.is_leaving;
        if (stays && m.has_kept && m.epoch == job->epoch.number && (!has || m.step > step)) {
            has = true;
            step = m.step;
        }
    }
    *ret_step = step;
    return has;
}

/* --- requests to end the epoch, and success ---- */

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
