/* server/core/states.c: the states of a job and the transitions between them.
 *
 *    WAITING --> GATHERING --> PREPARING --> COMMITTING --> RUNNING   the way to an epoch
 *       ^  |         |          |  ^  ^  ^       |             |
 *       |  +---------|----------|--+  |  +-------+             |
 *       +------------+----------+     +------------------------+
 *     fewer than min              a member was lost, failed, joined, drained
 *
 *    WAITING --> PREPARING: an epoch ran before. COMMITTING --> PREPARING: a member was lost.
 *
 *    any of these --> COMMITTING --> SUCCEEDED | FAILED | CANCELLED   the end: rank 0 ended well,
 *                                                                     out of restarts, an operator
 *
 * A switch waits for a drained node as for any member, because its trainers must end, and releases
 * it on the way from PREPARING to COMMITTING or WAITING.
 *
 * If the job's record is lost, REBUILDING comes before WAITING or RUNNING (rebuild.c), and also
 * from PREPARING of a first epoch.
 *
 * COMMITTING makes an epoch, and the job's end, durable before any node learns of it.
 *
 * A job is settled after every event: each state acts on what is known now and moves on, or sets a
 * time for the next check. What is known does not depend on the order of messages. */
#include "server/core/states.h"

#include <string.h>

#include "common/text/text.h"
#include "server/core/epoch.h"
#include "server/core/evaluator.h"
#include "server/core/failure.h"
#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/layout.h"
#include "server/core/lease.h"
#include "server/core/ledger.h"
#include "server/core/node.h"
#include "server/core/notice.h"
#include "server/core/persist.h"
#include "server/core/plan.h"
#include "server/core/probe.h"
#include "server/core/rebuild.h"
#include "server/core/verdict.h"
#include "server/core/view.h"
#include "server/core/worker_restart.h"

/* design 4.2: a switch waits at most this long for a suspect without proof of its end. */
#define SUSPECT_WAIT_MS 1000
/* Time that the trainers of a cancelled job have to report their end. */
#define STOP_WAIT_MS 1000
/* design 4.2: a member that is not READY within the stop grace and this time after STOP is left
 * out. */
#define PREPARE_WAIT_MS 30000

static bool settle_waiting(struct rdzv *r, struct job *job);
static bool settle_rebuilding(struct rdzv *r, struct job *job);
static bool settle_gathering(struct rdzv *r, struct job *job);
static bool settle_preparing(struct rdzv *r, struct job *job);
static bool settle_committing(struct rdzv *r, struct job *job);
static bool settle_running(struct rdzv *r, struct job *job);

#define TO(state) (1u << (state))

static const struct {
    const char *name;
    unsigned next; /* bit set of the states that may follow */
    /* Moves the job on and returns true, or sets the job's timer and returns false. NULL for a
     * final state. */
    bool (*settle)(struct rdzv *r, struct job *job);
} job_states[JOB__COUNT] = {
    [JOB_WAITING] = {"waiting",
                     TO(JOB_REBUILDING) | TO(JOB_GATHERING) | TO(JOB_PREPARING) |
                         TO(JOB_COMMITTING),
                     settle_waiting},
    [JOB_REBUILDING] = {"rebuilding", TO(JOB_RUNNING) | TO(JOB_WAITING) | TO(JOB_COMMITTING),
                        settle_rebuilding},
    [JOB_GATHERING] = {"gathering",
                       TO(JOB_REBUILDING) | TO(JOB_WAITING) | TO(JOB_PREPARING) |
                           TO(JOB_COMMITTING),
                       settle_gathering},
    [JOB_PREPARING] = {"preparing", TO(JOB_REBUILDING) | TO(JOB_WAITING) | TO(JOB_COMMITTING),
                       settle_preparing},
    [JOB_COMMITTING] = {"committing",
                        TO(JOB_PREPARING) | TO(JOB_RUNNING) | TO(JOB_COMMITTING) |
                            TO(JOB_SUCCEEDED) | TO(JOB_FAILED) | TO(JOB_CANCELLED),
                        settle_committing},
    [JOB_RUNNING] = {"running", TO(JOB_PREPARING) | TO(JOB_COMMITTING), settle_running},
    [JOB_SUCCEEDED] = {"succeeded", 0, NULL},
    [JOB_FAILED] = {"failed", 0, NULL},
    [JOB_CANCELLED] = {"cancelled", 0, NULL},
};

const char *job_state_name(enum job_state state)
{
    return job_states[state].name;
}

/* Returns the state shown to users: STARTING or RESTARTING, depending on whether an epoch of the
 * run has started before. A job that is being rebuilt counts as running, and so does a job whose
 * failure is final unless a lost node explains it: it may never restart. */
static enum tfe_job_state visible_state_of(const struct rdzv *r, const struct job *job)
{
    const bool is_first = job->run.is_new || (job->epoch.is_first && !job->epoch.is_open);
    enum tfe_job_state on_the_way = is_first ? STATE_STARTING : STATE_RESTARTING;
    if (!is_first && verdict_is_pending(r, job)) {
        on_the_way = STATE_RUNNING;
    }
    switch (job->state) {
    case JOB_WAITING:
        return layout_is_enough(job) ? on_the_way : STATE_WAITING;
    case JOB_GATHERING:
    case JOB_PREPARING:
        return on_the_way;
    case JOB_COMMITTING:
        return job->persist.is_over && job->epoch.is_open ? STATE_RUNNING : on_the_way;
    case JOB_REBUILDING:
    case JOB_RUNNING:
        return STATE_RUNNING;
    case JOB_SUCCEEDED:
        return STATE_SUCCEEDED;
    case JOB_FAILED:
        return STATE_FAILED;
    case JOB_CANCELLED:
        return STATE_CANCELLED;
    case JOB__COUNT:
        break;
    }
    return STATE_WAITING;
}

static bool enter(struct rdzv *r, struct job *job, enum job_state state)
{
    TFE_ASSERT(job_states[job->state].next & TO(state));
    job->state = state;
    if (state == JOB_WAITING) {
        job->phase.waiting_since = r->now;
    }
    send_trace(r, TRACE_JOB_STATE, job, NULL, 0, job_state_name(state));
    return true;
}

static bool wait_until(struct rdzv *r, struct job *job, struct tfe_mono when)
{
    wheel_set(&r->wheel, &job->timer.wheel, tfe_mono_min(when, evaluator_leaves_at(r, job)));
    return false;
}

/* --- end of a job ----------------------------------------------------------------------------- */

void job_finish(struct rdzv *r, struct job *job, enum job_state state, const char *sentence)
{
    run_end_as(job, r->wall, sentence);
    verdict_note_progress(r, job);
    if (state == JOB_CANCELLED) {
        job->phase.stop_began = r->now;
    }
    persist_end(r, job, state);
    enter(r, job, JOB_COMMITTING);
}

/* Ends the job with success, unless another result has been decided and may be stored already. */
static void succeed(struct rdzv *r, struct job *job)
{
    if (!job->persist.is_over) {
        text_setf(r->sentence, sizeof(r->sentence), "job %s succeeded", job->name.text);
        job_finish(r, job, JOB_SUCCEEDED, r->sentence);
    }
}

/* Fails the job and returns true if its budget is used up; else sets *ret_wait to the time before
 * which the next epoch must not start. */
static bool fails(struct rdzv *r, struct job *job, struct tfe_mono *ret_wait)
{
    if (!verdict_is_final(r, job, ret_wait)) {
        return false;
    }
    failure_sentence(job, r->sentence);
    job_finish(r, job, JOB_FAILED, r->sentence);
    return true;
}

static void give_up(struct rdzv *r, struct job *job)
{
    text_setf(r->sentence, sizeof(r->sentence),
              "job %s gave up: fewer than %u nodes were ready for %u s (--elastic-timeout)",
              job->name.text, job->spec.min_nodes, job->spec.elastic_timeout_ms / 1000);
    job_finish(r, job, JOB_FAILED, r->sentence);
}

/* Ends the job after its end has become durable: sends FINISH to all nodes and removes them. */
static void end(struct rdzv *r, struct job *job)
{
    ledger_close(r, job);
    struct tfe_mono fenced = fence_end(job);
    fence_reserve_ports(&job->fence, job->epoch.number, fenced);
    if (!layout_is_stopped(job)) {
        fence_extend_run(&job->fence, fenced); /* a next run waits for these trainers */
    } else if (job->persist.record.fenced && fence_run_is_over(r, job)) {
        /* all trainers have reported their end since the record was written, so a restarted server
         * needs no fence */
        persist_job(r, job);
    }
    enter(r, job, job->persist.ending);
    send_trace(r, TRACE_JOB_FINISHED, job, NULL, 0, job->run.sentence);
    wheel_cancel(&r->wheel, &job->timer.wheel);
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->session.number != NO_SESSION) {
            send_finish(r, node->session.number, job_result(job), job->run.number,
                        job->run.sentence);
        }
    }
    job_clear(r, job);
}

/* --- on the way to an epoch ------------------------------------------------------------------- */

static bool prepare(struct rdzv *r, struct job *job)
{
    job->phase.switch_began = r->now;
    job->phase.fence_until = (struct tfe_mono){0};
    job->phase.raised_spares = 0;
    return enter(r, job, JOB_PREPARING);
}

/* Returns the STOP for the members of the current epoch. */
static struct msg_stop stop_of(struct rdzv *r, struct job *job)
{
    return (struct msg_stop){.epoch = job->epoch.number,
                             .planned = job->pending_switch.is_planned,
                             .cause = job->pending_switch.cause,
                             .blamed = ledger_blamed(job),
                             .message = wait_describe_switch(r, job),
                             .in_memory =
                                 job->pending_switch.is_planned && plan_state_in_memory(job)};
}

static void stop_members(struct rdzv *r, struct job *job, bool chief, bool others)
{
    const struct msg_stop stop = stop_of(r, job);
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        struct node *node = job->epoch.slots[slot];
        if (node_is_connected(node) && (layout_is_chief(job, node) ? chief : others)) {
            send_node(r, node, MSG_STOP)->u.stop = stop;
            node_prepare(r, node);
        }
    }
}

void states_stop_late(struct rdzv *r, const struct node *node, uint64_t epoch)
{
    struct job *job = node->job;
    /* A member that is accounted for is not waited for. */
    if (job->state == JOB_PREPARING && node_is_member(node) && epoch == job->epoch.number &&
        !node->slot.is_accounted) {
        const struct msg_stop stop = stop_of(r, job);
        send_node(r, node, MSG_STOP)->u.stop = stop;
    } else {
        send_stop(r, node, epoch);
    }
}

/* Sends STOP and PREPARE to the members of the running epoch. ps serve a chief that still saves, so
 * they get STOP once the chief has ended or its grace period is over. */
static bool begin_switch(struct rdzv *r, struct job *job)
{
    verdict_note_progress(r, job);
    send_trace(r, TRACE_SWITCH, job, NULL, 0, msg_cause_name(job->pending_switch.cause));
    ledger_stop(r, job, job->pending_switch.is_planned ? plan_detected_at(r, job) : r->now);
    plan_stop(r, job);
    bool waits = job->pending_switch.is_planned && job->epoch.is_open && layout_has_ps(job);
    stop_members(r, job, true, !waits);
    if (!job->epoch.is_open) {
        epoch_prepare_spares(r, job); /* Spares were READY for an epoch number that is used up. */
    }
    job->phase.serve_until = waits ? tfe_mono_add(r->now, job->spec.stop_grace_ms) : TFE_MONO_NEVER;
    return prepare(r, job);
}

/* Returns true if ps and workers still serve a chief that is being stopped; *ret_until is the time
 * limit. */
static bool still_serve(struct rdzv *r, struct job *job, struct tfe_mono *ret_until)
{
    const struct node *chief = layout_chief(job);
    *ret_until = job->phase.serve_until;
    if (tfe_mono_is_never(*ret_until)) {
        return false;
    }
    /* A disconnected chief is waited for as well, because no epoch starts without knowing its
     * end. */
    if (job->pending_switch.is_planned && !chief->is_gone && !chief->slot.is_accounted &&
        !is_past(r, *ret_until)) {
        return true;
    }
    job->phase.serve_until = TFE_MONO_NEVER;
    stop_members(r, job, false, true);
    return false;
}

static bool settle_waiting(struct rdzv *r, struct job *job)
{
    struct tfe_mono wait;
    if (job->rebuild.epoch != 0) {
        return enter(r, job, JOB_REBUILDING);
    }
    if (fails(r, job, &wait)) {
        return true;
    }
    if (!layout_is_enough(job)) {
        evaluator_yield(r, job);
        struct tfe_mono wait_limit =
            job->spec.elastic_timeout_ms
                ? tfe_mono_add(job->phase.waiting_since, job->spec.elastic_timeout_ms)
                : TFE_MONO_NEVER;
        if (is_past(r, wait_limit)) {
            give_up(r, job);
            return true;
        }
        return wait_until(r, job, is_past(r, wait) ? wait_limit : tfe_mono_min(wait, wait_limit));
    }
    if (!job->run.is_new) {
        return prepare(
            r, job); /* losses are handled at once; the gather window is for the first start */
    }
    job->phase.ready_since = r->now;
    return enter(r, job, JOB_GATHERING);
}

static bool settle_rebuilding(struct rdzv *r, struct job *job)
{
    switch (rebuild_settle(r, job)) {
    case REBUILD_WAITS:
        return wait_until(r, job, job->rebuild.until);
    case REBUILD_ADOPTED:
        enter(r, job, JOB_RUNNING);
        rebuild_apply_endings(r, job);
        return true;
    case REBUILD_GIVEN_UP:
        return enter(r, job, JOB_WAITING);
    }
    return false;
}

static bool settle_gathering(struct rdzv *r, struct job *job)
{
    if (job->rebuild.epoch != 0) {
        return enter(r, job, JOB_REBUILDING);
    }
    if (!layout_is_enough(job)) {
        return enter(r, job, JOB_WAITING);
    }
    struct tfe_mono close = tfe_mono_add(job->phase.ready_since, r->config.gather_max_ms);
    if (job->n_ready == job->n_connected) {
        close = tfe_mono_min(close, tfe_mono_add(job->last_join, job->spec.gather_ms));
    }
    if (layout_is_full(job) || is_past(r, close)) {
        return prepare(r, job);
    }
    return wait_until(r, job, close);
}

/* Returns true if a switch need not wait for this member of the old epoch. */
static bool has_stopped(const struct node *node)
{
    if (node->is_gone || node->slot.is_dead) {
        return true;
    }
    bool is_left_out =
        node->notice.is_leaving || node->is_unfit || quarantine_is_on(&node->quarantine);
    return is_left_out ? node->slot.is_accounted : node_is_ready(node);
}

/* Returns until when a switch waits for this member of the old epoch; a time in the past if it does
 * not. */
static struct tfe_mono awaited_until(const struct job *job, const struct node *node)
{
    if (has_stopped(node)) {
        return (struct tfe_mono){0};
    }
    return tfe_mono_add(job->phase.switch_began,
                        node_is_connected(node) ? (int64_t)job->spec.stop_grace_ms + PREPARE_WAIT_MS
                                                : SUSPECT_WAIT_MS);
}

/* Returns until when a switch waits for any member of the old epoch; a time in the past if it does
 * not. Starts with the member awaited last, so that ten thousand READYs do not check ten thousand
 * members each; all_members_done does the same for EXITEDs. */
static struct tfe_mono awaited(const struct rdzv *r, struct job *job)
{
    uint32_t n = job->epoch.n_slots;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = (job->phase.awaited_slot + i) % n;
        struct tfe_mono until = awaited_until(job, job->epoch.slots[slot]);
        if (tfe_mono_before(r->now, until)) {
            job->phase.awaited_slot = slot;
            return until;
        }
    }
    return (struct tfe_mono){0};
}

static void leave_out_the_late(struct rdzv *r, struct job *job)
{
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        const struct node *node = job->epoch.slots[slot];
        if (!has_stopped(node)) {
            verdict_excuse(r, node);
            send_trace(r, TRACE_NODE_LOST, job, node, 0,
                       "not ready in time for the switch; excluded from the epoch");
        }
    }
}

/* Returns true if spares that were READY before the epoch number was raised are not READY again:
 * the switch may be meant for them. */
static bool lacks_spares(const struct job *job)
{
    uint32_t members = 0;
    for (uint32_t slot = 0; job->phase.raised_spares && slot < job->epoch.n_slots; slot++) {
        members += node_is_ready(job->epoch.slots[slot]);
    }
    return job->n_ready < members + job->phase.raised_spares;
}

static bool settle_preparing(struct rdzv *r, struct job *job)
{
    struct tfe_mono wait;
    if (job->rebuild.epoch != 0) {
        return enter(r, job, JOB_REBUILDING);
    }
    if (fails(r, job, &wait)) {
        return true;
    }
    struct tfe_mono serve;
    if (still_serve(r, job, &serve)) {
        return wait_until(r, job, serve);
    }
    /* A verdict or the end of the back-off may precede the other conditions. */
    struct tfe_mono sooner = is_past(r, wait) ? TFE_MONO_NEVER : wait;
    struct tfe_mono until = awaited(r, job);
    if (tfe_mono_before(r->now, until)) {
        return wait_until(r, job, tfe_mono_min(until, sooner));
    }
    uint32_t last_slot;
    struct tfe_mono fenced = fence_switch_end(r, job, job->phase.switch_began, &last_slot);
    if (tfe_mono_before(r->now, fenced)) {
        if (job->phase.fence_until.ms == 0) {
            send_trace(r, TRACE_WAIT_FENCE, job, NULL, (uint64_t)tfe_mono_sub(fenced, r->now),
                       NULL);
        }
        if (job->phase.fence_until.ms != fenced.ms) {
            job->phase.fence_until = fenced;
            job->phase.fence_slot = last_slot;
        }
        return wait_until(r, job, tfe_mono_min(fenced, sooner));
    }
    struct tfe_mono answered = probe_stop_answering(r, job);
    if (tfe_mono_before(r->now, answered)) {
        return wait_until(r, job, answered);
    }
    if (!layout_is_enough(job)) {
        plan_forget_standstill(job);
        ledger_close(r, job);
        enter(r, job, JOB_WAITING);
        drain_end_all(r, job);
        return true;
    }
    if (!is_past(r, wait)) {
        return wait_until(r, job, wait);
    }
    if (lacks_spares(job) && !is_past(r, job->phase.raised_until)) {
        return wait_until(r, job, job->phase.raised_until);
    }
    leave_out_the_late(r, job);
    epoch_form(r, job);
    drain_end_all(r, job);
    persist_or_defer(r, job);
    return enter(r, job, JOB_COMMITTING);
}

/* Returns true if a cancelled job's trainers are about to report their end, which saves the next
 * run the wait for their fence. */
static bool still_ends(const struct rdzv *r, const struct job *job)
{
    if (job->persist.ending != JOB_CANCELLED || layout_is_stopped(job) ||
        is_past(r, tfe_mono_add(job->phase.stop_began, STOP_WAIT_MS))) {
        return false;
    }
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        if (node_is_connected(job->epoch.slots[slot])) {
            return true;
        }
    }
    return false;
}

/* Durable before visible: no node learns of an epoch or of the job's end before a restarted server
 * would know it. */
static bool settle_committing(struct rdzv *r, struct job *job)
{
    persist_if_due(r, job);
    if (job->persist.is_open) {
        persist_retry(r, job);
        return wait_until(r, job, job->persist.retry_at);
    }
    if (job->persist.is_over && still_ends(r, job)) {
        return wait_until(r, job, tfe_mono_add(job->phase.stop_began, STOP_WAIT_MS));
    }
    if (job->persist.is_over) {
        end(r, job);
        return false;
    }
    if (job->pending_switch.is_set) {
        return begin_switch(r, job); /* the epoch ends before it has started */
    }
    epoch_open(r, job);
    return enter(r, job, JOB_RUNNING);
}

/* --- while the epoch runs --------------------------------------------------------------------- */

static bool all_members_done(struct job *job)
{
    uint32_t n = job->epoch.n_slots;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = (job->phase.awaited_slot + i) % n;
        const struct node *node = job->epoch.slots[slot];
        if (node->slot.is_started && !node->slot.is_accounted && !node->is_gone &&
            layout_is_awaited(job, node)) {
            job->phase.awaited_slot = slot;
            return false;
        }
    }
    return true;
}

/* Keeps the record up to date while the epoch runs: retries a failed write, and writes longer
 * leases. */
static void retry_writes(struct rdzv *r, struct job *job)
{
    persist_retry(r, job);
    if (!job->persist.is_open && lease_target_ms(r) > job->persist.durable_ttl_ms) {
        persist_job(r, job); /* the longer lease is granted once a restarted server would know it */
    }
}

static void update_record(struct rdzv *r, struct job *job)
{
    retry_writes(r, job);
    if (is_past(r, job->epoch.leader_until)) {
        epoch_start_rest(r, job);
    }
    if (verdict_earn(r, job)) {
        persist_job(r, job);
    }
}

static bool settle_running(struct rdzv *r, struct job *job)
{
    if (job->success.is_here) {
        (void)evaluator_settle(r, job);
        /* TensorFlow has no barrier at the end of training: the other trainers get the exit grace,
         * and their exit codes no longer matter. */
        if ((!all_members_done(job) || evaluator_is_awaited(job)) &&
            !is_past(r, job->success.until)) {
            retry_writes(r, job);
            return wait_until(r, job, tfe_mono_min(job->success.until, job->persist.retry_at));
        }
        succeed(r, job);
        return true;
    }
    if (!job->pending_switch.is_set && is_past(r, success_hangs_at(job))) {
        verdict_apply_hang(r, job);
    }
    if (job->pending_switch.is_set && job->pending_switch.is_planned && plan_is_obsolete(r, job)) {
        switch_clear(job);
    }
    struct tfe_mono wait;
    if (!job->pending_switch.is_set && layout_has_ps(job) && fails(r, job, &wait)) {
        return true; /* a restart of a single worker is charged to the budget too */
    }
    struct tfe_mono workers =
        tfe_mono_min(job->pending_switch.is_set ? TFE_MONO_NEVER : workers_settle(r, job),
                     evaluator_settle(r, job));
    struct tfe_mono plan = TFE_MONO_NEVER;
    if (!job->pending_switch.is_set) {
        plan = plan_settle(r, job);
    }
    if (job->pending_switch.is_set && first_start_has_failed(job)) {
        failure_sentence(job, r->sentence);
        job_finish(r, job, JOB_FAILED, r->sentence);
        return true;
    }
    /* Conditions of a switch: (1) a switch that is not forced stops no trainer before its epoch can
     * be written; (2) the switch waits while the other ranks may be about to show that the script
     * cannot start; (3) if another process has taken a member's id, its epoch must be recorded
     * first, because a restarted server would take that process for the member. */
    struct tfe_mono others = first_start_until(job);
    bool is_due = job->pending_switch.is_set && is_past(r, others);
    if (is_due &&
        ((!epoch_is_intact(job) && !epoch_has_duplicate(job)) || persist_is_proven(r, job))) {
        return begin_switch(r, job);
    }
    update_record(r, job);
    struct tfe_mono when = tfe_mono_min(tfe_mono_min(verdict_earns_at(job), plan), workers);
    when = tfe_mono_min(when, success_hangs_at(job));
    when = tfe_mono_min(when, job->persist.retry_at);
    when = is_past(r, others) ? when : tfe_mono_min(when, others);
    return wait_until(r, job, tfe_mono_min(when, job->epoch.leader_until));
}

void job_update_visible_state(const struct rdzv *r, struct job *job, struct tfe_wall now)
{
    const enum tfe_job_state visible_state = visible_state_of(r, job);
    if (job->phase.visible_state != visible_state) {
        job->phase.visible_state = visible_state;
        job->phase.visible_since = now;
    }
}

void job_settle(struct rdzv *r, struct job *job)
{
    bool should_continue = true;
    job->is_touched = false;
    wait_change(&job->wait);
    if (job->persist.is_gone) { /* only the deletion of the job's record is outstanding */
        persist_retry(r, job);
        (void)wait_until(r, job, job->persist.retry_at);
        return;
    }
    evaluator_leave(r, job);
    while (should_continue && job_states[job->state].settle) {
        if (job->success.is_due) {
            job->success.is_due = false;
            succeed(r, job);
        }
        should_continue = job_states[job->state].settle(r, job);
    }
    job_update_visible_state(r, job, job_is_over(job) ? job->run.ended : r->wall);
}
