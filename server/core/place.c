/* server/core/place.c: see place.h.
 *
 *     works --EXITED--> waits --RESTART(number)--> works         its agent lives
 *       |                 +--- the fourth in vain --> empty
 *       +-- exit status 0 --> done                                does not start again
 *       +-- lease over, proven dead, GOODBYE, drained --> empty   until the next epoch
 *
 * Its ports, its standby and its address are its own all the time, so the chief finds it again by
 * itself. Whoever has the place is the process that START went to: another one with its id has
 * nothing started (seat.is_taken_over). */
#include "server/core/place.h"

#include "common/base/backoff.h"
#include "server/core/job.h"

/* Started again so often without a step in between, a place stays empty. */
#define VAIN_MAX 3u
#define PAUSE_FIRST_MS 1000
#define PAUSE_MAX_MS 60000
/* Who has run for so long starts again at once. */
#define STEADY_MS 60000
/* A place is drained so long before its machine goes, and the stop grace. */
#define MARGIN_MS 2000

static bool works(const struct node *node)
{
    const struct seat *seat = &node->seat;
    return !node->is_gone && (!seat->is_accounted || seat->is_due) && !seat->is_draining &&
           !seat->is_taken_over;
}

uint32_t place_count(const struct job *job)
{
    uint32_t n = job->epoch.n_seats - roster_extra_now(job);
    if (!roster_has_servers(job)) {
        return n;
    }
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        const struct node *node = job->epoch.seats[seat];
        n -= roster_can_miss(job, node) && !works(node);
    }
    return n;
}

uint32_t place_count_done(const struct job *job)
{
    uint32_t n = 0;
    for (uint32_t seat = 0; roster_has_servers(job) && seat < job->epoch.n_seats; seat++) {
        n += job->epoch.seats[seat]->seat.is_done;
    }
    return n;
}

bool place_is_lacking(const struct job *job)
{
    return job->state == JOB_RUNNING && roster_has_servers(job) &&
           place_count(job) + place_count_done(job) < job->spec.min_nodes;
}

/* Whether it could work again in the next epoch; so could who has another one's place. */
static bool is_idle(const struct node *node)
{
    const struct seat *seat = &node->seat;
    bool is_free = seat->is_accounted && !seat->is_due && !seat->is_done && seat->n_vain < VAIN_MAX;
    return node_is_connected(node) && !node->notice.is_leaving && (is_free || seat->is_taken_over);
}

uint32_t place_spares(const struct job *job)
{
    uint32_t n = roster_spares(job, !place_is_lacking(job));
    for (uint32_t seat = 0; roster_has_servers(job) && seat < job->epoch.n_seats; seat++) {
        const struct node *node = job->epoch.seats[seat];
        n += roster_can_miss(job, node) && is_idle(node);
    }
    return n;
}

/* TensorFlow's chief takes nobody back while any place that its table lists is empty: it waits
 * there for all of them (docs/tensorflow.md). */
static bool another_is_empty(const struct node *node)
{
    const struct job *job = node->job;
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        const struct node *other = job->epoch.seats[seat];
        if (other != node && roster_can_miss(job, other) && !works(other) && !other->seat.is_done) {
            return true;
        }
    }
    return false;
}

/* Whether the chief is past its beginning, in which it waits for every place that its table lists:
 * it has told so, or, where it tells nothing, all of them have listened, and time has passed. */
static bool has_begun(const struct rdzv *r, const struct job *job)
{
    return told_any(&job->told) || (job->epoch.has_listened && verdict_has_progressed(r, job));
}

/* Workers that a running epoch needs. min_nodes counts only where an epoch begins: TensorFlow's
 * chief goes on while one worker is left. */
static uint32_t least_running(const struct job *job)
{
    uint32_t n = job->spec.min_running;
    n = n < job->spec.min_nodes ? n : job->spec.min_nodes; /* it has begun with no more than that */
    return n > 1 ? n : 1;
}

/* Returns whether the epoch goes on without this worker. Workers that have ended with exit status 0
 * are not missing: the script that ends them so needs none of them any more. */
static bool can_miss(const struct rdzv *r, const struct node *node)
{
    const struct job *job = node->job;
    return job->state == JOB_RUNNING && roster_can_miss(job, node) && has_begun(r, job) &&
           place_count(job) + place_count_done(job) - works(node) >= least_running(job);
}

/* Times that it was started again without a step in between, as things stand. */
static uint32_t vain_of(const struct node *node)
{
    const struct seat *seat = &node->seat;
    const struct told *told = &node->job->told;
    return seat->is_listening && told->has_step && told->step > seat->began_at ? 0 : seat->n_vain;
}

static void leave_empty(struct rdzv *r, struct node *node, const char *reason)
{
    seat_leave_empty(node, vain_of(node));
    send_trace(r, TRACE_PLACE_EMPTY, node->job, node, place_count(node->job), reason);
    job_touch(node->job);
}

void place_finish(struct rdzv *r, struct node *node)
{
    seat_finish(node);
    success_begin(r, node->job);
    send_trace(r, TRACE_PLACE_DONE, node->job, node, place_count(node->job), NULL);
    job_touch(node->job);
}

bool place_is_held(const struct node *node)
{
    return epoch_engages(node->job, node) && (!node->seat.is_accounted || node->seat.is_due);
}

void place_lose(struct rdzv *r, struct node *node, enum tfe_cause cause)
{
    if (can_miss(r, node)) {
        leave_empty(r, node, msg_cause_name(cause));
    } else {
        switch_want(node->job, cause, node);
    }
}

/* A charged end costs the budget, which bounds how often; there are no others without number: not
 * of a script that knows no ps and ends well, say. */
static uint32_t pause_of(const struct rdzv *r, const struct node *node, bool charged, uint32_t vain)
{
    const struct seat *seat = &node->seat;
    uint32_t pause_ms = 0;
    for (uint32_t i = 0; charged && !verdict_has_progressed(r, node->job) && i <= vain; i++) {
        pause_ms = backoff_next(pause_ms, PAUSE_FIRST_MS, PAUSE_MAX_MS);
    }
    bool is_first = seat->n_restarts == 0 || tfe_mono_sub(r->now, seat->due) >= STEADY_MS;
    return charged    ? pause_ms
           : is_first ? 0
                      : backoff_next(seat->pause_ms, PAUSE_FIRST_MS, PAUSE_MAX_MS);
}

bool place_take_end(struct rdzv *r, struct node *node, bool charged, bool wanted)
{
    uint32_t vain = wanted ? 0 : vain_of(node);
    bool is_leaving = node->notice.is_leaving || node->seat.is_draining;
    if (is_leaving || vain == VAIN_MAX || another_is_empty(node)) {
        bool can = can_miss(r, node);
        if (can) {
            leave_empty(r, node,
                        is_leaving         ? "it leaves"
                        : vain == VAIN_MAX ? "started again in vain"
                                           : "another one is empty");
        }
        return can;
    }
    seat_wait(node, r->now, pause_of(r, node, charged, vain), wanted ? 0 : vain + 1);
    job_touch(node->job);
    return true;
}

static void send_restart(struct rdzv *r, const struct node *node)
{
    send_node(r, node, MSG_RESTART)->u.restart =
        (struct msg_restart){.epoch = node->job->epoch.number, .number = node->seat.n_restarts};
}

bool place_is_behind(const struct node *node, const struct msg_exited *exited)
{
    return exited->restart < node->seat.n_restarts;
}

static void drain(struct rdzv *r, struct node *node)
{
    seat_begin_drain(node);
    if (node_is_connected(node)) {
        send_node(r, node, MSG_STOP)->u.stop =
            (struct msg_stop){.epoch = node->job->epoch.number,
                              .planned = true,
                              .cause = notice_cause(&node->notice)};
    }
}

bool place_take_join(struct rdzv *r, struct node *node, const struct msg_join *join)
{
    struct job *job = node->job;
    const struct msg_exited *exited = join->exited;
    if (job->state != JOB_RUNNING || !roster_can_miss(job, node)) {
        return false;
    }
    if (join->running_epoch == job->epoch.number) {
        seat_resume(node, join->restart); /* also where others had found its ports closed */
        if (node->seat.is_draining) {
            drain(r, node); /* lost with the connection */
        }
        return true;
    }
    if (!exited || exited->epoch != job->epoch.number || job->success.is_here) {
        return false;
    }
    if (!node->seat.is_accounted && place_is_behind(node, exited)) {
        send_noted(r, node, exited->epoch);
        if (seat_has_voided(node)) {
            seat_account(node);
            place_lose(r, node, CAUSE_NODE_LOST); /* it cannot follow, whatever the reason */
        } else {
            seat_tell_again(node);
            send_restart(r, node); /* lost with the connection */
        }
        return true;
    }
    seat_note_restarts(node, exited->restart);
    if (!node->seat.is_accounted) {
        return false; /* news: its verdict follows */
    }
    send_noted(r, node, exited->epoch);
    bool is_given_up = node->seat.n_vain >= VAIN_MAX; /* a new connection makes it no better */
    if (!node->seat.is_due && !node->seat.is_done && !is_given_up &&
        !place_take_end(r, node, false, verdict_is_again(job, TASK_WORKER, exited))) {
        switch_want(job, CAUSE_NODE_LOST, node);
    }
    return true;
}

void place_take_over(struct rdzv *r, struct node *node)
{
    if (node->job->state == JOB_RUNNING && node->seat.is_due) {
        place_lose(r, node, CAUSE_NODE_LOST);
    }
}

struct tfe_mono place_leaves_at(const struct rdzv *r, const struct node *node)
{
    struct tfe_mono by = node->notice.deadline;
    int64_t early = (int64_t)node->job->spec.stop_grace_ms + MARGIN_MS;
    return !node->notice.is_leaving ? TFE_MONO_NEVER
           : tfe_mono_is_never(by)  ? r->now
                                    : tfe_mono_max(r->now, tfe_mono_add(by, -early));
}

/* Workers other than this one that are to be drained before their machines go. */
static uint32_t others_to_drain(const struct node *node)
{
    const struct job *job = node->job;
    uint32_t n = 0;
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        const struct node *other = job->epoch.seats[seat];
        n += other != node && other->seat.will_drain && works(other);
    }
    return n;
}

bool place_take_notice(struct rdzv *r, struct node *node)
{
    /* Where all workers are warned, a planned switch saves more than draining one after the other.
     */
    if (!can_miss(r, node) || place_count(node->job) + place_count_done(node->job) - works(node) <
                                  least_running(node->job) + others_to_drain(node)) {
        return false;
    }
    if (node->seat.is_due) {
        leave_empty(r, node, "it leaves"); /* rather than start there again */
        return true;
    }
    if (node->seat.is_accounted) {
        return false;
    }
    seat_drain(node, place_leaves_at(r, node));
    return true;
}

static void start_again(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    seat_restart(node, job->told.step);
    send_trace(r, TRACE_PLACE_RESTART, job, node, node->seat.n_restarts, NULL);
    ledger_count_restart(r, job);
    send_restart(r, node);
}

struct tfe_mono place_settle(struct rdzv *r, struct job *job)
{
    struct tfe_mono next = TFE_MONO_NEVER;
    struct tfe_mono others = first_start_until(job);
    if (!roster_has_servers(job)) {
        return next;
    }
    for (uint32_t i = 0; i < job->epoch.n_seats; i++) {
        struct node *node = job->epoch.seats[i];
        const struct seat *seat = &node->seat;
        if (!(seat->is_due || seat->will_drain) || !node_is_connected(node)) {
            continue; /* who is away is told when it is back */
        }
        /* Whether all say alike that the script cannot start is known soon. */
        struct tfe_mono at = seat->is_due ? tfe_mono_max(seat->due, others) : seat->due;
        if (!is_past(r, at)) {
            next = tfe_mono_min(next, at);
        } else if (seat->is_due) {
            start_again(r, node);
        } else {
            drain(r, node);
        }
    }
    return next;
}
