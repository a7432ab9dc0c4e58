/* server/core/on_exited.c: EXITED: the trainers of a node have come to their end, well or not. */
#include <string.h>

#include "common/base/text.h"
#include "server/core/core.h"
#include "server/core/events.h"

static void take_success(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    bool first = tfe_mono_is_never(job->exit_deadline);
    if (node->seat == 0) {
        job->rank0_finished = true;
    }
    if (first || node->seat == 0) {
        job->exit_deadline = tfe_mono_add(r->now, r->config.exit_grace_ms);
    }
}

bool exited_is_sound(const struct msg_exited *exited, uint32_t nproc)
{
    return exited->local_rank < nproc &&
           (!exited->tail || strnlen(exited->tail, MSG_TAIL_MAX + 1) <= MSG_TAIL_MAX);
}

int on_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited)
{
    if (!exited_is_sound(exited, node->job->nproc)) {
        return TFE_EINVAL;
    }
    take_exited(r, node, exited, false);
    return 0;
}

void take_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited, bool was_away)
{
    struct job *job = node->job;
    if (node->reports && exited->epoch == job->rebuild.epoch) {
        rebuild_take_end(node, exited); /* NOTED when there is a job that can make use of it */
        return;
    }
    send_to(r, node->session, MSG_NOTED)->u.noted.epoch = exited->epoch;
    if (node->seat == NO_SEAT || exited->epoch != job->epoch.number || node->accounted) {
        return;
    }
    judge_exited(r, node, exited, was_away);
    job_settle(r, job);
}

void judge_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited, bool was_away)
{
    struct job *job = node->job;
    uint64_t status = exited->signal ? 128 + (uint64_t)exited->signal : exited->code;
    bool well = exited_well(exited);
    /* In an epoch that is being left, the one that the others died of may report last. */
    bool is_judged = !well && !fault_is_settled(job) &&
                     ((job->state == JOB_RUNNING && !job->rank0_finished) ||
                      (job->state == JOB_PREPARING && job->fault.epoch == job->epoch.number));
    enum end end = is_judged ? cause_of(r, node, exited, was_away) : END_FINISHED;
    struct text tail; /* the message's own lives no longer than this call */
    text_init(&tail, r->tail, sizeof(r->tail));
    text_add(&tail, exited->tail);
    send_trace(r, TRACE_NODE_EXITED, job, node, status, r->tail);
    node_account(node);
    if (is_judged) {
        fault_take(r, node, exited, end);
    } else if (well && job->state == JOB_RUNNING) {
        take_success(r, node);
    } else if (well && node->seat == 0) {
        /* It crossed the STOP. Where rank 0 leaves, its peers' collectives fail at once, and their
         * word may be here first. */
        job_succeed(r, job);
    }
}
