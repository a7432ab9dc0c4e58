/* server/core/on_progress.c: PROGRESS: how far a node's trainers have come. O(1), unless a
 * checkpoint or a newly listening script settles the job. */
#include "server/core/job.h"
#include "server/core/on.h"

/* Each handle_* function returns true if the job must be settled because of the value. */

static bool take_step(struct rdzv *r, struct job *job, const struct msg_progress *progress)
{
    bool is_first = !job->told.has_step;
    if (!progress->has_step || !told_step(job, r->now, progress->step)) {
        return false;
    }
    plan_learn_steps(job);
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

static bool take_saves(struct rdzv *r, struct job *job, const struct msg_progress *progress,
                       bool is_news)
{
    bool is_newer = progress->kept_answers > progress->answers;
    uint64_t answers = is_newer ? progress->kept_answers : progress->answers;
    /* A checkpoint made before this server was started, or requested by an earlier server, answers
     * no SAVE of this one. */
    bool is_ours = is_news && answers <= job->plan.number;
    bool is_more = told_saves(job, r->now, progress->saves, is_news);
    bool is_answer = is_ours && told_answer(job, progress->answers);
    plan_learn_saves(job, progress->saves, is_more, is_news);
    if (!is_ours) {
        plan_outnumber(r, job, answers);
    }
    return is_more || is_answer;
}

/* State kept in memory matters if growth waits for it (design 4.8). */
static bool take_kept(struct rdzv *r, struct job *job, struct node *node,
                      const struct msg_progress *progress, bool is_news)
{
    ready_set_memory(node, &progress->memory);
    bool is_more = told_kept(job, r->now, &progress->memory, is_news);
    if (progress->has_from && told_from(job)) {
        ledger_learn_from(r, job, progress->from_step);
    }
    return is_more && !tfe_mono_is_never(job->plan.newcomer_at);
}

void on_progress(struct rdzv *r, struct node *node, const struct msg_progress *progress)
{
    struct job *job = node->job;
    if (!node_is_member(node) || !job->epoch.is_open || progress->epoch != job->epoch.number) {
        return;
    }
    bool is_news = !job->epoch.is_adopted || node->seat.has_told;
    bool listened = node->seat.listens;
    bool was_alone = node->seat.is_alone;
    /* State kept by a node that is leaving may go away with it. */
    bool decides = progress->kept_answers > node->seat.kept_answers && node->notice.kind == 0 &&
                   job->state == JOB_RUNNING;
    seat_set_told(node, progress);
    if (node->seat.is_alone && !was_alone) {
        send_trace(r, TRACE_NODE_ALONE, job, node, roster_rank(job, node->seat.index), NULL);
    }
    decides = take_step(r, job, progress) || decides;
    if (progress->has_saved && told_saved_step(job, progress->saved_step)) {
        plan_learn_saved_step(job, progress->saved_step);
    }
    decides = take_saves(r, job, progress, is_news) || decides;
    decides = take_kept(r, job, node, progress, is_news) || decides;
    decides = told_ends(job, progress->ends) || decides;
    told_partitioned(job, progress->partitioned);
    if (progress->listens != listened) {
        told_listens(job, progress->listens);
        decides = true;
    }
    if (node->seat.save_told != job->plan.number) {
        plan_ask_late(r, job, node);
    }
    if (decides) {
        job_touch(job);
    }
}
