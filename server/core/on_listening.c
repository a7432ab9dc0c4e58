/* server/core/on_listening.c: LISTENING: a node's trainers accept connections. */
#include "server/core/job.h"
#include "server/core/on.h"

void on_listening(struct rdzv *r, struct node *node, const struct msg_listening *listening)
{
    struct job *job = node->job;
    const struct epoch *epoch = &job->epoch;
    if (report_take_listening(node, listening->epoch) || !node_is_member(node) ||
        listening->epoch != epoch->number || node->seat.is_listening) {
        return; /* a node that has reconnected repeats it for the sake of a restarted server */
    }
    seat_set_listening(node);
    node_note_epoch(node, epoch->number);
    if (epoch_count_listening(job) && !epoch->is_adopted) {
        plan_measure(r, job);
        ledger_note(r, job, EPOCH_LISTENING);
        job_touch(job);
    }
    if (!tfe_mono_is_never(epoch->leader_until) && roster_may_follow(job)) {
        epoch_tell_rest(r, job);
        job_touch(job);
    }
    send_trace(r, TRACE_LISTENING, job, node,
               epoch->is_adopted ? 0 : (uint64_t)tfe_mono_sub(r->now, epoch->started), NULL);
}
