/* server/core/job_progress.c: PROGRESS, the progress of an epoch as its members report it, requests
 * to end the epoch, and the job's way to success. */
#include "server/core/job_progress.h"

#include "server/core/epoch.h"
#include "server/core/handlers.h"
#include "server/core/job.h"
#include "server/core/layout.h"
#include "server/core/ledger.h"
#include "server/core/node.h"
#include "server/core/plan.h"
#include "server/core/states.h"
#include "server/core/verdict.h"

void progress_begin(struct job *job)
{
    job->progress = (struct progress){.first = TFE_MONO_NEVER,
                                      .last = TFE_MONO_NEVER,
                                      .last_save = TFE_MONO_NEVER,
                                      .last_snapshot = TFE_MONO_NEVER};
}

/* Notes that progress was reported at this time. */
static void note_time(struct progress *progress, struct tfe_mono now)
{
    progress->first = tfe_mono_min(progress->first, now);
    progress->last = now;
}

/* Each handle_* function applies reported values that exceed the earlier ones, and returns true if
 * the job must be settled because of them. is_news: it happened just now, and was not reported to
 * an earlier server. */

static bool handle_step(struct rdzv *r, struct job *job, const struct msg_progress *msg)
{
    struct progress *progress = &job->progress;
    bool is_first = !progress->has_step;
    if (!msg->has_step || (!is_first && msg->step <= progress->step)) {
        return false;
    }
    progress->has_step = true;
    progress->step = msg->step;
    note_time(progress, r->now);
    job->plan.knows_steps = true;
    /* Progress refills the budget by what is reported, not by time. */
    bool refills = !tfe_mono_is_never(verdict_refill_at(job));
    if (is_first && !job->epoch.is_adopted) {
        plan_measure(r, job);
        plan_forget_standstill(job);
    }
    /* for an adopted epoch this is the first report to this server, and the store keeps the earlier
     * time */
    if (is_first) {
        ledger_note(r, job, EPOCH_PROGRESSED);
    }
    return is_first || refills;
}

static void handle_saved_step(struct job *job, const struct msg_progress *msg)
{
    struct progress *progress = &job->progress;
    if (msg->has_saved && (!progress->has_saved || msg->saved_step > progress->saved_step)) {
        progress->has_saved = job->plan.has_saved = true;
        progress->saved_step = job->plan.saved_step = msg->saved_step;
    }
}

static bool handle_saves(struct rdzv *r, struct job *job, const struct msg_progress *msg,
                         bool is_news)
{
    struct progress *progress = &job->progress;
    uint64_t answers = msg->snapshot_answers > msg->answers ? msg->snapshot_answers : msg->answers;
    /* A checkpoint made before this server was started, or requested by an earlier server, answers
     * no SAVE of this one. */
    bool is_ours = is_news && answers <= job->plan.number;
    bool is_answer = is_ours && msg->answers > progress->answers;
    bool is_more = msg->saves > progress->saves;
    if (is_more) {
        progress->saves = msg->saves;
        progress->last_save = is_news ? r->now : progress->last_save;
        note_time(progress, r->now);
    }
    if (is_answer) {
        progress->answers = msg->answers;
    }
    plan_learn_saves(job, msg->saves, is_more, is_news);
    if (!is_ours) {
        plan_raise_number(r, job, answers);
    }
    return is_more || is_answer;
}

/* State kept in memory matters if growth waits for it (design 4.8). */
static bool handle_snapshot(struct rdzv *r, struct job *job, const struct msg_progress *msg,
                            bool is_news)
{
    struct progress *progress = &job->progress;
    const struct msg_memory *memory = &msg->memory;
    if (msg->has_from && !progress->has_from) {
        progress->has_from = true;
        ledger_learn_from(r, job, msg->from_step);
    }
    if (!memory->has_snapshot || memory->epoch != job->epoch.number ||
        (progress->has_snapshot && memory->step <= progress->snapshot_step)) {
        return false;
    }
    progress->has_snapshot = true;
    progress->snapshot_step = memory->step;
    progress->last_snapshot = is_news ? r->now : progress->last_snapshot;
    return !tfe_mono_is_never(job->plan.newcomer_at);
}

void on_progress(struct rdzv *r, struct node *node, const struct msg_progress *msg)
{
    struct job *job = node->job;
    if (!node_is_member(node) || !job->epoch.is_open || msg->epoch != job->epoch.number) {
        return;
    }
    bool is_news = !job->epoch.is_adopted || node->slot.has_reported;
    bool listened = node->slot.listens;
    bool was_alone = node->slot.is_alone;
    /* State kept by a node that is leaving may go away with it. */
    bool decides = msg->snapshot_answers > node->slot.snapshot_answers && node->notice.kind == 0 &&
                   job->state == JOB_RUNNING;
    slot_set_progress(node, msg);
    if (node->slot.is_alone && !was_alone) {
        send_trace(r, TRACE_NODE_ALONE, job, node, layout_rank(job, node->slot.index), NULL);
    }
    decides = handle_step(r, job, msg) || decides;
    handle_saved_step(job, msg);
    decides = handle_saves(r, job, msg, is_news) || decides;
    ready_set_memory(node, &msg->memory);
    decides = handle_snapshot(r, job, msg, is_news) || decides;
    decides = (msg->ends && !job->progress.ends) || decides;
    job->progress.ends |= msg->ends;
    job->progress.partitioned |= msg->partitioned;
    if (msg->listens != listened) {
        job->progress.n_listen += msg->listens ? 1 : UINT32_MAX;
        decides = true;
    }
    if (node->slot.save_sent != job->plan.number) {
        plan_resend_save(r, job, node);
    }
    if (decides) {
        job_touch(job);
    }
}

bool progress_safe_step(struct job *job, uint64_t *ret_step)
{
    bool has = job->plan.has_saved;
    uint64_t step = has ? job->plan.saved_step : 0;
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        const struct msg_memory m = node->ready.memory;
        bool stays = !node->is_gone && !node->slot.is_dead && !node->notice.is_leaving;
        if (stays && m.has_snapshot && m.epoch == job->epoch.number && (!has || m.step > step)) {
            has = true;
            step = m.step;
        }
    }
    *ret_step = step;
    return has;
}

/* --- requests to end the epoch, and success --------------------------------------------------- */

static void blame(struct job *job, const struct node *node)
{
    if (node && (!job->pending_switch.is_set || job->pending_switch.is_planned)) {
        ledger_blame(job, node);
    }
}

static void request_switch(struct job *job, enum tfe_cause cause)
{
    /* A planned switch that waits only for the disk is overridden by any other reason. */
    if (!job->pending_switch.is_set ||
        (job->state == JOB_RUNNING && job->pending_switch.is_planned)) {
        job->pending_switch.is_set = true;
        job->pending_switch.cause = cause;
    }
    /* something in the epoch is broken now, so a planned switch becomes an unplanned one */
    job->pending_switch.is_planned = false;
}

void switch_request(struct job *job, enum tfe_cause cause, const struct node *blamed)
{
    blame(job, blamed);
    request_switch(job, cause);
}

void switch_plan(struct job *job, enum tfe_cause cause, const struct node *blamed)
{
    blame(job, blamed);
    if (!job->pending_switch.is_set) {
        request_switch(job, cause);
        job->pending_switch.is_planned = true;
    }
}

void switch_clear(struct job *job)
{
    job->pending_switch.is_set = false;
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
    if (job->state != JOB_RUNNING || !node_is_member(node) || !layout_is_chief(job, node)) {
        return;
    }
    node->slot.idle_since =
        renew->idle_ms > 0 ? tfe_mono_add(r->now, -(int64_t)renew->idle_ms) : TFE_MONO_NEVER;
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
    const struct node *chief = layout_chief(job);
    bool is_judged = success->has_begun && !success->is_here && job->spec.finish_idle_ms > 0 &&
                     layout_needed_successes(job) == 1 && chief && !chief->slot.is_accounted &&
                     node_is_connected(chief) && !tfe_mono_is_never(chief->slot.idle_since);
    if (!is_judged) {
        return TFE_MONO_NEVER;
    }
    /* Before the first good end it may have been waiting for the other trainers. */
    return tfe_mono_add(tfe_mono_max(chief->slot.idle_since, success->began),
                        job->spec.finish_idle_ms);
}

void success_count(struct rdzv *r, struct job *job, struct node *node)
{
    struct success *success = &job->success;
    bool counts = layout_counts_for_success(job, node) && slot_count_success(node);
    success->n_counted += counts;
    bool is_last = counts && success->n_counted == layout_needed_successes(job);
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
