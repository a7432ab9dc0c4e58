/* agent/pool/member.c: implementation of member.h. */
#include "agent/pool/member.h"

#include <event2/event.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/credentials/node_secrets.h"

/* Same values as in the agent's core (link.c). */
#define RETRY_FIRST_MS 100
#define RETRY_LAST_MS 5000
#define UNAUTHORISED_TRIES 3
#define UNAUTHORISED_GAP_MS 1000
#define WELCOME_WAIT_MS 10000
#define LOG_INTERVAL_MS 10000

struct member {
    struct member_options options;
    struct tfe_id node;
    char node_secret[MSG_NODE_SECRET_CHARS + 1];
    struct event *due; /* next RENEW while connected, otherwise next connection attempt */
    struct event *silent;
    struct uplink *uplink;
    struct rng rng;
    bool is_up; /* WELCOME has arrived */
    bool token_worked;
    uint32_t unauthorised;
    uint32_t retry_ms, renew_ms, ttl_ms, spread_ms;
    uint64_t renewals;
    struct tfe_mono since;     /* start of the current period without a connection */
    struct tfe_mono logged_at; /* last log entry about it */
    char reason[MSG_SENTENCE_MAX];
};

static uint32_t between(struct member *m, uint32_t low, uint32_t high)
{
    return (uint32_t)rng_between(&m->rng, low, high > low ? high : low);
}

static void renew_later(struct member *m)
{
    uint32_t every = m->renew_ms;
    const uint32_t most = m->options.settings->agent.monitor_interval_ms;
    every = most && most < every ? most : every;
    timer_after(m->due, between(m, every * 8 / 10, every));
}

static void on_connected(struct member *m, const char *host)
{
    struct tfe_msg msg = {.type = MSG_POOL,
                          .u.pool = {.labels = m->options.settings->labels.v,
                                     .n_labels = m->options.settings->labels.n,
                                     .slot = m->options.slot,
                                     .assignment = m->options.assignment(m->options.ctx),
                                     .idle_exit_ms = m->options.settings->idle_exit_ms,
                                     .floor = m->options.settings->floor,
                                     .node_name = m->options.node_name,
                                     .host = host,
                                     .node = m->node.text,
                                     .node_secret = m->node_secret}};
    m->token_worked = true;
    uplink_send(m->uplink, &msg);
    timer_after(m->silent, WELCOME_WAIT_MS);
    m->options.connected(m->options.ctx);
}

static void on_welcome(struct member *m, const struct msg_welcome *welcome)
{
    m->is_up = true;
    m->renew_ms = welcome->renew_ms;
    m->ttl_ms = welcome->ttl_ms;
    m->spread_ms = welcome->spread_ms;
    m->retry_ms = 0;
    m->reason[0] = '\0';
    log_info("joined", LOG_S("pool", "yes"), LOG_S("node", m->node.text),
             LOG_S("name", m->options.node_name), LOG_U("ttl_ms", welcome->ttl_ms));
    timer_after(m->silent, m->ttl_ms);
    renew_later(m);
    m->options.welcome(m->options.ctx);
}

static void on_disconnected(struct member *m, enum agent_link how, const char *reason)
{
    evtimer_del(m->silent);
    if (!m->options.down(m->options.ctx)) {
        return;
    }
    if (!m->reason[0]) {
        snprintf(m->reason, sizeof m->reason, "%s", reason ? reason : "no answer");
    }
    uint32_t wait = RETRY_FIRST_MS;
    if (m->is_up) {
        log_warn("connection_lost", LOG_S("reason", m->reason));
        m->is_up = false;
        m->since = m->logged_at = clock_mono();
        wait = m->spread_ms;
    } else {
        m->retry_ms = backoff_next(m->retry_ms, RETRY_FIRST_MS, RETRY_LAST_MS);
        wait = backoff_jitter(&m->rng, m->retry_ms);
    }
    if (how == AGENT_LINK_UNAUTHORISED && !m->token_worked) {
        if (++m->unauthorised >= UNAUTHORISED_TRIES) {
            m->options.lost(m->options.ctx, AGENT_EXIT_UNAUTHORISED,
                            "the server does not accept this token, or is of another version");
            return;
        }
        wait = UNAUTHORISED_GAP_MS;
    }
    int64_t waited = tfe_mono_sub(clock_mono(), m->since);
    if (!m->options.works(m->options.ctx) && waited >= m->options.settings->agent.join_timeout_ms) {
        char sentence[MSG_SENTENCE_MAX + 64];
        snprintf(sentence, sizeof sentence, "the server was not reached within --join-timeout: %s",
                 m->reason);
        m->options.lost(m->options.ctx, AGENT_EXIT_UNREACHED, sentence);
        return;
    }
    if (tfe_mono_sub(clock_mono(), m->logged_at) >= LOG_INTERVAL_MS) {
        m->logged_at = clock_mono();
        log_warn("connecting", LOG_I("waited_ms", waited), LOG_S("reason", m->reason));
    }
    timer_after(m->due, wait);
}

static void on_due(evutil_socket_t fd, short what, void *ctx)
{
    struct member *m = ctx;
    if (!m->is_up) {
        m->reason[0] = '\0';
        uplink_connect(m->uplink);
        return;
    }
    struct tfe_msg msg = {.type = MSG_RENEW, .u.renew = {.number = ++m->renewals}};
    uplink_send(m->uplink, &msg);
    renew_later(m);
}

static void on_silent(evutil_socket_t fd, short what, void *ctx)
{
    struct member *m = ctx;
    uplink_hang_up(m->uplink);
}

static void on_renewed(struct member *m, const struct msg_renewed *renewed)
{
    m->renew_ms = renewed->ttl_ms / 3;
    m->ttl_ms = renewed->ttl_ms;
    m->spread_ms = renewed->spread_ms ? renewed->spread_ms : m->spread_ms;
    timer_after(m->silent, m->ttl_ms);
}

static void on_message(struct member *m, const struct tfe_msg *msg)
{
    switch ((int)msg->type) {
    case MSG_WELCOME:
        on_welcome(m, &msg->u.welcome);
        break;
    case MSG_RENEWED:
        on_renewed(m, &msg->u.renewed);
        break;
    case MSG_REFUSED:
        snprintf(m->reason, sizeof m->reason, "%s", msg->u.refused.sentence);
        log_error("refused", LOG_S("reason", m->reason));
        break;
    case MSG_LEASE_ENDED:
        snprintf(m->reason, sizeof m->reason, "the lease has ended");
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
    *m = (struct member){.options = *options, .since = clock_mono(), .logged_at = clock_mono()};
    randombytes_buf(&seed, sizeof seed);
    rng_init(&m->rng, seed);
    node_secret_make(m->node_secret);
    (void)node_id_of(m->node_secret, &m->node);
    m->due = evtimer_new(options->base, on_due, m);
    m->silent = evtimer_new(options->base, on_silent, m);
    must_succeed(m->due && m->silent);
    m->uplink = uplink_new(options->base, options->info, agent_settings_state_dir(s),
                           s->address_host, on_event, m);
    timer_after(m->due, 0);
    return m;
}

void member_free(struct member *m)
{
    if (m) {
        uplink_free(m->uplink);
        event_drop(&m->due);
        event_drop(&m->silent);
        free(m);
    }
}

bool member_is_up(const struct member *m)
{
    return m->is_up;
}

struct uplink *member_uplink(const struct member *m)
{
    return m->uplink;
}

void member_goodbye(struct member *m)
{
    struct tfe_msg msg = {.type = MSG_GOODBYE, .u.goodbye = {.drained = true}};
    if (m->is_up) {
        uplink_send(m->uplink, &msg);
    }
    uplink_finish(m->uplink);
}
