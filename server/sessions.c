/* server/sessions.c: all accepted connections: accepting, and actions of the core. */
#include "server/sessions.h"

#include <event2/event.h>
#include <stdlib.h>

#include "common/base/limits.h"
#include "common/channel/channel.h"
#include "common/cli/log.h"
#include "server/events/agent_reports.h"
#include "server/events/log_relay.h"
#include "server/events/series.h"
#include "server/session.h"

/* Log lines about peers: one per peer and minute, for at most PEERS_LOGGED peers. */
#define PEERS_LOGGED 256
#define PEER_LOG_MS 60000
/* Maximum number of tokens whose order rates are tracked. */
#define KEYS_LIMITED 1024

/* --- accepting --- */

/* Returns how many unauthenticated connections are allowed now: the descriptors that authenticated
 * ones leave, within limits. */
static uint32_t capacity(const struct sessions *all)
{
    uint32_t shown = sessions_shown(all);
    uint32_t left = shown < all->n_max ? all->n_max - shown : 0;
    left = left > LIMIT_UNAUTHENTICATED_MIN ? left : LIMIT_UNAUTHENTICATED_MIN;
    return left < LIMIT_UNAUTHENTICATED ? left : LIMIT_UNAUTHENTICATED;
}

void sessions_accept(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_len)
{
    struct sessions *all = ctx;
    struct peer from;
    peer_set(&from, peer, peer_len);
    struct session *newest = session_begin(all, fd, &from);
    struct session *goes;
    struct admission_slot *place;
    admission_resize(all->unauthenticated, capacity(all));
    while (newest && (place = admission_next_eviction(all->unauthenticated,
                                                      &newest->unauthenticated, NULL))) {
        goes = place->owner;
        newest = goes == newest ? NULL : newest;
        session_yield(goes);
        admission_resize(all->unauthenticated, capacity(all));
    }
    while (sessions_shown(all) + LIMIT_ADMIN_SESSIONS + LIMIT_UNAUTHENTICATED_MIN > all->n_max &&
           (goes = TAILQ_FIRST(&all->idle))) {
        session_drop(goes);
    }
}

/* --- actions of the core --- */

static struct session *open_session(struct sessions *all, uint32_t number)
{
    struct session *s = number < all->max ? all->by_number[number] : NULL;
    return s && s->phase == SESSION_OPEN ? s : NULL;
}

static void check_send(struct session *s, int rc)
{
    if (rc != 0 && !channel_ends_itself(rc)) {
        char peer[ENDPOINT_TEXT_MAX];
        log_error("message_lost", LOG_S("peer", peer_text(&s->peer, peer)),
                  LOG_S("reason", tfe_error_sentence(rc)));
        session_drop(s);
    }
}

void sessions_send(struct sessions *all, uint32_t session, const struct tfe_msg *msg)
{
    struct session *s = open_session(all, session);
    if (!s) {
        return;
    }
    if (msg->type == MSG_START) {
        log_relay_agent_joined(all->logs, session);
    }
    if (s->table && msg->type == MSG_START) {
        table_stream_start(s->table, &msg->u.start);
        return;
    }
    if (s->table && msg->type == MSG_STOP && msg->u.stop.epoch >= table_stream_epoch(s->table)) {
        table_stream_free(s->table);
        s->table = NULL;
    }
    if (msg->type == MSG_PROBE) {
        rate_refund(&s->message_rate, LIMIT_MESSAGE_MS); /* the response to the probe */
    }
    check_send(s, channel_send(s->channel, msg));
    if (msg->type == MSG_WELCOME) {
        log_relay_agent_joined(all->logs, session);
    }
}

void sessions_send_table(struct sessions *all, uint32_t session, struct table_chunks *chunks)
{
    struct session *s = open_session(all, session);
    if (!s) {
        return;
    }
    table_stream_free(s->table);
    s->table = NULL;
    if (table_chunks_count(chunks) == 1) {
        size_t n;
        const uint8_t *plain = table_chunks_get(chunks, 0, &n);
        check_send(s, channel_send_encoded(s->channel, plain, n));
    } else {
        check_send(s, table_stream_new(&all->batch, s->channel, chunks, &s->table));
    }
}

void sessions_fail(struct sessions *all, uint32_t session)
{
    struct session *s = open_session(all, session);
    if (s) {
        check_send(s, TFE_ENOMEM);
    }
}

void sessions_close(struct sessions *all, uint32_t session)
{
    struct session *s = session < all->max ? all->by_number[session] : NULL;
    if (!s) {
        return;
    }
    s->known = false;
    if (s->phase == SESSION_OPEN) {
        session_finish(s);
    }
    session_release(s);
}

void sessions_forgotten(struct sessions *all, uint32_t session)
{
    struct session *s = session < all->max ? all->by_number[session] : NULL;
    if (s) {
        s->known = false;
        session_release(s);
    }
}

void sessions_forget_job(struct sessions *all, const char *job)
{
    series_forget(all->series, job);
    reports_forget(all->reports, job);
    log_relay_forget(all->logs, job);
}

/* --- all sessions --- */

static void on_empty(evutil_socket_t fd, short what, void *ctx)
{
    struct sessions *all = ctx;
    (void)fd;
    (void)what;
    all->on_empty(all->on_empty_ctx);
}

int sessions_new(const struct sessions_config *config, struct sessions **ret)
{
    const struct admission_config unauthenticated = {.capacity = LIMIT_UNAUTHENTICATED,
                                                     .quota_max = config->half_open_per_address,
                                                     .evicts_oldest = true};
    const struct admission_config operators = {.capacity = LIMIT_QUERY_SESSIONS,
                                               .reserve = LIMIT_ADMIN_SESSIONS};
    struct sessions *all = calloc(1, sizeof(*all));
    if (!all) {
        return TFE_ENOMEM;
    }
    TAILQ_INIT(&all->list);
    TAILQ_INIT(&all->idle);
    batch_init(&all->batch, config->base);
    all->base = config->base;
    all->handshake = config->handshake;
    all->params = config->params;
    all->rdzv = config->rdzv;
    all->writer = config->writer;
    all->backup_dir = config->backup_dir;
    all->allowed = config->allowed;
    all->keys = config->keys;
    all->bans = config->bans;
    all->events = config->events;
    all->series = config->series;
    all->reports = config->reports;
    all->pool = config->pool;
    all->ops = config->ops;
    all->ops_ctx = config->ops_ctx;
    all->max = config->max_sessions;
    all->n_max = config->max_connections;
    all->gauges = config->gauges;
    all->refusals = throttle_new(PEERS_LOGGED, 1, PEER_LOG_MS);
    all->ends = throttle_new(PEERS_LOGGED, 1, PEER_LOG_MS);
    all->enrollments = throttle_new(PEERS_LOGGED, LIMIT_ENROLLMENTS, LIMIT_ENROLLMENT_MS);
    all->orders = throttle_new(KEYS_LIMITED, LIMIT_ORDERS, LIMIT_ORDER_MS);
    all->by_number = calloc(all->max, sizeof(struct session *));
    all->free_numbers = calloc(all->max, sizeof(uint32_t));
    if (!all->by_number || !all->free_numbers || !all->refusals || !all->ends ||
        !all->enrollments || !all->orders || log_relay_new(all, &all->logs) != 0 ||
        event_assign(&all->empty, all->base, -1, 0, on_empty, all) != 0 ||
        admission_new(&unauthenticated, &all->unauthenticated) != 0 ||
        admission_new(&operators, &all->operators) != 0) {
        sessions_free(all);
        return TFE_ENOMEM;
    }
    sessions_check_init(all);
    *ret = all;
    return 0;
}

void sessions_stop(struct sessions *all, void (*when_empty)(void *ctx), void *ctx)
{
    all->stopping = true;
    all->on_empty = when_empty;
    all->on_empty_ctx = ctx;
    for (struct session *s = TAILQ_FIRST(&all->list), *next; s; s = next) {
        next = TAILQ_NEXT(s, link);
        if (s->phase == SESSION_HANDSHAKE) {
            /* An unauthenticated connection gets no goodbye. */
            session_drop(s);
            continue;
        }
        if (s->phase == SESSION_OPEN) {
            session_finish(s);
        }
        s->known = false;
        session_release(s);
    }
    if (TAILQ_EMPTY(&all->list)) {
        event_active(&all->empty, EV_TIMEOUT, 0);
    }
}

void sessions_free(struct sessions *all)
{
    struct session *s;
    if (!all) {
        return;
    }
    all->stopping = true;
    while ((s = TAILQ_FIRST(&all->list)) != NULL) {
        s->known = false;
        session_drop(s);
    }
    log_relay_free(all->logs);
    admission_free(all->unauthenticated);
    admission_free(all->operators);
    batch_done(&all->batch);
    sessions_check_done(all);
    if (all->base && event_initialized(&all->empty)) {
        (void)event_del(&all->empty);
    }
    free(all->refusals);
    free(all->ends);
    free(all->enrollments);
    free(all->orders);
    free(all->free_numbers);
    free(all->by_number);
    free(all);
}
