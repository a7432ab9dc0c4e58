/* server/core/states.c: the states of a job, and what moves it between them.
 *
 *     WAITING --> GATHERING --> PREPARING --> COMMITTING --> RUNNING   the way to an epoch
 *        ^  |         |          |  ^  ^  ^       |             |
 *        |  +---------|----------|--+  |  +-------+             |      WAITING: an epoch ran
 * before;
 *        +------------+----------+     |                        |      COMMITTING: a member was
 * lost fewer than min           +------------------------+      lost, failed, joined, drained
 *
 *     any of these --> COMMITTING --> SUCCEEDED | FAILED | STOPPED     the end: rank 0 ended well,
 *                                                                      out of restarts, an operator
 *
 * A drained node is waited for as a member (its trainers have to end), and let go on the way from
 * PREPARING to COMMITTING or WAITING.
 *
 * REBUILDING comes before WAITING or RUNNING where the record is lost (rebuild.c).
 *
 * COMMITTING is durable before visible: of an epoch, and of the job's end.
 *
 * A job is settled after every event: each state looks at what is known now and moves on, or says
 * until when it waits. What is known does not depend on the order in which messages came. */
#include "server/core/states.h"

#include <string.h>

#include "common/base/text.h"
#include "server/core/core.h"
#include "server/core/events.h"

/* DESIGN 4.2: for a suspect without proof of death a switch waits no longer than this. */
#define SUSPECT_WAIT_MS 1000
/* A stopped job's trainers may take so long to say that they have ended. */
#define STOP_WAIT_MS 1000
/* DESIGN 4.2: who is not READY stop-grace and this after STOP is left out. */
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
    unsigned next; /* states that may follow */
    /* Moves on (true), or sets the job's timer and stays. NULL: an end. */
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
    [JOB_PREPARING] = {"preparing", TO(JOB_WAITING) | TO(JOB_COMMITTING), settle_preparing},
    [JOB_COMMITTING] = {"committing",
                        TO(JOB_PREPARING) | TO(JOB_RUNNING) | TO(JOB_COMMITTING) |
                            TO(JOB_SUCCEEDED) | TO(JOB_FAILED) | TO(JOB_STOPPED),
                        settle_committing},
    [JOB_RUNNING] = {"running", TO(JOB_PREPARING) | TO(JOB_COMMITTING), settle_running},
    [JOB_SUCCEEDED] = {"succeeded", 0, NULL},
    [JOB_FAILED] = {"failed", 0, NULL},
    [JOB_STOPPED] = {"stopped", 0, NULL},
};

const char *job_state_name(enum job_state state)
{
    return job_states[state].name;
}

static bool enter(struct rdzv *r, struct job *job, enum job_state state)
{
    TFE_ASSERT(job_states[job->state].next & TO(state));
    job->state = state;
    if (state == JOB_WAITING) {
        job->waiting_since = r->now;
    }
    send_trace(r, TRACE_JOB_STATE, job, NULL, 0, job_state_name(state));
    return true;
}

static bool wait_until(struct rdzv *r, struct job *job, struct tfe_mono when)
{
    wheel_set(&r->wheel, &job->timer.wheel, when);
    return false;
}

/* Asks the members of the running epoch to end their trainers and to get ready for the next one. */
static bool begin_switch(struct rdzv *r, struct job *job)
{
    fault_note_progress(r, job);
    send_trace(r, TRACE_SWITCH, job, NULL, 0, msg_cause_name(job->next_cause));
    ledger_stop(r, job);
    plan_stop(r, job);
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        struct node *node = job->epoch.seats[seat];
        if (node->session != NO_SESSION) {
            struct msg_stop *stop = &send_to(r, node->session, MSG_STOP)->u.stop;
            stop->epoch = job->epoch.number;
            stop->planned = job->is_planned;
            node_prepare(r, node);
        }
    }
    if (!job->epoch.opened) {
        epoch_prepare_spares(r, job); /* they were READY for a number that has gone by */
    }
    job->switch_began = r->now;
    job->fence_traced = false;
    return enter(r, job, JOB_PREPARING);
}

/* Fails the job where its budget is used up (true: it has been decided), or says until when the
 * next epoch has to wait. */
static bool fails(struct rdzv *r, struct job *job, struct tfe_mono *ret_wait)
{
    if (!fault_is_final(r, job, ret_wait)) {
        return false;
    }
    memcpy(job->sentence, job->fault.sentence, sizeof(job->sentence));
    job_finish(r, job, JOB_FAILED);
    return true;
}

static void give_up(struct rdzv *r, struct job *job)
{
    struct text text;
    text_init(&text, job->sentence, sizeof(job->sentence));
    text_add(&text, "job ");
    text_add(&text, job->name.text);
    text_add(&text, " gave up: fewer than ");
    text_add_u64(&text, job->min_nodes);
    text_add(&text, " nodes were ready for ");
    text_add_u64(&text, job->elastic_timeout_ms / 1000);
    text_add(&text, " s (--elastic-timeout)");
    job_finish(r, job, JOB_FAILED);
}

/* Always 0, but for the simulator. */
static uint32_t few(const struct job *job)
{
    return TFE_BUG(min_off_by_one) && job->n_ready > 0;
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
    if (job->n_ready + few(job) < job->min_nodes) {
        struct tfe_mono patient = job->elastic_timeout_ms
                                      ? tfe_mono_add(job->waiting_since, job->elastic_timeout_ms)
                                      : TFE_MONO_NEVER;
        if (is_past(r, patient)) {
            give_up(r, job);
            return true;
        }
        return wait_until(r, job, is_past(r, wait) ? patient : tfe_mono_min(wait, patient));
    }
    if (!job->is_first_epoch) {
        /* Losses are handled at once; the gather window is for the first start. */
        job->switch_began = r->now;
        job->fence_traced = false;
        return enter(r, job, JOB_PREPARING);
    }
    job->ready_since = r->now;
    return enter(r, job, JOB_GATHERING);
}

static bool settle_rebuilding(struct rdzv *r, struct job *job)
{
    switch (rebuild_settle(r, job)) {
    case REBUILD_WAITS:
        return wait_until(r, job, job->rebuild.until);
    case REBUILD_ADOPTED:
        enter(r, job, JOB_RUNNING);
        rebuild_judge(r, job);
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
    if (job->n_ready + few(job) < job->min_nodes) {
        return enter(r, job, JOB_WAITING);
    }
    struct tfe_mono close = tfe_mono_add(job->ready_since, r->config.gather_max_ms);
    if (job->n_ready == job->n_connected) {
        close = tfe_mono_min(close, tfe_mono_add(job->last_join, job->gather_ms));
    }
    if (job->n_ready >= job->max_nodes || is_past(r, close)) {
        job->switch_began = r->now;
        job->fence_traced = false;
        return enter(r, job, JOB_PREPARING);
    }
    return wait_until(r, job, close);
}

/* Whether a switch has not to wait for this member of the old epoch. */
static bool has_stopped(const struct node *node)
{
    return node->gone || node->is_dead ||
           (node->leaving || wheel_is_set(&node->hold.wheel) ? node->accounted
                                                             : node_is_ready(node));
}

/* By when a switch goes on without this member of the old epoch; the past if it has not to wait. */
static struct tfe_mono patience(const struct job *job, const struct node *node)
{
    if (has_stopped(node)) {
        return (struct tfe_mono){0};
    }
    return tfe_mono_add(job->switch_began, node->session == NO_SESSION
                                               ? SUSPECT_WAIT_MS
                                               : (int64_t)job->stop_grace_ms + PREPARE_WAIT_MS);
}

/* Until when a switch waits for fences. DESIGN 6: a synchronous cluster cannot make another step
 * once one of its tasks is accounted for. Where nothing is known of any, the fences of all have to
 * pass; rank 0's always, where the job wants that, lest it writes a checkpoint late. */
static struct tfe_mono fences_end(const struct rdzv *r, const struct job *job)
{
    struct tfe_mono end = job->fenced_until;
    if (job->epoch.opened && job->epoch.n_accounted == 0) {
        end = tfe_mono_max(end, epoch_fence_end(job));
    } else if (job->epoch.opened && job->chief_grace_ms > 0) {
        struct tfe_mono chief = epoch_chief_fence_end(job);
        const struct node *node = job->epoch.seats[0];
        if (node->session != NO_SESSION) {
            /* It goes on renewing while its agent cannot end it: that may last for ever. */
            chief =
                tfe_mono_min(chief, tfe_mono_add(job->switch_began, lease_node_fence_ms(r, node)));
        }
        end = tfe_mono_max(end, chief);
    }
    return end;
}

/* Until when a switch waits for some member of the old epoch; the past if for none. Looks on from
 * the one it found last time, or ten thousand READYs would look at ten thousand members each;
 * likewise all_members_done, ten thousand EXITEDs. */
static struct tfe_mono awaited(const struct rdzv *r, struct job *job)
{
    uint32_t n = job->epoch.n_seats;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t seat = (job->awaited_seat + i) % n;
        struct tfe_mono until = patience(job, job->epoch.seats[seat]);
        if (tfe_mono_before(r->now, until)) {
            job->awaited_seat = seat;
            return until;
        }
    }
    return (struct tfe_mono){0};
}

static bool settle_preparing(struct rdzv *r, struct job *job)
{
    struct tfe_mono wait;
    if (fails(r, job, &wait)) {
        return true;
    }
    /* A verdict or the end of the back-off may come before what else is waited for. */
    struct tfe_mono sooner = is_past(r, wait) ? TFE_MONO_NEVER : wait;
    struct tfe_mono until = awaited(r, job);
    if (tfe_mono_before(r->now, until)) {
        return wait_until(r, job, tfe_mono_min(until, sooner));
    }
    struct tfe_mono fenced = fences_end(r, job);
    if (tfe_mono_before(r->now, fenced) && !TFE_BUG(skip_fence_wait)) {
        if (!job->fence_traced) {
            job->fence_traced = true;
            send_trace(r, TRACE_WAIT_FENCE, job, NULL, (uint64_t)tfe_mono_sub(fenced, r->now),
                       NULL);
        }
        return !TFE_BUG(tick_forgotten) && wait_until(r, job, tfe_mono_min(fenced, sooner));
    }
    struct tfe_mono answered = probe_let_go(r, job);
    if (tfe_mono_before(r->now, answered)) {
        return wait_until(r, job, answered);
    }
    if (job->n_ready + few(job) < job->min_nodes) {
        plan_forget_standstill(job);
        ledger_close(r, job);
        enter(r, job, JOB_WAITING);
        drain_end_all(r, job);
        return true;
    }
    if (!is_past(r, wait)) {
        return wait_until(r, job, wait);
    }
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        const struct node *node = job->epoch.seats[seat];
        if (!has_stopped(node)) {
            fault_excuse(r, job);
            send_trace(r, TRACE_NODE_LOST, job, node, 0,
                       "not ready for the switch in time, left out");
        }
    }
    epoch_form(r, job);
    drain_end_all(r, job);
    write_in_turn(r, job);
    return enter(r, job, JOB_COMMITTING);
}

static void finish(struct rdzv *r, struct job *job, enum job_state state)
{
    ledger_close(r, job);
    struct tfe_mono fenced = epoch_fence_end(job);
    struct tfe_mono *spoken_until = &job->ports_spoken_until[job->epoch.number & 1];
    *spoken_until = tfe_mono_max(*spoken_until, fenced);
    if (job->epoch.opened && job->epoch.n_accounted == 0) {
        job->fenced_until = tfe_mono_max(job->fenced_until, fenced); /* of a run that may follow */
    }
    enter(r, job, state);
    send_trace(r, TRACE_JOB_FINISHED, job, NULL, 0, job->sentence);
    wheel_cancel(&r->wheel, &job->timer.wheel);
    struct node *node;
    struct node *next;
    RB_FOREACH_SAFE(node, node_tree, &job->nodes, next)
    {
        uint32_t session = node->session;
        node->seat = NO_SEAT;
        node_remove(r, node);
        if (session != NO_SESSION && !TFE_BUG(finish_untold)) {
            job_tell_finish(r, job, session);
        }
    }
    job->epoch.n_seats = 0;
}

/* Whether a stopped job's trainers are about to say that they have ended: a next run need not wait
 * for their fence then. */
static bool still_ends(const struct rdzv *r, const struct job *job)
{
    if (job->write.ending != JOB_STOPPED || !job->epoch.opened || job->epoch.n_accounted > 0 ||
        is_past(r, tfe_mono_add(job->stop_began, STOP_WAIT_MS))) {
        return false;
    }
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        if (job->epoch.seats[seat]->session != NO_SESSION) {
            return true;
        }
    }
    return false;
}

/* Durable before visible: nobody hears of an epoch, or of the job's end, that a restarted server
 * would not know of. */
static bool settle_committing(struct rdzv *r, struct job *job)
{
    if (job->write.is_due && (!job->write.is_open || !tfe_mono_is_never(job->write.again))) {
        job->write.is_due = false;
        write_job(r, job);
    }
    if (job->write.is_open && !TFE_BUG(start_before_durable)) {
        if (is_past(r, job->write.again)) {
            write_again(r, job);
        }
        return wait_until(r, job, job->write.again);
    }
    if (job->write.is_over && still_ends(r, job)) {
        return wait_until(r, job, tfe_mono_add(job->stop_began, STOP_WAIT_MS));
    }
    if (job->write.is_over) {
        finish(r, job, job->write.ending);
        return false;
    }
    if (job->has_cause) {
        return begin_switch(r, job); /* it is over before it began */
    }
    epoch_open(r, job);
    return enter(r, job, JOB_RUNNING);
}

static bool all_members_done(struct job *job)
{
    uint32_t n = job->epoch.n_seats;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t seat = (job->awaited_seat + i) % n;
        const struct node *node = job->epoch.seats[seat];
        if (node->started && !node->accounted && !node->gone) {
            job->awaited_seat = seat;
            return false;
        }
    }
    return true;
}

/* What the running epoch's progress makes up for; returns when there will be more. A restarted
 * server must not hold against the job what it has made up for. */
static struct tfe_mono earn(struct rdzv *r, struct job *job)
{
    bool ends_row = is_past(r, fault_row_ends_at(job));
    bool refills = is_past(r, fault_refill_at(job));
    if (ends_row) {
        fault_end_row(job);
    }
    if (refills) {
        fault_refill(r, job);
    }
    if (ends_row || refills) {
        write_job(r, job);
    }
    return tfe_mono_min(fault_row_ends_at(job), fault_refill_at(job));
}

static bool settle_running(struct rdzv *r, struct job *job)
{
    if (job->rank0_finished) {
        /* TensorFlow has no barrier at its end: the others get their time, and their exit codes no
         * longer matter. */
        if (!all_members_done(job) && !is_past(r, job->exit_deadline)) {
            return wait_until(r, job, job->exit_deadline);
        }
        job_succeed(r, job);
        return true;
    }
    if (!job->has_cause && is_past(r, job->exit_deadline)) {
        fault_take_hang(r, job);
    }
    if (job->has_cause && job->is_planned && job->n_ready == 0 && job->plan.n_leaving == 0) {
        job->has_cause = false; /* who was to be taken in, or to leave, is not any more */
    }
    /* Once somebody has ended well the job is about to: another epoch would only do the end again.
     */
    struct tfe_mono plan = TFE_MONO_NEVER;
    if (!job->has_cause && tfe_mono_is_never(job->exit_deadline)) {
        plan = plan_settle(r, job);
    }
    /* Nobody has to be stopped for a switch that nobody needs before its epoch can be written. */
    if (job->has_cause && (!epoch_is_whole(job) || write_is_sure(r, job))) {
        return begin_switch(r, job);
    }
    if (job->write.is_open && is_past(r, job->write.again)) {
        write_again(r, job);
    }
    if (!job->write.is_open && lease_wanted_ms(r) > job->durable_ttl_ms) {
        write_job(r, job); /* a longer lease is granted once a restarted server would know of it */
    }
    if (is_past(r, job->epoch.leader_until)) {
        epoch_tell_rest(r, job);
    }
    struct tfe_mono earned = earn(r, job);
    struct tfe_mono when = tfe_mono_min(earned, tfe_mono_min(plan, job->exit_deadline));
    when = tfe_mono_min(when, job->write.again);
    return wait_until(r, job, tfe_mono_min(when, job->epoch.leader_until));
}

void job_settle(struct rdzv *r, struct job *job)
{
    while (job_states[job->state].settle && job_states[job->state].settle(r, job)) {
    }
}

void job_finish(struct rdzv *r, struct job *job, enum job_state state)
{
    job->write.is_over = true;
    job->write.ending = state;
    job->ended = r->wall;
    write_in_turn(r, job);
    enter(r, job, JOB_COMMITTING);
}
