/* server/core/view.c: read-only views of the core for status requests, and the text that tells
 * users what a job or node waits for. */
#include "server/core/view.h"

#include <string.h>

#include "common/text/text.h"
#include "server/core/core.h"
#include "server/core/failure.h"
#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/layout.h"
#include "server/core/ledger.h"
#include "server/core/node.h"
#include "server/core/plan.h"
#include "server/core/states.h"
#include "server/core/verdict.h"
#include "server/core/worker_restart.h"

/* Returns true if the job has an epoch that is starting, running or being stopped. */
static bool has_epoch(const struct job *job)
{
    return job->state == JOB_RUNNING || job->state == JOB_COMMITTING || job->state == JOB_PREPARING;
}

static void show_job(const struct job *job, struct msg_status_job *ret)
{
    *ret = (struct msg_status_job){
        .job = job->name.text,
        .state = job->phase.visible_state,
        .phase = job_state_name(job->state),
        .since = job->phase.visible_since,
        .ended.ms = job_is_over(job) ? job->run.ended.ms : 0,
        .run = job->run.number,
        .epoch = job->epoch.number,
        .min_nodes = job->spec.min_nodes,
        .max_nodes = job->spec.max_nodes,
        .nproc = job->spec.nproc,
        .n_ps = job->spec.n_ps,
        .chief = job->spec.chief,
        .evaluator = job->spec.evaluator,
        /* A restart above the budget is charged until the verdict fails the job or takes the charge
         * back. */
        .restarts =
            job->budget.used < job->spec.max_restarts ? job->budget.used : job->spec.max_restarts,
        .restarts_left = job->budget.used < job->spec.max_restarts
                             ? job->spec.max_restarts - job->budget.used
                             : 0,
        .members = has_epoch(job) ? job->epoch.n_slots : 0,
        .nodes = job->n_nodes,
        .connected = job->n_connected,
        .ready = job->n_ready,
        .memory_bytes = job->memory_bytes,
    };
    for (uint32_t slot = 0; job->state == JOB_RUNNING && slot < job->epoch.n_slots; slot++) {
        ret->alone += job->epoch.slots[slot]->slot.is_alone;
    }
    if (job->state == JOB_RUNNING && layout_has_ps(job)) {
        ret->workers = job->epoch.n_slots - layout_extra_now(job);
        ret->workers_working = workers_running(job);
        ret->workers_done = workers_done(job);
    }
}

/* Fills in a job whose record is unreadable: only its name is known. */
static void show_aside(const struct tfe_id *name, struct msg_status_job *ret)
{
    *ret = (struct msg_status_job){.job = name->text,
                                   .state = STATE_SET_ASIDE,
                                   .phase = "set_aside",
                                   .min_nodes = 1,
                                   .max_nodes = 1,
                                   .nproc = 1};
}

int rdzv_view_job(const struct rdzv *r, const char *after, struct msg_status_job *ret_job)
{
    struct job key = {0};
    /* tree.h has no const variants */
    struct job_tree *tree = (struct job_tree *)(uintptr_t)&r->jobs;
    struct job *job = RB_MIN(job_tree, tree);
    if (after) {
        if (id_set(&key.name, after)) {
            return TFE_ENOENT;
        }
        job = RB_NFIND(job_tree, tree, &key);
        if (job && id_compare(&job->name, &key.name) == 0) {
            job = RB_NEXT(job_tree, tree, job);
        }
    }
    const struct tfe_id *aside = NULL;
    for (size_t i = 0; i < r->n_aside; i++) {
        const struct tfe_id *name = &r->aside[i];
        if ((!after || id_compare(name, &key.name) > 0) &&
            (!aside || id_compare(name, aside) < 0)) {
            aside = name;
        }
    }
    if (aside && (!job || id_compare(aside, &job->name) < 0)) {
        show_aside(aside, ret_job);
        return 0;
    }
    if (!job) {
        return TFE_ENOENT;
    }
    show_job(job, ret_job);
    return 0;
}

int rdzv_find_job(const struct rdzv *r, const char *name, struct msg_status_job *ret_job)
{
    const struct job *job = job_find((struct rdzv *)(uintptr_t)r, name);
    if (job) {
        show_job(job, ret_job);
        return 0;
    }
    for (size_t i = 0; i < r->n_aside; i++) {
        if (strcmp(r->aside[i].text, name) == 0) {
            show_aside(&r->aside[i], ret_job);
            return 0;
        }
    }
    return TFE_ENOENT;
}

struct rdzv_run rdzv_get_run(const struct rdzv *r, const char *name)
{
    const struct job *job = job_find(r, name);
    if (!job) {
        return (struct rdzv_run){.key = ""};
    }
    return (struct rdzv_run){.key = job->run.key.text,
                             .opener = job->opened_by.is_known ? job->opened_by.key_id : NULL,
                             .lingers = job->state == JOB_RUNNING && job->spec.linger &&
                                        job->success.is_here,
                             .is_used_up = job->state == JOB_FAILED && job->budget.is_used_up};
}

struct tfe_mono rdzv_view_late(const struct rdzv *r)
{
    return r->late_at;
}

/* The reason in the sentence of a job that is over: without the job's name, which stands beside it,
 * and without what its trainer had printed last. */
static void reason_of_end(const struct job *job, char ret[MSG_SENTENCE_MAX])
{
    const char *reason = job->run.sentence;
    const char *tail = strstr(reason, MSG_TAIL_HEAD);
    const size_t n_name = strlen(job->name.text);
    size_t n = tail ? (size_t)(tail - reason) : strlen(reason);
    struct text text;
    if (strncmp(reason, "job ", 4) == 0 && strncmp(reason + 4, job->name.text, n_name) == 0) {
        const size_t skip = strncmp(reason + 4 + n_name, " failed: ", 9) == 0 ? 9 : 1;
        reason += 4 + n_name + skip;
        n -= 4 + n_name + skip;
    }
    text_init(&text, ret, MSG_SENTENCE_MAX);
    text_add_head(&text, reason, n);
}

void rdzv_view_reason(const struct rdzv *r, struct msg_status_job *row, char buf[MSG_SENTENCE_MAX])
{
    const struct job *job = job_find(r, row->job);
    struct tfe_mono until;
    buf[0] = '\0';
    if (!job || job->state == JOB_SUCCEEDED) {
        return;
    }
    if (job->state == JOB_CANCELLED) {
        text_setf(buf, MSG_SENTENCE_MAX, "it " RDZV_CANCELLED);
    } else if (job_is_over(job)) {
        reason_of_end(job, buf);
    } else if (job->failure.is_fault &&
               (job->state != JOB_RUNNING || !verdict_has_progressed(r, job))) {
        failure_describe(job, buf);
        const bool is_final = verdict_is_final(r, job, &until);
        const int64_t ms = tfe_mono_sub(until, r->now);
        if (job->state != JOB_RUNNING && !is_final && !verdict_is_pending(r, job) &&
            !is_past(r, until) && ms > 0) {
            row->retry_ms = ms > MSG_DURATION_MAX_MS ? MSG_DURATION_MAX_MS : (uint32_t)ms;
        }
    }
    row->reason = buf[0] != '\0' ? buf : NULL;
}

static enum tfe_node_role role_of(const struct node *node)
{
    bool is_new = node->ready.host[0] == '\0';
    if (node->notice.is_leaving) {
        return ROLE_LEAVING;
    }
    if (!node_is_connected(node)) {
        return ROLE_SUSPECT;
    }
    if (node_evaluates(node) || (node_is_member(node) && has_epoch(node->job))) {
        return ROLE_MEMBER;
    }
    if (node_is_ready(node)) {
        return has_epoch(node->job) ? ROLE_SPARE : ROLE_WAITING;
    }
    return is_new && node->processes.n_standby_pids > 0 ? ROLE_IMPORTING : ROLE_PREPARING;
}

static struct rdzv_node describe_node(const struct node *node)
{
    const struct job *job = node->job;
    const bool is_member = node_is_member(node);
    return (struct rdzv_node){.job = job->name.text,
                              .node = node->id.text,
                              .name = node->name,
                              .token_id = node->joined_by.is_known ? node->joined_by.key_id : NULL,
                              .session = node->session.number,
                              .run = job->run.number,
                              .epoch = job->epoch.number,
                              .n_members = job->epoch.n_slots,
                              .is_member = is_member,
                              .has_rank = is_member && has_epoch(job),
                              .rank = is_member ? layout_rank(job, node->slot.index) : 0};
}

int rdzv_get_session_node(const struct rdzv *r, uint32_t session, struct rdzv_node *ret)
{
    const struct node *node = session < r->config.max_sessions ? r->by_session[session] : NULL;
    if (!node) {
        return TFE_ENOENT;
    }
    *ret = describe_node(node);
    return 0;
}

int rdzv_get_node(const struct rdzv *r, const char *job_name, const char *id, struct rdzv_node *ret)
{
    struct job *job = job_find(r, job_name);
    const struct node *node = job ? node_find(job, id) : NULL;
    if (!node) {
        return TFE_ENOENT;
    }
    *ret = describe_node(node);
    return 0;
}

/* Sets the role and index of the node's first trainer, in jobs with roles. */
static void show_replica(const struct node *node, struct msg_status_node *ret)
{
    const struct job *job = node->job;
    struct msg_row row;
    if (!layout_has_roles(&job->spec) || !(ret->has_rank || node_evaluates(node))) {
        return;
    }
    ret->has_place = true;
    ret->task = TASK_EVALUATOR;
    if (ret->has_rank) {
        layout_set_role(job, ret->rank, &row);
        ret->task = row.role;
        ret->index = ret->rank - row.first;
    }
}

int rdzv_view_node(const struct rdzv *r, const char *job_name, const char *after,
                   struct msg_status_node *ret_node)
{
    struct job *job = job_find(r, job_name);
    if (!job) {
        return TFE_ENOENT;
    }
    struct node key = {0};
    struct node *node = RB_MIN(node_tree, &job->nodes);
    if (after) {
        if (id_set(&key.id, after)) {
            return TFE_ENOENT;
        }
        node = RB_NFIND(node_tree, &job->nodes, &key);
        if (node && id_compare(&node->id, &key.id) == 0) {
            node = RB_NEXT(node_tree, &job->nodes, node);
        }
    }
    while (node && node->is_gone) {
        node = RB_NEXT(node_tree, &job->nodes, node);
    }
    if (!node) {
        return TFE_ENOENT;
    }
    *ret_node = (struct msg_status_node){
        .node = node->id.text,
        .name = node->name,
        .role = role_of(node),
        .has_rank = node_is_member(node) && has_epoch(job),
        .rank = node_is_member(node) ? layout_rank(job, node->slot.index) : 0,
        .host = node->ready.host[0] ? node->ready.host : NULL,
        .port = node->ready.ports[0],
        .pid = node->pid,
        .processes = {.guard_pid = node->processes.guard_pid,
                      .trainer_pids = node->processes.trainer_pids,
                      .n_trainer_pids = node->processes.n_trainer_pids,
                      .standby_pids = node->processes.standby_pids,
                      .n_standby_pids = node->processes.n_standby_pids},
        .memory = node->ready.memory,
    };
    show_replica(node, ret_node);
    return 0;
}

/* --- finding nodes by a name that a user has typed -------------------------------------------- */

enum meaning { MEANS_ID, MEANS_CONNECTED, MEANS_SUSPECT };

static bool is_meant(const struct node *node, const char *name, enum meaning how)
{
    if (node->is_gone || (how != MEANS_ID && node_is_connected(node) != (how == MEANS_CONNECTED))) {
        return false;
    }
    return strcmp(how == MEANS_ID ? node->id.text : node->name, name) == 0;
}

static void find_matches(const struct rdzv *r, const struct principal *by, const char *name,
                         enum meaning how, struct rdzv_found *ret)
{
    /* tree.h has no const variants */
    struct job_tree *jobs = (struct job_tree *)(uintptr_t)&r->jobs;
    struct job *job;
    RB_FOREACH(job, job_tree, jobs)
    {
        struct node *node;
        if (principal_fault(by, MSG_DRAIN, job->name.text)) {
            continue;
        }
        RB_FOREACH(node, node_tree, &job->nodes)
        {
            if (!is_meant(node, name, how)) {
                continue;
            }
            if (ret->n < RDZV_FOUND_MAX) {
                ret->v[ret->n] = describe_node(node);
            }
            ret->n++;
        }
    }
}

int rdzv_find_node(const struct rdzv *r, const struct principal *by, const char *name,
                   struct rdzv_found *ret_found)
{
    struct rdzv_found found = {.n = 0};
    for (enum meaning how = MEANS_ID; how <= MEANS_SUSPECT && found.n == 0; how++) {
        find_matches(r, by, name, how, &found);
    }
    if (found.n == 0) {
        return TFE_ENOENT;
    }
    *ret_found = found;
    return 0;
}

/* --- reasons of waiting --- */

/* The cached text is recomputed after this time, because remaining times in it change without an
 * event. */
#define TEXT_FRESH_MS 5000

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
    if (verdict_is_pending(r, job)) {
        text_add(text, "waiting to determine whether a lost node explains the last failure");
    } else {
        text_addf(text, "waiting for the pause before restart %u of %u", job->budget.used,
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
    uint32_t slot = job->phase.fence_slot;
    if (is_past(r, until)) {
        return false;
    }
    *ret_ms = ms_of(tfe_mono_sub(until, r->now));
    if (slot < epoch->n_slots) {
        text_addf(text, "waiting until %s's trainers", epoch->slots[slot]->name);
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
    if (layout_is_enough(job)) {
        return false;
    }
    text_add(text, "waiting for nodes to be ready as ");
    layout_describe_lacking(job, text);
    text_addf(text, " (%u %s ready)", job->n_ready, job->n_ready == 1 ? "is" : "are");
    return true;
}

static bool for_nodes(const struct job *job, struct text *text)
{
    uint32_t min = job->spec.min_nodes;
    if (layout_has_roles(&job->spec)) {
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

static bool for_a_slot(const struct rdzv *r, const struct job *job, const struct node *node,
                       struct text *text, uint32_t *ret_ms)
{
    uint32_t n = job->epoch.n_slots;
    uint32_t limit = job->spec.max_nodes + layout_extra(&job->spec);
    if (node_evaluates(node)) {
        return false;
    }
    if (node->is_unfit) {
        text_add(text, "not ready: a check of its machine fails");
    } else if (!node_is_ready(node)) {
        text_addf(text, "getting ready while %u node%s", n, n == 1 ? " trains" : "s train");
    } else if (node->has_role && node->role == TASK_PS && job->epoch.n_ps < job->spec.n_ps) {
        text_addf(text, "spare: %u ps serve, and %u from the job's next checkpoint on",
                  job->epoch.n_ps, job->spec.n_ps);
    } else if (node->has_role && node->role != TASK_WORKER) {
        uint32_t replicas = layout_replicas_of(&job->spec, node->role);
        text_addf(text,
                  "spare: the job has its %u %s, the only role of this node (--role): it gets a "
                  "slot when one of them is lost",
                  replicas, msg_task_name(node->role));
    } else if (workers_running(job) >= job->spec.max_nodes) {
        text_addf(text, "spare: %u of %u are training", n, limit);
    } else if (job->spec.no_grow) {
        text_addf(text, "spare: %u of %u are training, and the job does not grow (--no-grow)", n,
                  limit);
    } else {
        text_addf(text, "spare: %u of %u are training, ", n, limit);
        if (!is_past(r, job->fence.run_until)) {
            *ret_ms = ms_of(tfe_mono_sub(job->fence.run_until, r->now));
            text_add(text, "the job grows once earlier trainers must have ended (fence)");
        } else if (job->progress.ends) {
            text_add(text, "and a trainer has begun to end: the job no longer grows");
        } else if (!plan_describe_hold(r, job, text)) {
            text_add(text, "the job grows when the switch costs little work");
        }
    }
    return true;
}

/* Appends that other trainers have ended well and rank 0 continues. */
static void for_rank0(const struct rdzv *r, const struct job *job, struct text *text,
                      uint32_t *ret_ms)
{
    const struct node *chief = layout_chief(job);
    uint32_t n = job->success.n_ended;
    struct tfe_mono hangs_at = success_hangs_at(job);
    text_addf(text, "%u %s ended with exit status 0, and rank 0 on %s still runs", n,
              n == 1 ? "other node has" : "other nodes have", chief->name);
    if (!tfe_mono_is_never(hangs_at) && !is_past(r, hangs_at)) {
        int64_t idle_ms = tfe_mono_sub(r->now, chief->slot.idle_since);
        text_addf(text, "; it has shown no activity for %u s and is stopped if it shows none",
                  ms_of(idle_ms) / 1000);
        *ret_ms = ms_of(tfe_mono_sub(hangs_at, r->now));
    }
}

/* Appends the wait for trainers that end in their own time. */
static bool for_the_end(const struct rdzv *r, const struct job *job, struct text *text,
                        uint32_t *ret_ms)
{
    const struct success *success = &job->success;
    uint32_t needed = layout_needed_successes(job);
    if (success->is_here && job->spec.linger) {
        text_add(text, "the job has succeeded and waits for the remaining trainers to end");
        return true;
    }
    if (success->n_ended > 0 && needed == 1 && !success->is_here) {
        for_rank0(r, job, text, ret_ms);
        return true;
    }
    if (success->n_counted > 0 && success->n_counted < needed) {
        text_addf(text,
                  "%u of %u workers have ended with exit status 0, and the job needs all of them",
                  success->n_counted, needed);
        return true;
    }
    return false;
}

/* Writes what the node, or (NULL) the job, waits for. Returns false if it waits for nothing known.
 * Sets *ret_ms to the time after which the wait is over at the latest, or to 0 if unknown. */
static bool wait_describe(const struct rdzv *r, const struct job *job, const struct node *node,
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
                  layout_max_nodes(&job->spec));
        return true;
    case JOB_PREPARING:
        return for_fence(r, job, &text, ret_ms) || for_restart(r, job, &text, ret_ms) ||
               for_nodes(job, &text);
    case JOB_REBUILDING:
        *ret_ms = ms_of(tfe_mono_sub(job->rebuild.until, r->now));
        text_addf(&text, "waiting for the nodes that were connected before the server restarted");
        return true;
    case JOB_RUNNING:
        if (for_the_end(r, job, &text, ret_ms)) {
            return true;
        }
        return node ? !node_is_member(node) && for_a_slot(r, job, node, &text, ret_ms)
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

void wait_report(struct rdzv *r, struct node *node, struct msg_renewed *ret)
{
    struct job *job = node->job;
    struct wait *w = &job->wait;
    const bool is_shared = job->state != JOB_RUNNING; /* while an epoch runs, each has its own */
    if (w->is_due || (!is_shared && is_past(r, w->fresh_until))) {
        w->number++;
        w->is_due = false;
        w->fresh_until = tfe_mono_add(r->now, TEXT_FRESH_MS);
        if (is_shared) {
            uint32_t ms;
            bool waits = wait_describe(r, job, NULL, r->sentence, &ms);
            text_setf(w->text, sizeof(w->text), "%s", waits ? r->sentence : "");
            w->until = ms ? tfe_mono_add(r->now, ms) : TFE_MONO_NEVER;
        }
    }
    if (node->session.wait == w->number) {
        return;
    }
    node->session.wait = w->number;
    bool waits = w->text[0] != '\0';
    ret->waits = waits ? w->text : NULL;
    if (!is_shared) {
        waits = wait_describe(r, job, node, r->sentence, &ret->waits_ms);
        ret->waits = waits ? r->sentence : NULL;
    } else if (waits && !tfe_mono_is_never(w->until)) {
        ret->waits_ms = ms_of(tfe_mono_sub(w->until, r->now));
    }
    ret->no_wait = node->session.has_wait && !waits;
    node->session.has_wait = waits;
}

const char *wait_describe_switch(struct rdzv *r, struct job *job)
{
    const struct budget *b = &job->budget;
    struct text text;
    /* a buffer of the job's own, because several jobs may begin a switch in one step */
    text_init(&text, job->wait.text, sizeof(job->wait.text));
    if (job->pending_switch.cause == CAUSE_NODE_LOST) {
        uint32_t n = ledger_add_lost(&text, job);
        uint32_t left = job->epoch.n_slots - n;
        text_add(&text, n == 1 ? " was" : " were");
        text_addf(&text, " lost (killed, crashed or disconnected); continuing with %u node%s", left,
                  left == 1 ? "" : "s");
        uint64_t safe;
        if (progress_safe_step(job, &safe)) {
            text_addf(&text, " from step %llu", (unsigned long long)safe);
        }
        text_add(&text, ". TensorFlow's error messages are a consequence");
        return n > 0 && left > 0 ? job->wait.text : NULL;
    }
    bool is_charged = b->epoch == job->epoch.number && b->is_open;
    if (job->pending_switch.cause == CAUSE_TRAINER_FAILED && is_charged &&
        b->used <= job->spec.max_restarts) {
        uint32_t pause_s =
            is_past(r, b->not_before) ? 0 : ms_of(tfe_mono_sub(b->not_before, r->now)) / 1000;
        failure_describe(job, r->sentence);
        text_addf(&text, "%s: restart %u of %u", r->sentence, b->used, job->spec.max_restarts);
        if (pause_s > 0) {
            text_addf(&text, " in %u s", pause_s);
        }
        text_add(&text, "; different errors of other trainers are consequences");
        return job->wait.text;
    }
    return NULL;
}

/* Returns how long the job has been waiting for what wait_describe says; 0 if unknown. */
static uint32_t wait_for_ms(const struct rdzv *r, const struct job *job)
{
    struct tfe_mono since = r->now;
    if (job->state == JOB_WAITING) {
        since = job->phase.waiting_since;
    } else if (job->state == JOB_GATHERING) {
        since = job->phase.ready_since;
    } else if (job->state == JOB_PREPARING) {
        since = job->phase.switch_began;
    } else if (job->state == JOB_RUNNING && !tfe_mono_is_never(job->plan.newcomer_at)) {
        since = job->plan.newcomer_at; /* when the first node that waits was READY */
    }
    return ms_of(tfe_mono_sub(r->now, since));
}

void rdzv_view_waits(const struct rdzv *r, struct msg_status_job *row, char buf[MSG_SENTENCE_MAX])
{
    const struct job *job = job_find(r, row->job);
    if (job) {
        row->waits = wait_describe(r, job, NULL, buf, &row->waits_ms) ? buf : NULL;
        row->waits_since_ms = row->waits ? wait_for_ms(r, job) : 0;
    }
}

void rdzv_view_node_waits(const struct rdzv *r, const char *job_name, struct msg_status_node *row,
                          char buf[MSG_SENTENCE_MAX])
{
    struct job *job = job_find(r, job_name);
    const struct node *node = job ? node_find(job, row->node) : NULL;
    uint32_t ms;
    if (node && job->state == JOB_RUNNING) {
        row->waits = wait_describe(r, job, node, buf, &ms) ? buf : NULL;
    }
}
