/* server/session.c: one accepted connection: its handshake, what its role may say, its end. */
#include "server/session.h"

#include <event2/event.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/net/channel.h"
#include "common/net/clock.h"
#include "common/net/limits.h"
#include "common/net/log.h"
#include "server/operator.h"

/* What a closing peer gets to read what was flushed for it. */
#define FINISH_MS 1000

static const struct timeval silence_limit = {.tv_sec = LIMIT_SILENCE_MS / 1000,
                                             .tv_usec = LIMIT_SILENCE_MS % 1000 * 1000};

/* --- the end of a session --- */

void session_release(struct session *s)
{
    if (s->channel != NULL || s->known || s->busy) {
        return;
    }
    sessions_remove(s->all, s);
    free(s);
}

static void leave_handshake(struct session *s)
{
    struct half_open_address *place = s->place;
    s->place = NULL;
    if (place != NULL) {
        half_open_leave(s->all->half_open, place);
    }
}

/* The session does nothing more. Its channel may live on to flush; without one the caller goes on
 * to session_release. */
static void session_leave(struct session *s)
{
    struct sessions *all = s->all;
    if (s->phase == SESSION_LEAVING) {
        return;
    }
    if (s->phase == SESSION_OPEN && s->role != TOKEN_AGENT) {
        all->n_queries--;
    }
    s->phase = SESSION_LEAVING;
    (void)event_del(&s->silent);
    status_stream_free(s->stream);
    s->stream = NULL;
    history_free(s->history);
    s->history = NULL;
    table_stream_free(s->table);
    s->table = NULL;
    leave_handshake(s);
    if (s->known) {
        if (all->stopping) {
            s->known = false;
        } else {
            /* The answer, sessions_forgotten, may come at once; the caller frees. */
            bool busy = s->busy;
            s->busy = true;
            all->ops->closed(all->ops_ctx, s->number);
            s->busy = busy;
        }
    }
}

/* As session_cut, for callers that release it themselves. */
static void session_break(struct session *s)
{
    channel_free(s->channel);
    s->channel = NULL;
    session_leave(s);
}

void session_cut(struct session *s)
{
    session_break(s);
    session_release(s);
}

static void session_refuse(struct session *s, enum tfe_refusal code, const char *sentence)
{
    struct tfe_msg msg = {.type = MSG_REFUSED, .u.refused = {.code = code, .sentence = sentence}};
    uint64_t hidden;
    char peer[PEER_TEXT_MAX];
    if (throttle_pass(&s->all->refusals, &s->peer, clock_mono(), &hidden)) {
        log_warn("refused", LOG_S("peer", peer_text(&s->peer, peer)),
                 LOG_S("role", token_role_name(s->role)), LOG_S("code", msg_refusal_name(code)),
                 LOG_S("why", sentence), LOG_U("not_logged", hidden));
    }
    if (channel_send(s->channel, &msg) != 0) {
        log_debug("refusal_not_sent", LOG_S("peer", peer_text(&s->peer, peer)));
    }
}

void session_finish(struct session *s)
{
    channel_finish(s->channel, FINISH_MS);
    session_leave(s);
}

/* --- messages --- */

enum sender { SENDER_NONE, SENDER_A, SENDER_S, SENDER_Q, SENDER_O };

static enum sender msg_sender(enum tfe_msg_type type)
{
    switch (type) {
#define SENDER_CASE(NAME, name, number, sender)                                                    \
    case MSG_##NAME:                                                                               \
        return SENDER_##sender;
        TFE_MSGS(SENDER_CASE)
#undef SENDER_CASE
    }
    return SENDER_NONE;
}

/* Why who holds a token of this role may not send that. NULL: it may. */
static const char *role_fault(enum token_role role, enum sender sender)
{
    if (role == TOKEN_AGENT) {
        return sender == SENDER_A ? NULL : "an agent's token does not allow this";
    }
    if (sender == SENDER_O) {
        return role == TOKEN_ADMIN ? NULL
                                   : "an observer's token does not allow this, it takes an admin's";
    }
    return sender == SENDER_Q ? NULL : "this token does not allow an agent's messages";
}

static void on_agent_message(struct session *s, const struct tfe_msg *msg)
{
    bool known = s->known;
    /* Before the step: it may close the session, and that forgets it. */
    s->known = known || msg->type == MSG_JOIN;
    __builtin_prefetch(&s->all->by_number[s->number]); /* the answer will ask for it */
    int err = s->all->ops->message(s->all->ops_ctx, s->number, msg);
    if (err == 0) {
        if (!known) {
            (void)event_del(&s->silent); /* nothing is owed between messages */
        }
        return;
    }
    s->known = known;
    if (err == TFE_ENOMEM) {
        session_refuse(s, REFUSAL_LIMIT_REACHED, "the server is out of memory; try again later");
    } else {
        session_refuse(s, REFUSAL_BAD_REQUEST,
                       err == TFE_ESTATE ? "the session must begin with a JOIN"
                                         : "the message makes no sense here");
    }
    session_finish(s);
}

static void obey(struct session *s, const struct tfe_msg *msg)
{
    struct operator_answer answer;
    char peer[PEER_TEXT_MAX];
    operator_obey(s->all->rdzv, s->all->ops->order, s->all->ops_ctx, msg, &answer);
    if (answer.msg.type == MSG_REFUSED) {
        session_refuse(s, answer.msg.u.refused.code, answer.msg.u.refused.sentence);
        return;
    }
    log_info("ordered", LOG_S("peer", peer_text(&s->peer, peer)),
             LOG_S("order", msg_type_name(msg->type)), LOG_S("job", answer.job.text),
             LOG_S("node", answer.node.text[0] != '\0' ? answer.node.text : NULL));
    int err = channel_send(s->channel, &answer.msg);
    if (err != 0 && !channel_ends_itself(err)) {
        session_break(s);
    }
}

/* The caller releases s. */
static void on_query(struct session *s, const struct tfe_msg *msg)
{
    (void)event_add(&s->silent, &silence_limit);
    if ((s->stream != NULL && !status_stream_is_over(s->stream)) ||
        (s->history != NULL && !history_is_over(s->history))) {
        session_refuse(s, REFUSAL_LIMIT_REACHED, "one question at a time");
        session_finish(s);
        return;
    }
    status_stream_free(s->stream);
    s->stream = NULL;
    history_free(s->history);
    s->history = NULL;
    int err = 0;
    if (msg->type == MSG_EPOCHS || msg->type == MSG_BACKUP) {
        err = history_answer(s->all->base, s->all->writer, s->all->rdzv, s->channel, msg,
                             &s->history);
    } else if (msg->type != MSG_STATUS) {
        obey(s, msg);
        return;
    } else {
        err = status_answer(s->all->base, s->all->rdzv, s->channel, &msg->u.status, &s->stream);
    }
    if (err == TFE_ENOMEM) {
        session_break(s);
    }
}

static void on_established(void *ctx, struct channel *ch, enum token_role role)
{
    struct session *s = ctx;
    struct sessions *all = s->all;
    char peer[PEER_TEXT_MAX];
    (void)ch;
    leave_handshake(s);
    s->role = role;
    s->phase = SESSION_OPEN;
    log_debug("session_opened", LOG_S("peer", peer_text(&s->peer, peer)),
              LOG_S("role", token_role_name(role)));
    (void)event_add(&s->silent, &silence_limit);
    if (role != TOKEN_AGENT) {
        if (all->n_queries++ >= LIMIT_QUERY_SESSIONS) {
            session_refuse(s, REFUSAL_LIMIT_REACHED,
                           "too many tfe-ctl sessions are open; try again later");
            session_finish(s);
        }
    } else if (!sessions_take_number(all, s)) {
        session_refuse(s, REFUSAL_LIMIT_REACHED,
                       "the server has no room for more agents; raise its limit of open files");
        session_finish(s);
    }
}

static void on_message(void *ctx, struct channel *ch, const struct tfe_msg *msg)
{
    struct session *s = ctx;
    (void)ch;
    if (s->phase != SESSION_OPEN) {
        return;
    }
    s->busy = true;
    const char *fault = role_fault(s->role, msg_sender(msg->type));
    if (fault != NULL) {
        session_refuse(s, REFUSAL_NOT_AUTHORISED, fault);
    } else if (s->role == TOKEN_AGENT) {
        on_agent_message(s, msg);
    } else {
        on_query(s, msg);
    }
    s->busy = false;
    session_release(s);
}

static bool is_peers_fault(enum channel_end end)
{
    switch (end) {
    case CHANNEL_UNAUTHORISED:
    case CHANNEL_PROTOCOL:
    case CHANNEL_OVERFLOW:
    case CHANNEL_NO_MEMORY:
    case CHANNEL_TIMEOUT:
        return true;
    case CHANNEL_EOF:
    case CHANNEL_RESET:
    case CHANNEL_UNREACHABLE:
        return false;
    }
    return false;
}

static void on_closed(void *ctx, struct channel *ch, enum channel_end end, const char *detail)
{
    struct session *s = ctx;
    char peer[PEER_TEXT_MAX];
    uint64_t hidden;
    uint64_t unknown = channel_unknown_messages(ch);
    s->channel = NULL;
    if (!is_peers_fault(end)) {
        log_debug("session_closed", LOG_S("peer", peer_text(&s->peer, peer)),
                  LOG_S("end", channel_end_name(end)), LOG_S("why", detail),
                  unknown > 0 ? LOG_U("unknown_messages", unknown)
                              : LOG_S("unknown_messages", NULL));
    } else if (throttle_pass(&s->all->ends, &s->peer, clock_mono(), &hidden)) {
        log_warn("session_ended", LOG_S("peer", peer_text(&s->peer, peer)),
                 LOG_S("end", channel_end_name(end)), LOG_S("why", detail),
                 LOG_U("not_logged", hidden));
    }
    session_leave(s);
    session_release(s);
}

/* What was queued has gone: on with the table. */
static void on_drained(void *ctx, struct channel *ch)
{
    struct session *s = ctx;
    (void)ch;
    if (s->table == NULL) {
        return;
    }
    s->busy = true;
    int err = table_stream_go_on(s->table);
    if (err == 0) {
        table_stream_free(s->table);
        s->table = NULL;
    } else if (err != TFE_EMORE) {
        session_break(s);
    }
    s->busy = false;
    session_release(s);
}

static const struct channel_ops channel_callbacks = {.established = on_established,
                                                     .message = on_message,
                                                     .closed = on_closed,
                                                     .drained = on_drained};

/* A session whose peer owes us something has said nothing for too long. */
static void on_silent(evutil_socket_t fd, short what, void *ctx)
{
    struct session *s = ctx;
    (void)fd;
    (void)what;
    if ((s->stream != NULL && status_stream_has_moved(s->stream)) ||
        (s->history != NULL && history_has_moved(s->history))) {
        /* It is reading a long answer. */
        (void)event_add(&s->silent, &silence_limit);
        return;
    }
    session_finish(s);
}

/* --- its beginning --- */

void session_begin(void *ctx, int fd, const struct peer *peer, struct half_open_address *place)
{
    struct sessions *all = ctx;
    struct session *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        (void)close(fd);
        half_open_leave(all->half_open, place);
        return;
    }
    *s = (struct session){.all = all, .place = place, .peer = *peer, .number = SESSION_NO_NUMBER};
    TAILQ_INSERT_TAIL(&all->list, s, link);
    int err = event_assign(&s->silent, all->base, -1, 0, on_silent, s) != 0 ? TFE_ENOMEM : 0;
    if (err != 0) {
        (void)close(fd);
    } else {
        err = channel_accept(all->base, fd, all->hello, &all->facts, LIMIT_HANDSHAKE_MS,
                             &channel_callbacks, s, &s->channel);
    }
    if (err != 0) {
        s->channel = NULL;
        session_leave(s);
        session_release(s);
    }
}
