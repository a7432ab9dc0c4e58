/* server/core/on_listening.c: LISTENING: a node's trainers can be reached. */
#include "server/core/core.h"

void on_listening(struct rdzv *r, struct node *node, const struct msg_listening *listening)
{
    const struct epoch *epoch = &node->job->epoch;
    if (node->seat == NO_SEAT || listening->epoch != epoch->number) {
        return;
    }
    node->listening = true;
    node->highest_epoch = epoch->number;
    if (node->seat == 0 && !tfe_mono_is_never(epoch->leader_until)) {
        epoch_tell_rest(r, node->job);
        job_settle(r, node->job);
    }
    send_trace(r, TRACE_LISTENING, node->job, node, (uint64_t)tfe_mono_sub(r->now, epoch->started),
               NULL);
}
