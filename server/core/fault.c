/* server/core/fault.c: why trainers came to their end, who pays for it, and when that is enough
 * (DESIGN 4.11).
 *
 * The switch never waits for the verdict. A fault is charged when it is seen, and taken back when a
 * loss turns up that explains it: TensorFlow's survivors end with exit 1 when a peer dies, and a
 * vanished machine is known to be lost only when its lease is over. Only a charge above the budget
 * makes the job wait, for the verdict, before it fails. */
#include <string.h>

#include "common/base/text.h"
#include "server/core/core.h"
#include "server/core/doubt.h"

/* Part of the error tail that fits beside the sentence. */
#define TAIL_IN_SENTENCE 600
#define BACKOFF_FIRST_MS 1000
#define BACKOFF_MAX_MS 60000
/* An epoch that ran for so long has made progress, where its script tells nothing. */
#define PROGRESS_MS 60000
/* So much progress in one epoch fills the budget up again. */
#define REFILL_MS 600000
/* So many epochs in a row that came to nothing fail the job, whoever is to blame. */
#define FRUITLESS_MAX 5

/* "rank 1 on node NAME (ID) exited with code 3" */
static void add_blame(struct text *text, const struct node *node, const struct msg_exited *exited)
{
    text_add(text, "rank ");
    text_add_u64(text, (uint64_t)node->seat * node->job->nproc + exited->local_rank);
    text_add(text, " on node ");
    text_add(text, node->name);
    text_add(text, " (");
    text_add(text, node->id.text);
    text_add(text, exited->signal ? ") was ended by signal " : ") exited with code ");
    text_add_u64(text, exited->signal ? exited->signal : exited->code);
}

static void add_tail(struct text *text, const char *tail)
{
    if (tail && tail[0]) {
        text_add(text, "; its last lines were:\n");
        text_add_tail(text, tail, TAIL_IN_SENTENCE);
    }
}

static void begin_sentence(struct text *text, struct job *job)
{
    text_init(text, job->fault.sentence, sizeof(job->fault.sentence));
    text_add(text, "job ");
    text_add(text, job->name.text);
    text_add(text, " failed: ");
}

static void back_off(struct rdzv *r, struct job *job)
{
    struct fault *f = &job->fault;
    f->backoff_ms = f->backoff_ms == 0                   ? BACKOFF_FIRST_MS
                    : f->backoff_ms * 2 < BACKOFF_MAX_MS ? f->backoff_ms * 2
                                                         : BACKOFF_MAX_MS;
    f->not_before = tfe_mono_add(r->now, f->backoff_ms);
}

static void charge(struct rdzv *r, struct job *job, const struct node *node)
{
    struct fault *f = &job->fault;
    job->restarts++;
    f->is_open = true;
    /* A member that was lost with it is known to be so after a lease. Alone nobody was. */
    f->verdict_at = job->epoch.n_seats > 1 ? lease_end_from(r, job, r->now) : r->now;
    if (fault_has_progressed(r, job)) {
        /* It trained until now: the budget bounds how often, a wait would only cost. */
        f->backoff_ms = 0;
        f->not_before = r->now;
    } else {
        back_off(r, job);
    }
    send_trace(r, TRACE_RESTARTS, job, node, job->restarts, NULL);
}

bool fault_has_progressed(const struct rdzv *r, const struct job *job)
{
    const struct told *told = &job->epoch.told;
    if (told->has_step || told->saves > 0) {
        return true;
    }
    return !job->plan.knows_steps && !job->plan.knows_saves &&
           tfe_mono_sub(r->now, job->epoch.started) >= PROGRESS_MS;
}

void fault_note_progress(struct rdzv *r, struct job *job)
{
    if (!job->epoch.opened || !fault_has_progressed(r, job)) {
        return;
    }
    job->has_progressed = true;
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        job->epoch.seats[seat]->is_proven = true;
    }
}

/* Whether a member came to its end before its first step where others have got further without it:
 * its machine is at fault, or what is installed there. */
static bool is_bad_newcomer(const struct rdzv *r, const struct node *node)
{
    const struct job *job = node->job;
    if (node->is_proven || !job->has_progressed || fault_has_progressed(r, job)) {
        return false;
    }
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        if (job->epoch.seats[seat]->is_proven && !job->epoch.seats[seat]->gone) {
            return true; /* there is somebody to go on with */
        }
    }
    return false;
}

/* It is left out for a while, and costs the job nothing. */
static void quarantine(struct rdzv *r, struct node *node, enum end end)
{
    struct fault *f = &node->job->fault;
    f->fruitless = f->fruitless_was;
    f->not_before = f->not_before_was;
    node->hold_ms = node->hold_ms == 0                   ? BACKOFF_FIRST_MS
                    : node->hold_ms * 2 < BACKOFF_MAX_MS ? node->hold_ms * 2
                                                         : BACKOFF_MAX_MS;
    wheel_set(&r->wheel, &node->hold.wheel, tfe_mono_add(r->now, node->hold_ms));
    node_set_ready(node, 0);
    send_trace(r, TRACE_NODE_QUARANTINED, node->job, node, node->hold_ms, causes[end].name);
}

void on_hold_over(struct rdzv *r, struct node *node)
{
    if (node->session != NO_SESSION && !job_engages(node->job, node)) {
        node_prepare(r, node);
    }
    job_settle(r, node->job);
}

/* The end of an epoch by its trainers' exits that came to nothing. */
static void count_fruitless(struct rdzv *r, struct job *job, enum end end)
{
    struct fault *f = &job->fault;
    bool progressed = fault_has_progressed(r, job);
    f->fruitless_was = f->fruitless;
    f->not_before_was = f->not_before;
    if (job->epoch.adopted && !progressed) {
        /* Nobody knows how long it had run before this server came, nor, until all are back, who
         * was lost: it neither counts nor breaks the row. */
        return;
    }
    if (progressed) {
        f->backoff_ms = 0;
        f->widest = 0;
    }
    if (progressed || causes[end].breaks_row || job->plan.n_leaving > 0) {
        f->fruitless = 0;
        return;
    }
    f->fruitless++;
    if (f->fruitless > 1 && !causes[end].charged) {
        back_off(r, job);
    }
}

bool fault_is_settled(const struct job *job)
{
    const struct fault *f = &job->fault;
    return f->epoch == job->epoch.number && f->is_settled && !TFE_BUG(charge_all);
}

void fault_take(struct rdzv *r, struct node *node, const struct msg_exited *exited, enum end end)
{
    struct job *job = node->job;
    struct fault *f = &job->fault;
    /* One fault an epoch at most: on the first exit that no other explains. The switch may have
     * begun on a survivor's word already. */
    bool first = f->epoch != job->epoch.number;
    if (fault_is_settled(job) || (!first && !causes[end].charged && !TFE_BUG(charge_all))) {
        return;
    }
    if (first) {
        f->epoch = job->epoch.number;
        f->is_open = false; /* what an earlier one was charged with stands */
        count_fruitless(r, job, end);
        ledger_blame(job, node);
        job_want_switch(job, node->drained ? CAUSE_DRAINED : causes[end].next);
        doubt_release(r, job);
    }
    f->is_settled = end != END_PEER_CAUSED;
    if (causes[end].charged && is_bad_newcomer(r, node)) {
        quarantine(r, node, end);
        return;
    }
    struct text text;
    begin_sentence(&text, job);
    if (causes[end].charged) {
        add_blame(&text, node, exited);
        text_add(&text, causes[end].words);
        text_add(&text, " after ");
        text_add_u64(&text, job->max_restarts);
        text_add(&text, job->max_restarts == 1 ? " restart" : " restarts");
        add_tail(&text, exited->tail);
        charge(r, job, node);
    } else {
        text_add_u64(&text, FRUITLESS_MAX);
        text_add(&text, " epochs in a row came to nothing, in the last one ");
        add_blame(&text, node, exited);
        add_tail(&text, exited->tail);
    }
    send_trace(r, TRACE_END, job, node, f->fruitless, causes[end].name);
}

void fault_take_hang(struct rdzv *r, struct job *job)
{
    fault_take(r, job->epoch.seats[0],
               &(struct msg_exited){.epoch = job->epoch.number,
                                    .code = 1,
                                    .tail = "rank 0 did not end after another rank had ended well"},
               cause_of_hang(r, job));
}

void fault_excuse(struct rdzv *r, struct job *job)
{
    struct fault *f = &job->fault;
    f->fruitless = 0;
    if (!f->is_open || f->epoch != job->epoch.number || !tfe_mono_before(r->now, f->verdict_at)) {
        return;
    }
    f->is_open = false;
    f->backoff_ms = 0;
    f->not_before = r->now;
    job->restarts--;
    send_trace(r, TRACE_RESTARTS, job, NULL, job->restarts, "a lost node explains it");
}

bool fault_is_final(const struct rdzv *r, const struct job *job, struct tfe_mono *ret_wait)
{
    const struct fault *f = &job->fault;
    *ret_wait = f->not_before;
    if (f->fruitless >= FRUITLESS_MAX) {
        return true;
    }
    if (job->restarts <= job->max_restarts) {
        return false;
    }
    if (f->is_open && tfe_mono_before(r->now, f->verdict_at)) {
        *ret_wait = f->verdict_at;
        return false;
    }
    return true;
}

struct tfe_mono fault_row_ends_at(const struct job *job)
{
    if (job->fault.fruitless == 0 && job->fault.backoff_ms == 0) {
        return TFE_MONO_NEVER;
    }
    return job->plan.knows_steps || job->plan.knows_saves
               ? job->epoch.told.first
               : tfe_mono_add(job->epoch.started, PROGRESS_MS);
}

void fault_end_row(struct job *job)
{
    job->fault.fruitless = 0;
    job->fault.backoff_ms = 0;
}

struct tfe_mono fault_refill_at(const struct job *job)
{
    const struct told *told = &job->epoch.told;
    if (job->restarts == 0) {
        return TFE_MONO_NEVER;
    }
    if (job->plan.knows_steps || job->plan.knows_saves) {
        /* What was told first and last lies so far apart. */
        struct tfe_mono enough = tfe_mono_add(told->first, REFILL_MS);
        bool is_told = !tfe_mono_is_never(told->first) && !tfe_mono_before(told->last, enough);
        return is_told ? enough : TFE_MONO_NEVER;
    }
    return tfe_mono_add(job->epoch.started, REFILL_MS);
}

void fault_take_in(struct job *job)
{
    struct fault *f = &job->fault;
    if (job->epoch.n_seats > f->widest) {
        if (f->widest != 0) {
            f->fruitless = 0;
        }
        f->widest = job->epoch.n_seats;
    }
}

void fault_refill(struct rdzv *r, struct job *job)
{
    job->restarts = 0;
    fault_end_row(job);
    send_trace(r, TRACE_RESTARTS, job, NULL, 0, "ten minutes of progress");
}
