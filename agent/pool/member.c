/* agent/pool/member.c: implementation of member.h: the link of the agent's core, which connects and
 * renews the lease, without the rest of the core. */
#include "agent/pool/member.h"

#include <event2/event.h>
#include <sodium.h>
#include <stdlib.h>

#include "agent/core/link.h"
#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/credentials/node_secrets.h"

struct member {
    struct member_options options;
    struct tfe_id node;
    char node_secret[MSG_NODE_SECRET_CHARS + 1];
    struct event *timer; /* next link_tick */
    struct uplink *uplink;
    struct link link;
    struct step_context step; /* context of the last call of the link */
    bool is_lost;             /* options.lost has been called */
};

/* Returns the context for a call of the link. */
static struct step_context *begin(struct member *m)
{
    m->step.now = clock_mono();
    m->step.n_actions = 0;
    m->step.is_idle = !m->options.works(m->options.ctx);
    return &m->step;
}

static void log_trace(const struct member *m, const struct agent_trace *trace)
{
    const struct agent_trace_format *format = agent_trace_format(trace->kind);
    const bool is_joined = trace->kind == AGENT_TRACE_JOINED;
    LOG_AT((enum log_level)format->level, format->name, LOG_S("pool", is_joined ? "yes" : NULL),
           LOG_S("node", is_joined ? m->node.text : NULL),
           LOG_S("name", is_joined ? m->options.node_name : NULL),
           LOG_U(format->number, trace->number), LOG_S(format->text, trace->text));
}

static void execute_action(struct member *m, const struct agent_action *action)
{
    switch ((int)action->type) {
    case AGENT_CONNECT:
        uplink_connect(m->uplink);
        break;
    case AGENT_HANG_UP:
        uplink_hang_up(m->uplink);
        break;
    case AGENT_SEND:
        uplink_send(m->uplink, &action->msg);
        break;
    case AGENT_TRACE:
        log_trace(m, &action->trace);
        break;
    default: /* AGENT_FENCE: no trainer runs below this process without a fence of its own */
        break;
    }
}

/* Executes the actions of the link and sets the timer. */
static void finish(struct member *m)
{
    const struct step_context *t = &m->step;
    for (size_t i = 0; i < t->n_actions; i++) {
        execute_action(m, &t->actions[i]);
    }
    if (t->leave == LEAVE_NOT) {
        timer_after(m->timer, tfe_mono_sub(link_deadline(&m->link, t), t->now));
    } else if (!m->is_lost) {
        m->is_lost = true;
        m->options.lost(m->options.ctx, t->exit_code, t->exit_sentence);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct member *m = ctx;
    link_tick(&m->link, begin(m), &(struct msg_renew){0});
    finish(m);
}

static void on_connected(struct member *m, const char *host)
{
    const struct agent_settings *s = m->options.settings;
    link_connected(&m->link);
    step_send(begin(m), MSG_POOL)->u.pool =
        (struct msg_pool){.labels = s->labels.v,
                          .n_labels = s->labels.n,
                          .slot = m->options.slot,
                          .assignment = m->options.assignment(m->options.ctx),
                          .idle_exit_ms = s->idle_exit_ms,
                          .floor = s->floor,
                          .node_name = m->options.node_name,
                          .host = host,
                          .node = m->node.text,
                          .node_secret = m->node_secret};
    link_join(&m->link, &m->step);
    finish(m);
    m->options.connected(m->options.ctx);
}

static void on_disconnected(struct member *m, enum agent_link how, const char *reason)
{
    if (!m->options.down(m->options.ctx)) {
        evtimer_del(m->timer);
        return;
    }
    link_disconnected(&m->link, begin(m), how, reason);
    finish(m);
}

static void on_message(struct member *m, const struct tfe_msg *msg)
{
    switch ((int)msg->type) {
    case MSG_WELCOME:
        if (link_welcome(&m->link, begin(m), &msg->u.welcome)) {
            finish(m);
            m->options.welcome(m->options.ctx);
        }
        break;
    case MSG_RENEWED:
        link_renewed(&m->link, begin(m), &msg->u.renewed);
        finish(m);
        break;
    case MSG_REFUSED:
        link_refused(&m->link, begin(m), &msg->u.refused);
        finish(m);
        break;
    default:
        m->options.message(m->options.ctx, msg);
        break;
    }
}

static void on_event(void *ctx, const struct agent_event *event)
{
    struct member *m = ctx;
    switch ((int)event->type) {
    case AGENT_CONNECTED:
        on_connected(m, event->host);
        break;
    case AGENT_DISCONNECTED:
        on_disconnected(m, event->lost.how, event->lost.reason);
        break;
    case AGENT_MESSAGE:
        on_message(m, event->msg);
        break;
    default: /* an uplink sends no other events */
        break;
    }
}

/* --- lifetime --- */

struct member *member_new(const struct member_options *options)
{
    const struct agent_settings *s = options->settings;
    struct member *m = must_alloc(sizeof *m);
    uint64_t seed;
    m->options = *options;
    m->step.config = s->agent;
    randombytes_buf(&seed, sizeof seed);
    rng_init(&m->step.rng, seed);
    node_secret_make(m->node_secret);
    (void)node_id_of(m->node_secret, &m->node);
    m->timer = evtimer_new(options->base, on_timer, m);
    must_succeed(m->timer);
    m->uplink = uplink_new(options->base, options->info, agent_settings_state_dir(s),
                           s->address_host, on_event, m);
    link_begin(&m->link, begin(m));
    finish(m);
    return m;
}

void member_free(struct member *m)
{
    if (m) {
        uplink_free(m->uplink);
        event_drop(&m->timer);
        free(m);
    }
}

bool member_is_up(const struct member *m)
{
    return m->step.is_up;
}

struct uplink *member_uplink(const struct member *m)
{
    return m->uplink;
}

void member_goodbye(struct member *m)
{
    struct tfe_msg msg = {.type = MSG_GOODBYE, .u.goodbye = {.drained = true}};
    if (member_is_up(m)) {
        uplink_send(m->uplink, &msg);
    }
    uplink_finish(m->uplink);
}
