/* server/core/presence.c: connects and disconnects nodes, and removes them. */
#include "server/core/presence.h"

#include "server/core/core.h"
#include "server/core/job.h"
#include "server/core/node.h"

void node_attach(struct rdzv *r, struct node *node, uint32_t session)
{
    r->by_session[session] = node;
    node->session = (struct node_session){
        .number = session, .told_spread_ms = node->session.told_spread_ms, .visit = ++r->visits};
    node->is_gone = false;
    ready_set_table(node, 0);
    seat_is_back(node);
    probing_is_back(node);
    probe_cancel(r, node);
    node->job->n_connected++;
    (void)lease_renew(r, node);
}

void node_detach(struct rdzv *r, struct node *node)
{
    if (!node_is_connected(node)) {
        return;
    }
    ready_set(node, 0);
    probe_cancel(r, node);
    r->by_session[node->session.number] = NULL;
    node->session.number = NO_SESSION;
    node->job->n_connected--;
}

void node_remove(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    report_forget(node);
    node_detach(r, node);
    probe_cancel(r, node);
    quarantine_end(r, node);
    lease_end(r, node);
    ready_set_memory(node, &(struct msg_memory){0}); /* the kept state ends with the agent */
    if (node->has_version) {
        node->has_version = false;
        version_leave(&job->version);
    }
    if (node_evaluates(node)) {
        evaluator_clear(&job->evaluator);
    }
    if (node_is_member(node)) {
        node->is_gone = true;
        return;
    }
    RB_REMOVE(node_tree, &job->nodes, node);
    job->n_nodes--;
    node->next_dead = r->dead_nodes;
    r->dead_nodes = node;
}

void node_prepare(struct rdzv *r, struct node *node)
{
    ready_set(node, 0); /* a READY must not count while the node still answers probes */
    if (node_evaluates(node)) {
        return; /* the node runs the evaluator */
    }
    probe_prepare(r, node);
}

uint32_t node_tell_spread(struct node *node, uint32_t spread_ms)
{
    node->session.told_spread_ms = spread_ms;
    return spread_ms;
}
