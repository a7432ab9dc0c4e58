/* server/core/rdzv.c: the door: checks an event, makes room for what it may cause, hands it on. */
#include "server/core/rdzv.h"

#include <string.h>

#include "server/core/core.h"
#include "server/core/doubt.h"
#include "server/core/events.h"

/* DESIGN 4.1 */
#define PROBE_DEFAULT_MS 30000

/* A tenth of what one core renews, or less. */
#define RENEW_RATE_DEFAULT 5000

const char *rdzv_trace_name(enum rdzv_trace_kind kind)
{
    switch (kind) {
#define TRACE_NAME(NAME, name)                                                                     \
    case TRACE_##NAME:                                                                             \
        return name;
        RDZV_TRACES(TRACE_NAME)
#undef TRACE_NAME
    }
    return "?";
}

int rdzv_new(const struct rdzv_config *config, const struct tfe_mem *mem, struct rdzv **ret)
{
    /* A fence is at least three times the ttl, and a duration too. */
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
    if (r->config.probe_ms == 0) {
        r->config.probe_ms = PROBE_DEFAULT_MS;
    }
    if (r->config.renew_rate == 0) {
        r->config.renew_rate = RENEW_RATE_DEFAULT;
    }
    if (r->config.max_nodes == 0) {
        r->config.max_nodes = config->max_sessions;
    }
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

/* What the last step removed: its actions could still point there until now. */
static void bury(struct rdzv *r)
{
    while (r->dead_nodes) {
        struct node *node = r->dead_nodes;
        r->dead_nodes = node->next_dead;
        if (!TFE_BUG(leak_nodes)) {
            mem_free(r->mem, node);
        }
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
    bury(r);
    struct job *job;
    struct job *next;
    RB_FOREACH_SAFE(job, job_tree, &r->jobs, next)
    {
        RB_REMOVE(job_tree, &r->jobs, job);
        job_free(r, job);
    }
    mem_free(r->mem, r->by_session);
    mem_free(r->mem, r->actions);
    mem_free(r->mem, r);
}

static int take_message(struct rdzv *r, uint32_t session, const struct tfe_msg *msg)
{
    if (msg->type == MSG_JOIN) {
        return on_join(r, session, &msg->u.join);
    }
    struct node *node = r->by_session[session];
    if (!node) {
        return TFE_ESTATE;
    }
    if (actions_reserve(r, node->job)) {
        return TFE_ENOMEM;
    }
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
        on_goodbye(r, node);
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
    }
    return TFE_EINVAL;
}

static int take_written(struct rdzv *r, const struct rdzv_event *event)
{
    struct job *job = event->job ? job_find(r, event->job) : NULL;
    if (!job) {
        return TFE_EINVAL;
    }
    if (actions_reserve(r, job)) {
        return TFE_ENOMEM;
    }
    if (event->type == RDZV_PERSISTED) {
        on_persisted(r, job, event->sequence);
    } else if (event->conflict) {
        on_conflict(r);
    } else {
        on_persist_failed(r, job, event->sequence);
    }
    return 0;
}

static int take_order(struct rdzv *r, const struct rdzv_event *event)
{
    struct job *job = event->job ? job_find(r, event->job) : NULL;
    struct node *node = NULL;
    if (job && event->type != RDZV_STOP_JOB) {
        node = event->node ? node_find(job, event->node) : NULL;
    }
    if (!job || (event->type != RDZV_STOP_JOB && (!node || node->gone))) {
        return TFE_ENOENT;
    }
    if (event->has_within && event->within_ms > MSG_DURATION_MAX_MS) {
        return TFE_EINVAL;
    }
    if (actions_reserve(r, job)) {
        return TFE_ENOMEM;
    }
    if (event->type == RDZV_STOP_JOB) {
        on_stop_job(r, job);
    } else if (event->type == RDZV_EVICT) {
        on_evict(r, node);
    } else {
        on_drain(r, node, event->has_within ? event->within_ms : MSG_UNSET);
    }
    return 0;
}

static int take_closed(struct rdzv *r, uint32_t session)
{
    struct node *node = r->by_session[session];
    if (!node) {
        return 0; /* never joined, or the core closed it itself */
    }
    if (actions_reserve(r, node->job)) {
        return TFE_ENOMEM;
    }
    on_closed(r, node);
    return 0;
}

/* Works off timers, at most a slice of them; the deadline then says to come back at once. */
static int take_tick(struct rdzv *r)
{
    for (int i = 0; i < CORE_TIMERS_PER_STEP; i++) {
        struct wheel_timer *due = wheel_peek(&r->wheel, r->now);
        if (!due) {
            return 0;
        }
        struct core_timer *timer = WHEEL_OWNER(due, struct core_timer, wheel);
        struct node *node = NULL;
        struct job *job;
        if (timer->kind == TIMER_LEASE) {
            node = WHEEL_OWNER(timer, struct node, lease.timer);
            job = node->job;
        } else if (timer->kind == TIMER_PROBE) {
            node = WHEEL_OWNER(timer, struct node, probe.timer);
            job = node->job;
        } else if (timer->kind == TIMER_HOLD) {
            node = WHEEL_OWNER(timer, struct node, hold);
            job = node->job;
        } else {
            job = WHEEL_OWNER(timer, struct job, timer);
        }
        if (actions_reserve(r, job)) {
            /* What has been worked off before stands; the rest keeps. */
            return i == 0 ? TFE_ENOMEM : 0;
        }
        wheel_cancel(&r->wheel, due);
        if (timer->kind == TIMER_PROBE) {
            on_probe_over(r, node);
        } else if (timer->kind == TIMER_HOLD) {
            on_hold_over(r, node);
        } else if (node) {
            on_lease_over(r, node);
        } else {
            job_settle(r, job);
        }
    }
    return 0;
}

int rdzv_step(struct rdzv *r, const struct rdzv_event *event, struct rdzv_actions *ret)
{
    *ret = (struct rdzv_actions){.deadline = r->deadline};
    r->n_actions = 0;
    r->steps++;
    bury(r);
    if ((event->type == RDZV_MESSAGE || event->type == RDZV_CLOSED) &&
        event->session >= r->config.max_sessions) {
        return TFE_EINVAL;
    }
    if (tfe_mono_before(r->now, event->now)) {
        doubt_look_at_clock(r, event->now);
        r->now = event->now;
    }
    if (event->wall.ms > 0) {
        r->wall = event->wall;
    }
    (void)wheel_peek(&r->wheel, r->now); /* new timers are filed by the present time */
    int rc = 0;
    switch (event->type) {
    case RDZV_MESSAGE:
        rc = take_message(r, event->session, event->msg);
        break;
    case RDZV_CLOSED:
        rc = take_closed(r, event->session);
        break;
    case RDZV_PERSISTED:
    case RDZV_PERSIST_FAILED:
        rc = take_written(r, event);
        break;
    case RDZV_DRAIN:
    case RDZV_EVICT:
    case RDZV_STOP_JOB:
        rc = take_order(r, event);
        break;
    case RDZV_TICK:
        rc = take_tick(r);
        break;
    }
    if (rc) {
        return rc;
    }
    r->deadline = wheel_next(&r->wheel);
    *ret = (struct rdzv_actions){.v = r->actions, .n = r->n_actions, .deadline = r->deadline};
    return 0;
}
