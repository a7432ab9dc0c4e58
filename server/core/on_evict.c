/* server/core/on_evict.c: an operator takes a node out of its job at once, whether it answers or
 * not. That proves nothing about its trainers: what is not accounted for is waited for until its
 * fence. */
#include "server/core/core.h"
#include "server/core/events.h"

static const char sentence[] = "this node was evicted from its job by an operator";

static void remember(struct rdzv *r, const struct node *node)
{
    r->evicted[r->evictions++ % CORE_EVICTED_MAX] =
        (struct evicted){.job = node->job->name, .node = node->id};
}

static bool is_remembered(const struct rdzv *r, const struct msg_join *join)
{
    struct evicted key;
    uint64_t n = r->evictions < CORE_EVICTED_MAX ? r->evictions : CORE_EVICTED_MAX;
    if (id_set(&key.job, join->job) || id_set(&key.node, join->node)) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (id_compare(&r->evicted[i].node, &key.node) == 0 &&
            id_compare(&r->evicted[i].job, &key.job) == 0) {
            return true;
        }
    }
    return false;
}

bool evict_refuses(struct rdzv *r, uint32_t session, struct node *node, const struct msg_join *join)
{
    if (!is_remembered(r, join)) {
        return false;
    }
    send_refused(r, session, REFUSAL_EVICTED, sentence);
    send_trace(r, TRACE_NODE_REFUSED, NULL, NULL, REFUSAL_EVICTED, sentence);
    send_close(r, session);
    if (node && join->exited && join->exited->epoch == node->job->epoch.number) {
        node_account(node); /* its last word still counts */
        job_settle(r, node->job);
    }
    return true;
}

void on_evict(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    uint32_t session = node->session;
    bool ran = job_engages(job, node) && !node->accounted;
    send_trace(r, TRACE_NODE_EVICTED, job, node, 0, node->name);
    remember(r, node);
    node_remove(r, node);
    if (session != NO_SESSION) {
        send_refused(r, session, REFUSAL_EVICTED, sentence);
        send_close(r, session);
    }
    if (ran && !job->rank0_finished) {
        ledger_blame(job, node);
        job_want_switch(job, CAUSE_DRAINED);
    }
    job_settle(r, job);
    job_drop_if_unused(r, job);
}
