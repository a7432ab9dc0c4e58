/* server/core/verdict.c: consequences of how trainers ended: charges, and when the job fails
 * (design 4.11).
 *
 * The switch never waits for the verdict. A fault is charged when it is seen, and the charge is
 * taken back when a loss turns up that explains it: TensorFlow's survivors exit with status 1 when
 * a peer dies, and the server learns that a machine is lost only when its lease ends. Only if a
 * charge exceeds the budget does the job wait for the verdict before it fails. */
#include "server/core/verdict.h"

#include <string.h>

#include "common/base/backoff.h"
#include "common/text/text.h"
#include "server/core/epoch.h"
#include "server/core/failure.h"
#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/layout.h"
#include "server/core/lease.h"
#include "server/core/node.h"
#include "server/core/notice.h"
#include "server/core/persist.h"
#include "server/core/plan.h"
#include "server/core/rebuild.h"
#include "server/core/states.h"
#include "server/core/stderr_tail.h"
#include "server/core/worker_restart.h"

#define BACKOFF_FIRST_MS 1000
#define BACKOFF_MAX_MS 60000
/* This much progress in one epoch refills the budget. */
#define REFILL_MS 600000

/* --- scripts that cannot start --- */

/* A trainer that has run for this long has parsed its arguments and imported its modules. */
#define START_MS 3000
/* Time for the other ranks to fail in the same way: START reaches rank 0 up to 300 ms earlier
 * (4.3). As long as the first back-off. */
#define OTHERS_MS 1000

/* Copies the exception's name without its message, because paths and ports differ between ranks. */
static void name_exception(char ret[FIRST_START_EXCEPTION_MAX], const char *tail)
{
    const char *line = stderr_tail_exception(tail ? tail : "");
    size_t n = line ? strcspn(line, ":\n") : 0;
    n = n < FIRST_START_EXCEPTION_MAX ? n : FIRST_START_EXCEPTION_MAX - 1;
    text_setf(ret, n + 1, "%s", line ? line : "");
}

static bool is_young(const struct rdzv *r, const struct job *job)
{
    return job->epoch.is_first && !job->epoch.is_adopted && job->epoch.n_listening == 0 &&
           !job->progress.has_step && job->progress.saves == 0 &&
           tfe_mono_sub(r->now, job->epoch.started) <= START_MS;
}

/* Notes that a member's trainers have ended, with that verdict. */
static void first_start_note_exit(const struct rdzv *r, const struct node *node,
                                  const struct msg_exited *exited, enum verdict verdict)
{
    struct job *job = node->job;
    struct first_start *f = &job->first_start;
    bool is_so = verdict == VERDICT_OWN_FAULT && exited->signal == 0 && !job->spec.retry_start;
    char exception[FIRST_START_EXCEPTION_MAX];
    name_exception(exception, exited->tail);
    if (is_so && job->epoch.n_accounted == 0 && is_young(r, job)) {
        *f = (struct first_start){.epoch = job->epoch.number,
                                  .n_dead = 1,
                                  .code = exited->code,
                                  .until = tfe_mono_add(r->now, OTHERS_MS)};
        text_setf(f->exception, sizeof(f->exception), "%s", exception);
    } else if (is_so && f->n_dead > 0 && f->code == exited->code &&
               strcmp(f->exception, exception) == 0) {
        f->n_dead++;
    } else {
        f->n_dead = 0;
    }
}

struct tfe_mono first_start_until(const struct job *job)
{
    const struct first_start *f = &job->first_start;
    bool waits = f->epoch == job->epoch.number && f->n_dead > 0 && f->n_dead < job->epoch.n_slots;
    return waits ? f->until : (struct tfe_mono){0};
}

bool first_start_has_failed(const struct job *job)
{
    const struct first_start *f = &job->first_start;
    return f->epoch == job->epoch.number && f->n_dead > 0 && f->n_dead == job->epoch.n_slots;
}

/* --- quarantine of newcomers ------------------------------------------------------------------ */

#define WAIT_FIRST_MS 1000
#define WAIT_MAX_MS 60000

/* Returns true if a member that ended before its first step belongs in quarantine: other nodes got
 * further without it, so its machine or its installation is at fault. has_progressed: the epoch has
 * made progress. */
static bool quarantine_is_due(const struct node *node, bool has_progressed)
{
    const struct job *job = node->job;
    if (node->quarantine.is_proven || !job->budget.has_progressed || has_progressed) {
        return false;
    }
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        const struct node *other = job->epoch.slots[slot];
        if (other->quarantine.is_proven && !other->is_gone) {
            return true; /* the job can continue with this node */
        }
    }
    return false;
}

/* Leaves the node out for a time that doubles with each failure, without charging the job. reason
 * is a static string. */
static void quarantine_begin(struct rdzv *r, struct node *node, const char *reason)
{
    struct quarantine *q = &node->quarantine;
    q->wait_ms = backoff_next(q->wait_ms, WAIT_FIRST_MS, WAIT_MAX_MS);
    wheel_set(&r->wheel, &q->timer.wheel, tfe_mono_add(r->now, q->wait_ms));
    ready_set(node, 0);
    send_trace(r, TRACE_NODE_QUARANTINED, node->job, node, q->wait_ms, reason);
}

void quarantine_end(struct rdzv *r, struct node *node)
{
    wheel_cancel(&r->wheel, &node->quarantine.timer.wheel);
}

void quarantine_prove_all(struct job *job)
{
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        job->epoch.slots[slot]->quarantine.is_proven = true;
    }
}

/* --- charges ---------------------------------------------------------------------------------- */

static void back_off(struct rdzv *r, struct job *job)
{
    struct budget *b = &job->budget;
    b->backoff_ms = backoff_next(b->backoff_ms, BACKOFF_FIRST_MS, BACKOFF_MAX_MS);
    b->not_before = tfe_mono_add(r->now, b->backoff_ms);
}

/* Charges one restart or, if is_permanent, all that are left, because the trainer is never started
 * again. */
static void use_up(struct job *job, bool is_permanent)
{
    struct budget *b = &job->budget;
    b->used_was = b->used;
    b->used =
        is_permanent && b->used < job->spec.max_restarts ? job->spec.max_restarts + 1 : b->used + 1;
    b->is_used_up = !is_permanent && b->used > job->spec.max_restarts;
}

static void charge(struct rdzv *r, struct job *job, const struct node *node, bool is_permanent,
                   bool is_useless)
{
    struct budget *b = &job->budget;
    use_up(job, is_permanent);
    b->is_open = !is_useless; /* an exit status that the script chose is never a consequence of a
                                 lost node */
    /* If a member was lost with it, the server knows that after one lease. In an epoch of one node
     * there is no other member. */
    b->verdict_at = job->epoch.n_slots > 1 ? lease_end_from(r, job, r->now) : r->now;
    if (verdict_has_progressed(r, job)) {
        /* It trained until now: the budget limits the number of restarts, and a pause would only
         * cost time. */
        b->backoff_ms = 0;
        b->not_before = r->now;
    } else {
        back_off(r, job);
    }
    send_trace(r, TRACE_RESTARTS, job, node, b->used, NULL);
}

void verdict_begin_run(struct job *job, struct budget budget)
{
    job->budget = budget;
    job->failure = (struct failure){.epoch = 0};
}

void verdict_note_progress(struct rdzv *r, struct job *job)
{
    if (job->epoch.is_open && verdict_has_progressed(r, job)) {
        job->budget.has_progressed = true;
        job->epoch.has_progressed = true;
        quarantine_prove_all(job);
    }
}

/* Counts an epoch that ends by its trainers' exits: consecutive ones that failed before
 * progress. */
static void count_failed_epoch(struct rdzv *r, struct job *job, enum verdict verdict)
{
    struct budget *b = &job->budget;
    bool progressed = verdict_has_progressed(r, job);
    b->failed_epochs_was = b->failed_epochs;
    b->not_before_was = b->not_before;
    if (job->epoch.is_adopted && !progressed) {
        /* This server does not know how long the epoch ran before or, until all nodes have
         * reconnected, which one was lost: the epoch neither counts nor resets the count. */
        return;
    }
    if (progressed) {
        b->backoff_ms = 0;
        b->widest = 0;
    }
    if (progressed || verdict_effects[verdict].breaks_row || job->plan.n_leaving > 0) {
        b->failed_epochs = 0;
        return;
    }
    b->failed_epochs++;
    if (b->failed_epochs > 1 && !verdict_effects[verdict].is_charged) {
        back_off(r, job);
    }
}

/* Returns true if the exit that ended the current epoch is known: no other exit of it is
 * charged. */
static bool is_settled(const struct job *job)
{
    return job->budget.epoch == job->epoch.number && job->budget.is_settled;
}

/* Writes why the job is not tried again after a failure, as it follows the failure's line. */
static void write_outcome(const struct job *job, const struct node *node, enum verdict verdict,
                          bool is_permanent, char *ret, size_t cap)
{
    const uint32_t max = job->spec.max_restarts;
    ret[0] = '\0';
    if (first_start_has_failed(job)) {
        text_setf(ret, cap,
                  "; not retried: %s failed before training began (--retry-start retries)",
                  job->epoch.n_slots > 1 ? "every rank" : "it");
    } else if (verdict == VERDICT_UNRECOVERABLE) {
        text_setf(ret, cap, "; not retried: this exit code of the script forbids a restart");
    } else if (is_permanent) {
        const enum tfe_task task = layout_task(job, node->slot.index);
        text_setf(ret, cap, "; not retried: a %s of this job has restart policy %s",
                  msg_task_name(task),
                  msg_restart_policy_name((enum tfe_restart_policy)job_restart_policy(
                      job->spec.restart_policies, task)));
    } else if (verdict_effects[verdict].is_charged) {
        text_setf(ret, cap, ", after %u %s", max, max == 1 ? "restart" : "restarts");
    }
}

/* Notes the failure, and how the job would fail by it. */
static void note_failure(struct job *job, const struct node *node, const struct msg_exited *exited,
                         enum verdict verdict, bool is_permanent)
{
    char outcome[sizeof(job->failure.outcome)];
    const bool is_charged = verdict_effects[verdict].is_charged;
    write_outcome(job, node, verdict, is_permanent, outcome, sizeof(outcome));
    failure_set(job, node, exited, verdict, outcome);
    job->failure.ends_series = !is_charged && !is_permanent && !first_start_has_failed(job);
}

/* Returns the cause of the epoch after this ending. A peer that leaves breaks the collectives of
 * the other members; then its notice is the cause. */
static enum tfe_cause cause_after(const struct node *node, const struct verdict_effect *effect)
{
    if (node->notice.is_leaving) {
        return notice_cause(&node->notice);
    }
    const struct plan *plan = &node->job->plan;
    return effect->next == CAUSE_PREEMPTED && plan->n_leaving > 0 ? plan->leave_cause
                                                                  : effect->next;
}

static bool is_permanent_fault(const struct node *node, const struct msg_exited *exited,
                               enum verdict verdict)
{
    const struct job *job = node->job;
    return verdict_is_permanent(job, layout_task(job, node->slot.index), exited, verdict);
}

/* Handles a trainer of the running epoch, or of the one that is being stopped, that ended badly. */
static void apply_fault(struct rdzv *r, struct node *node, const struct msg_exited *exited,
                        enum verdict verdict)
{
    struct job *job = node->job;
    struct budget *b = &job->budget;
    const struct verdict_effect *effect = &verdict_effects[verdict];
    /* At most one charge per epoch, for the first exit that no other explains. The switch may have
     * begun on a survivor's report already. */
    bool is_first = b->epoch != job->epoch.number;
    const bool is_useless = verdict == VERDICT_UNRECOVERABLE;
    if ((is_settled(job) && !is_useless) || (!is_first && !effect->is_charged)) {
        return;
    }
    if (is_first) {
        b->epoch = job->epoch.number;
        b->is_open = false; /* the charge of an earlier epoch stands */
        count_failed_epoch(r, job, verdict);
        switch_request(job, cause_after(node, effect),
                       effect->next == CAUSE_SERVER_LOST ? NULL : node); /* no node is to blame */
        mass_loss_release(r, job);
    }
    b->is_settled = verdict != VERDICT_PEER_CAUSED;
    if (effect->is_charged && !is_useless &&
        quarantine_is_due(node, verdict_has_progressed(r, job))) {
        b->failed_epochs = b->failed_epochs_was;
        b->not_before = b->not_before_was;
        quarantine_begin(r, node, effect->name);
        return;
    }
    bool is_permanent = is_permanent_fault(node, exited, verdict);
    note_failure(job, node, exited, verdict, is_permanent);
    if (effect->is_charged && !first_start_has_failed(job)) {
        charge(r, job, node, is_permanent, is_useless);
    }
    send_trace(r, TRACE_VERDICT, job, node, b->failed_epochs, effect->name);
}

/* Handles the end of a trainer without which the epoch continues: it alone is started again. */
static void apply_worker_exit(struct rdzv *r, struct node *node, const struct msg_exited *exited,
                              enum verdict verdict)
{
    struct job *job = node->job;
    bool is_charged = verdict_effects[verdict].is_charged;
    if (is_charged) {
        bool is_permanent = is_permanent_fault(node, exited, verdict);
        use_up(job, is_permanent);
        note_failure(job, node, exited, verdict, is_permanent);
        send_trace(r, TRACE_RESTARTS, job, node, job->budget.used, NULL);
    }
    send_trace(r, TRACE_VERDICT, job, node, job->budget.failed_epochs,
               verdict_effects[verdict].name);
    if (!worker_handle_exit(r, node, is_charged, verdict == VERDICT_AGAIN)) {
        switch_request(job, cause_after(node, &verdict_effects[verdict]), node);
    }
    if (is_charged && persist_covers_epoch(job)) {
        persist_or_defer(r, job); /* a restarted server continues the count */
    }
}

bool exited_is_valid(const struct msg_exited *exited, uint32_t nproc)
{
    return exited->local_rank < nproc &&
           (!exited->tail || strnlen(exited->tail, MSG_TAIL_MAX + 1) <= MSG_TAIL_MAX);
}

void verdict_apply(struct rdzv *r, struct node *node, const struct msg_exited *exited,
                   bool was_away)
{
    struct job *job = node->job;
    uint64_t status = exited->signal ? 128 + (uint64_t)exited->signal : exited->code;
    /* ended well, and is not to be started again */
    bool is_again = verdict_is_again(job, layout_task(job, node->slot.index), exited);
    bool is_good = verdict_is_good(exited) && !is_again;
    /* In an epoch that is being stopped, the trainer that caused the other ones' exits may report
     * last. */
    bool is_judged = !is_good && (!is_settled(job) || verdict_is_useless(exited)) &&
                     ((job->state == JOB_RUNNING && !job->success.is_here) ||
                      (job->state == JOB_PREPARING && job->budget.epoch == job->epoch.number));
    bool is_start = job->state == JOB_RUNNING && !is_past(r, first_start_until(job));
    enum verdict verdict =
        is_judged || is_start ? verdict_find(r, node, exited, was_away) : VERDICT_FINISHED;
    if (is_judged || is_start) {
        first_start_note_exit(r, node, exited, verdict);
    }
    /* copy, because the message's own tail is not valid for long enough */
    text_setf(r->tail, sizeof(r->tail), "%s", exited->tail);
    struct rdzv_trace *trace = send_trace(r, TRACE_NODE_EXITED, job, node, status, r->tail);
    trace->stopped = exited->stopped;
    trace->is_signal = exited->signal != 0;
    slot_account(node);
    bool is_missed = job->state == JOB_RUNNING && !job->success.is_here && !is_settled(job) &&
                     layout_can_lose(job, node) && (is_judged || is_good);
    if (is_missed && is_good) {
        worker_finish(r, node);
    } else if (is_missed) {
        apply_worker_exit(r, node, exited, verdict);
    } else if (is_judged) {
        apply_fault(r, node, exited, verdict);
    } else if (!is_good && !exited->stopped) {
        failure_add(job, node, exited);
    }
    if (is_start && !is_judged && first_start_has_failed(job)) {
        job->budget.used = 0; /* no restart has happened */
        job->budget.is_used_up = false;
        write_outcome(job, node, verdict, false, job->failure.outcome,
                      sizeof(job->failure.outcome));
    } else if (is_good && !is_missed) {
        /* A success counts even if its report crossed a STOP: if the chief ends, its peers'
         * collectives fail at once, and their EXITED may arrive first. */
        success_count(r, job, node);
    }
}

void ending_handle(struct rdzv *r, struct node *node, const struct msg_exited *exited,
                   bool was_away)
{
    if (report_note_end(node, exited)) {
        return; /* NOTED follows when there is a job that can use it */
    }
    send_noted(r, node, exited->epoch);
    if (node_is_member(node) && !worker_is_behind(node, exited) &&
        exited->epoch == node->job->epoch.number && !node->slot.is_accounted) {
        verdict_apply(r, node, exited, was_away);
        job_touch(node->job);
    }
}

void verdict_apply_hang(struct rdzv *r, struct job *job)
{
    struct msg_exited exited = {.epoch = job->epoch.number, .end = ENDING_PROGRESS_TIMEOUT};
    apply_fault(r, layout_chief(job), &exited, verdict_find_hang(r, job));
}

void verdict_excuse(struct rdzv *r, const struct node *node)
{
    struct job *job = node->job;
    struct budget *b = &job->budget;
    bool is_member = node_is_member(node);
    /* A node that was proven dead was not waited for; its lease ends when the next epoch has
     * begun. */
    uint64_t epoch = is_member ? job->epoch.number : node->highest_epoch;
    if (is_member) {
        b->failed_epochs = 0;
        job->first_start.n_dead = 0; /* the loss may explain the other members' exits */
    }
    if (!b->is_open || b->epoch != epoch || !tfe_mono_before(r->now, b->verdict_at)) {
        return;
    }
    b->is_open = false;
    b->backoff_ms = 0;
    b->not_before = r->now;
    b->used = b->used_was;
    b->is_used_up = false;
    send_trace(r, TRACE_RESTARTS, job, NULL, b->used, "a lost node explains it")->epoch = b->epoch;
}

bool verdict_is_pending(const struct rdzv *r, const struct job *job)
{
    const struct budget *b = &job->budget;
    return b->failed_epochs < VERDICT_FAILED_EPOCHS_MAX && !first_start_has_failed(job) &&
           b->used > job->spec.max_restarts && b->is_open && tfe_mono_before(r->now, b->verdict_at);
}

bool verdict_is_final(const struct rdzv *r, const struct job *job, struct tfe_mono *ret_wait)
{
    const struct budget *b = &job->budget;
    *ret_wait = b->not_before;
    if (verdict_is_pending(r, job)) {
        *ret_wait = b->verdict_at;
        return false;
    }
    return b->failed_epochs >= VERDICT_FAILED_EPOCHS_MAX || first_start_has_failed(job) ||
           b->used > job->spec.max_restarts;
}

void verdict_begin_epoch(struct job *job)
{
    struct budget *b = &job->budget;
    if (job->epoch.n_slots > b->widest) {
        if (b->widest != 0) {
            b->failed_epochs = 0;
        }
        b->widest = job->epoch.n_slots;
    }
}

/* Returns when the running epoch counts as having made progress, which resets the count of
 * failed epochs; NEVER if there are none or no progress was reported yet. */
static struct tfe_mono row_ends_at(const struct job *job)
{
    if (job->budget.failed_epochs == 0 && job->budget.backoff_ms == 0) {
        return TFE_MONO_NEVER;
    }
    return plan_knows_progress(&job->plan) ? job->progress.first
                                           : tfe_mono_add(job->epoch.started, VERDICT_PROGRESS_MS);
}

struct tfe_mono verdict_refill_at(const struct job *job)
{
    const struct progress *progress = &job->progress;
    if (job->budget.used == 0) {
        return TFE_MONO_NEVER;
    }
    if (plan_knows_progress(&job->plan)) {
        /* Duration of the epoch's progress: from the first to the last report. */
        struct tfe_mono enough = tfe_mono_add(progress->first, REFILL_MS);
        bool is_reported =
            !tfe_mono_is_never(progress->first) && !tfe_mono_before(progress->last, enough);
        return is_reported ? enough : TFE_MONO_NEVER;
    }
    return tfe_mono_add(job->epoch.started, REFILL_MS);
}

bool verdict_earn(struct rdzv *r, struct job *job)
{
    struct budget *b = &job->budget;
    bool ends_row = is_past(r, row_ends_at(job));
    bool refills = is_past(r, verdict_refill_at(job));
    if (ends_row || refills) {
        b->failed_epochs = 0;
        b->backoff_ms = 0;
    }
    if (refills) {
        b->used = 0;
        send_trace(r, TRACE_RESTARTS, job, NULL, 0, "ten minutes of progress");
    }
    return ends_row || refills;
}

struct tfe_mono verdict_earns_at(const struct job *job)
{
    return tfe_mono_min(row_ends_at(job), verdict_refill_at(job));
}
