/* server/sessions.c: all accepted connections: their numbers, accepting, and what the core wants of
 * them. */
#include "server/sessions.h"

#include <event2/event.h>
#include <stdlib.h>

#include "common/net/channel.h"
#include "common/net/limits.h"
#include "common/net/listener.h"
#include "common/net/log.h"
#include "server/session.h"

/* --- numbers --- */

bool sessions_take_number(struct sessions *all, struct session *s)
{
    if (all->n_free > 0) {
        s->number = all->free_numbers[--all->n_free];
    } else if (all->n_fresh < all->max) {
        s->number = all->n_fresh++;
    } else {
        return false;
    }
    all->by_number[s->number] = s;
    return true;
}

static void give_number(struct sessions *all, struct session *s)
{
    all->by_number[s->number] = NULL;
    all->free_numbers[all->n_free++] = s->number;
    s->number = SESSION_NO_NUMBER;
}

void sessions_remove(struct sessions *all, struct session *s)
{
    if (s->number != SESSION_NO_NUMBER) {
        give_number(all, s);
    }
    TAILQ_REMOVE(&all->list, s, link);
    if (all->stopping && TAILQ_EMPTY(&all->list)) {
        event_active(&all->empty, EV_TIMEOUT, 0);
    }
}

/* --- accepting --- */

static void on_full(void *ctx, bool full)
{
    struct sessions *all = ctx;
    if (all->listener == NULL) {
        return;
    }
    if (full) {
        log_warn("accepting_paused", LOG_U("half_open", LIMIT_HALF_OPEN));
        listener_pause(all->listener);
    } else {
        listener_resume(all->listener);
    }
}

void sessions_accept(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_len)
{
    struct sessions *all = ctx;
    struct peer from;
    peer_set(&from, peer, peer_len);
    half_open_arrived(all->half_open, fd, &from);
}

/* --- from the core --- */

static struct session *open_session(struct sessions *all, uint32_t number)
{
    struct session *s = number < all->max ? all->by_number[number] : NULL;
    return s != NULL && s->phase == SESSION_OPEN ? s : NULL;
}

static void judge_send(struct session *s, int err)
{
    if (err != 0 && !channel_ends_itself(err)) {
        char peer[PEER_TEXT_MAX];
        log_error("message_lost", LOG_S("peer", peer_text(&s->peer, peer)),
                  LOG_S("why", tfe_error_sentence(err)));
        session_cut(s);
    }
}

void sessions_send(struct sessions *all, uint32_t session, const struct tfe_msg *msg)
{
    struct session *s = open_session(all, session);
    if (s == NULL) {
        return;
    }
    if (s->table != NULL && msg->type == MSG_START) {
        table_stream_start(s->table, &msg->u.start);
        return;
    }
    if (s->table != NULL && msg->type == MSG_STOP &&
        msg->u.stop.epoch >= table_stream_epoch(s->table)) {
        table_stream_free(s->table);
        s->table = NULL;
    }
    judge_send(s, channel_send(s->channel, msg));
}

void sessions_send_table(struct sessions *all, uint32_t session, struct table_chunks *chunks)
{
    struct session *s = open_session(all, session);
    if (s == NULL) {
        return;
    }
    table_stream_free(s->table);
    s->table = NULL;
    if (table_chunks_count(chunks) == 1) {
        size_t n;
        const uint8_t *plain = table_chunks_get(chunks, 0, &n);
        judge_send(s, channel_send_encoded(s->channel, plain, n));
    } else {
        judge_send(s, table_stream_new(&all->tables, s->channel, chunks, &s->table));
    }
}

void sessions_fail(struct sessions *all, uint32_t session)
{
    struct session *s = open_session(all, session);
    if (s != NULL) {
        judge_send(s, TFE_ENOMEM);
    }
}

void sessions_close(struct sessions *all, uint32_t session)
{
    struct session *s = session < all->max ? all->by_number[session] : NULL;
    if (s == NULL) {
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
    if (s != NULL) {
        s->known = false;
        session_release(s);
    }
}

/* --- all of them --- */

static void on_empty(evutil_socket_t fd, short what, void *ctx)
{
    struct sessions *all = ctx;
    (void)fd;
    (void)what;
    all->on_empty(all->on_empty_ctx);
}

int sessions_new(const struct sessions_config *config, struct sessions **ret)
{
    struct sessions *all = calloc(1, sizeof(*all));
    if (all == NULL) {
        return TFE_ENOMEM;
    }
    TAILQ_INIT(&all->list);
    table_gate_init(&all->tables, config->base);
    all->base = config->base;
    all->hello = config->hello;
    all->facts = config->facts;
    all->rdzv = config->rdzv;
    all->writer = config->writer;
    all->ops = config->ops;
    all->ops_ctx = config->ops_ctx;
    all->max = config->max_sessions;
    all->by_number = calloc(all->max, sizeof(struct session *));
    all->free_numbers = calloc(all->max, sizeof(uint32_t));
    if (all->by_number == NULL || all->free_numbers == NULL ||
        event_assign(&all->empty, all->base, -1, 0, on_empty, all) != 0 ||
        half_open_new(all->base, config->half_open_per_address, session_begin, on_full, all,
                      &all->half_open) != 0) {
        sessions_free(all);
        return TFE_ENOMEM;
    }
    *ret = all;
    return 0;
}

void sessions_set_listener(struct sessions *all, struct listener *listener)
{
    all->listener = listener;
}

void sessions_stop(struct sessions *all, void (*when_empty)(void *ctx), void *ctx)
{
    all->stopping = true;
    all->on_empty = when_empty;
    all->on_empty_ctx = ctx;
    half_open_close_waiting(all->half_open);
    for (struct session *s = TAILQ_FIRST(&all->list), *next; s != NULL; s = next) {
        next = TAILQ_NEXT(s, link);
        if (s->phase == SESSION_HANDSHAKE) {
            /* Who has shown no token yet is owed no goodbye. */
            session_cut(s);
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
    if (all == NULL) {
        return;
    }
    all->stopping = true;
    all->listener = NULL;
    while ((s = TAILQ_FIRST(&all->list)) != NULL) {
        s->known = false;
        s->place = NULL;
        session_cut(s);
    }
    half_open_free(all->half_open);
    table_gate_done(&all->tables);
    if (all->base != NULL && event_initialized(&all->empty)) {
        (void)event_del(&all->empty);
    }
    free(all->free_numbers);
    free(all->by_number);
    free(all);
}
