/* server/core/plan.c: switches that nothing forces at this very moment: growth (design 4.8), and
 * leaving before a machine goes away (design 4.9).
 *
 *     a newcomer is READY,     wait: others    ask the scripts       what answers it, or
 *     a notice comes       --> may come too --> for a checkpoint --> the last moment --> switch
 *
 * What is planned never costs a job what it has saved, and seldom what it has not. Where nothing is
 * known of checkpoints there is nothing to wait for. PROGRESS and a first notice cost O(1); members
 * are counted when a notice changes or goes, and looked at one by one when they are asked. */
#include "server/core/plan.h"

#include "common/base/text.h"
#include "server/core/job.h"

/* Notices that come together are one change. An agent that is ended alone waits for no
 * other. */
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
/* Where no checkpoint was seen growth loses all that was done in the epoch: only so early. */
#define YOUNG_MS 300000
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
    p->newcomer_at = TFE_MONO_NEVER;
    p->is_waiting = false;
    p->is_ordered = false;
    p->is_hold_told = false;
    /* How old it is a server that came later does not know. */
    p->young_until = job->epoch.is_adopted ? r->now : tfe_mono_add(r->now, YOUNG_MS);
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

void plan_learn_steps(struct job *job)
{
    job->plan.knows_steps = true;
}

void plan_learn_saved_step(struct job *job, uint64_t step)
{
    job->plan.has_saved = true;
    job->plan.saved_step = step;
}

void plan_learn_saves(struct job *job, uint32_t saves, bool is_more, bool is_news)
{
    struct plan *p = &job->plan;
    p->knows_saves = p->knows_saves || is_more;
    if (!is_news && saves > p->saves_then) {
        p->saves_then = saves;
    }
}

/* --- what a switch costs ---------------------------------------------------------------------- */

void plan_stop(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    p->stood_since = job->epoch.is_open ? r->now : TFE_MONO_NEVER;
    p->stood_to_grow = job->wish.cause == CAUSE_JOINED && job->epoch.is_open;
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

/* So long before a deadline the switch has to begin. */
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

/* --- asking for a checkpoint ------------------------------------------------------------------ */

/* In the next epoch, as things stand, with what memory kept of this one for the SAVE `answers`. */
static bool stays_with_state(const struct node *node, uint64_t answers)
{
    const struct msg_memory m = node->ready.memory;
    return node_is_connected(node) && !node->is_gone && !node->seat.is_accounted &&
           node->notice.kind == 0 && m.has_kept && m.epoch == node->job->epoch.number &&
           node->seat.kept_answers >= answers && node->seat.kept_answers <= node->job->plan.number;
}

/* Of more than max those stay that have the lowest seats (roster.c: sits_before), whoever else has
 * not come back by then. */
static bool keeps(const struct job *job, uint64_t answers)
{
    uint32_t n_before = 0;
    for (uint32_t seat = 0; seat < job->epoch.n_seats && n_before < job->spec.max_nodes; seat++) {
        const struct node *node = job->epoch.seats[seat];
        if (stays_with_state(node, answers)) {
            return true;
        }
        n_before += node->notice.kind == 0;
    }
    return false;
}

bool plan_is_kept(const struct job *job)
{
    const struct plan *p = &job->plan;
    uint32_t n_going = p->n_leaving + p->n_hinted;
    uint32_t n_working = place_count(job);
    uint32_t n_staying = n_working > n_going ? n_working - n_going : 0;
    /* Below min nobody stands still for the disk's sake, and who keeps the state may go meanwhile.
     * Of more than max, where there are roles, it is not known who will be left out. */
    bool is_known = n_staying <= job->spec.max_nodes || !roster_is_named(&job->spec);
    return n_staying + place_spares(job) >= job->spec.min_nodes && is_known && keeps(job, 0);
}

/* Also where no script is known to listen: one may watch the preempt file, and its answer is seen
 * in the directory of its checkpoints. */
static void ask(struct rdzv *r, const struct job *job, struct node *node)
{
    const struct plan *p = &job->plan;
    if (!node_is_connected(node) || node->seat.save_told == p->number) {
        return;
    }
    seat_set_save_told(node, p->number);
    int64_t left = tfe_mono_sub(p->asked_until, r->now);
    struct msg_save *save = &send_node(r, node, MSG_SAVE)->u.save;
    *save = (struct msg_save){.epoch = job->epoch.number,
                              .number = p->number,
                              .in_memory = p->asked_in_memory,
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
    p->asked_in_memory = plan_is_kept(job);
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
        if (tfe_mono_before(until, p->asked_until) || (p->asked_in_memory && !plan_is_kept(job))) {
            ask_all(r, job, until); /* sooner than they were told, or on disk after all */
        }
        return;
    }
    p->is_waiting = true;
    p->is_heard = job->told.n_listen > 0;
    p->asked_at = r->now;
    p->saves_then = job->told.saves;
    ask_all(r, job, until);
    p->asked = p->number;
}

void plan_ask_late(struct rdzv *r, struct job *job, struct node *node)
{
    struct plan *p = &job->plan;
    if (!p->is_waiting || job->state != JOB_RUNNING) {
        return;
    }
    if (node->seat.listens && !p->is_heard) {
        p->is_waiting = false; /* nobody heard it before: ask anew */
        return;
    }
    ask(r, job, node);
}

void plan_outnumber(struct rdzv *r, struct job *job, uint64_t answers)
{
    struct plan *p = &job->plan;
    if (answers < p->number || answers >= MSG_EPOCH_LIMIT) {
        return; /* not news, or not true */
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
    const struct told *told = &job->told;
    if (!p->is_waiting) {
        return false;
    }
    /* Some never hear what they are asked, and save all the same: the second that comes after the
     * question was begun after it. */
    bool is_answered = told->answers >= p->asked;
    bool is_kept = p->asked_in_memory && keeps(job, p->asked);
    uint32_t enough = p->is_heard ? 2 : 1;
    if (!is_answered && !is_kept &&
        (told->saves < p->saves_then || told->saves - p->saves_then < enough)) {
        return false;
    }
    if (is_answered || is_kept) {
        uint32_t took = (uint32_t)tfe_mono_sub(r->now, p->asked_at);
        /* Where nobody is known to have heard, that may be the script's own time to save. Of the
         * disk's memory says nothing. */
        p->save_ms = p->is_heard && is_answered ? took : p->save_ms;
        send_trace(r, TRACE_SAVED, job, NULL, took, NULL);
    }
    return true;
}

/* --- leaving ---------------------------------------------------------------------------------- */

static bool still_runs(const struct node *node)
{
    const struct seat *seat = &node->seat;
    return !node->is_gone && (!seat->is_accounted || seat->is_due) && !seat->will_drain &&
           !seat->is_draining;
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
        (is_same && node->seat.index < p->leaver)) {
        p->leaver = node->seat.index;
        p->noticed_at = node->notice.since;
    }
    bool is_patient = node->notice.kind == NOTICE_OPERATOR;
    /* Of several: a machine that goes, then a person at a terminal, then an operator's order. */
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
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        plan_count(job, job->epoch.seats[seat]);
    }
}

static struct tfe_mono leave(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    bool is_alone = job->epoch.n_seats == 1 && job->n_ready == 0 &&
                    job->epoch.seats[0]->notice.kind == NOTICE_SIGNAL;
    struct tfe_mono collected = is_alone ? r->now : tfe_mono_add(p->noticed_at, COLLECT_MS);
    struct tfe_mono last = tfe_mono_min(p->leave_until, before(p->leave_by, margin_ms(job)));
    bool can_ask = job->told.n_listen > 0;
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
        switch_plan(job, p->leave_cause, job->epoch.seats[p->leaver]);
        return r->now;
    }
    return is_past(r, collected) ? last : tfe_mono_min(collected, last);
}

/* --- growth ----------------------------------------------------------------------------------- */

/* Whether the job has nodes enough to begin an epoch, if the members that stay are asked. One with
 * ps may go on with fewer than min workers; it stands still if it is stopped then. */
static bool can_begin(const struct job *job)
{
    return !roster_has_servers(job) || roster_would_do(job, job->spec.min_nodes, job->spec.n_ps);
}

/* A spare that could take the place of a member that may have to go. */
static bool has_relief(struct job *job)
{
    struct node *node;
    if (job->plan.n_hinted == 0 || job->n_ready == 0 || !can_begin(job)) {
        return false;
    }
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node_is_ready(node) && node->notice.kind == 0 && seating_can_relieve(job, node)) {
            return true;
        }
    }
    return false;
}

/* Whether a switch would have to wait for what an earlier epoch may still run, of which somebody
 * has told since this one began: until then nobody is stopped for one that nothing forces. */
static bool would_wait(const struct rdzv *r, const struct job *job)
{
    return !is_past(r, job->fence.run_until);
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

/* The work that a switch would have done again: what was told since the newest safe step. */
static int64_t undone_ms(const struct rdzv *r, const struct job *job)
{
    const struct told *told = &job->told;
    if (told->has_kept && told->kept_step >= told->step) {
        return 0;
    }
    struct tfe_mono safe = job->epoch.started;
    safe = tfe_mono_is_never(told->last_save) ? safe : tfe_mono_max(safe, told->last_save);
    safe = tfe_mono_is_never(told->last_kept) ? safe : tfe_mono_max(safe, told->last_kept);
    int64_t undone = tfe_mono_sub(told->has_step ? told->last : r->now, safe);
    return undone > 0 ? undone : 0;
}

/* From when on memory keeps so much of the work that no checkpoint is waited for. One that keeps it
 * is enough where all members stay: one that may have to go could be the one. */
static struct tfe_mono kept_at(const struct rdzv *r, const struct job *job)
{
    return job->told.has_kept && job->plan.n_hinted == 0
               ? tfe_mono_add(job->plan.share_since, undone_ms(r, job) * SHARE)
               : TFE_MONO_NEVER;
}

/* Nothing of this run is safe, for all that was seen: what was done in this epoch would be done
 * again, and that is no longer little. */
static bool is_bare(const struct rdzv *r, const struct job *job)
{
    return !job->plan.knows_saves && !job->told.has_kept && !job->spec.grow_now &&
           is_past(r, job->plan.young_until);
}

/* From when on a switch without a checkpoint keeps growth's share of time, as things stand: it
 * costs the standstill, and the work that is done again. Of scripts that were asked and have never
 * saved nothing is known: that is little at first, and too much later. */
static struct tfe_mono worth_it_at(const struct rdzv *r, const struct job *job)
{
    const struct plan *p = &job->plan;
    if (!p->knows_saves && !job->told.has_kept) {
        return is_bare(r, job) ? TFE_MONO_NEVER : r->now;
    }
    return tfe_mono_add(p->share_since, (p->switch_ms + undone_ms(r, job)) * SHARE);
}

static bool has_room(const struct job *job)
{
    return place_spares(job) > 0 && place_count(job) < job->spec.max_nodes && can_begin(job);
}

/* A trainer has ended well, or has begun to: another epoch would do the end again. */
static bool is_at_its_end(const struct job *job)
{
    return job->told.ends || job->success.has_begun;
}

bool plan_describe_hold(const struct rdzv *r, const struct job *job, struct text *text)
{
    uint32_t lost_s = ms_between(job->epoch.started, r->now) / 1000;
    if (job->spec.no_grow || !is_bare(r, job) || !has_room(job)) {
        return false;
    }
    text_add(text, "no checkpoint of this training was seen, ");
    if (job->epoch.is_adopted) { /* when it began nobody knows */
        text_add(text, "all its work");
    } else {
        text_addf(text, "%u %s of work", lost_s < 120 ? lost_s : lost_s / 60,
                  lost_s < 120 ? "s" : "min");
    }
    text_addf(text, " would be done again; `tfe-ctl grow %s` does it now", job->name.text);
    return true;
}

static void tell_hold(struct rdzv *r, struct job *job)
{
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    text_add(&text, "waits: ");
    if (!job->plan.is_hold_told && plan_describe_hold(r, job, &text)) {
        job->plan.is_hold_told = true;
        send_trace(r, TRACE_GROWTH_WAITS, job, NULL, 0, r->sentence);
    }
}

int plan_order_growth(struct job *job)
{
    if (job->state != JOB_RUNNING || !has_room(job) || is_at_its_end(job)) {
        return TFE_ESTATE;
    }
    job->plan.is_ordered = true;
    return 0;
}

static struct tfe_mono grow(struct rdzv *r, struct job *job)
{
    struct plan *p = &job->plan;
    bool may_grow = has_room(job);
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
    bool is_full = place_spares(job) >= job->spec.max_nodes - place_count(job);
    struct tfe_mono from = tfe_mono_add(p->newcomer_at, is_full ? 0 : job->spec.gather_ms);
    from = tfe_mono_max(from, far_enough(r, job));
    from = tfe_mono_max(from, job->fence.run_until);
    if (is_ordered && !would_wait(r, job)) {
        switch_plan(job, CAUSE_JOINED, NULL);
        return r->now;
    }
    if (!is_past(r, from)) {
        p->is_waiting = false; /* for what was asked before, which is old by then: for a leave that
                                  is off, say */
        return from;
    }
    bool can_save = p->knows_saves || job->told.n_listen > 0 || job->told.has_kept;
    struct tfe_mono kept = kept_at(r, job);
    if (!job->spec.grow_now && !is_past(r, kept) && (can_save || is_bare(r, job))) {
        struct tfe_mono patient = tfe_mono_add(p->newcomer_at, job->spec.grow_wait_ms);
        wait_for_save(r, job, TFE_MONO_NEVER);
        patient = tfe_mono_max(patient, worth_it_at(r, job));
        if (!is_saved(r, job) && !is_past(r, patient)) {
            tell_hold(r, job);
            return tfe_mono_min(patient, kept);
        }
    }
    switch_plan(job, may_grow ? CAUSE_JOINED : CAUSE_PREEMPTED, NULL);
    return r->now;
}

/* An operator wants another number of ps, and nobody would have to wait for it. */
static bool has_other_ps(const struct job *job)
{
    return job->epoch.n_ps != job->spec.n_ps &&
           roster_would_do(job, job->spec.min_nodes, job->spec.n_ps);
}

static bool has_too_many(const struct job *job)
{
    return job->epoch.n_seats - roster_extra_now(job) > job->spec.max_nodes && can_begin(job);
}

/* It has more nodes than an operator wants now, or another number of ps; nobody is stopped for
 * fewer while those would have to wait for more ps. */
static bool is_too_large(const struct job *job)
{
    return !is_at_its_end(job) &&
           (has_other_ps(job) || (has_too_many(job) && job->epoch.n_ps == job->spec.n_ps));
}

/* As growth, at the next checkpoint where there may be one. Another number of ps waits for that
 * alone; fewer nodes come in any case, and what they bring is what any loss would: an epoch from
 * the checkpoint before. */
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
    struct tfe_mono patient =
        has_too_many(job) ? tfe_mono_add(p->newcomer_at, job->spec.grow_wait_ms) : TFE_MONO_NEVER;
    if (has_other || p->knows_saves || job->told.n_listen > 0) {
        wait_for_save(r, job, TFE_MONO_NEVER);
        if (!is_saved(r, job) && !is_past(r, patient)) {
            return patient;
        }
    }
    switch_plan(job, CAUSE_RESIZED, NULL);
    return r->now;
}

bool plan_is_void(const struct rdzv *r, struct job *job)
{
    /* As grow has it. */
    bool has_comer = has_room(job) || has_relief(job);
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
