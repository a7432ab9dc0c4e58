/* server/core/rebuild.c: rebuilds a job whose record is lost from its members' reports (design 6).
 *
 *    WAITING, GATHERING --JOIN with running--> REBUILDING --all, or most in time--> RUNNING
 *                                                   |
 *                                                   +-- too few: the others may have left that
 *                                                       epoch: wait for the fences, then form a
 *                                                       new epoch
 *
 * The highest reported epoch counts. Its members train on meanwhile; if all of them reconnect, none
 * is restarted. A member that is missing after one lease is lost, because one lease is the time
 * that members have to reconnect after any restart. */
#include "server/core/rebuild.h"

#include <string.h>

#include "server/core/epoch.h"
#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/layout.h"
#include "server/core/lease.h"
#include "server/core/node.h"
#include "server/core/persist.h"
#include "server/core/states.h"
#include "server/core/verdict.h"

/* Returns the number of the epoch that the JOIN's RUNNING is about. */
static uint64_t epoch_of(const struct msg_join *join)
{
    return join->running_epoch != 0 || !join->exited ? join->running_epoch : join->exited->epoch;
}

/* Returns true if one node's report is credible by itself. For an epoch of several nodes, most of
 * them must report before it has an effect. */
static bool is_credible(const struct msg_running *running, uint64_t epoch)
{
    return running->run <= MSG_LEAP &&
           epoch < (running->nodes > 1 ? MSG_EPOCH_LIMIT : MSG_LEAP + 1);
}

/* Returns true if an epoch of a job with this spec can have that many nodes and that rank. */
static bool fits(const struct job_spec *spec, const struct msg_running *running)
{
    return running->nodes > layout_extra(spec) &&
           running->world == layout_world_of(spec, running->nodes) &&
           layout_slot_of(spec, running->nodes, running->rank) < running->nodes;
}

bool rebuild_believes(const struct msg_join *join)
{
    return !join->running || is_credible(join->running, epoch_of(join));
}

/* Returns true if nothing of the job has been written, so no node knows of an epoch. A job that
 * prepares its first epoch returns to rebuilding only while the reported trainers may still run;
 * otherwise repeated reports could keep it from ever starting. */
static bool is_open_to_reports(const struct rdzv *r, const struct job *job)
{
    return job->epoch.number == 0 && job->persist.sequence == 0 &&
           (job->state == JOB_WAITING || job->state == JOB_GATHERING ||
            job->state == JOB_REBUILDING ||
            (job->state == JOB_PREPARING && fence_has_unknown(r, &job->fence)));
}

bool rebuild_needs_report(const struct rdzv *r, const struct job *job, const struct msg_join *join)
{
    const struct rebuild *rebuild = &job->rebuild;
    const struct msg_running *running = join->running;
    uint64_t epoch = epoch_of(join);
    return running && is_credible(running, epoch) && fits(&join->spec, running) &&
           is_open_to_reports(r, job) &&
           (epoch > rebuild->epoch ||
            (epoch == rebuild->epoch && running->run == rebuild->run &&
             running->nodes == rebuild->nodes && running->digest == rebuild->digest));
}

int rebuild_reserve(struct rdzv *r, struct job *job, const struct msg_join *join)
{
    struct rebuild *rebuild = &job->rebuild;
    if (!rebuild->placeholder) {
        rebuild->placeholder = node_new(r, "unknown", "not reported", join->spec.nproc);
        if (!rebuild->placeholder) {
            return TFE_ENOMEM;
        }
        rebuild->placeholder->job = job;
        rebuild->placeholder->is_gone = true;
    }
    /* Memory grows with the nodes that have joined, not with the number that one node reports: most
     * members will have joined before that number counts. */
    return job_reserve(r, job, 2 * ((size_t)job->n_nodes + 1), &job->spec);
}

/* --- one node's report ------------------------------------------------------------------------ */

bool report_note_listening(struct node *node, uint64_t epoch)
{
    if (!node->report.is_given || epoch != node->job->rebuild.epoch) {
        return false;
    }
    node->report.is_listening = true;
    return true;
}

bool report_note_end(struct node *node, const struct msg_exited *exited)
{
    struct report *report = &node->report;
    if (!report->is_given || exited->epoch != node->job->rebuild.epoch) {
        return false;
    }
    report->has_ended = true;
    report->restart = exited->restart;
    report->stopped = exited->stopped;
    report->code = (uint8_t)exited->code;
    report->signal = (uint8_t)exited->signal;
    return true;
}

void report_forget(struct node *node)
{
    if (node->report.is_given) {
        struct rebuild *rebuild = &node->job->rebuild;
        node->report.is_given = false;
        rebuild->n_reported--;
        if (!node->report.has_ended) {
            rebuild->left_until = tfe_mono_max(rebuild->left_until, node->lease.fence_end);
        }
    }
}

/* --- rebuilding the epoch --------------------------------------------------------------------- */

static bool is_taken(struct job *job, uint32_t slot)
{
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->report.is_given && node->report.slot == slot) {
            return true;
        }
    }
    return false;
}

/* Stops the trainers of a node whose report is not adopted, if it is connected. */
static void dismiss(struct rdzv *r, struct node *node)
{
    if (!node->report.has_ended) {
        lease_set_left(node, node->job->rebuild.epoch);
    }
    if (node_is_connected(node)) {
        send_stop(r, node, node->job->rebuild.epoch);
        node_prepare(r, node);
    }
}

/* Withdraws the reports of nodes that run an older epoch. */
static void overtake(struct rdzv *r, struct job *job)
{
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->report.is_given) {
            report_forget(node);
            dismiss(r, node);
        }
    }
}

bool rebuild_add_report(struct rdzv *r, struct node *node, const struct msg_join *join)
{
    struct job *job = node->job;
    struct rebuild *rebuild = &job->rebuild;
    const struct msg_running *running = join->running;
    if (!fits(&job->spec, running)) {
        return false; /* the job may have other sizes than this JOIN, set by an operator */
    }
    if (epoch_of(join) > rebuild->epoch) {
        overtake(r, job);
        *rebuild = (struct rebuild){
            .epoch = epoch_of(join),
            .run = running->run,
            .nodes = running->nodes,
            .digest = running->digest,
            .cause = running->cause,
            .until = rebuild->epoch == 0 ? lease_end_from(r, job, r->now) : rebuild->until,
            .placeholder = rebuild->placeholder,
        };
        run_restore(job, running->run, NULL, (struct tfe_wall){0});
    }
    uint32_t slot = layout_slot_of(&job->spec, running->nodes, running->rank);
    if (!node->report.is_given && is_taken(job, slot)) {
        return false;
    }
    report_forget(node);
    node->report = (struct report){.is_given = true, .slot = slot, .restart = join->restart};
    lease_set_left(node, 0); /* the reported epoch may be adopted after all */
    if (join->exited) {
        (void)report_note_end(node, join->exited);
    }
    rebuild->n_reported++;
    ready_learn(node, running->host, running->ports, running->n_ports);
    return true;
}

static void fill_slots(struct job *job)
{
    struct tfe_mono fenced = job->fence.unknown_until;
    struct node *placeholder = job->rebuild.placeholder;
    lease_extend_fence(placeholder, fenced);
    for (uint32_t slot = 0; slot < job->rebuild.nodes; slot++) {
        epoch_set_slot(&job->epoch, slot, placeholder);
    }
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->report.is_given) {
            epoch_set_slot(&job->epoch, node->report.slot, node);
            slot_adopt(node, node->report.slot, node->report.is_listening);
            /* the node follows only RESTARTs with higher numbers */
            slot_note_restarts(node, node->report.restart);
            lease_extend_fence(node, fenced);
        }
    }
}

/* Adopts the rebuilt epoch. Returns false if the reports contradict each other. */
static bool adopt(struct rdzv *r, struct job *job)
{
    struct rebuild *rebuild = &job->rebuild;
    bool is_whole = rebuild->n_reported == rebuild->nodes;
    if (rebuild->nodes > job->cap_slots ||
        layout_world_of(&job->spec, rebuild->nodes) > job->cap_rows) {
        return false;
    }
    fill_slots(job);
    struct epoch_past past = {.number = rebuild->epoch,
                              .cause = rebuild->cause,
                              .digest = rebuild->digest,
                              .must_match = is_whole};
    if (!epoch_adopt(r, job, rebuild->nodes, &past)) {
        for (uint32_t slot = 0; slot < rebuild->nodes; slot++) {
            slot_clear(job->epoch.slots[slot]);
        }
        return false;
    }
    if (!is_whole) {
        switch_request(job, CAUSE_SERVER_LOST, NULL);
    }
    send_trace(r, TRACE_REBUILT, job, NULL, rebuild->n_reported, NULL);
    if (is_whole) {
        persist_job(r, job);
    }
    return true;
}

/* Ends the rebuilding. */
static void clear(struct job *job)
{
    job->rebuild = (struct rebuild){.placeholder = job->rebuild.placeholder};
}

void rebuild_apply_endings(struct rdzv *r, struct job *job)
{
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        const struct report *report = &node->report;
        if (report->is_given && report->has_ended) {
            /* Why the trainers ended is not in the report, so none can be charged: one that did not
             * end well counts as ended by its agent, because the server was away. */
            struct msg_exited exited = {.epoch = job->epoch.number,
                                        .code = report->code,
                                        .signal = report->signal,
                                        .stopped = report->stopped,
                                        .tail = ""};
            exited.stopped = !verdict_is_good(&exited);
            /* A node that still runs the epoch has not missed a later one, because its trainers run
             * no longer than the server may wait for them. A node whose trainers have ended may
             * have missed one long ago, and others may run that later epoch. */
            if (exited.stopped) {
                (void)fence_await_unknown(r, &job->fence);
            }
            if (node_is_connected(node)) {
                send_noted(r, node, job->epoch.number);
            }
            verdict_apply(r, node, &exited, true);
        }
        node->report.is_given = false;
    }
}

static void give_up(struct rdzv *r, struct job *job)
{
    run_begun(job); /* closes the gather window */
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->report.is_given) {
            report_forget(node);
            dismiss(r, node);
        }
    }
    /* Waits for unknown trainers, even if all nodes that reported any are gone by now. */
    (void)fence_await_unknown(r, &job->fence);
    fence_extend_run(&job->fence, job->rebuild.left_until);
    clear(job);
}

enum rebuild_step rebuild_settle(struct rdzv *r, struct job *job)
{
    const struct rebuild *rebuild = &job->rebuild;
    if (rebuild->n_reported < rebuild->nodes && !is_past(r, rebuild->until)) {
        return REBUILD_WAITS;
    }
    if (2 * rebuild->n_reported > rebuild->nodes && adopt(r, job)) {
        clear(job);
        return REBUILD_ADOPTED;
    }
    give_up(r, job);
    return REBUILD_GIVEN_UP;
}
