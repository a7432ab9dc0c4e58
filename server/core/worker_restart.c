/* server/core/worker_restart.c: workers without which an epoch continues.
 *
 *    works --EXITED--> waits --RESTART(number)--> works         its agent lives
 *      |                 +--- after 3 failed restarts --> empty
 *      +-- exit status 0 --> done                                not started again
 *      +-- lease over, proven dead, GOODBYE, drained --> empty   until the next epoch
 *
 * The node keeps its ports, standby and address, so the chief reconnects to it by itself. Only the
 * process that received START can be restarted: another process with the same id has nothing
 * started (slot.is_taken_over). */
#include "server/core/worker_restart.h"

#include "common/base/backoff.h"
#include "server/core/epoch.h"
#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/layout.h"
#include "server/core/ledger.h"
#include "server/core/node.h"
#include "server/core/notice.h"
#include "server/core/states.h"
#include "server/core/verdict.h"

/* After this many restarts without a step in between the slot stays empty. */
#define FUTILE_MAX 3u
#define PAUSE_FIRST_MS 1000
#define PAUSE_MAX_MS 60000
/* A trainer that has run for this long is restarted at once. */
#define STEADY_MS 60000
/* Time before the machine is terminated, in addition to the stop grace, at which its trainers are
 * stopped. */
#define MARGIN_MS 2000

static bool works(const struct node *node)
{
    const struct slot *slot = &node->slot;
    return !node->is_gone && (!slot->is_accounted || slot->is_due) && !slot->is_draining &&
           !slot->is_taken_over;
}

uint32_t workers_running(const struct job *job)
{
    uint32_t n = job->epoch.n_slots - layout_extra_now(job);
    if (!layout_has_ps(job)) {
        return n;
    }
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        const struct node *node = job->epoch.slots[slot];
        n -= layout_can_lose(job, node) && !works(node);
    }
    return n;
}

uint32_t workers_done(const struct job *job)
{
    uint32_t n = 0;
    for (uint32_t slot = 0; layout_has_ps(job) && slot < job->epoch.n_slots; slot++) {
        n += job->epoch.slots[slot]->slot.is_done;
    }
    return n;
}

bool workers_below_min(const struct job *job)
{
    return job->state == JOB_RUNNING && layout_has_ps(job) &&
           workers_running(job) + workers_done(job) < job->spec.min_nodes;
}

/* Returns true if the node could work in the next epoch. That includes a node whose id belongs to
 * another slot's first process. */
static bool is_idle(const struct node *node)
{
    const struct slot *slot = &node->slot;
    bool is_free =
        slot->is_accounted && !slot->is_due && !slot->is_done && slot->n_futile < FUTILE_MAX;
    return node_is_connected(node) && !node->notice.is_leaving && (is_free || slot->is_taken_over);
}

uint32_t workers_spare(const struct job *job)
{
    uint32_t n = layout_spares(job, !workers_below_min(job));
    for (uint32_t slot = 0; layout_has_ps(job) && slot < job->epoch.n_slots; slot++) {
        const struct node *node = job->epoch.slots[slot];
        n += layout_can_lose(job, node) && is_idle(node);
    }
    return n;
}

/* TensorFlow's chief takes no worker back while another one in its table is missing: it waits there
 * for all of them (docs/tensorflow.md). */
static bool another_is_empty(const struct node *node)
{
    const struct job *job = node->job;
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        const struct node *other = job->epoch.slots[slot];
        if (other != node && layout_can_lose(job, other) && !works(other) && !other->slot.is_done) {
            return true;
        }
    }
    return false;
}

/* Returns true if the chief is past its start, in which it waits for every worker in its table:
 * progress was reported or, without reports, all have listened and some time has passed. */
static bool has_begun(const struct rdzv *r, const struct job *job)
{
    return progress_was_reported(&job->progress) ||
           (job->epoch.has_listened && verdict_has_progressed(r, job));
}

/* Returns how many workers a running epoch needs. min_nodes counts only when an epoch starts,
 * because TensorFlow's chief continues with one worker. */
static uint32_t min_workers_running(const struct job *job)
{
    uint32_t n = job->spec.min_running;
    /* the epoch has started with no more than that */
    n = n < job->spec.min_nodes ? n : job->spec.min_nodes;
    return n > 1 ? n : 1;
}

/* Returns true if the epoch continues without this worker. Workers that have ended with exit status
 * 0 are not missing, because their script no longer needs them. */
static bool can_lose(const struct rdzv *r, const struct node *node)
{
    const struct job *job = node->job;
    return job->state == JOB_RUNNING && layout_can_lose(job, node) && has_begun(r, job) &&
           workers_running(job) + workers_done(job) - works(node) >= min_workers_running(job);
}

/* Returns how many consecutive restarts of the node brought no step. */
static uint32_t futile_restarts(const struct node *node)
{
    const struct slot *slot = &node->slot;
    const struct progress *progress = &node->job->progress;
    return slot->is_listening && progress->has_step && progress->step > slot->began_step
               ? 0
               : slot->n_futile;
}

/* Leaves the slot empty: its trainers are not started again in this epoch. */
static void leave_empty(struct rdzv *r, struct node *node, const char *reason)
{
    node->slot.n_futile = futile_restarts(node);
    node->slot.is_due = false;
    node->slot.will_drain = false;
    send_trace(r, TRACE_WORKER_MISSING, node->job, node, workers_running(node->job), reason);
    job_touch(node->job);
}

void worker_finish(struct rdzv *r, struct node *node)
{
    node->slot.is_done = true;
    node->slot.is_due = false;
    node->slot.will_drain = false;
    success_begin(r, node->job);
    send_trace(r, TRACE_WORKER_DONE, node->job, node, workers_running(node->job), NULL);
    job_touch(node->job);
}

void worker_lose(struct rdzv *r, struct node *node, enum tfe_cause cause)
{
    if (can_lose(r, node)) {
        leave_empty(r, node, msg_cause_name(cause));
    } else {
        switch_request(node->job, cause, node);
    }
}

/* Returns true if the epoch still counts on the member's trainers: they run or are about to be
 * started again. */
static bool is_held(const struct node *node)
{
    return epoch_engages(node->job, node) && (!node->slot.is_accounted || node->slot.is_due);
}

void worker_leave(struct rdzv *r, struct node *node, enum tfe_cause cause, bool has_ended)
{
    struct job *job = node->job;
    uint32_t session = node->session.number;
    bool ran = is_held(node);
    if (has_ended) {
        slot_account(node);
    }
    node_remove(r, node);
    if (session != NO_SESSION) {
        send_close(r, session);
    }
    if (ran && !job->success.is_here) {
        worker_lose(r, node, cause);
    }
    job_touch(job);
}

/* Returns the pause before a restart. A charged ending is limited by the budget; other endings must
 * not repeat without limit (a script that ignores ps and ends well, for example). */
static uint32_t pause_of(const struct rdzv *r, const struct node *node, bool charged,
                         uint32_t futile)
{
    const struct slot *slot = &node->slot;
    uint32_t pause_ms = 0;
    for (uint32_t i = 0; charged && !verdict_has_progressed(r, node->job) && i <= futile; i++) {
        pause_ms = backoff_next(pause_ms, PAUSE_FIRST_MS, PAUSE_MAX_MS);
    }
    bool is_first = slot->n_restarts == 0 || tfe_mono_sub(r->now, slot->due) >= STEADY_MS;
    return charged    ? pause_ms
           : is_first ? 0
                      : backoff_next(slot->pause_ms, PAUSE_FIRST_MS, PAUSE_MAX_MS);
}

bool worker_handle_exit(struct rdzv *r, struct node *node, bool charged, bool by_policy)
{
    uint32_t futile = by_policy ? 0 : futile_restarts(node);
    bool is_leaving = node->notice.is_leaving || node->slot.is_draining;
    if (is_leaving || futile == FUTILE_MAX || another_is_empty(node)) {
        bool can = can_lose(r, node);
        if (can) {
            leave_empty(r, node,
                        is_leaving             ? "its node is leaving"
                        : futile == FUTILE_MAX ? "repeated restarts failed"
                                               : "another worker slot is empty");
        }
        return can;
    }
    node->slot.pause_ms = pause_of(r, node, charged, futile);
    node->slot.is_due = true;
    node->slot.due = tfe_mono_add(r->now, node->slot.pause_ms);
    node->slot.n_futile = by_policy ? 0 : futile + 1;
    job_touch(node->job);
    return true;
}

static void send_restart(struct rdzv *r, struct node *node)
{
    node->slot.start_visit = node->session.visit;
    send_node(r, node, MSG_RESTART)->u.restart =
        (struct msg_restart){.epoch = node->job->epoch.number, .number = node->slot.n_restarts};
}

bool worker_is_behind(const struct node *node, const struct msg_exited *exited)
{
    return exited->restart < node->slot.n_restarts;
}

static void drain(struct rdzv *r, struct node *node)
{
    node->slot.will_drain = false;
    node->slot.is_draining = true;
    if (node_is_connected(node)) {
        send_node(r, node, MSG_STOP)->u.stop =
            (struct msg_stop){.epoch = node->job->epoch.number,
                              .planned = true,
                              .cause = notice_cause(&node->notice)};
    }
}

/* Notes that a trainer of the node runs or is about to. */
static void mark_running(struct node *node)
{
    slot_unaccount(node);
    node->slot.is_due = false;
    node->slot.is_done = false;
}

bool worker_handle_join(struct rdzv *r, struct node *node, const struct msg_join *join)
{
    struct job *job = node->job;
    const struct msg_exited *exited = join->exited;
    if (job->state != JOB_RUNNING || !layout_can_lose(job, node)) {
        return false;
    }
    if (join->running_epoch == job->epoch.number) {
        slot_note_restarts(node, join->restart);
        mark_running(node); /* also if other nodes had found its ports closed */
        if (node->slot.is_draining) {
            drain(r, node); /* STOP was lost with the connection */
        }
        return true;
    }
    if (!exited || exited->epoch != job->epoch.number || job->success.is_here) {
        return false;
    }
    if (!node->slot.is_accounted && worker_is_behind(node, exited)) {
        send_noted(r, node, exited->epoch);
        if (slot_void_start(node)) {
            slot_account(node);
            /* the node answers RESTART with JOIN again and again */
            worker_lose(r, node, CAUSE_NODE_LOST);
        } else {
            send_restart(r, node); /* RESTART was lost with the connection */
        }
        return true;
    }
    slot_note_restarts(node, exited->restart);
    if (!node->slot.is_accounted) {
        return false; /* this ending is new, and its verdict follows */
    }
    send_noted(r, node, exited->epoch);
    bool is_given_up =
        node->slot.n_futile >= FUTILE_MAX; /* a new connection does not change that */
    if (!node->slot.is_due && !node->slot.is_done && !is_given_up &&
        !worker_handle_exit(r, node, false, verdict_is_again(job, TASK_WORKER, exited))) {
        switch_request(job, CAUSE_NODE_LOST, node);
    }
    return true;
}

void worker_note_takeover(struct rdzv *r, struct node *node)
{
    if (node->job->state == JOB_RUNNING && node->slot.is_due) {
        worker_lose(r, node, CAUSE_NODE_LOST);
    }
}

struct tfe_mono worker_leaves_at(const struct rdzv *r, const struct node *node)
{
    struct tfe_mono by = node->notice.deadline;
    int64_t early = (int64_t)node->job->spec.stop_grace_ms + MARGIN_MS;
    return !node->notice.is_leaving ? TFE_MONO_NEVER
           : tfe_mono_is_never(by)  ? r->now
                                    : tfe_mono_max(r->now, tfe_mono_add(by, -early));
}

/* Returns how many other workers are scheduled to be stopped before their machines go away. */
static uint32_t others_to_drain(const struct node *node)
{
    const struct job *job = node->job;
    uint32_t n = 0;
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        const struct node *other = job->epoch.slots[slot];
        n += other != node && other->slot.will_drain && works(other);
    }
    return n;
}

bool worker_schedule_drain(struct rdzv *r, struct node *node)
{
    /* If all workers are under notice, one planned switch loses less than a separate stop of each
     * worker. */
    if (!can_lose(r, node) || workers_running(node->job) + workers_done(node->job) - works(node) <
                                  min_workers_running(node->job) + others_to_drain(node)) {
        return false;
    }
    if (node->slot.is_due) {
        leave_empty(r, node, "its node is leaving"); /* rather than restart trainers on it */
        return true;
    }
    if (node->slot.is_accounted) {
        return false;
    }
    node->slot.will_drain = true;
    node->slot.due = worker_leaves_at(r, node);
    return true;
}

static void start_again(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    mark_running(node);
    slot_clear_listening(node);
    node->slot.n_restarts++;
    node->slot.began_step = job->progress.step;
    node->slot.n_void_starts = 0;
    send_trace(r, TRACE_WORKER_RESTART, job, node, node->slot.n_restarts, NULL);
    ledger_count_restart(r, job);
    send_restart(r, node);
}

struct tfe_mono workers_settle(struct rdzv *r, struct job *job)
{
    struct tfe_mono next = TFE_MONO_NEVER;
    struct tfe_mono others = first_start_until(job);
    if (!layout_has_ps(job)) {
        return next;
    }
    for (uint32_t i = 0; i < job->epoch.n_slots; i++) {
        struct node *node = job->epoch.slots[i];
        const struct slot *slot = &node->slot;
        if (!(slot->is_due || slot->will_drain) || !node_is_connected(node)) {
            continue; /* a disconnected node gets it when it reconnects */
        }
        /* if the script cannot start, all ranks fail in the same way soon: wait for that */
        struct tfe_mono at = slot->is_due ? tfe_mono_max(slot->due, others) : slot->due;
        if (!is_past(r, at)) {
            next = tfe_mono_min(next, at);
        } else if (slot->is_due) {
            start_again(r, node);
        } else {
            drain(r, node);
        }
    }
    return next;
}
