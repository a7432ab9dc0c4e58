/* server/session.c: one accepted connection: its number, its handshake, its messages, its end. */
#include "server/session.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/channel/channel.h"
#include "common/channel/node_id.h"
#include "common/channel/termination_proof.h"
#include "server/events/counters.h"
#include "server/node_address.h"

#define STRANGER_NOTED_MS 60000

/* Gives an agent's session its number. False: all are in use. */
static bool take_number(struct sessions *all, struct session *s)
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

/* --- messages --- */

/* Whether it says that it is reached where nobody may be sent; answered then. */
static bool refused_host(struct session *s, const char *host)
{
    char sentence[MSG_SENTENCE_MAX];
    char peer[ENDPOINT_TEXT_MAX];
    if (!host || addresses_allow(s->all->allowed, host, &s->peer)) {
        return false;
    }
    (void)peer_text(&s->peer, peer);
    (void)snprintf(sentence, sizeof(sentence),
                   "this node says that it is reached at %s but connects from %s: the server "
                   "sends others there only if its --allow-address names it%s",
                   host, peer, peer[0] == '[' ? " (TensorFlow listens on IPv4 only)" : "");
    session_refuse(s, REFUSAL_BAD_REQUEST, sentence);
    session_finish(s);
    return true;
}

static bool refused_for_address(struct session *s, const struct tfe_msg *msg)
{
    if (msg->type == MSG_JOIN) {
        const struct msg_join *join = &msg->u.join;
        return refused_host(s, join->host) ||
               (join->running && refused_host(s, join->running->host));
    }
    return msg->type == MSG_READY && refused_host(s, msg->u.ready.host);
}

/* Whoever is in already, and only shares key and label with who was evicted, stays. */
static bool is_banned(const struct session *s, const struct msg_join *join)
{
    const struct principal of_job = {.role = PRINCIPAL_ADMIN, .scope = join->job};
    struct rdzv_found found;
    const struct msg_ban_row *row =
        bans_find(s->all->bans, s->by, join->job, join->node, join->node_name, clock_wall());
    return row && (strcmp(row->node, join->node) == 0 ||
                   rdzv_find_node(s->all->rdzv, &of_job, join->node, &found) != 0 ||
                   strcmp(found.v[0].node, join->node) != 0);
}

/* Whether a node of the pool is here by the token that s came with, and so may start agents. */
static bool has_pooled(const struct session *s)
{
    const struct sessions *all = s->all;
    for (uint32_t i = 0; token_uses(s->by->origin) > 0 && i < all->n_fresh; i++) {
        const struct session *other = all->by_number[i];
        if (other && other->pooled &&
            memcmp(other->by->origin, s->by->origin, sizeof(s->by->origin)) == 0) {
            return true;
        }
    }
    return false;
}

/* One of the token's uses, if they are counted. Why it has none; NULL: the node may come in. */
static const char *take_use(struct session *s, const char *node)
{
    const struct msg_token_row *used;
    const char *fault = keyring_use(keys_ring(s->all->keys), s->by, node, &used);
    if (used) {
        session_note(s, "JOIN", node, "token_used");
        const struct tfe_msg row = {.type = MSG_TOKEN_ROW, .u.token_row = *used};
        if (writer_keep(s->all->writer, &row, NULL, NULL, NULL) != 0) {
            log_warn("token_use_not_kept", LOG_S("key", used->key));
        }
    }
    return fault;
}

/* The node that a session is about, of the pool or of a job; NULL: none. */
static const char *node_of(const struct session *s, bool is_pool, struct rdzv_found *room)
{
    if (is_pool) {
        return s->pooled ? pool_node_id(s->pooled) : NULL;
    }
    return rdzv_node_of(s->all->rdzv, s->number, room) == 0 ? room->v[0].node : NULL;
}

/* Whether as many nodes as its token is for are here, by that or by keys that came of it: in jobs,
 * or in the pool, whose nodes' agents come to jobs as others. One that is on its way out makes
 * room. */
static bool is_one_too_many(const struct session *s, const char *node, bool is_pool)
{
    const struct sessions *all = s->all;
    const uint32_t most = token_uses(s->by->origin);
    struct rdzv_found found;
    uint32_t n = 0;
    for (uint32_t i = 0; most > 0 && i < all->n_fresh; i++) {
        const struct session *other = all->by_number[i];
        const char *of =
            other && other->phase == SESSION_OPEN &&
                    memcmp(other->by->origin, s->by->origin, sizeof(s->by->origin)) == 0
                ? node_of(other, is_pool, &found)
                : NULL;
        n += of && strcmp(of, node) != 0;
    }
    return most > 0 && n >= most;
}

/* Whether this node may not come in; answered then. join NULL: to the pool. */
static bool is_turned_away(struct session *s, const char *node, const char *secret,
                           const struct msg_join *join)
{
    const char *fault = NULL;
    if (!node_id_is_proved(node, secret)) {
        fault = "it does not prove its node's id";
    } else if (join && is_banned(s, join)) {
        session_refuse(s, REFUSAL_EVICTED, "an operator has evicted this node, and keeps it out");
        session_finish(s);
        return true;
    } else if (!join || !has_pooled(s)) { /* an agent of the pool's has no use of its own */
        fault = take_use(s, node);
    }
    if (fault) {
        session_dismiss(s, fault);
    } else if (is_one_too_many(s, node, !join)) {
        session_refuse(s, REFUSAL_LIMIT_REACHED, "as many nodes as this token is for are here");
        session_finish(s);
        return true;
    }
    return fault != NULL;
}

static void on_agent_message(struct session *s, const struct tfe_msg *msg)
{
    bool known = s->known;
    struct tfe_id hash;
    struct tfe_msg hashed = {.type = MSG_DEATH, .u.death.certificate = hash.text};
    if (msg->type == MSG_DEATH && proof_hash_of(msg->u.death.certificate, &hash) == 0) {
        msg = &hashed;
    }
    if (msg->type == MSG_ENROL && (known || s->pooled)) {
        session_enrol(s, &msg->u.enrol);
        return;
    }
    if (s->pooled || (msg->type == MSG_POOL && !known)) {
        const struct msg_pool *pool = &msg->u.pool;
        if (msg->type == MSG_POOL && is_turned_away(s, pool->node, pool->node_secret, NULL)) {
            return;
        }
        pool_take(s->all->pool, s, msg);
        if (s->pooled && msg->type == MSG_POOL) {
            channel_expect(s->channel, 0);
            session_idle(s, false);
        }
        return;
    }
    if (msg->type == MSG_LOG_CHUNK || msg->type == MSG_LOG_DONE) {
        return; /* of one who has left: log_relay_take has not taken it */
    }
    if (msg->type == MSG_EXITED) {
        log_relay_exited(s->all->logs, s->number, &msg->u.exited);
    }
    if (reports_own(msg->type) && known) {
        reports_take(s->all->reports, s->number, &s->report, msg);
        return;
    }
    if (refused_for_address(s, msg) ||
        (msg->type == MSG_JOIN &&
         is_turned_away(s, msg->u.join.node, msg->u.join.node_secret, &msg->u.join))) {
        return;
    }
    /* Before the step: it may close the session, and that forgets it. */
    s->known = known || msg->type == MSG_JOIN;
    __builtin_prefetch(&s->all->by_number[s->number]); /* the answer will ask for it */
    int rc = s->all->ops->message(s->all->ops_ctx, s->number, s->by, msg);
    if (rc == 0) {
        if (s->known && msg->type != MSG_RENEW) {
            reports_take(s->all->reports, s->number, &s->report, msg);
        }
        if (!known) {
            channel_expect(s->channel, 0); /* nothing is owed between messages */
            session_idle(s, s->phase == SESSION_LEAVING);
        }
        return;
    }
    s->known = known;
    if (rc == TFE_ENOMEM) {
        session_refuse(s, REFUSAL_LIMIT_REACHED, "the server is out of memory; try again later");
    } else {
        session_refuse(s, REFUSAL_BAD_REQUEST,
                       rc == TFE_ESTATE ? "a session begins with a JOIN, and is that node's alone"
                                        : "the message makes no sense here");
    }
    session_finish(s);
}

/* Counts a session of an observer or admin, and ends those that have to go for it. False: it has to
 * go itself, or there is no memory. */
static bool admit_asking(struct session *s)
{
    struct admission *asking = s->all->asking;
    const struct admission_claim claim = admission_claim_of(s->by, 1);
    if (admission_enter(asking, &claim, s, &s->asking) != 0) {
        return false;
    }
    for (struct admission_place *place; (place = admission_surplus(asking, &s->asking, NULL));) {
        admission_leave(asking, place);
        if (place == &s->asking) {
            return false;
        }
        session_refuse(place->owner, REFUSAL_LIMIT_REACHED,
                       "others need its place: this token has the most sessions");
        session_finish(place->owner);
    }
    return true;
}

/* Why a session that has shown its token cannot stay; NULL: it can. */
static const char *no_place(struct session *s)
{
    struct sessions *all = s->all;
    const bool asks = s->by->role != PRINCIPAL_AGENT;
    const bool is_privileged = admission_claim_of(s->by, 1).is_privileged;
    uint32_t kept = is_privileged ? 0 : LIMIT_ADMIN_SESSIONS;
    bool is_full = sessions_shown(all) + kept > all->n_max;
    if (asks) {
        return is_full || !admit_asking(s) ? "too many tfe-ctl sessions are open, with this token "
                                             "or in all; try again later"
                                           : NULL;
    }
    return is_full || !take_number(all, s)
               ? "the server has no room for more agents; raise its limit of open files"
               : NULL;
}

static void on_established(void *ctx, struct channel *ch, const struct principal *by)
{
    struct session *s = ctx;
    struct sessions *all = s->all;
    char peer[ENDPOINT_TEXT_MAX];
    (void)ch;
    admission_leave(all->half_open, &s->half_open);
    s->by = by;
    s->phase = SESSION_OPEN;
    log_debug("session_opened", LOG_S("peer", peer_text(&s->peer, peer)),
              LOG_S("role", principal_role_name(by->role)));
    channel_expect(ch, LIMIT_SILENCE_MS);
    session_idle(s, by->role == PRINCIPAL_AGENT);
    if (!session_judge(s, clock_wall())) { /* the handshake may have been a while ago */
        return;
    }
    const char *fault = no_place(s);
    if (fault) {
        session_refuse(s, REFUSAL_LIMIT_REACHED, fault);
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
    struct sessions *all = s->all;
    s->busy = true;
    const char *fault = principal_fault(s->by, msg->type, msg_job(msg));
    all->gauges->renewals += msg->type == MSG_RENEW;
    if (!fault && log_relay_take(s->all->logs, s->number, msg)) {
        s->busy = false; /* asked for, and no more than that: it counts to no rate */
        return;
    }
    if (!fault && msg->type == MSG_BUNDLE_PUT) { /* likewise */
        channel_expect(ch, LIMIT_SILENCE_MS);
        if (!pool_take_bundle(s->all->pool, s->by, &msg->u.bundle_put)) {
            session_refuse(s, REFUSAL_BAD_REQUEST, "nobody has asked for these bytes");
            session_finish(s);
        }
        s->busy = false;
        session_release(s);
        return;
    }
    /* A node that fetches asks for the next piece when it has one. */
    if (msg->type != MSG_RENEW && !(msg->type == MSG_FETCH && s->pooled) &&
        !rate_pass(&s->said, clock_mono(), LIMIT_MESSAGE_MS, LIMIT_MESSAGE_BURST)) {
        session_refuse(s, REFUSAL_LIMIT_REACHED, "too many messages a second");
        session_finish(s);
    } else if (fault) {
        session_refuse(s, REFUSAL_NOT_AUTHORISED, fault);
    } else if (s->by->role == PRINCIPAL_AGENT) {
        on_agent_message(s, msg);
    } else {
        channel_expect(ch, LIMIT_SILENCE_MS);
        session_query(s, msg);
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

/* Of those that show no good token a row a minute, whoever they are. */
static void note_stranger(struct session *s, enum channel_end end, const char *detail)
{
    if (end == CHANNEL_UNAUTHORISED &&
        rate_pass(&s->all->strangers, clock_mono(), STRANGER_NOTED_MS, 1)) {
        session_note(s, "refused", detail, channel_end_name(end));
    }
}

static void on_closed(void *ctx, struct channel *ch, enum channel_end end, const char *detail)
{
    struct session *s = ctx;
    char peer[ENDPOINT_TEXT_MAX];
    uint64_t hidden;
    uint64_t unknown = channel_unknown_messages(ch);
    struct peer_key who = peer_key(&s->peer);
    s->channel = NULL;
    if (!is_peers_fault(end)) {
        log_debug("session_closed", LOG_S("peer", peer_text(&s->peer, peer)),
                  LOG_S("end", channel_end_name(end)), LOG_S("reason", detail),
                  unknown > 0 ? LOG_U("unknown_messages", unknown)
                              : LOG_S("unknown_messages", NULL));
    } else if (throttle_pass(s->all->ends, &who, sizeof(who), &hidden)) {
        log_warn("session_ended", LOG_S("peer", peer_text(&s->peer, peer)),
                 LOG_S("end", channel_end_name(end)), LOG_S("reason", detail),
                 LOG_U("not_logged", hidden));
    }
    note_stranger(s, end, detail);
    session_cut(s);
}

/* What was queued has gone: on with the table. False: no memory, its peer would wait in vain. */
static bool go_on_with_table(struct session *s)
{
    int rc = table_stream_go_on(s->table);
    if (rc == 0) {
        table_stream_free(s->table);
        s->table = NULL;
    }
    return rc == 0 || rc == TFE_EMORE;
}

/* … or with the answer, which is being read. */
static bool go_on_with_answer(struct session *s)
{
    channel_expect(s->channel, LIMIT_SILENCE_MS);
    return answer_go_on(&s->answer) == 0;
}

static void on_drained(void *ctx, struct channel *ch)
{
    struct session *s = ctx;
    (void)ch;
    s->busy = true;
    if ((s->table && !go_on_with_table(s)) || (s->answer && !go_on_with_answer(s))) {
        session_break(s);
    }
    if (s->pooled) {
        pool_drained(s);
    }
    s->busy = false;
    session_release(s);
}

/* A session whose peer owes us something has said nothing for too long. */
static void on_silent(void *ctx, struct channel *ch)
{
    struct session *s = ctx;
    if (s->answer && s->answer->waits) { /* for us */
        channel_expect(ch, LIMIT_SILENCE_MS);
    } else {
        session_finish(s);
    }
}

static const struct channel_ops channel_callbacks = {.established = on_established,
                                                     .message = on_message,
                                                     .closed = on_closed,
                                                     .silent = on_silent,
                                                     .drained = on_drained};

/* --- its beginning --- */

struct session *session_begin(struct sessions *all, int fd, const struct peer *peer)
{
    struct session *s = calloc(1, sizeof(*s));
    if (!s) {
        (void)close(fd);
        return NULL;
    }
    *s = (struct session){.all = all, .peer = *peer, .number = SESSION_NO_NUMBER};
    TAILQ_INSERT_TAIL(&all->list, s, link);
    all->n++;
    const struct peer_key source = peer_key(peer);
    const struct admission_claim claim = {
        .by = {[ADMISSION_SOURCE] = {source.bytes, sizeof(source.bytes)}}, .cost = 1};
    if (admission_enter(all->half_open, &claim, s, &s->half_open) != 0) {
        (void)close(fd);
    } else if (channel_accept(all->base, fd, all->hello, &all->facts, LIMIT_HANDSHAKE_MS,
                              &channel_callbacks, s, &s->channel) == 0) {
        return s;
    }
    s->channel = NULL;
    session_cut(s);
    return NULL;
}

void session_give_way(struct session *s)
{
    admission_leave(s->all->half_open, &s->half_open);
    if (channel_knocks(s->channel)) {
        session_idle(s, true);
    } else {
        session_cut(s);
    }
}
