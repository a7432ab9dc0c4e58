/* server/core/epoch.c: forming, starting and adopting an epoch, and each member's part in it. */
#include "server/core/epoch.h"

#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/layout.h"
#include "server/core/lease.h"
#include "server/core/ledger.h"
#include "server/core/node.h"
#include "server/core/plan.h"
#include "server/core/run.h"
#include "server/core/table.h"
#include "server/core/verdict.h"

/* After a server has lost its disk, nodes report different epoch numbers: this many raise the next
 * number by exactly what they report. */
#define HEARD_AS_TOLD 4

/* Leaves the old epoch: clears its members' slots and removes the members that are gone. */
static void dissolve(struct rdzv *r, struct job *job)
{
    struct node *node;
    struct node *next;
    RB_FOREACH_SAFE(node, node_tree, &job->nodes, next)
    {
        if (node_is_member(node) && !node->seat.is_accounted && job->epoch.is_open) {
            lease_set_left(node, job->epoch.number);
        }
        seat_leave(node);
        if (node->is_gone) {
            node_remove(r, node);
        }
    }
}

static void tell_start(struct rdzv *r, const struct job *job, struct node *node)
{
    if (!seat_start(node)) {
        return;
    }
    const struct epoch *epoch = &job->epoch;
    send_node(r, node, MSG_START)->u.start =
        (struct msg_start){.epoch = epoch->number,
                           .run = job->run.number,
                           .rank = roster_rank(job, node->seat.index),
                           .world = roster_world(job),
                           .nodes = epoch->n_seats,
                           .cause = epoch->cause,
                           .table_digest = epoch->digest,
                           .fence_ms = lease_fence_of_start(r, node)};
}

void epoch_tell_again(struct rdzv *r, struct job *job, struct node *node)
{
    tables_tell(r, job, node, job->epoch.number);
    if (node->seat.is_started) {
        tell_start(r, job, node);
    }
}

void epoch_tell_rest(struct rdzv *r, struct job *job)
{
    job->epoch.leader_until = TFE_MONO_NEVER;
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        struct node *node = job->epoch.seats[seat];
        if (!node->seat.is_started && !node->is_gone) {
            tell_start(r, job, node);
        }
    }
}

void epoch_prepare_spares(struct rdzv *r, struct job *job)
{
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        /* A spare that came while the epoch was being written has been sent PREPARE, and may be
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
    for (uint32_t seat = 0; seat < epoch->n_seats; seat++) {
        epoch->has_fixed_ports |= epoch->seats[seat]->has_fixed_ports;
        epoch->n_listening += epoch->seats[seat]->seat.is_listening; /* for an adopted epoch */
    }
    told_begin(job);
    plan_begin_epoch(r, job);
}

void epoch_open(struct rdzv *r, struct job *job)
{
    struct epoch *epoch = &job->epoch;
    begin(r, job);
    ledger_open(r, job);
    send_trace(r, TRACE_EPOCH, job, NULL, epoch->n_seats, msg_cause_name(epoch->cause));
    for (uint32_t seat = 0; seat < epoch->n_seats; seat++) {
        if (node_is_connected(epoch->seats[seat])) {
            tables_tell(r, job, epoch->seats[seat], epoch->number);
        }
    }
    for (uint32_t seat = 0; seat < epoch->n_seats; seat++) {
        if (roster_begins(job, epoch->seats[seat])) {
            tell_start(r, job, epoch->seats[seat]);
        }
    }
    /* A script may load data for minutes before it listens. */
    epoch->leader_until =
        epoch->n_seats > 1 ? tfe_mono_add(r->now, roster_head_start_ms(job)) : TFE_MONO_NEVER;
    epoch_prepare_spares(r, job);
}

void epoch_form(struct rdzv *r, struct job *job)
{
    struct epoch *epoch = &job->epoch;
    /* Stale peers may connect to the ports of the old epoch until the fence of its last member of
     * unknown state has passed. */
    fence_keep_ports(&job->fence, epoch->number, fence_end(job));
    uint32_t n = seating_fill(job, epoch->seats);
    ledger_close(r, job);
    ledger_blame_lost(job);
    dissolve(r, job);

    epoch->number = epoch_next(job);
    epoch->highest = epoch->number;
    epoch->n_heard = 0;
    epoch->n_seats = n;
    epoch->n_ps = job->spec.n_ps;
    epoch->n_accounted = 0;
    epoch->cause = job->wish.is_there ? job->wish.cause : CAUSE_START;
    epoch->is_first = job->run.is_new || (epoch->is_first && !epoch->is_open);
    epoch->is_open = false;
    epoch->is_adopted = false;
    epoch->leader_until = TFE_MONO_NEVER;
    verdict_begin_epoch(job);
    switch_clear(job);
    run_begun(job);
    success_clear(job);
    job->n_ready = 0; /* no node is ready for the epoch after this one */
    for (uint32_t seat = 0; seat < n; seat++) {
        seat_take(epoch->seats[seat], seat);
    }
    epoch->digest = tables_make(job);
    ledger_form(r, job);
}

bool epoch_adopt(struct rdzv *r, struct job *job, uint32_t n_seats, const struct epoch_past *past)
{
    struct epoch *epoch = &job->epoch;
    epoch->n_seats = n_seats;
    epoch->n_ps = past->n_ps ? past->n_ps : job->spec.n_ps;
    uint64_t digest = tables_make(job);
    if (past->must_match && digest != past->digest) {
        epoch->n_seats = 0;
        return false;
    }
    epoch->number = past->number;
    epoch->digest = past->digest != 0 ? past->digest : digest;
    epoch->cause = past->cause;
    epoch->is_adopted = true;
    epoch->n_accounted = 0;
    epoch->highest = past->number > epoch->highest ? past->number : epoch->highest;
    epoch->n_heard = 0;
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
    job->epoch.n_seats = 0;
}

void epoch_begin_run(struct job *job)
{
    job->epoch.is_open = false;
    job->epoch.n_ps = job->spec.n_ps;
    job->epoch.leader_until = TFE_MONO_NEVER;
}

int epoch_reserve(struct rdzv *r, struct epoch *epoch, size_t seats)
{
    return mem_resize(r->mem, &epoch->seats, seats, sizeof(struct node *));
}

bool epoch_hear(struct job *job, uint64_t seen)
{
    struct epoch *epoch = &job->epoch;
    uint64_t most = epoch->number + MSG_LEAP;
    if (seen <= epoch->highest || seen > most) {
        return false;
    }
    uint32_t doublings = epoch->n_heard > HEARD_AS_TOLD ? epoch->n_heard - HEARD_AS_TOLD : 0;
    uint64_t up = seen + (UINT64_C(1) << doublings) - 1;
    epoch->highest = up < most ? up : most;
    epoch->n_heard++;
    return true;
}

uint64_t epoch_take_number(struct job *job)
{
    job->epoch.highest = epoch_next(job);
    job->n_ready = 0;
    return job->epoch.highest;
}

bool epoch_count_listening(struct job *job)
{
    struct epoch *epoch = &job->epoch;
    bool is_first = ++epoch->n_listening == epoch->n_seats && !epoch->has_listened;
    epoch->has_listened = epoch->has_listened || is_first;
    return is_first;
}

bool epoch_has_twin(const struct job *job)
{
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        if (job->epoch.seats[seat]->seat.is_taken_over) {
            return true;
        }
    }
    return false;
}

bool epoch_is_whole(const struct job *job)
{
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        const struct node *node = job->epoch.seats[seat];
        if (!roster_can_miss(job, node) &&
            (node->is_gone || node->seat.is_taken_over || node->seat.is_accounted)) {
            return false;
        }
    }
    return true;
}

/* --- a member's part in the epoch ---- */

/* Number of STARTs that a node may answer with JOIN on one connection, because its lease had just
 * ended, for example. */
#define VOIDS_MAX 1

void seat_take(struct node *node, uint32_t index)
{
    node->seat.index = index;
}

void seat_leave(struct node *node)
{
    node->seat = SEAT_NONE;
}

void seat_adopt(struct node *node, uint32_t index, bool is_listening)
{
    node->seat.index = index;
    node->seat.is_started = true;
    node->seat.is_listening = is_listening;
    node->seat.is_accounted = false;
}

void seat_restore(struct node *node, uint32_t index)
{
    seat_adopt(node, index, false);
    node->seat.is_restored = true;
}

void seat_account(struct node *node)
{
    struct seat *seat = &node->seat;
    if (seat->index != NO_SEAT && !seat->is_accounted && !seat->is_taken_over) {
        seat->is_accounted = true;
        epoch_count_accounted(&node->job->epoch);
    }
}

bool seat_count_success(struct node *node)
{
    bool is_news = !node->seat.has_counted; /* a slot that was taken over may report it twice */
    node->seat.has_counted = true;
    return is_news;
}

void seat_prove_dead(struct node *node)
{
    seat_account(node);
    node->seat.is_dead = true;
}

void seat_is_back(struct node *node)
{
    node->seat.is_dead = false;
    node->seat.save_told = 0; /* the SAVE may have been lost with the last connection */
}

bool seat_start(struct node *node)
{
    bool is_here = node_is_connected(node);
    node->seat.is_started = true;
    node->seat.told_visit = is_here ? node->session.visit : node->seat.told_visit;
    return is_here;
}

void seat_set_listening(struct node *node)
{
    node->seat.is_listening = true;
}

void seat_set_told(struct node *node, const struct msg_progress *progress)
{
    node->seat.has_told = true;
    node->seat.is_alone = node->seat.is_alone || progress->alone;
    node->seat.listens = progress->listens;
    node->seat.kept_answers = progress->kept_answers;
}

void seat_set_save_told(struct node *node, uint64_t number)
{
    node->seat.save_told = number;
}

void seat_take_over(struct node *node, struct tfe_mono fence_end)
{
    struct seat *seat = &node->seat;
    if (seat->index != NO_SEAT && !seat->is_accounted && !seat->is_taken_over) {
        seat->is_taken_over = true;
        seat->taken_fence_end = fence_end;
    }
}

bool seat_has_voided(struct node *node)
{
    struct seat *seat = &node->seat;
    return seat->told_visit == node->session.visit && ++seat->n_void > VOIDS_MAX;
}

void seat_wait(struct node *node, struct tfe_mono now, uint32_t pause_ms, uint32_t n_vain)
{
    node->seat.is_due = true;
    node->seat.pause_ms = pause_ms;
    node->seat.due = tfe_mono_add(now, pause_ms);
    node->seat.n_vain = n_vain;
}

/* Notes that a trainer of the node runs or is about to. */
static void unaccount(struct node *node)
{
    if (node->seat.is_accounted) {
        node->seat.is_accounted = false;
        epoch_uncount_accounted(&node->job->epoch);
    }
    node->seat.is_due = false;
    node->seat.is_done = false;
}

void seat_restart(struct node *node, uint64_t step)
{
    unaccount(node);
    node->seat.n_restarts++;
    node->seat.began_at = step;
    node->seat.n_void = 0;
    if (node->seat.is_listening) {
        node->seat.is_listening = false;
        epoch_uncount_listening(&node->job->epoch);
    }
    seat_tell_again(node);
}

void seat_tell_again(struct node *node)
{
    node->seat.told_visit = node->session.visit;
}

void seat_note_restarts(struct node *node, uint64_t restart)
{
    if (restart > node->seat.n_restarts) {
        node->seat.n_restarts = restart;
    }
}

void seat_resume(struct node *node, uint64_t restart)
{
    unaccount(node);
    seat_note_restarts(node, restart);
}

void seat_leave_empty(struct node *node, uint32_t n_vain)
{
    node->seat.n_vain = n_vain;
    node->seat.is_due = false;
    node->seat.will_drain = false;
}

void seat_set_idle(struct node *node, struct tfe_mono since)
{
    node->seat.idle_since = since;
}

void seat_finish(struct node *node)
{
    node->seat.is_done = true;
    node->seat.is_due = false;
    node->seat.will_drain = false;
}

void seat_drain(struct node *node, struct tfe_mono due)
{
    node->seat.will_drain = true;
    node->seat.due = due;
}

void seat_stay(struct node *node)
{
    node->seat.will_drain = false;
}

void seat_begin_drain(struct node *node)
{
    node->seat.will_drain = false;
    node->seat.is_draining = true;
}

struct tfe_mono seat_fence_end(const struct node *node)
{
    const struct seat *seat = &node->seat;
    return seat->is_taken_over ? seat->taken_fence_end : node->lease.fence_end;
}
