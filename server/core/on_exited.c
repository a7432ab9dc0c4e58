/* server/core/on_exited.c: EXITED: the trainers of a node have come to their end, well or not. */
#include <string.h>

#include "common/base/text.h"
#include "server/core/core.h"

/* Part of the error tail that fits beside the sentence. */
#define TAIL_IN_SENTENCE 700

/* Whether a member of the running epoch has vanished: a trainer's failure then follows from that.
 */
static bool peer_is_missing(const struct job *job)
{
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        const struct node *node = job->epoch.seats[seat];
        if (node->gone || node->session == NO_SESSION) {
            return true;
        }
    }
    return false;
}

static void fail_job(struct rdzv *r, struct node *node, const struct msg_exited *exited)
{
    struct job *job = node->job;
    struct text text;
    text_init(&text, job->sentence, sizeof(job->sentence));
    text_add(&text, "job ");
    text_add(&text, job->name.text);
    text_add(&text, " failed: rank ");
    text_add_u64(&text, (uint64_t)node->seat * job->nproc + exited->local_rank);
    text_add(&text, " on node ");
    text_add(&text, node->name);
    text_add(&text, " (");
    text_add(&text, node->id.text);
    text_add(&text, exited->signal ? ") was ended by signal " : ") exited with code ");
    text_add_u64(&text, exited->signal ? exited->signal : exited->code);
    text_add(&text, " after ");
    text_add_u64(&text, job->max_restarts);
    text_add(&text, job->max_restarts == 1 ? " restart" : " restarts");
    if (exited->tail && exited->tail[0]) {
        text_add(&text, "; its last lines were:\n");
        text_add_tail(&text, exited->tail, TAIL_IN_SENTENCE);
    }
    job_finish(r, job, JOB_FAILED);
}

static void take_failure(struct rdzv *r, struct node *node, const struct msg_exited *exited)
{
    struct job *job = node->job;
    /* One fault an epoch, on the first; the rest die of it. */
    if (job->has_cause) {
        return;
    }
    if (exited->stopped || peer_is_missing(job)) {
        job_want_switch(job, CAUSE_NODE_LOST);
        return;
    }
    if (job->restarts >= job->max_restarts) {
        fail_job(r, node, exited);
        return;
    }
    job->restarts++;
    send_trace(r, TRACE_RESTARTS, job, node, job->restarts, NULL);
    job_want_switch(job, CAUSE_TRAINER_FAILED);
}

static void take_success(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    node->finished = true;
    job->epoch.n_finished++;
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
    take_exited(r, node, exited);
    return 0;
}

void take_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited)
{
    struct job *job = node->job;
    send_to(r, node->session, MSG_NOTED)->u.noted.epoch = exited->epoch;
    if (node->seat == NO_SEAT || exited->epoch != job->epoch.number || node->accounted) {
        return;
    }
    uint64_t status = exited->signal ? 128 + (uint64_t)exited->signal : exited->code;
    bool well = !exited->stopped && status == 0;
    struct text tail; /* the message's own lives no longer than this call */
    text_init(&tail, r->tail, sizeof(r->tail));
    text_add(&tail, exited->tail);
    send_trace(r, TRACE_NODE_EXITED, job, node, status, r->tail);
    node_account(node);
    if (job->state == JOB_RUNNING) {
        if (well) {
            take_success(r, node);
        } else if (!job->rank0_finished) {
            take_failure(r, node, exited);
        }
    } else if (well && node->seat == 0) {
        /* It crossed the STOP. Where rank 0 leaves, its peers' collectives fail at once, and their
         * word may be here first. */
        job_succeed(r, job);
    }
    job_settle(r, job);
}
