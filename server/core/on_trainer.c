/* server/core/on_trainer.c: messages about a node's trainers: READY, LISTENING, EXITED,
 * PROCESSES. */
#include <string.h>

#include "server/core/epoch.h"
#include "server/core/evaluator.h"
#include "server/core/handlers.h"
#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/layout.h"
#include "server/core/lease.h"
#include "server/core/ledger.h"
#include "server/core/node.h"
#include "server/core/notice.h"
#include "server/core/plan.h"
#include "server/core/probe.h"
#include "server/core/rebuild.h"
#include "server/core/states.h"
#include "server/core/verdict.h"
#include "server/core/worker_restart.h"

static bool is_valid(const struct msg_ready *ready, uint32_t nproc)
{
    if ((ready->tensorflow && !id_is_valid(ready->tensorflow)) || ready->n_ports != nproc ||
        !ready->host || ready->host[0] == '\0' ||
        strnlen(ready->host, TFE_HOST_MAX + 1) > TFE_HOST_MAX) {
        return false;
    }
    for (size_t i = 0; i < ready->n_ports; i++) {
        if (ready->ports[i] == 0) {
            return false;
        }
    }
    return true;
}

int on_ready(struct rdzv *r, struct node *node, const struct msg_ready *ready)
{
    struct job *job = node->job;
    if (!is_valid(ready, job->spec.nproc)) {
        return TFE_EINVAL;
    }
    if (job->state == JOB_RUNNING && node_is_member(node) && !node->slot.is_accounted &&
        ready->epoch == job->epoch.number && ready->table_digest == 0) {
        ready_set_table(node, 0);
        /* the node's table did not match the digest in START: send it whole */
        epoch_resend_start(r, job, node);
        return 0;
    }
    if (ready->epoch != epoch_next(job)) {
        return 0; /* crossed a PREPARE for another number, which the node will answer too */
    }
    if (epoch_engages(job, node) || node_evaluates(node)) {
        return 0; /* the node is in the running epoch and gets PREPARE when that ends */
    }
    if (ready_reserve(r, node, ready->host)) {
        return TFE_ENOMEM;
    }
    if (strcmp(node->ready.host, ready->host) != 0) {
        probe_forget(node);
    }
    ready_learn(node, ready->host, ready->ports, ready->n_ports);
    ready_set_table(node, ready->table_digest);
    ready_set_memory(node, &ready->memory);
    slot_account(node); /* no trainer of an older epoch runs there */
    lease_set_left(node, 0);
    job_touch(job);
    if (version_note(r, node, ready->tensorflow)) {
        return 0;
    }
    /* otherwise it gets PREPARE when the quarantine ends */
    if (!quarantine_is_on(&node->quarantine)) {
        probe_ready(r, node, ready->answering);
    }
    return 0;
}

void on_listening(struct rdzv *r, struct node *node, const struct msg_listening *listening)
{
    struct job *job = node->job;
    const struct epoch *epoch = &job->epoch;
    if (report_note_listening(node, listening->epoch) || !node_is_member(node) ||
        listening->epoch != epoch->number || node->slot.is_listening) {
        return; /* a node that has reconnected repeats it for the sake of a restarted server */
    }
    const bool is_complete = slot_set_listening(node);
    node_note_epoch(node, epoch->number);
    if (is_complete && !epoch->is_adopted) {
        plan_measure(r, job);
        ledger_note(r, job, EPOCH_LISTENING);
        job_touch(job);
    }
    if (!tfe_mono_is_never(epoch->leader_until) && layout_may_start_rest(job)) {
        epoch_start_rest(r, job);
        job_touch(job);
    }
    send_trace(r, TRACE_LISTENING, job, node,
               epoch->is_adopted ? 0 : (uint64_t)tfe_mono_sub(r->now, epoch->started), NULL);
}

int on_exited(struct rdzv *r, struct node *node, const struct msg_exited *exited)
{
    if (!exited_is_valid(exited, node->job->spec.nproc)) {
        return TFE_EINVAL;
    }
    if (evaluator_handle_exited(r, node, exited)) {
        send_noted(r, node, exited->epoch);
        drain_end(r, node);
        return 0;
    }
    ending_handle(r, node, exited, false);
    if (layout_can_lose(node->job, node) && node->job->state == JOB_RUNNING &&
        !node->job->pending_switch.is_set) {
        drain_end(r, node);
    }
    return 0;
}

int on_processes(struct rdzv *r, struct node *node, const struct msg_processes *processes)
{
    struct node_processes *p = &node->processes;
    size_t max = node->job->spec.nproc;
    if (processes->n_trainer_pids > max || processes->n_standby_pids > max) {
        return TFE_EINVAL;
    }
    p->guard_pid = processes->guard_pid;
    p->n_trainer_pids = (uint32_t)processes->n_trainer_pids;
    p->n_standby_pids = (uint32_t)processes->n_standby_pids;
    for (uint32_t i = 0; i < p->n_trainer_pids; i++) {
        p->trainer_pids[i] = processes->trainer_pids[i];
    }
    for (uint32_t i = 0; i < p->n_standby_pids; i++) {
        p->standby_pids[i] = processes->standby_pids[i];
    }
    return 0;
}
