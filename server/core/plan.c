/* server/core/plan.c: planned switches: growth (design 4.8), and leaving before a machine is
 * terminated (design 4.9).
 *
 *    a newcomer is READY,     wait: others    ask the scripts       an answer, or
 *    a notice arrives       --> may come too --> for a checkpoint --> the last moment --> switch
 *
 * A planned switch never loses saved work and seldom loses unsaved work. If nothing is known of
 * checkpoints, it waits for none. PROGRESS and a first notice cost O(1); members are counted when a
 * notice changes or goes, and visited one by one when a SAVE is sent. */
#include "server/core/plan.h"

#include "common/text/text.h"
#include "server/core/epoch.h"
#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/layout.h"
#include "server/core/node.h"
#include "server/core/notice.h"
#include "server/core/states.h"
#include "server/core/worker_restart.h"

/* Notices within this time cause one switch. If a single agent is stopped by hand, the switch does
 * not wait for others. */
#define COLLECT_MS 2000
/* A drained node without a deadline waits this long for a checkpoint. */
#define DRAIN_WAIT_MS 30000
/* Assumed duration of a switch if none has been measured. */
#define SWITCH_GUESS_MS 2000
/* Limits of growth: a switch whose cost is known to be 1 s happens at most once in SHARE seconds.
 * If the lost work is unknown, a switch happens at most once in DISTANCE times the last
 * standstill. */
#define SHARE 20
#define DISTANCE 10
/* Maximum distance between two growths: a longer standstill was an accident, such as a disk that
 * hung. */
#define DISTANCE_MAX_MS 300000
/* If no checkpoint was seen, growth loses all work of the epoch, so it happens only in this first
 * part of the epoch. */
#define YOUNG_MS 300000
/* An epoch that has neither reported LISTENING nor progress by then: its standstill counts as the
 * time for which its members were stopped. */
#define MEASURED_BY_MS 60000

void plan_begin_run(struct job *job)
{
    uint64_t number = job->plan.number;
    job->plan = (struct plan){.number = number,
                              .leave_cause = CAUSE_DRAINED,
                              .share_since = TFE_MONO_NEVER,
                              .grown_at = TFE_MONO_NEVER,
                              .standstill_since = TFE_MONO_NEVER,
                              .newcomer_at = TFE_MONO_NEVER,
                              .noticed_at = TFE_MONO_NEVER,
                              .leave_by = TFE_MONO_NEVER,
                              .leave_until = TFE_MONO_NEVER};
}

static uint32_t ms_between(struct tfe_mono from, struct tfe_mono to)
{
    int64_t ms = tfe_mono_sub(to, from);
    return ms < 1 ? 1 : ms > MSG_DURATION_MAX_MS ? MSG_DURATION_MAX_MS : (uint32_t)ms;
}

void plan_begin_epoch(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    p->newcomer_at = TFE_MONO_NEVER;
    p->is_waiting = false;
    p->is_ordered = false;
    p->is_hold_reported = false;
    /* A server that was started later does not know the epoch's age. */
    p->young_until = job->epoch.is_adopted ? r->now : tfe_mono_add(r->now, YOUNG_MS);
    if (p->standstill_is_growth) {
        p->grown_min_ms = ms_between(p->grown_at, r->now);
    }
    if (tfe_mono_is_never(p->share_since)) {
        p->share_since = r->now;
    }
    if (tfe_mono_is_never(p->standstill_since) && p->switch_ms == 0) {
        p->standstill_since = r->now; /* a first start shows how long a switch may take */
    }
    plan_recount(job);
}

void plan_learn_saves(struct job *job, uint32_t saves, bool is_more, bool is_news)
{
    struct plan *p = &job->plan;
    p->knows_saves = p->knows_saves || is_more;
    if (!is_news && saves > p->saves_then) {
        p->saves_then = saves;
    }
}

/* --- cost of a switch ------------------------------------------------------------------------- */

void plan_stop(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    p->standstill_since = job->epoch.is_open ? r->now : TFE_MONO_NEVER;
    p->standstill_is_growth = job->pending_switch.cause == CAUSE_JOINED && job->epoch.is_open;
    if (p->standstill_is_growth) {
        p->grown_at = r->now;
        p->grown_ms = 0;
        p->share_since = r->now;
    }
}

void plan_forget_standstill(struct job *job)
{
    job->plan.standstill_since = TFE_MONO_NEVER;
    job->plan.standstill_is_growth = false;
}

void plan_measure(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    if (!tfe_mono_is_never(p->standstill_since)) {
        p->switch_ms = ms_between(p->standstill_since, r->now);
        p->grown_ms = p->standstill_is_growth ? p->switch_ms : p->grown_ms;
    }
}

/* Returns the lead time: a switch must start this long before the deadline. */
static int64_t margin_ms(const struct job *job)
{
    const struct plan *p = &job->plan;
    return (int64_t)(p->switch_ms ? p->switch_ms : SWITCH_GUESS_MS) +
           largest(job->spec.stop_grace_ms, p->save_ms);
}

static struct tfe_mono before(struct tfe_mono deadline, int64_t ms)
{
    return tfe_mono_is_never(deadline) ? deadline : (struct tfe_mono){deadline.ms - ms};
}

/* --- requesting a checkpoint ------------------------------------------------------------------ */

/* Returns true if, as things stand, the node will be in the next epoch and its memory keeps state
 * of this epoch for the SAVE `answers` or a later one. */
static bool stays_with_state(const struct node *node, uint64_t answers)
{
    const struct msg_memory m = node->ready.memory;
    return node_is_connected(node) && !node->is_gone && !node->slot.is_accounted &&
           node->notice.kind == 0 && m.has_snapshot && m.epoch == node->job->epoch.number &&
           node->slot.snapshot_answers >= answers &&
           node->slot.snapshot_answers <= node->job->plan.number;
}

/* Returns true if a node that stays keeps the state in memory. If there are more than max, those
 * with the lowest slots stay (sits_before in rank_assignment.c), even if others do not come back by
 * then. */
static bool is_state_in_memory(const struct job *job, uint64_t answers)
{
    uint32_t n_before = 0;
    for (uint32_t slot = 0; slot < job->epoch.n_slots && n_before < job->spec.max_nodes; slot++) {
        const struct node *node = job->epoch.slots[slot];
        if (stays_with_state(node, answers)) {
            return true;
        }
        n_before += node->notice.kind == 0;
    }
    return false;
}

bool plan_state_in_memory(const struct job *job)
{
    const struct plan *p = &job->plan;
    uint32_t n_going = p->n_leaving + p->n_hinted;
    uint32_t n_working = workers_running(job);
    uint32_t n_staying = n_working > n_going ? n_working - n_going : 0;
    /* Below min, no member stands still for the disk's sake, and the node that keeps the state may
     * leave meanwhile. With more than max nodes in a job with roles, it is unknown which will be
     * left out. */
    bool is_known = n_staying <= job->spec.max_nodes || !layout_has_roles(&job->spec);
    return n_staying + workers_spare(job) >= job->spec.min_nodes && is_known &&
           is_state_in_memory(job, 0);
}

/* Sends SAVE to the node, even if no script is known to listen: a script may watch the preempt
 * file, and its answer shows in the checkpoint directory. */
static void send_save(struct rdzv *r, const struct job *job, struct node *node)
{
    const struct plan *p = &job->plan;
    if (!node_is_connected(node) || node->slot.save_sent == p->number) {
        return;
    }
    node->slot.save_sent = p->number;
    int64_t left = tfe_mono_sub(p->save_deadline, r->now);
    struct msg_save *save = &send_node(r, node, MSG_SAVE)->u.save;
    *save = (struct msg_save){.epoch = job->epoch.number,
                              .number = p->number,
                              .in_memory = p->save_in_memory,
                              .within_ms = tfe_mono_is_never(p->save_deadline) ? MSG_UNSET
                                           : left < 0                          ? 0
                                           : left > MSG_DURATION_MAX_MS        ? MSG_DURATION_MAX_MS
                                                                               : (uint32_t)left};
}

static void send_save_to_all(struct rdzv *r, struct job *job, struct tfe_mono until)
{
    struct plan *p = &job->plan;
    p->number++;
    p->save_deadline = until;
    p->save_in_memory = plan_state_in_memory(job);
    send_trace(r, TRACE_SAVE, job, NULL, p->number, NULL);
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        send_save(r, job, job->epoch.slots[slot]);
    }
}

/* Starts waiting for a checkpoint that was begun after the scripts were asked or, if no script is
 * known to listen, for the next one that is seen. */
static void wait_for_save(struct rdzv *r, struct job *job, struct tfe_mono until)
{
    struct plan *p = &job->plan;
    if (p->is_waiting) {
        if (tfe_mono_before(until, p->save_deadline) ||
            (p->save_in_memory && !plan_state_in_memory(job))) {
            /* the deadline is earlier now, or the checkpoint must be on disk after all */
            send_save_to_all(r, job, until);
        }
        return;
    }
    p->is_waiting = true;
    p->has_listener = job->progress.n_listen > 0;
    p->wait_began = r->now;
    p->saves_then = job->progress.saves;
    send_save_to_all(r, job, until);
    p->first_save = p->number;
}

void plan_resend_save(struct rdzv *r, struct job *job, struct node *node)
{
    struct plan *p = &job->plan;
    if (!p->is_waiting || job->state != JOB_RUNNING) {
        return;
    }
    if (node->slot.listens && !p->has_listener) {
        p->is_waiting = false; /* no script listened to the earlier SAVE: start with a new one */
        return;
    }
    send_save(r, job, node);
}

void plan_raise_number(struct rdzv *r, struct job *job, uint64_t answers)
{
    struct plan *p = &job->plan;
    if (answers < p->number || answers >= MSG_EPOCH_LIMIT) {
        return; /* the number is known, or not credible */
    }
    p->number = answers;
    if (p->is_waiting) {
        send_save_to_all(r, job, p->save_deadline);
        p->first_save = p->number;
    }
}

static bool is_saved(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    const struct progress *progress = &job->progress;
    if (!p->is_waiting) {
        return false;
    }
    /* Some scripts never receive SAVE and save all the same: the second checkpoint after the
     * request was begun after it. */
    bool is_answered = progress->answers >= p->first_save;
    bool is_in_memory = p->save_in_memory && is_state_in_memory(job, p->first_save);
    uint32_t enough = p->has_listener ? 2 : 1;
    if (!is_answered && !is_in_memory &&
        (progress->saves < p->saves_then || progress->saves - p->saves_then < enough)) {
        return false;
    }
    if (is_answered || is_in_memory) {
        uint32_t took = (uint32_t)tfe_mono_sub(r->now, p->wait_began);
        /* If no script is known to listen, that may be the script's own interval. State kept in
         * memory says nothing about the time that the disk takes. */
        p->save_ms = p->has_listener && is_answered ? took : p->save_ms;
        send_trace(r, TRACE_SAVED, job, NULL, took, NULL);
    }
    return true;
}

/* --- leaving ---------------------------------------------------------------------------------- */

static bool still_runs(const struct node *node)
{
    const struct slot *slot = &node->slot;
    return !node->is_gone && (!slot->is_accounted || slot->is_due) && !slot->will_drain &&
           !slot->is_draining;
}

void plan_count(struct job *job, const struct node *node)
{
    struct plan *p = &job->plan;
    if (!node_is_member(node) || !still_runs(node) || node->notice.kind == 0) {
        return;
    }
    if (!node->notice.is_leaving) {
        p->n_hinted++;
        return;
    }
    bool is_same = node->notice.since.ms == p->noticed_at.ms;
    if (p->n_leaving++ == 0 || tfe_mono_before(node->notice.since, p->noticed_at) ||
        (is_same && node->slot.index < p->leaver)) {
        p->leaver = node->slot.index;
        p->noticed_at = node->notice.since;
    }
    bool is_patient = node->notice.kind == NOTICE_OPERATOR;
    /* The cause if several members leave: a termination of a machine before an agent stopped by
     * hand before an operator's drain. */
    enum tfe_cause cause = notice_cause(&node->notice);
    if (cause == CAUSE_PREEMPTED || p->leave_cause == CAUSE_DRAINED) {
        p->leave_cause = cause;
    }
    if (!tfe_mono_is_never(node->notice.deadline)) {
        p->leave_by = tfe_mono_min(p->leave_by, node->notice.deadline);
    } else {
        p->leave_until =
            tfe_mono_min(p->leave_until,
                         tfe_mono_add(node->notice.since, is_patient ? DRAIN_WAIT_MS : COLLECT_MS));
    }
}

void plan_recount(struct job *job)
{
    struct plan *p = &job->plan;
    p->n_leaving = 0;
    p->n_hinted = 0;
    p->noticed_at = p->leave_by = p->leave_until = TFE_MONO_NEVER;
    p->leave_cause = CAUSE_DRAINED;
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        plan_count(job, job->epoch.slots[slot]);
    }
}

static struct tfe_mono leave(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    bool is_alone = job->epoch.n_slots == 1 && job->n_ready == 0 &&
                    job->epoch.slots[0]->notice.kind == NOTICE_SIGNAL;
    struct tfe_mono collected = is_alone ? r->now : tfe_mono_add(p->noticed_at, COLLECT_MS);
    struct tfe_mono last = tfe_mono_min(p->leave_until, before(p->leave_by, margin_ms(job)));
    bool can_ask = job->progress.n_listen > 0;
    bool can_see = p->knows_saves && !tfe_mono_is_never(p->leave_by);
    if (!can_ask && !can_see) {
        last = tfe_mono_min(last, collected); /* no checkpoint can be expected */
    }
    bool is_time = is_past(r, last);
    if (!is_time && is_past(r, collected)) {
        wait_for_save(r, job, last);
        is_time = is_saved(r, job);
    }
    if (is_time) {
        switch_plan(job, p->leave_cause, job->epoch.slots[p->leaver]);
        return r->now;
    }
    return is_past(r, collected) ? last : tfe_mono_min(collected, last);
}

/* --- growth ----------------------------------------------------------------------------------- */

/* Returns true if the job has enough nodes for an epoch, counting the members that stay. A job with
 * ps may run with fewer than min workers, but could not start again with so few. */
static bool can_begin(const struct job *job)
{
    return !layout_has_ps(job) || layout_would_suffice(job, job->spec.min_nodes, job->spec.n_ps);
}

/* Returns true if a spare could take the slot of a member that may have to leave. */
static bool has_relief(struct job *job)
{
    struct node *node;
    if (job->plan.n_hinted == 0 || job->n_ready == 0 || !can_begin(job)) {
        return false;
    }
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node_is_ready(node) && node->notice.kind == 0 &&
            rank_assignment_can_relieve(job, node)) {
            return true;
        }
    }
    return false;
}

/* Returns true if a switch would have to wait for trainers of an earlier epoch, reported since this
 * one started. Until they have ended, no switch that can wait stops any trainer. */
static bool would_wait(const struct rdzv *r, const struct job *job)
{
    return !is_past(r, job->fence.run_until);
}

/* Returns when the next growth may come, given the last one. */
static struct tfe_mono next_growth_at(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    if (tfe_mono_is_never(p->grown_at)) {
        return (struct tfe_mono){0};
    }
    if (p->grown_ms == 0 && p->standstill_is_growth) {
        struct tfe_mono by = tfe_mono_add(job->epoch.started, MEASURED_BY_MS);
        if (!is_past(r, by)) {
            return by;
        }
    }
    int64_t distance = (int64_t)DISTANCE * largest(p->grown_ms, p->grown_min_ms);
    return tfe_mono_add(p->grown_at, distance < DISTANCE_MAX_MS ? distance : DISTANCE_MAX_MS);
}

/* Returns how much work a switch would lose: the time of reported progress since the newest safe
 * step, in ms. */
static int64_t unsaved_ms(const struct rdzv *r, const struct job *job)
{
    const struct progress *progress = &job->progress;
    if (progress->has_snapshot && progress->snapshot_step >= progress->step) {
        return 0;
    }
    struct tfe_mono safe = job->epoch.started;
    safe = tfe_mono_is_never(progress->last_save) ? safe : tfe_mono_max(safe, progress->last_save);
    safe = tfe_mono_is_never(progress->last_snapshot) ? safe
                                                      : tfe_mono_max(safe, progress->last_snapshot);
    int64_t undone = tfe_mono_sub(progress->has_step ? progress->last : r->now, safe);
    return undone > 0 ? undone : 0;
}

/* Returns when state kept in memory covers enough of the work that no checkpoint is waited for. One
 * node that keeps it is enough if all members stay; a member that may have to leave could be that
 * node. */
static struct tfe_mono memory_covers_at(const struct rdzv *r, const struct job *job)
{
    return job->progress.has_snapshot && job->plan.n_hinted == 0
               ? tfe_mono_add(job->plan.share_since, unsaved_ms(r, job) * SHARE)
               : TFE_MONO_NEVER;
}

/* Returns true if the epoch continues without a lost worker. */
static bool has_empty_slot(const struct job *job)
{
    return layout_has_ps(job) && workers_running(job) < job->epoch.n_slots - layout_extra_now(job);
}

/* Returns true if no state of this run is safe, as far as was seen, and the epoch has more than a
 * little work to lose. An epoch that continues without a lost worker does so to keep its work. */
static bool has_no_safe_state(const struct rdzv *r, const struct job *job)
{
    return !job->plan.knows_saves && !job->progress.has_snapshot && !job->spec.grow_now &&
           (is_past(r, job->plan.young_until) || has_empty_slot(job));
}

/* Returns when a switch without a checkpoint keeps within growth's share of time: it costs the
 * standstill and the work that is repeated. For scripts that have never saved, the cost is unknown:
 * taken as small at first, and as too large later. */
static struct tfe_mono switch_worthwhile_at(const struct rdzv *r, const struct job *job)
{
    const struct plan *p = &job->plan;
    if (!p->knows_saves && !job->progress.has_snapshot) {
        return has_no_safe_state(r, job) ? TFE_MONO_NEVER : r->now;
    }
    return tfe_mono_add(p->share_since, (p->switch_ms + unsaved_ms(r, job)) * SHARE);
}

static bool can_add_worker(const struct job *job)
{
    return workers_spare(job) > 0 && workers_running(job) < job->spec.max_nodes && can_begin(job);
}

/* Returns true if a trainer has ended well or has begun to: another epoch would repeat the end of
 * the training. */
static bool is_at_its_end(const struct job *job)
{
    return job->progress.ends || job->success.has_begun;
}

bool plan_describe_hold(const struct rdzv *r, const struct job *job, struct text *text)
{
    uint32_t lost_s = ms_between(job->epoch.started, r->now) / 1000;
    if (job->spec.no_grow || !has_no_safe_state(r, job) || !can_add_worker(job)) {
        return false;
    }
    text_add(text, "this training has not reported a checkpoint: ");
    if (job->epoch.is_adopted) { /* the start of an adopted epoch is unknown */
        text_add(text, "all its work");
    } else {
        text_addf(text, "%u %s of work", lost_s < 120 ? lost_s : lost_s / 60,
                  lost_s < 120 ? "s" : "min");
    }
    text_addf(text, " would be repeated (`tfe-ctl grow %s` grows the job anyway)", job->name.text);
    return true;
}

static void report_hold(struct rdzv *r, struct job *job)
{
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    text_add(&text, "waits: ");
    if (!job->plan.is_hold_reported && plan_describe_hold(r, job, &text)) {
        job->plan.is_hold_reported = true;
        send_trace(r, TRACE_GROWTH_WAITS, job, NULL, 0, r->sentence);
    }
}

int plan_order_growth(struct job *job)
{
    if (job->state != JOB_RUNNING || !can_add_worker(job) || is_at_its_end(job)) {
        return TFE_ESTATE;
    }
    job->plan.is_ordered = true;
    return 0;
}

static struct tfe_mono grow(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    bool may_grow = can_add_worker(job);
    bool is_ordered = may_grow && p->is_ordered;
    bool has_others = !may_grow && has_relief(job);
    if ((job->spec.no_grow && !is_ordered) || (!may_grow && !has_others) || is_at_its_end(job)) {
        p->newcomer_at = TFE_MONO_NEVER;
        p->is_waiting = false;
        return TFE_MONO_NEVER;
    }
    if (tfe_mono_is_never(p->newcomer_at)) {
        p->newcomer_at = r->now;
    }
    bool is_full = workers_spare(job) >= job->spec.max_nodes - workers_running(job);
    struct tfe_mono from = tfe_mono_add(p->newcomer_at, is_full ? 0 : job->spec.gather_ms);
    from = tfe_mono_max(from, next_growth_at(r, job));
    from = tfe_mono_max(from, job->fence.run_until);
    if (is_ordered && !would_wait(r, job)) {
        switch_plan(job, CAUSE_JOINED, NULL);
        return r->now;
    }
    if (!is_past(r, from)) {
        /* discards an outdated request, for a node that no longer leaves, for example */
        p->is_waiting = false;
        return from;
    }
    bool can_save = p->knows_saves || job->progress.n_listen > 0 || job->progress.has_snapshot;
    struct tfe_mono no_wait_at = memory_covers_at(r, job);
    if (!job->spec.grow_now && !is_past(r, no_wait_at) && (can_save || has_no_safe_state(r, job))) {
        struct tfe_mono wait_limit = tfe_mono_add(p->newcomer_at, job->spec.grow_wait_ms);
        wait_for_save(r, job, TFE_MONO_NEVER);
        wait_limit = tfe_mono_max(wait_limit, switch_worthwhile_at(r, job));
        if (!is_saved(r, job) && !is_past(r, wait_limit)) {
            report_hold(r, job);
            return tfe_mono_min(wait_limit, no_wait_at);
        }
    }
    switch_plan(job, may_grow ? CAUSE_JOINED : CAUSE_PREEMPTED, NULL);
    return r->now;
}

/* Returns true if an operator has requested another number of ps and enough nodes for it are
 * there. */
static bool has_other_ps(const struct job *job)
{
    return job->epoch.n_ps != job->spec.n_ps &&
           layout_would_suffice(job, job->spec.min_nodes, job->spec.n_ps);
}

static bool has_too_many(const struct job *job)
{
    return job->epoch.n_slots - layout_extra_now(job) > job->spec.max_nodes && can_begin(job);
}

/* Returns true if the epoch has more workers than an operator wants, or another number of ps.
 * Workers are not removed while the other number of ps must still wait. */
static bool is_too_large(const struct job *job)
{
    return !is_at_its_end(job) &&
           (has_other_ps(job) || (has_too_many(job) && job->epoch.n_ps == job->spec.n_ps));
}

/* Plans the switch to fewer workers or another number of ps, at the next checkpoint if there may be
 * one. Another number of ps always waits for a checkpoint; fewer workers wait for a limited time,
 * as their removal costs no more than a loss. */
static struct tfe_mono shrink(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    if (tfe_mono_is_never(p->newcomer_at)) {
        p->newcomer_at = r->now;
    }
    if (would_wait(r, job)) {
        return job->fence.run_until;
    }
    bool has_other = has_other_ps(job);
    struct tfe_mono wait_limit =
        has_too_many(job) ? tfe_mono_add(p->newcomer_at, job->spec.grow_wait_ms) : TFE_MONO_NEVER;
    if (has_other || p->knows_saves || job->progress.n_listen > 0) {
        wait_for_save(r, job, TFE_MONO_NEVER);
        if (!is_saved(r, job) && !is_past(r, wait_limit)) {
            return wait_limit;
        }
    }
    switch_plan(job, CAUSE_RESIZED, NULL);
    return r->now;
}

bool plan_is_obsolete(const struct rdzv *r, struct job *job)
{
    /* same conditions as in grow */
    bool has_comer = can_add_worker(job) || has_relief(job);
    bool is_asked_for = is_too_large(job) || (has_comer && !is_at_its_end(job));
    return job->plan.n_leaving == 0 && (!is_asked_for || would_wait(r, job));
}

struct tfe_mono plan_detected_at(const struct rdzv *r, const struct job *job)
{
    const struct plan *p = &job->plan;
    if (p->n_leaving > 0) {
        return p->noticed_at;
    }
    return tfe_mono_is_never(p->newcomer_at) ? r->now : p->newcomer_at;
}

struct tfe_mono plan_settle(struct rdzv *r, struct job *job)
{
    return job->plan.n_leaving > 0 ? leave(r, job)
           : is_too_large(job)     ? shrink(r, job)
                                   : grow(r, job);
}
