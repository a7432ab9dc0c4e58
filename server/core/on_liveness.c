/* server/core/on_liveness.c: whether a node is there: RENEW, the end of its lease or connection,
 * GOODBYE, DEATH, NOTICE, FACTS; and the results of writes. */
#include <string.h>

#include "server/core/core.h"
#include "server/core/epoch.h"
#include "server/core/handlers.h"
#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/lease.h"
#include "server/core/node.h"
#include "server/core/notice.h"
#include "server/core/persist.h"
#include "server/core/probe.h"
#include "server/core/verdict.h"
#include "server/core/view.h"
#include "server/core/worker_restart.h"

void on_renew(struct rdzv *r, struct node *node, const struct msg_renew *renew)
{
    struct lease_terms terms = lease_renew(r, node);
    success_note_rank0(r, node, renew);
    struct msg_renewed *renewed = &send_node(r, node, MSG_RENEWED)->u.renewed;
    renewed->number = renew->number;
    renewed->ttl_ms = terms.ttl_ms;
    renewed->fence_ms = terms.fence_ms;
    /* Raise the reconnect spread as the job grows; never lower it. */
    uint32_t spread = node_spread_ms(node, terms.ttl_ms);
    if (spread > node->session.sent_spread_ms) {
        renewed->spread_ms = node_note_spread(node, spread);
    }
    wait_report(r, node, renewed);
}

void on_lease_over(struct rdzv *r, struct node *node)
{
    if (mass_loss_postpones(r, node)) {
        return;
    }
    struct job *job = node->job;
    send_trace(r, TRACE_NODE_LOST, job, node, 0, "its lease expired");
    verdict_excuse(r, node);
    if (node_is_connected(node)) {
        /* An agent that was frozen finds this in its socket and stops at once. */
        send_node(r, node, MSG_LEASE_ENDED)->u.lease_ended.epoch = job->epoch.number;
    }
    worker_leave(r, node, CAUSE_NODE_LOST, false);
    /* the node's guard may prove the end of its trainers before the fence */
    probe_suspect(r, node);
}

void on_closed(struct rdzv *r, struct node *node)
{
    node_detach(r, node);
    send_trace(r, TRACE_NODE_SUSPECT, node->job, node, 0, node->name);
    probe_suspect(r, node);
    job_touch(node->job);
}

void on_goodbye(struct rdzv *r, struct node *node, const struct msg_goodbye *goodbye)
{
    send_trace(r, TRACE_NODE_LEFT, node->job, node, 0, node->name);
    verdict_excuse(r, node);
    worker_leave(r, node,
                 goodbye->interrupted     ? CAUSE_INTERRUPTED
                 : node->notice.kind != 0 ? notice_cause(&node->notice)
                                          : CAUSE_DRAINED,
                 true);
}

/* Handles a proven end: the node's process will never reconnect, and none of its trainers runs,
 * whatever it reported last. */
static void apply_proof(struct rdzv *r, struct node *node, const struct node *by)
{
    /* A node without a slot may have been proven dead when it had one. */
    bool is_news = node_is_member(node);
    if (is_news && !node->slot.is_dead &&
        !node->slot.is_taken_over) { /* the other process's trainers may live */
        send_trace(r, TRACE_NODE_DEAD, node->job, node, 0, by->id.text);
    }
    verdict_excuse(r, node);
    node_set_proof(node, NULL, 0);
    worker_leave(r, node, CAUSE_NODE_LOST, true);
    slot_prove_dead(node);
}

int on_death(struct rdzv *r, struct node *by, const struct msg_death *death)
{
    struct node *node;
    struct node *next;
    if (!id_is_valid(death->certificate)) {
        return TFE_EINVAL;
    }
    RB_FOREACH_SAFE(node, node_tree, &by->job->nodes, next)
    {
        if (node != by && strcmp(node->proof_hash.text, death->certificate) == 0) {
            apply_proof(r, node, by);
        }
    }
    return 0;
}

int on_notice(struct rdzv *r, struct node *node, const struct msg_notice *notice)
{
    bool has_deadline = notice->deadline_ms != MSG_UNSET;
    if (notice->kind < NOTICE_REBALANCE || notice->kind > NOTICE_OPERATOR ||
        (has_deadline && notice->deadline_ms > MSG_DURATION_MAX_MS)) {
        return TFE_EINVAL;
    }
    if (notice->withdrawn) {
        notice_withdraw(r, node);
        return 0;
    }
    /* A release by the pool and the end of a job are reported as such: neither means that a machine
     * goes away. */
    if (node->notice.kind != notice->kind && notice->released_for == 0 &&
        !node->job->persist.is_over) {
        send_trace(r, TRACE_NODE_NOTICED, node->job, node, has_deadline ? notice->deadline_ms : 0,
                   msg_notice_name(notice->kind))
            ->uncertain = notice->uncertain;
    }
    node->notice.is_interrupted = notice->interrupted;
    node->notice.released_for = notice->released_for;
    notice_apply(r, node, notice->kind, notice->deadline_ms);
    return 0;
}

void on_quarantine_over(struct rdzv *r, struct node *node)
{
    if (node_is_connected(node) && !epoch_engages(node->job, node)) {
        node_prepare(r, node);
    }
    job_touch(node->job);
}

void on_machine_info(struct node *node, const struct msg_machine_info *machine_info)
{
    const bool is_unfit = machine_info->failed_check;
    if (node->is_unfit != is_unfit) {
        node->is_unfit = is_unfit;
        job_touch(node->job); /* a switch may wait for the node */
    }
    /* otherwise the message says nothing about it, and the earlier value stays */
    if (machine_info->has_spot) {
        node->is_spot = machine_info->is_spot;
    }
}

void on_written(struct rdzv *r, struct job *job, const struct rdzv_event *event)
{
    if (event->conflict) {
        send_action(r, RDZV_EXIT)->sentence =
            "the database was taken over by another server: this server exits, training continues";
    } else if (event->type == RDZV_PERSISTED ? persist_handle_done(job, event->sequence)
                                             : persist_handle_failure(r, job, event->sequence)) {
        job_touch(job);
    }
}
