/* server/core/wait.c: text that tells users what a job or node waits for. */
#include "server/core/wait.h"

#include "common/base/text.h"
#include "server/core/job.h"

/* The cached text is renewed after this time, for the changes that time alone brings. */
#define WORDS_FRESH_MS 5000

static uint32_t ms_of(int64_t ms)
{
    return ms < 0 ? 0 : ms > MSG_DURATION_MAX_MS ? MSG_DURATION_MAX_MS : (uint32_t)ms;
}

/* Appends the wait for the back-off after a failure. */
static bool for_restart(const struct rdzv *r, const struct job *job, struct text *text,
                        uint32_t *ret_ms)
{
    struct tfe_mono until;
    if (verdict_is_final(r, job, &until) || is_past(r, until) || tfe_mono_is_never(until)) {
        return false;
    }
    *ret_ms = ms_of(tfe_mono_sub(until, r->now));
    /* A charge above the budget stands until the verdict fails the job or takes the charge back. */
    if (job->budget.used > job->spec.max_restarts) {
        text_add(text, "waiting to see whether a lost machine explains the last failure");
    } else {
        text_addf(text, "restart %u of %u comes after a pause", job->budget.used,
                  job->spec.max_restarts);
    }
    return true;
}

/* Appends the wait for a fence, naming the node whose trainers may run longest. */
static bool for_fence(const struct rdzv *r, const struct job *job, struct text *text,
                      uint32_t *ret_ms)
{
    const struct epoch *epoch = &job->epoch;
    struct tfe_mono until = job->phase.fence_until;
    uint32_t seat = job->phase.fence_seat;
    if (is_past(r, until)) {
        return false;
    }
    *ret_ms = ms_of(tfe_mono_sub(until, r->now));
    if (seat < epoch->n_seats) {
        text_addf(text, "waiting until %s's trainers", epoch->seats[seat]->name);
    } else if (until.ms == job->fence.unknown_until.ms) {
        text_add(text, "waiting until trainers of which this server has no record");
    } else {
        text_add(text, "waiting until all earlier trainers");
    }
    text_add(text, " must have ended (fence; --fence sets it)");
    return true;
}

static bool for_roles(const struct job *job, struct text *text)
{
    if (roster_is_enough(job)) {
        return false;
    }
    text_add(text, "waiting for nodes to be ready as ");
    roster_lacks(job, text);
    text_addf(text, " (%u %s ready)", job->n_ready, job->n_ready == 1 ? "is" : "are");
    return true;
}

static bool for_nodes(const struct job *job, struct text *text)
{
    uint32_t min = job->spec.min_nodes;
    if (roster_is_named(&job->spec)) {
        return for_roles(job, text);
    }
    uint32_t here = job->n_connected < min ? job->n_connected : job->n_ready;
    if (here >= min) {
        return false;
    }
    text_addf(text, "waiting for %u more node%s%s (%u of %u)", min - here,
              min - here == 1 ? "" : "s", job->n_connected < min ? "" : " to be ready", here, min);
    return true;
}

static bool for_a_place(const struct rdzv *r, const struct job *job, const struct node *node,
                        struct text *text, uint32_t *ret_ms)
{
    uint32_t n = job->epoch.n_seats;
    uint32_t most = job->spec.max_nodes + roster_extra(&job->spec);
    if (node_evaluates(node)) {
        return false;
    }
    if (!node_is_ready(node)) {
        text_addf(text, "getting ready, while %u node%s", n, n == 1 ? " trains" : "s train");
    } else if (node->has_role && node->role == TASK_PS && job->epoch.n_ps < job->spec.n_ps) {
        text_addf(text, "spare: %u ps serve, and %u from the job's next checkpoint on",
                  job->epoch.n_ps, job->spec.n_ps);
    } else if (node->has_role && node->role != TASK_WORKER) {
        uint32_t places = roster_places_of(&job->spec, node->role);
        text_addf(text,
                  "spare: the job has the %u %s that it wants, and this node (--role) is "
                  "nothing else: it has a place once one of them is lost",
                  places, msg_task_name(node->role));
    } else if (place_count(job) >= job->spec.max_nodes) {
        text_addf(text, "spare: %u of %u are training", n, most);
    } else if (job->spec.no_grow) {
        text_addf(text, "spare: %u of %u are training, and the job does not grow (--no-grow)", n,
                  most);
    } else {
        text_addf(text, "spare: %u of %u are training, ", n, most);
        if (!is_past(r, job->fence.run_until)) {
            *ret_ms = ms_of(tfe_mono_sub(job->fence.run_until, r->now));
            text_add(text, "the job grows once earlier trainers must have ended (fence)");
        } else if (job->told.ends) {
            text_add(text, "and one has begun to end well: the job does not grow any more");
        } else if (!plan_describe_hold(r, job, text)) {
            text_add(text, "the job grows when it costs little");
        }
    }
    return true;
}

/* Appends that other trainers have ended well and rank 0 goes on. */
static void for_rank0(const struct rdzv *r, const struct job *job, struct text *text,
                      uint32_t *ret_ms)
{
    const struct node *chief = roster_chief(job);
    uint32_t n = job->success.n_ended;
    struct tfe_mono hangs_at = success_hangs_at(job);
    text_addf(text, "%u %s ended well, and rank 0 on %s goes on", n,
              n == 1 ? "other node has" : "other nodes have", chief->name);
    if (!tfe_mono_is_never(hangs_at) && !is_past(r, hangs_at)) {
        int64_t idle_ms = tfe_mono_sub(r->now, chief->seat.idle_since);
        text_addf(text, "; it has shown no sign of life for %u s, and is ended without any",
                  ms_of(idle_ms) / 1000);
        *ret_ms = ms_of(tfe_mono_sub(hangs_at, r->now));
    }
}

/* Appends the wait for trainers that end in their own time. */
static bool for_the_end(const struct rdzv *r, const struct job *job, struct text *text,
                        uint32_t *ret_ms)
{
    const struct success *success = &job->success;
    uint32_t needed = roster_needed(job);
    if (success->is_here && job->spec.linger) {
        text_add(text, "the job has succeeded, and waits until what still runs has ended");
        return true;
    }
    if (success->n_ended > 0 && needed == 1 && !success->is_here) {
        for_rank0(r, job, text, ret_ms);
        return true;
    }
    if (success->n_counted > 0 && success->n_counted < needed) {
        text_addf(text, "%u of %u workers have ended well, and it takes all of them",
                  success->n_counted, needed);
        return true;
    }
    return false;
}

bool wait_describe(const struct rdzv *r, const struct job *job, const struct node *node,
                   char ret[MSG_SENTENCE_MAX], uint32_t *ret_ms)
{
    struct text text;
    text_init(&text, ret, MSG_SENTENCE_MAX);
    *ret_ms = 0;
    switch (job->state) {
    case JOB_WAITING:
        return for_restart(r, job, &text, ret_ms) || for_nodes(job, &text);
    case JOB_GATHERING:
        text_addf(&text, "starting soon: %u of at most %u nodes are ready", job->n_ready,
                  roster_most(&job->spec));
        return true;
    case JOB_PREPARING:
        return for_fence(r, job, &text, ret_ms) || for_restart(r, job, &text, ret_ms) ||
               for_nodes(job, &text);
    case JOB_REBUILDING:
        *ret_ms = ms_of(tfe_mono_sub(job->rebuild.until, r->now));
        text_addf(&text, "waiting for the nodes from before this server's start");
        return true;
    case JOB_RUNNING:
        if (for_the_end(r, job, &text, ret_ms)) {
            return true;
        }
        return node ? !node_is_member(node) && for_a_place(r, job, node, &text, ret_ms)
                    : plan_describe_hold(r, job, &text);
    case JOB_COMMITTING:
    case JOB_SUCCEEDED:
    case JOB_FAILED:
    case JOB_CANCELLED:
    case JOB__COUNT:
        break;
    }
    return false;
}

const char *wait_words(struct rdzv *r, const struct node *node, uint32_t *ret_ms)
{
    struct job *job = node->job;
    struct wait *w = &job->wait;
    if (job->state == JOB_RUNNING) { /* each node has its own text */
        return wait_describe(r, job, node, r->sentence, ret_ms) ? r->sentence : NULL;
    }
    if (is_past(r, w->fresh_until)) {
        bool waits = wait_describe(r, job, NULL, r->sentence, ret_ms);
        text_setf(w->words, sizeof(w->words), "%s", waits ? r->sentence : "");
        w->until = *ret_ms ? tfe_mono_add(r->now, *ret_ms) : TFE_MONO_NEVER;
        w->fresh_until = tfe_mono_add(r->now, WORDS_FRESH_MS);
    }
    *ret_ms = tfe_mono_is_never(w->until) ? 0 : ms_of(tfe_mono_sub(w->until, r->now));
    return w->words[0] ? w->words : NULL;
}

const char *wait_why_switch(struct rdzv *r, struct job *job)
{
    const struct budget *b = &job->budget;
    struct text text;
    /* a buffer of the job's own, because several jobs may begin a switch in one step */
    text_init(&text, job->wait.words, sizeof(job->wait.words));
    if (job->wish.cause == CAUSE_NODE_LOST) {
        uint32_t n = ledger_add_lost(&text, job);
        uint32_t left = job->epoch.n_seats - n;
        text_add(&text, n == 1 ? " was" : " were");
        text_addf(&text, " lost (killed, crashed or cut off); going on with %u node%s", left,
                  left == 1 ? "" : "s");
        uint64_t safe;
        if (told_safe_step(job, &safe)) {
            text_addf(&text, " from step %llu", (unsigned long long)safe);
        }
        text_add(&text, ". What TensorFlow prints of it is a consequence");
        return n > 0 && left > 0 ? job->wait.words : NULL;
    }
    bool is_charged = b->epoch == job->epoch.number && b->is_open;
    if (job->wish.cause == CAUSE_TRAINER_FAILED && is_charged &&
        b->used <= job->spec.max_restarts) {
        uint32_t pause_s =
            is_past(r, b->not_before) ? 0 : ms_of(tfe_mono_sub(b->not_before, r->now)) / 1000;
        failure_describe(job, r->sentence);
        text_addf(&text, "%s: restart %u of %u", r->sentence, b->used, job->spec.max_restarts);
        if (pause_s > 0) {
            text_addf(&text, " in %u s", pause_s);
        }
        text_add(&text, "; different errors of other trainers are consequences");
        return job->wait.words;
    }
    return NULL;
}

void wait_forget(struct job *job)
{
    job->wait.fresh_until = (struct tfe_mono){0};
}

/* Returns how long the job has been in its state; 0 if unknown. */
static uint32_t wait_since_ms(const struct rdzv *r, const struct job *job)
{
    struct tfe_mono since = r->now;
    if (job->state == JOB_WAITING) {
        since = job->phase.waiting_since;
    } else if (job->state == JOB_GATHERING) {
        since = job->phase.ready_since;
    } else if (job->state == JOB_PREPARING) {
        since = job->phase.switch_began;
    } else if (job->state == JOB_RUNNING) {
        since = job->epoch.started;
    }
    return ms_of(tfe_mono_sub(r->now, since));
}

uint32_t wait_for_ms(const struct rdzv *r, const struct job *job)
{
    const struct tfe_mono newcomer = job->plan.newcomer_at;
    if (job->state == JOB_RUNNING) { /* waiting to grow, since the first waiting node was READY */
        return tfe_mono_is_never(newcomer) ? 0 : ms_of(tfe_mono_sub(r->now, newcomer));
    }
    return wait_since_ms(r, job);
}
