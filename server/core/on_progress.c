/* server/core/on_progress.c: PROGRESS: how far a node's trainers have come. O(1), but for what a
 * checkpoint or a script that can be asked now decides. */
#include "server/core/core.h"
#include "server/core/events.h"

/* The budget is filled up again by what is told, not by time. */
static bool note_progress(struct rdzv *r, struct job *job)
{
    struct told *told = &job->epoch.told;
    told->first = tfe_mono_min(told->first, r->now);
    told->last = r->now;
    return !tfe_mono_is_never(fault_refill_at(job));
}

static bool take_step(struct rdzv *r, struct job *job, const struct msg_progress *progress)
{
    struct told *told = &job->epoch.told;
    bool first = !told->has_step;
    if (!progress->has_step || (!first && progress->step <= told->step)) {
        return false;
    }
    told->has_step = true;
    told->step = progress->step;
    job->plan.knows_steps = true;
    bool refills = note_progress(r, job);
    if (first && !job->epoch.adopted) {
        plan_measure(r, job);
        plan_forget_standstill(job);
        ledger_progressed(r, job);
    }
    return first || refills;
}

static void take_saved_step(struct job *job, const struct msg_progress *progress)
{
    struct told *told = &job->epoch.told;
    if (progress->has_saved && (!told->has_saved || progress->saved_step > told->saved_step)) {
        told->has_saved = true;
        told->saved_step = progress->saved_step;
        job->plan.has_saved = true;
        job->plan.saved_step = progress->saved_step;
    }
}

static bool take_saves(struct rdzv *r, struct job *job, const struct msg_progress *progress,
                       bool is_news)
{
    struct told *told = &job->epoch.told;
    /* Saved and heard of before this server came, or asked for by one before it: that answers
     * nothing. */
    bool is_ours = is_news && progress->answers <= job->plan.number;
    bool is_answer = is_ours && progress->answers > told->answers;
    bool is_more = progress->saves > told->saves || is_answer;
    if (progress->saves > told->saves) {
        told->saves = progress->saves;
        job->plan.knows_saves = true;
        told->last_save = is_news ? r->now : told->last_save;
        (void)note_progress(r, job); /* a checkpoint is looked at in any case */
    }
    if (is_answer) {
        told->answers = progress->answers;
    }
    if (!is_news) {
        job->plan.saves_then =
            progress->saves > job->plan.saves_then ? progress->saves : job->plan.saves_then;
    }
    if (!is_ours) {
        plan_outnumber(r, job, progress->answers);
    }
    return is_more;
}

void on_progress(struct rdzv *r, struct node *node, const struct msg_progress *progress)
{
    struct job *job = node->job;
    struct told *told = &job->epoch.told;
    if (node->seat == NO_SEAT || !job->epoch.opened || progress->epoch != job->epoch.number) {
        return;
    }
    bool is_news = !job->epoch.adopted || node->progress.epoch != 0;
    bool listened = node->progress.listens;
    node->progress = *progress;
    bool decides = take_step(r, job, progress);
    take_saved_step(job, progress);
    decides = take_saves(r, job, progress, is_news) || decides;
    if (progress->listens && !listened) {
        told->n_listen++;
    } else if (!progress->listens && listened) {
        told->n_listen--;
    }
    if (node->save_told != job->plan.number) {
        plan_ask_late(r, job, node);
    }
    if (decides || progress->listens != listened) {
        job_settle(r, job);
    }
}
