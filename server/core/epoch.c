/* server/core/epoch.c: forming, starting and adopting an epoch, and each member's part in it. */
#include "server/core/epoch.h"

#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/layout.h"
#include "server/core/lease.h"
#include "server/core/ledger.h"
#include "server/core/node.h"
#include "server/core/plan.h"
#include "server/core/table.h"
#include "server/core/verdict.h"

/* After a server has lost its disk, nodes report different epoch numbers: this many raise the next
 * number by exactly what they report. */
#define EXACT_RAISES_MAX 4

/* Leaves the old epoch: clears its members' slots and removes the members that are gone. */
static void dissolve(struct rdzv *r, struct job *job)
{
    struct node *node;
    struct node *next;
    RB_FOREACH_SAFE(node, node_tree, &job->nodes, next)
    {
        if (node_is_member(node) && !node->slot.is_accounted && job->epoch.is_open) {
            lease_set_left(node, job->epoch.number);
        }
        slot_clear(node);
        if (node->is_gone) {
            node_remove(r, node);
        }
    }
}

/* Sends START, unless the node is disconnected and will get it when it reconnects. */
static void send_start(struct rdzv *r, const struct job *job, struct node *node)
{
    node->slot.is_started = true;
    if (!node_is_connected(node)) {
        return;
    }
    node->slot.start_visit = node->session.visit;
    const struct epoch *epoch = &job->epoch;
    send_node(r, node, MSG_START)->u.start =
        (struct msg_start){.epoch = epoch->number,
                           .run = job->run.number,
                           .rank = layout_rank(job, node->slot.index),
                           .world = layout_world(job),
                           .nodes = epoch->n_slots,
                           .cause = epoch->cause,
                           .table_digest = epoch->digest,
                           .fence_ms = lease_fence_of_start(r, node)};
}

void epoch_resend_start(struct rdzv *r, struct job *job, struct node *node)
{
    tables_send(r, job, node, job->epoch.number);
    if (node->slot.is_started) {
        send_start(r, job, node);
    }
}

void epoch_start_rest(struct rdzv *r, struct job *job)
{
    job->epoch.leader_until = TFE_MONO_NEVER;
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        struct node *node = job->epoch.slots[slot];
        if (!node->slot.is_started && !node->is_gone) {
            send_start(r, job, node);
        }
    }
}

void epoch_prepare_spares(struct rdzv *r, struct job *job)
{
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        /* A spare that joined while the epoch was being written has been sent PREPARE, and may be
         * READY. */
        if (!node_is_member(node) && node_is_connected(node) && !node_is_ready(node)) {
            node_prepare(r, node);
        }
    }
}

static void begin(struct rdzv *r, struct job *job)
{
    struct epoch *epoch = &job->epoch;
    epoch->is_open = true;
    epoch->started = r->now;
    epoch->has_progressed = false;
    epoch->n_listening = 0;
    epoch->has_listened = false;
    epoch->has_fixed_ports = false;
    for (uint32_t slot = 0; slot < epoch->n_slots; slot++) {
        epoch->has_fixed_ports |= epoch->slots[slot]->has_fixed_ports;
        epoch->n_listening += epoch->slots[slot]->slot.is_listening; /* for an adopted epoch */
    }
    progress_begin(job);
    plan_begin_epoch(r, job);
}

void epoch_open(struct rdzv *r, struct job *job)
{
    struct epoch *epoch = &job->epoch;
    begin(r, job);
    ledger_open(r, job);
    send_trace(r, TRACE_EPOCH, job, NULL, epoch->n_slots, msg_cause_name(epoch->cause));
    for (uint32_t slot = 0; slot < epoch->n_slots; slot++) {
        if (node_is_connected(epoch->slots[slot])) {
            tables_send(r, job, epoch->slots[slot], epoch->number);
        }
    }
    for (uint32_t slot = 0; slot < epoch->n_slots; slot++) {
        if (layout_starts_first(job, epoch->slots[slot])) {
            send_start(r, job, epoch->slots[slot]);
        }
    }
    /* A script may load data for minutes before it listens. */
    epoch->leader_until =
        epoch->n_slots > 1 ? tfe_mono_add(r->now, layout_head_start_ms(job)) : TFE_MONO_NEVER;
    epoch_prepare_spares(r, job);
}

void epoch_form(struct rdzv *r, struct job *job)
{
    struct epoch *epoch = &job->epoch;
    /* Stale peers may connect to the ports of the old epoch until the fence of its last member of
     * unknown state has passed. */
    fence_reserve_ports(&job->fence, epoch->number, fence_end(job));
    uint32_t n = rank_assignment_fill(job, epoch->slots);
    ledger_close(r, job);
    ledger_blame_lost(job);
    dissolve(r, job);

    epoch->number = epoch_next(job);
    epoch->highest = epoch->number;
    epoch->n_raised = 0;
    epoch->n_slots = n;
    epoch->n_ps = job->spec.n_ps;
    epoch->n_accounted = 0;
    epoch->cause = job->pending_switch.is_set ? job->pending_switch.cause : CAUSE_START;
    epoch->is_first = job->run.is_new || (epoch->is_first && !epoch->is_open);
    epoch->is_open = false;
    epoch->is_adopted = false;
    epoch->leader_until = TFE_MONO_NEVER;
    verdict_begin_epoch(job);
    switch_clear(job);
    run_begun(job);
    success_clear(job);
    job->n_ready = 0; /* no node is ready for the epoch after this one */
    for (uint32_t slot = 0; slot < n; slot++) {
        epoch->slots[slot]->slot.index = slot;
    }
    epoch->digest = tables_make(job);
    ledger_form(r, job);
}

bool epoch_adopt(struct rdzv *r, struct job *job, uint32_t n_slots, const struct epoch_past *past)
{
    struct epoch *epoch = &job->epoch;
    epoch->n_slots = n_slots;
    epoch->n_ps = past->n_ps ? past->n_ps : job->spec.n_ps;
    uint64_t digest = tables_make(job);
    if (past->must_match && digest != past->digest) {
        epoch->n_slots = 0;
        return false;
    }
    epoch->number = past->number;
    epoch->digest = past->digest != 0 ? past->digest : digest;
    epoch->cause = past->cause;
    epoch->is_adopted = true;
    epoch->n_accounted = 0;
    epoch->highest = past->number > epoch->highest ? past->number : epoch->highest;
    epoch->n_raised = 0;
    begin(r, job);
    plan_forget_standstill(job);
    ledger_begin_row(job);
    run_begun(job);
    return true;
}

void epoch_restore_last(struct job *job, uint64_t number, enum tfe_cause cause)
{
    job->epoch.number = number;
    job->epoch.highest = number;
    job->epoch.cause = cause;
}

void epoch_leave(struct job *job)
{
    job->epoch.n_slots = 0;
}

void epoch_begin_run(struct job *job)
{
    job->epoch.is_open = false;
    job->epoch.n_ps = job->spec.n_ps;
    job->epoch.leader_until = TFE_MONO_NEVER;
}

int epoch_reserve(struct rdzv *r, struct epoch *epoch, size_t slots)
{
    return mem_resize(r->mem, &epoch->slots, slots, sizeof(struct node *));
}

bool epoch_raise_number(struct job *job, uint64_t seen)
{
    struct epoch *epoch = &job->epoch;
    uint64_t limit = epoch->number + MSG_LEAP;
    if (seen <= epoch->highest || seen > limit) {
        return false;
    }
    uint32_t doublings =
        epoch->n_raised > EXACT_RAISES_MAX ? epoch->n_raised - EXACT_RAISES_MAX : 0;
    uint64_t up = seen + (UINT64_C(1) << doublings) - 1;
    epoch->highest = up < limit ? up : limit;
    epoch->n_raised++;
    return true;
}

uint64_t epoch_reserve_number(struct job *job)
{
    job->epoch.highest = epoch_next(job);
    job->n_ready = 0;
    return job->epoch.highest;
}

bool epoch_has_duplicate(const struct job *job)
{
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        if (job->epoch.slots[slot]->slot.is_taken_over) {
            return true;
        }
    }
    return false;
}

bool epoch_is_intact(const struct job *job)
{
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        const struct node *node = job->epoch.slots[slot];
        if (!layout_can_lose(job, node) &&
            (node->is_gone || node->slot.is_taken_over || node->slot.is_accounted)) {
            return false;
        }
    }
    return true;
}

/* --- a member's part in the epoch ------------------------------------------------------------- */

/* Number of STARTs that a node may answer with JOIN on one connection, because its lease had just
 * ended, for example. */
#define VOID_STARTS_MAX 1

void slot_clear(struct node *node)
{
    node->slot = SLOT_NONE;
}

void slot_adopt(struct node *node, uint32_t index, bool is_listening)
{
    node->slot.index = index;
    node->slot.is_started = true;
    node->slot.is_listening = is_listening;
    node->slot.is_accounted = false;
}

void slot_restore(struct node *node, uint32_t index)
{
    slot_adopt(node, index, false);
    node->slot.is_restored = true;
}

void slot_account(struct node *node)
{
    struct slot *slot = &node->slot;
    if (slot->index != NO_SLOT && !slot->is_accounted && !slot->is_taken_over) {
        slot->is_accounted = true;
        node->job->epoch.n_accounted++;
    }
}

void slot_unaccount(struct node *node)
{
    if (node->slot.is_accounted) {
        node->slot.is_accounted = false;
        node->job->epoch.n_accounted--;
    }
}

bool slot_count_success(struct node *node)
{
    bool is_news = !node->slot.has_counted; /* a slot that was taken over may report it twice */
    node->slot.has_counted = true;
    return is_news;
}

void slot_prove_dead(struct node *node)
{
    slot_account(node);
    node->slot.is_dead = true;
}

void slot_note_reconnect(struct node *node)
{
    node->slot.is_dead = false;
    node->slot.save_sent = 0; /* the SAVE may have been lost with the last connection */
}

bool slot_set_listening(struct node *node)
{
    struct epoch *epoch = &node->job->epoch;
    node->slot.is_listening = true;
    bool is_first = ++epoch->n_listening == epoch->n_slots && !epoch->has_listened;
    epoch->has_listened = epoch->has_listened || is_first;
    return is_first;
}

void slot_clear_listening(struct node *node)
{
    if (node->slot.is_listening) {
        node->slot.is_listening = false;
        node->job->epoch.n_listening--;
    }
}

void slot_set_progress(struct node *node, const struct msg_progress *progress)
{
    node->slot.has_reported = true;
    node->slot.is_alone = node->slot.is_alone || progress->alone;
    node->slot.listens = progress->listens;
    node->slot.snapshot_answers = progress->snapshot_answers;
}

void slot_take_over(struct node *node, struct tfe_mono fence_end)
{
    struct slot *slot = &node->slot;
    if (slot->index != NO_SLOT && !slot->is_accounted && !slot->is_taken_over) {
        slot->is_taken_over = true;
        slot->previous_fence_end = fence_end;
    }
}

bool slot_void_start(struct node *node)
{
    struct slot *slot = &node->slot;
    return slot->start_visit == node->session.visit && ++slot->n_void_starts > VOID_STARTS_MAX;
}

void slot_note_restarts(struct node *node, uint64_t restart)
{
    if (restart > node->slot.n_restarts) {
        node->slot.n_restarts = restart;
    }
}

struct tfe_mono slot_fence_end(const struct node *node)
{
    const struct slot *slot = &node->slot;
    return slot->is_taken_over ? slot->previous_fence_end : node->lease.fence_end;
}
