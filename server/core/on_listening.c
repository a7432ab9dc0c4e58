/* server/core/on_listening.c: LISTENING: a node's trainers can be reached. */
#include "server/core/core.h"
#include "server/core/events.h"

/* One more listens: whether that is everybody. */
static void all_listen(struct rdzv *r, struct job *job)
{
    struct epoch *epoch = &job->epoch;
    if (++epoch->n_listening == epoch->n_seats && !epoch->adopted) {
        plan_measure(r, job);
        ledger_listening(r, job);
        job_settle(r, job);
    }
}

void on_listening(struct rdzv *r, struct node *node, const struct msg_listening *listening)
{
    const struct epoch *epoch = &node->job->epoch;
    if (node->reports && listening->epoch == node->job->rebuild.epoch) {
        node->report.listening = true;
        return;
    }
    if (node->seat == NO_SEAT || listening->epoch != epoch->number) {
        return;
    }
    if (node->listening) {
        return; /* it has come back, and says again what another server would not know */
    }
    node->listening = true;
    all_listen(r, node->job);
    node->highest_epoch = epoch->number;
    if (node->seat == 0 && !tfe_mono_is_never(epoch->leader_until)) {
        epoch_tell_rest(r, node->job);
        job_settle(r, node->job);
    }
    send_trace(r, TRACE_LISTENING, node->job, node,
               epoch->adopted ? 0 : (uint64_t)tfe_mono_sub(r->now, epoch->started), NULL);
}
