/* server/core/rdzv.c: entry point of the core: checks an event, reserves memory for its actions,
 * calls its handler. */
#include "server/core/rdzv.h"

#include <string.h>

#include "server/core/core.h"
#include "server/core/handlers.h"
#include "server/core/job.h"
#include "server/core/join_limits.h"
#include "server/core/lease.h"
#include "server/core/node.h"
#include "server/core/states.h"

/* design 4.1 */
#define PROBE_DEFAULT_MS 30000

/* Default rate of address probes: more than a storm of joins causes. Up to three nodes probe each
 * address. */
#define PROBE_RATE_DEFAULT 5000

/* Default rate of renewals: at most a tenth of what one core can handle. */
#define RENEW_RATE_DEFAULT 5000

const char *rdzv_trace_name(enum rdzv_trace_kind kind)
{
    static const char *const names[] = {
#define TRACE_NAME(NAME, name, level, number, text, sentence) name,
        RDZV_TRACES(TRACE_NAME)
#undef TRACE_NAME
    };
    return names[kind];
}

int rdzv_new(const struct rdzv_config *config, const struct tfe_mem *mem, struct rdzv **ret)
{
    /* The fence is at least three times the ttl and must be a valid duration too. */
    if (config->ttl_ms == 0 || config->ttl_ms > MSG_DURATION_MAX_MS / 3 ||
        config->fence_ms > MSG_DURATION_MAX_MS || config->probe_ms > MSG_DURATION_MAX_MS ||
        config->max_sessions == 0 || config->max_sessions == NO_SESSION) {
        return TFE_EINVAL;
    }
    struct rdzv *r = mem_new(mem, 1, sizeof(*r));
    if (!r) {
        return TFE_ENOMEM;
    }
    r->config = *config;
    r->probes = config->incarnation;
    r->config.probe_ms = config->probe_ms ? config->probe_ms : PROBE_DEFAULT_MS;
    r->config.probe_rate = config->probe_rate ? config->probe_rate : PROBE_RATE_DEFAULT;
    r->config.renew_rate = config->renew_rate ? config->renew_rate : RENEW_RATE_DEFAULT;
    r->config.max_nodes = config->max_nodes ? config->max_nodes : config->max_sessions;
    r->config.max_jobs_per_key =
        config->max_jobs_per_key ? config->max_jobs_per_key : CORE_JOBS_MAX / 2;
    r->mem = mem;
    r->by_session = mem_new(mem, config->max_sessions, sizeof(struct node *));
    if (!r->by_session) {
        mem_free(mem, r);
        return TFE_ENOMEM;
    }
    wheel_init(&r->wheel, r->now);
    RB_INIT(&r->jobs);
    r->deadline = TFE_MONO_NEVER;
    *ret = r;
    return 0;
}

/* Frees what the last step removed, because its actions could point there until now. */
static void free_dead(struct rdzv *r)
{
    while (r->dead_nodes) {
        struct node *node = r->dead_nodes;
        r->dead_nodes = node->next_dead;
        node_free(r, node);
    }
    while (r->dead_jobs) {
        struct job *job = r->dead_jobs;
        r->dead_jobs = job->next_dead;
        job_free(r, job);
    }
}

void rdzv_free(struct rdzv *r)
{
    if (!r) {
        return;
    }
    free_dead(r);
    struct job *job;
    struct job *next;
    RB_FOREACH_SAFE(job, job_tree, &r->jobs, next)
    {
        RB_REMOVE(job_tree, &r->jobs, job);
        job_free(r, job);
    }
    mem_free(r->mem, r->aside);
    mem_free(r->mem, r->by_session);
    mem_free(r->mem, r->out.v);
    mem_free(r->mem, r);
}

/* Each handle_* function finds the job or node of an event, reserves memory for actions, and calls
 * the handler. *ret_job is the job whose state may have changed. */

static int handle_message(struct rdzv *r, uint32_t session, const struct tfe_msg *msg,
                          struct job **ret_job)
{
    if (msg->type == MSG_JOIN) {
        return on_join(r, session, &msg->u.join, ret_job);
    }
    struct node *node = r->by_session[session];
    if (!node) {
        return TFE_ESTATE;
    }
    if (actions_reserve(r, node->job)) {
        return TFE_ENOMEM;
    }
    *ret_job = node->job;
    switch ((int)msg->type) {
    case MSG_RENEW:
        on_renew(r, node, &msg->u.renew);
        return 0;
    case MSG_READY:
        return on_ready(r, node, &msg->u.ready);
    case MSG_LISTENING:
        on_listening(r, node, &msg->u.listening);
        return 0;
    case MSG_EXITED:
        return on_exited(r, node, &msg->u.exited);
    case MSG_GOODBYE:
        on_goodbye(r, node, &msg->u.goodbye);
        return 0;
    case MSG_PROCESSES:
        return on_processes(r, node, &msg->u.processes);
    case MSG_PROGRESS:
        on_progress(r, node, &msg->u.progress);
        return 0;
    case MSG_NOTICE:
        return on_notice(r, node, &msg->u.notice);
    case MSG_PROBED:
        return on_probed(r, node, &msg->u.probed);
    case MSG_DEATH:
        return on_death(r, node, &msg->u.death);
    case MSG_MACHINE_INFO:
        on_machine_info(node, &msg->u.machine_info);
        return 0;
    }
    return TFE_EINVAL;
}

static int handle_written(struct rdzv *r, const struct rdzv_event *event, struct job **ret_job)
{
    struct job *job = event->job ? job_find(r, event->job) : NULL;
    if (!job) {
        return TFE_EINVAL;
    }
    if (actions_reserve(r, job)) {
        return TFE_ENOMEM;
    }
    *ret_job = job;
    on_written(r, job, event);
    return 0;
}

static int handle_command(struct rdzv *r, const struct rdzv_event *event, struct job **ret_job)
{
    struct job *job = event->job ? job_find(r, event->job) : NULL;
    struct node *node = NULL;
    bool is_for_job =
        event->type == RDZV_STOP_JOB || event->type == RDZV_GROW || event->type == RDZV_RESIZE;
    if (job && !is_for_job) {
        node = event->node ? node_find(job, event->node) : NULL;
    }
    if (!job || (!is_for_job && (!node || node->is_gone))) {
        return TFE_ENOENT;
    }
    if (event->has_within && event->within_ms > MSG_DURATION_MAX_MS) {
        return TFE_EINVAL;
    }
    if (actions_reserve(r, job)) {
        return TFE_ENOMEM;
    }
    *ret_job = job;
    if (event->type == RDZV_RESIZE) {
        return on_resize(r, job, event->min_nodes, event->max_nodes, event->n_ps);
    }
    if (event->type == RDZV_STOP_JOB) {
        on_stop_job(r, job);
    } else if (event->type == RDZV_GROW) {
        return on_grow(job);
    } else if (event->type == RDZV_EVICT) {
        on_evict(r, node);
    } else {
        on_drain(r, node, event->has_within ? event->within_ms : MSG_UNSET);
    }
    return 0;
}

/* Handles FORGET: one job, or some of those that have been idle for long; the rest in later
 * steps. */
static int handle_forget(struct rdzv *r, const struct rdzv_event *event, struct job **ret_job)
{
    struct job *job = event->job ? job_find(r, event->job) : NULL;
    if (actions_reserve(r, job)) {
        return TFE_ENOMEM;
    }
    if (!event->job) {
        on_forget_old(r, event->before);
        return 0;
    }
    if (!job) {
        job = on_forget_aside(r, event->job);
    }
    *ret_job = job;
    return job ? on_forget(r, job) : TFE_ENOENT;
}

static int handle_closed(struct rdzv *r, uint32_t session, struct job **ret_job)
{
    struct node *node = r->by_session[session];
    if (!node) {
        return 0; /* the node never joined, or the core closed the session itself */
    }
    if (actions_reserve(r, node->job)) {
        return TFE_ENOMEM;
    }
    *ret_job = node->job;
    on_closed(r, node);
    return 0;
}

/* Settles the job if the event has changed it. */
static void settle(struct rdzv *r, struct job *job)
{
    if (job && job->is_touched) {
        job_settle(r, job);
        job_drop_if_unused(r, job);
    }
}

/* Offset of each kind of timer in a node, and the handler of its end. TIMER_JOB belongs to a
 * job. */
static const struct {
    size_t offset;
    void (*over)(struct rdzv *r, struct node *node);
} node_timers[] = {
    [TIMER_LEASE] = {offsetof(struct node, lease.timer), on_lease_over},
    [TIMER_PROBE] = {offsetof(struct node, probing.timer), on_probe_over},
    [TIMER_QUARANTINE] = {offsetof(struct node, quarantine.timer), on_quarantine_over},
};

/* Handles due timers, at most CORE_TIMERS_PER_STEP. If more are due, the deadline says to call
 * again at once. */
static int handle_tick(struct rdzv *r)
{
    for (int i = 0; i < CORE_TIMERS_PER_STEP; i++) {
        struct wheel_timer *due = wheel_peek(&r->wheel, r->now);
        if (!due) {
            return 0;
        }
        struct core_timer *timer = WHEEL_OWNER(due, struct core_timer, wheel);
        struct node *node = NULL;
        if (timer->kind != TIMER_JOB) {
            node = (void *)((char *)timer - node_timers[timer->kind].offset);
        }
        struct job *job = node ? node->job : WHEEL_OWNER(timer, struct job, timer);
        if (actions_reserve(r, job)) {
            /* Timers handled so far have had their effect; the rest stays due. */
            return i == 0 ? TFE_ENOMEM : 0;
        }
        wheel_cancel(&r->wheel, due);
        if (node) {
            node_timers[timer->kind].over(r, node);
        } else {
            job_touch(job);
        }
        settle(r, job);
    }
    return 0;
}

static int dispatch(struct rdzv *r, const struct rdzv_event *event, struct job **ret_job)
{
    switch (event->type) {
    case RDZV_MESSAGE:
        return handle_message(r, event->session, event->msg, ret_job);
    case RDZV_CLOSED:
        return handle_closed(r, event->session, ret_job);
    case RDZV_PERSISTED:
    case RDZV_PERSIST_FAILED:
        return handle_written(r, event, ret_job);
    case RDZV_DRAIN:
    case RDZV_EVICT:
    case RDZV_STOP_JOB:
    case RDZV_GROW:
    case RDZV_RESIZE:
        return handle_command(r, event, ret_job);
    case RDZV_FORGET:
        return handle_forget(r, event, ret_job);
    case RDZV_UNBAN:
        evicted_remove(r, event->job, event->node);
        return 0;
    case RDZV_TICK:
        return handle_tick(r);
    }
    return TFE_EINVAL;
}

const char *rdzv_refusal(const struct rdzv *r)
{
    return r->sentence;
}

int rdzv_step(struct rdzv *r, const struct rdzv_event *event, struct rdzv_actions *ret)
{
    struct job *job = NULL;
    *ret = (struct rdzv_actions){.deadline = r->deadline};
    r->out.n = 0;
    if (r->steps++ == 0) {
        r->began = event->now;
    }
    r->by = event->by;
    free_dead(r);
    if ((event->type == RDZV_MESSAGE || event->type == RDZV_CLOSED) &&
        event->session >= r->config.max_sessions) {
        return TFE_EINVAL;
    }
    if (tfe_mono_before(r->now, event->now)) {
        mass_loss_check_clock(r, event->now);
        r->now = event->now;
    }
    if (event->wall.ms > 0) {
        r->wall = event->wall;
    }
    (void)wheel_peek(&r->wheel, r->now); /* makes new timers relative to the present time */
    int rc = dispatch(r, event, &job);
    if (rc) {
        return rc;
    }
    settle(r, job);
    r->deadline = wheel_next(&r->wheel);
    *ret = (struct rdzv_actions){.v = r->out.v, .n = r->out.n, .deadline = r->deadline};
    return 0;
}

/* --- actions ---------------------------------------------------------------------------------- */

/* Maximum number of actions of one event. For every node of a job: at most two messages (STOP and
 * PREPARE, TABLE and START, FINISH and CLOSE) or three PROBEs; one more for a spare of an epoch
 * that starts; STOP, PREPARE, a trace, FINISH and CLOSE for a drained node whose trainers ended
 * before its epoch does. And a few more per event. */
#define ACTIONS_PER_NODE 6
#define ACTIONS_BESIDES 64

int actions_reserve(struct rdzv *r, const struct job *job)
{
    struct action_list *out = &r->out;
    size_t nodes = job ? (size_t)job->n_nodes + 1 : 1;
    return mem_reserve(r->mem, &out->v, &out->cap,
                       out->n + nodes * ACTIONS_PER_NODE + ACTIONS_BESIDES, sizeof(*out->v));
}

struct rdzv_action *send_action(struct rdzv *r, enum rdzv_action_type type)
{
    TFE_ASSERT(r->out.n < r->out.cap);
    struct rdzv_action *action = &r->out.v[r->out.n++];
    *action = (struct rdzv_action){.type = type};
    return action;
}

/* Appends a SEND of a message of this type to session, zeroed otherwise. */
static struct tfe_msg *send_to(struct rdzv *r, uint32_t session, enum tfe_msg_type type)
{
    struct rdzv_action *action = send_action(r, RDZV_SEND);
    action->session = session;
    action->msg.type = type;
    return &action->msg;
}

struct tfe_msg *send_node(struct rdzv *r, const struct node *node, enum tfe_msg_type type)
{
    return send_to(r, node->session.number, type);
}

void send_close(struct rdzv *r, uint32_t session)
{
    r->by_session[session] = NULL;
    send_action(r, RDZV_CLOSE)->session = session;
}

void send_finish(struct rdzv *r, uint32_t session, enum tfe_result result, uint32_t run,
                 const char *sentence)
{
    send_to(r, session, MSG_FINISH)->u.finish =
        (struct msg_finish){.result = result, .run = run, .sentence = sentence};
    send_close(r, session);
}

void send_refused(struct rdzv *r, uint32_t session, enum tfe_refusal code, const char *sentence)
{
    struct tfe_msg *msg = send_to(r, session, MSG_REFUSED);
    msg->u.refused.code = code;
    msg->u.refused.sentence = sentence;
    send_close(r, session);
}

void send_refused_commit(struct rdzv *r, uint32_t session, uint64_t commit, const char *sentence)
{
    send_to(r, session, MSG_REFUSED)->u.refused = (struct msg_refused){
        .code = REFUSAL_COMMIT_MISMATCH, .sentence = sentence, .commit = commit};
    send_close(r, session);
}

void send_stop(struct rdzv *r, const struct node *node, uint64_t epoch)
{
    send_node(r, node, MSG_STOP)->u.stop.epoch = epoch;
}

void send_noted(struct rdzv *r, const struct node *node, uint64_t epoch)
{
    send_node(r, node, MSG_NOTED)->u.noted.epoch = epoch;
}

struct rdzv_trace *send_trace(struct rdzv *r, enum rdzv_trace_kind kind, const struct job *job,
                              const struct node *node, uint64_t number, const char *text)
{
    struct rdzv_trace *trace = &send_action(r, RDZV_TRACE)->trace;
    *trace = (struct rdzv_trace){
        .kind = kind,
        .job = job ? job->name.text : NULL,
        .node = node ? node->id.text : NULL,
        .name = node ? node->name : NULL,
        .epoch = job ? job->epoch.number : 0,
        .number = number,
        .text = text,
    };
    return trace;
}
