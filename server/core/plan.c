/* server/core/plan.c: switches that nothing forces at this very moment: growth (DESIGN 4.8), and
 * leaving before a machine goes away (DESIGN 4.9).
 *
 *     a newcomer is READY,       wait: others may   ask the scripts     the checkpoint that
 * answers, a notice comes        -->  come as well   --> for a checkpoint -> or the last moment -->
 * switch
 *
 * What is planned never costs a job what it has saved, and seldom what it has not. Where nothing is
 * known of checkpoints there is nothing to wait for. PROGRESS and a first notice cost O(1); members
 * are counted when a notice changes or goes, and looked at one by one when they are asked. */
#include "server/core/core.h"

/* Notices that come together are one change. */
#define COLLECT_MS 2000
/* A drained node without a deadline waits so long for a checkpoint. */
#define DRAIN_WAIT_MS 30000
/* What a switch takes where none has been measured. */
#define SWITCH_GUESS_MS 2000
/* Growth's share of time: a switch that costs 1 s comes once in 20 s at most, where its cost is
 * known; where work is lost by it nobody knows, its standstill alone has to be so far from the
 * last. */
#define SHARE 20
#define DISTANCE 10
/* … but no farther: a standstill that took longer was an accident, a disk that hung, say. */
#define DISTANCE_MAX_MS 300000
/* An epoch that neither listens nor tells by then has stood for as long as its members were
 * stopped. */
#define MEASURED_BY_MS 60000

void plan_begin_run(struct job *job)
{
    uint64_t number = job->plan.number;
    job->plan = (struct plan){.number = number,
                              .leave_cause = CAUSE_DRAINED,
                              .share_since = TFE_MONO_NEVER,
                              .grown_at = TFE_MONO_NEVER,
                              .stood_since = TFE_MONO_NEVER,
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
    job->epoch.told =
        (struct told){.first = TFE_MONO_NEVER, .last = TFE_MONO_NEVER, .last_save = TFE_MONO_NEVER};
    job->epoch.n_listening = 0;
    p->newcomer_at = TFE_MONO_NEVER;
    p->is_waiting = false;
    if (p->stood_to_grow) {
        p->grown_least_ms = ms_between(p->grown_at, r->now);
    }
    if (tfe_mono_is_never(p->share_since)) {
        p->share_since = r->now;
    }
    if (tfe_mono_is_never(p->stood_since) && p->switch_ms == 0) {
        p->stood_since = r->now; /* a first start says how long the next may take */
    }
    plan_recount(job);
}

/* --- what a switch costs -------------------------------------------------------------------------
 */

void plan_stop(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    p->stood_since = job->epoch.opened ? r->now : TFE_MONO_NEVER;
    p->stood_to_grow = job->next_cause == CAUSE_JOINED && job->epoch.opened;
    if (p->stood_to_grow) {
        p->grown_at = r->now;
        p->grown_ms = 0;
        p->share_since = r->now;
    }
}

void plan_forget_standstill(struct job *job)
{
    job->plan.stood_since = TFE_MONO_NEVER;
    job->plan.stood_to_grow = false;
}

void plan_measure(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    if (!tfe_mono_is_never(p->stood_since)) {
        p->switch_ms = ms_between(p->stood_since, r->now);
        p->grown_ms = p->stood_to_grow ? p->switch_ms : p->grown_ms;
    }
}

static uint32_t largest(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* So long before a deadline the switch has to begin. */
static int64_t margin_ms(const struct job *job)
{
    const struct plan *p = &job->plan;
    return (int64_t)(p->switch_ms ? p->switch_ms : SWITCH_GUESS_MS) +
           largest(job->stop_grace_ms, p->save_ms);
}

static struct tfe_mono before(struct tfe_mono deadline, int64_t ms)
{
    return tfe_mono_is_never(deadline) ? deadline : (struct tfe_mono){deadline.ms - ms};
}

/* --- asking for a checkpoint ---------------------------------------------------------------------
 */

/* Also where no script is known to listen: one may watch the preempt file, and its answer is seen
 * in the directory of its checkpoints. */
static void ask(struct rdzv *r, const struct job *job, struct node *node)
{
    const struct plan *p = &job->plan;
    if (node->session == NO_SESSION || node->save_told == p->number) {
        return;
    }
    node->save_told = p->number;
    int64_t left = tfe_mono_sub(p->asked_until, r->now);
    struct msg_save *save = &send_to(r, node->session, MSG_SAVE)->u.save;
    *save = (struct msg_save){.epoch = job->epoch.number,
                              .number = p->number,
                              .within_ms = tfe_mono_is_never(p->asked_until) ? MSG_UNSET
                                           : left < 0                        ? 0
                                           : left > MSG_DURATION_MAX_MS      ? MSG_DURATION_MAX_MS
                                                                             : (uint32_t)left};
}

static void ask_all(struct rdzv *r, struct job *job, struct tfe_mono until)
{
    struct plan *p = &job->plan;
    p->number++;
    p->asked_until = until;
    send_trace(r, TRACE_SAVE, job, NULL, p->number, NULL);
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        ask(r, job, job->epoch.seats[seat]);
    }
}

/* From now on a checkpoint is waited for: one that was begun after the scripts were asked, or,
 * where nobody is known to hear, the next that is seen. */
static void wait_for_save(struct rdzv *r, struct job *job, struct tfe_mono until)
{
    struct plan *p = &job->plan;
    if (p->is_waiting) {
        if (tfe_mono_before(until, p->asked_until)) {
            ask_all(r, job, until); /* sooner than they were told */
        }
        return;
    }
    p->is_waiting = true;
    p->is_heard = job->epoch.told.n_listen > 0;
    p->asked_at = r->now;
    p->saves_then = job->epoch.told.saves;
    ask_all(r, job, until);
    p->asked = p->number;
}

void plan_ask_late(struct rdzv *r, struct job *job, struct node *node)
{
    struct plan *p = &job->plan;
    if (!p->is_waiting || job->state != JOB_RUNNING) {
        return;
    }
    if (node->progress.listens && !p->is_heard) {
        p->is_waiting = false; /* nobody heard it before: ask anew */
        return;
    }
    ask(r, job, node);
}

void plan_outnumber(struct rdzv *r, struct job *job, uint64_t answers)
{
    struct plan *p = &job->plan;
    if (answers < p->number) {
        return;
    }
    p->number = answers;
    if (p->is_waiting) {
        ask_all(r, job, p->asked_until);
        p->asked = p->number;
    }
}

static bool is_saved(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    const struct told *told = &job->epoch.told;
    if (!p->is_waiting) {
        return false;
    }
    /* Some never hear what they are asked, and save all the same: the second that comes after the
     * question was begun after it. */
    bool is_answered = told->answers >= p->asked || TFE_BUG(save_unawaited);
    uint32_t enough = p->is_heard ? 2 : 1;
    if (!is_answered && (told->saves < p->saves_then || told->saves - p->saves_then < enough)) {
        return false;
    }
    if (is_answered) {
        uint32_t took = (uint32_t)tfe_mono_sub(r->now, p->asked_at);
        /* Where nobody is known to have heard, that may be the script's own time to save. */
        p->save_ms = p->is_heard ? took : p->save_ms;
        send_trace(r, TRACE_SAVED, job, NULL, took, NULL);
    }
    return true;
}

/* --- leaving
 * -------------------------------------------------------------------------------------- */

static bool still_runs(const struct node *node)
{
    return !node->gone && !node->accounted;
}

void plan_count(struct job *job, const struct node *node)
{
    struct plan *p = &job->plan;
    if (node->seat == NO_SEAT || !still_runs(node) || node->notice == 0) {
        return;
    }
    if (!node->leaving) {
        p->n_hinted++;
        return;
    }
    bool is_same = node->noticed.ms == p->noticed_at.ms;
    if (p->n_leaving++ == 0 || tfe_mono_before(node->noticed, p->noticed_at) ||
        (is_same && node->seat < p->leaver)) {
        p->leaver = node->seat;
        p->noticed_at = node->noticed;
    }
    bool is_patient = node->notice == NOTICE_OPERATOR;
    p->leave_cause = node->drained ? p->leave_cause : CAUSE_PREEMPTED;
    if (!tfe_mono_is_never(node->notice_deadline)) {
        p->leave_by = tfe_mono_min(p->leave_by, node->notice_deadline);
    } else {
        p->leave_until = tfe_mono_min(
            p->leave_until, tfe_mono_add(node->noticed, is_patient ? DRAIN_WAIT_MS : COLLECT_MS));
    }
}

void plan_recount(struct job *job)
{
    struct plan *p = &job->plan;
    p->n_leaving = 0;
    p->n_hinted = 0;
    p->noticed_at = p->leave_by = p->leave_until = TFE_MONO_NEVER;
    p->leave_cause = CAUSE_DRAINED;
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        plan_count(job, job->epoch.seats[seat]);
    }
}

static struct tfe_mono leave(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    struct tfe_mono collected = tfe_mono_add(p->noticed_at, COLLECT_MS);
    struct tfe_mono last = tfe_mono_min(p->leave_until, before(p->leave_by, margin_ms(job)));
    bool can_ask = job->epoch.told.n_listen > 0;
    bool can_see = p->knows_saves && !tfe_mono_is_never(p->leave_by);
    if (!can_ask && !can_see) {
        last = tfe_mono_min(last, collected); /* for nothing */
    }
    bool is_time = is_past(r, last);
    if (!is_time && is_past(r, collected)) {
        wait_for_save(r, job, last);
        is_time = is_saved(r, job);
    }
    if (is_time) {
        ledger_blame(job, job->epoch.seats[p->leaver]);
        job_plan_switch(job, p->leave_cause);
        return r->now;
    }
    return is_past(r, collected) ? last : tfe_mono_min(collected, last);
}

/* --- growth
 * --------------------------------------------------------------------------------------- */

/* A spare that could take the place of a member that may have to go. */
static bool has_relief(struct job *job)
{
    struct node *node;
    if (job->plan.n_hinted == 0 || job->n_ready == 0) {
        return false;
    }
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node_is_ready(node) && node->notice == 0) {
            return true;
        }
    }
    return false;
}

/* When the next growth may come, for the sake of the last. */
static struct tfe_mono far_enough(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    if (tfe_mono_is_never(p->grown_at)) {
        return (struct tfe_mono){0};
    }
    if (p->grown_ms == 0 && p->stood_to_grow) {
        struct tfe_mono by = tfe_mono_add(job->epoch.started, MEASURED_BY_MS);
        if (!is_past(r, by)) {
            return by;
        }
    }
    int64_t distance = (int64_t)DISTANCE * largest(p->grown_ms, p->grown_least_ms);
    return tfe_mono_add(p->grown_at, distance < DISTANCE_MAX_MS ? distance : DISTANCE_MAX_MS);
}

/* From when on a switch without a checkpoint keeps growth's share of time, as things stand: it
 * costs the standstill, and the work that is done again. Of scripts that were asked and have never
 * saved nothing is known. */
static struct tfe_mono worth_it_at(const struct rdzv *r, const struct job *job)
{
    const struct plan *p = &job->plan;
    if (!p->knows_saves) {
        return r->now;
    }
    struct tfe_mono saved = tfe_mono_is_never(job->epoch.told.last_save)
                                ? job->epoch.started
                                : job->epoch.told.last_save;
    struct tfe_mono worked = job->epoch.told.has_step ? job->epoch.told.last : r->now;
    int64_t lost = tfe_mono_sub(worked, saved);
    int64_t cost = p->switch_ms + (lost > 0 ? lost : 0);
    return tfe_mono_add(p->share_since, cost * SHARE);
}

static struct tfe_mono grow(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    bool has_room = job->n_ready > 0 && job->epoch.n_seats < job->max_nodes;
    bool has_others = !has_room && has_relief(job);
    if (job->no_grow || (!has_room && !has_others)) {
        p->newcomer_at = TFE_MONO_NEVER;
        p->is_waiting = false;
        return TFE_MONO_NEVER;
    }
    if (tfe_mono_is_never(p->newcomer_at)) {
        p->newcomer_at = r->now;
    }
    bool is_full = job->n_ready >= job->max_nodes - job->epoch.n_seats;
    struct tfe_mono from = tfe_mono_add(p->newcomer_at, is_full ? 0 : job->gather_ms);
    from = tfe_mono_max(from, far_enough(r, job));
    if (!is_past(r, from)) {
        p->is_waiting = false; /* for what was asked before, which is old by then: for a leave that
                                  is off, say */
        return from;
    }
    if (p->knows_saves || job->epoch.told.n_listen > 0) {
        struct tfe_mono patient = tfe_mono_add(p->newcomer_at, job->grow_wait_ms);
        wait_for_save(r, job, TFE_MONO_NEVER);
        patient = tfe_mono_max(patient, worth_it_at(r, job));
        if (!is_saved(r, job) && !is_past(r, patient)) {
            return patient;
        }
    }
    job_plan_switch(job, has_room ? CAUSE_JOINED : CAUSE_PREEMPTED);
    return r->now;
}

struct tfe_mono plan_settle(struct rdzv *r, struct job *job)
{
    return job->plan.n_leaving > 0 ? leave(r, job) : grow(r, job);
}
