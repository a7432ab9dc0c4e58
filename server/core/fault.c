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

/* What came to an end, by what is known of it. */
enum end {
    END_STOPPED,     /* by the agent itself: its fence passed, or it lost its guard */
    END_LOST_NODE,   /* a peer is missing, or was lost with it */
    END_PREEMPTED,   /* exits 42 and 143, TensorFlow's PreemptionCheckpointHandler and SIGTERM */
    END_PEER_CAUSED, /* its last words are a collective's that a peer has broken */
    END_OWN_FAULT,
    END__COUNT
};

static const struct {
    const char *name;
    bool charged;         /* to the job-global budget, with back-off */
    enum tfe_cause cause; /* of the epoch that follows */
} ends[END__COUNT] = {
    [END_STOPPED] = {"stopped", false, CAUSE_NODE_LOST},
    [END_LOST_NODE] = {"lost_node", false, CAUSE_NODE_LOST},
    [END_PREEMPTED] = {"preempted", false, CAUSE_PREEMPTED},
    [END_PEER_CAUSED] = {"peer_caused", false, CAUSE_TRAINER_FAILED},
    [END_OWN_FAULT] = {"own_fault", true, CAUSE_TRAINER_FAILED},
};

/* Whether a member of the epoch has vanished that had not come to its end. */
static bool peer_is_missing(const struct job *job)
{
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        const struct node *node = job->epoch.seats[seat];
        if (!node->accounted && (node->gone || node->session == NO_SESSION)) {
            return true;
        }
    }
    return false;
}

/* Where the exception that ended a Python program is told: the first line after its last traceback that
 * is not indented. NULL: there is none. */
static const char *exception_line(const char *tail)
{
    static const char head[] = "Traceback (most recent call last)";
    const char *line = NULL;
    for (const char *p = strstr(tail, head); p; p = strstr(p + 1, head)) {
        line = p;
    }
    do {
        line = line ? strchr(line, '\n') : NULL;
        line = line ? line + 1 : NULL;
    } while (line && (*line == ' ' || *line == '\n'));
    return line && *line ? line : NULL;
}

/* What TensorFlow's workers say when a peer is gone (TENSORFLOW.md; tensorflow/core, collective
 * executor and coordination service). */
static bool is_collective_error(const char *tail)
{
    static const char *const words[] = {
        "Collective ops is aborted by",
        "coordination service",
        "CoordinationServiceError",
        "heartbeat timeout",
    };
    const char *exception = tail ? exception_line(tail) : NULL;
    if (exception) {
        /* An exception of the script's own comes first; on the way out TensorFlow then complains of its
         * peers as well. */
        const char *type = strstr(exception, "errors_impl.");
        if (!type || type > exception + strcspn(exception, "\n")) {
            return false;
        }
        tail = exception;
    }
    for (size_t i = 0; tail && i < sizeof(words) / sizeof(words[0]); i++) {
        if (strstr(tail, words[i])) {
            return true;
        }
    }
    return false;
}

static enum end end_of(const struct job *job, const struct node *node,
                       const struct msg_exited *exited)
{
    if (node->leaving) {
        return END_PREEMPTED; /* its machine is going away, and its trainers may go first */
    }
    if (exited->stopped && !TFE_BUG(charge_stopped)) {
        return END_STOPPED;
    }
    if (peer_is_missing(job)) {
        return END_LOST_NODE;
    }
    if (job->plan.n_leaving > 0) {
        return END_PREEMPTED; /* what goes away breaks its peers' collectives */
    }
    if (exited->code == 42 || exited->code == 143 || exited->signal == 15) {
        return END_PREEMPTED;
    }
    return job->epoch.n_seats > 1 && is_collective_error(exited->tail) ? END_PEER_CAUSED
                                                                       : END_OWN_FAULT;
}

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
    back_off(r, job);
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

/* The end of an epoch by its trainers' exits that came to nothing. */
static void count_fruitless(struct rdzv *r, struct job *job, enum end end)
{
    struct fault *f = &job->fault;
    bool progressed = fault_has_progressed(r, job);
    if (progressed) {
        f->backoff_ms = 0;
    }
    if (progressed || end == END_LOST_NODE || end == END_STOPPED || job->plan.n_leaving > 0) {
        f->fruitless = 0;
        return;
    }
    f->fruitless++;
    if (f->fruitless > 1 && !ends[end].charged) {
        back_off(r, job);
    }
}

void fault_take(struct rdzv *r, struct node *node, const struct msg_exited *exited)
{
    struct job *job = node->job;
    struct fault *f = &job->fault;
    enum end end = end_of(job, node, exited);
    /* One fault an epoch at most: on the first exit that no other explains. The switch may have begun
     * on a survivor's word already. */
    bool first = f->epoch != job->epoch.number;
    if (!first && (f->is_settled || end != END_OWN_FAULT) && !TFE_BUG(charge_all)) {
        return;
    }
    if (first) {
        f->epoch = job->epoch.number;
        f->is_open = false; /* what an earlier one was charged with stands */
        count_fruitless(r, job, end);
        ledger_blame(job, node);
        job_want_switch(job, node->drained ? CAUSE_DRAINED : ends[end].cause);
        doubt_release(r, job);
    }
    f->is_settled = end != END_PEER_CAUSED;
    struct text text;
    begin_sentence(&text, job);
    if (ends[end].charged) {
        add_blame(&text, node, exited);
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
    send_trace(r, TRACE_END, job, node, f->fruitless, ends[end].name);
}

void fault_take_hang(struct rdzv *r, struct job *job)
{
    fault_take(
        r, job->epoch.seats[0],
        &(struct msg_exited){.epoch = job->epoch.number,
                             .code = 1,
                             .tail = "rank 0 did not end after another rank had ended well"});
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

void fault_refill(struct rdzv *r, struct job *job)
{
    job->restarts = 0;
    job->fault.fruitless = 0;
    job->fault.backoff_ms = 0;
    send_trace(r, TRACE_RESTARTS, job, NULL, 0, "ten minutes of progress");
}
