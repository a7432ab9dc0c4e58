/* server/session.c: one accepted connection: its number, handshake, messages and end. */
#include "server/session.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/channel/channel.h"
#include "common/cli/log.h"
#include "common/credentials/node_secrets.h"
#include "common/text/text.h"
#include "server/events/counters.h"
#include "server/node_address.h"

#define UNAUTHENTICATED_AUDIT_MS 60000

/* Assigns a number to the session of an agent. Returns false if all are in use. */
static bool assign_number(struct sessions *all, struct session *s)
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

/* Returns true, with the refusal sent, if the node announces a host that it may not announce. */
static bool refused_host(struct session *s, const char *host)
{
    char sentence[MSG_SENTENCE_MAX];
    char peer[ENDPOINT_TEXT_MAX];
    if (!host || addresses_allow(s->all->allowed, host, &s->peer)) {
        return false;
    }
    (void)peer_text(&s->peer, peer);
    (void)snprintf(sentence, sizeof(sentence),
                   "address %s rejected: this node connects from %s (permit the address with "
                   "--allow-address on the server)%s",
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

/* Returns the deny-list entry that matches the node, or NULL. A node that has joined already stays
 * if it only shares token and label with the evicted one. */
static const struct msg_ban_row *ban_of(const struct session *s, const struct msg_join *join)
{
    const struct principal of_job = {.role = PRINCIPAL_ADMIN, .scope = join->job};
    struct rdzv_found found;
    const struct msg_ban_row *row =
        deny_list_find(s->all->bans, s->by, join->job, join->node, join->node_name, clock_wall());
    const bool is_it = row && (strcmp(row->node, join->node) == 0 ||
                               rdzv_find_node(s->all->rdzv, &of_job, join->node, &found) != 0 ||
                               strcmp(found.v[0].node, join->node) != 0);
    return is_it ? row : NULL;
}

static void refuse_evicted(struct session *s, const struct msg_ban_row *ban)
{
    char sentence[MSG_SENTENCE_MAX];
    struct text text;
    text_init(&text, sentence, sizeof(sentence));
    text_add(&text, "an operator has evicted this node and denies it until ");
    text_add_wall(&text, ban->until);
    text_addf(&text, " (tfe-ctl unban %s ends this)", ban->name[0] != '\0' ? ban->name : ban->node);
    session_refuse(s, REFUSAL_EVICTED, sentence);
}

/* True if the job was submitted and is not over, and the node is not given to it by the pool. */
static bool is_of_pool(const struct session *s, const struct msg_join *join)
{
    const char *run_key = pool_run_key(s->all->pool, join->job);
    return run_key && (!join->run_key || strcmp(join->run_key, run_key) != 0);
}

/* Returns true if a pool node uses the same counted token as s, and so may start agents with it. */
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

/* Counts one use of the token, if its uses are limited. Returns the reason of a refusal, or NULL.
 */
static const char *count_token_use(struct session *s, const char *node)
{
    const struct msg_token_row *used;
    const char *fault = keyring_use(keys_ring(s->all->keys), s->by, node, &used);
    if (used) {
        session_audit(s, "JOIN", node, "token_used");
        const struct tfe_msg row = {.type = MSG_TOKEN_ROW, .u.token_row = *used};
        if (writer_put(s->all->writer, &row, NULL, NULL, NULL) != 0) {
            log_warn("token_use_not_stored", LOG_S("key", used->key));
        }
    }
    return fault;
}

/* Returns the id of the node of a session, in the pool or in a job; NULL if it has none. */
static const char *node_of(const struct session *s, bool is_pool, struct rdzv_node *buf)
{
    if (is_pool) {
        return s->pooled ? pool_node_id(s->pooled) : NULL;
    }
    return rdzv_get_session_node(s->all->rdzv, s->number, buf) == 0 ? buf->node : NULL;
}

/* Returns true if the token's node limit is reached, in jobs or in the pool (the agents of a pool
 * node join jobs under other ids). Nodes enrolled with the token count; sessions that are closing
 * do not. */
static bool is_node_limit_reached(const struct session *s, const char *node, bool is_pool)
{
    const struct sessions *all = s->all;
    const uint32_t max = token_uses(s->by->origin);
    struct rdzv_node buf;
    uint32_t n = 0;
    for (uint32_t i = 0; max > 0 && i < all->n_fresh; i++) {
        const struct session *other = all->by_number[i];
        const char *of =
            other && other->phase == SESSION_OPEN &&
                    memcmp(other->by->origin, s->by->origin, sizeof(s->by->origin)) == 0
                ? node_of(other, is_pool, &buf)
                : NULL;
        n += of && strcmp(of, node) != 0;
    }
    return max > 0 && n >= max;
}

/* Returns true, with the refusal sent, if the node must not join. join is NULL for the pool. */
static bool is_refused(struct session *s, const char *node, const char *secret,
                       const struct msg_join *join)
{
    const char *fault = NULL;
    const struct msg_ban_row *ban = join ? ban_of(s, join) : NULL;
    if (!node_id_is_proved(node, secret)) {
        fault = "the node secret does not match the node id";
    } else if (ban) {
        refuse_evicted(s, ban);
        session_finish(s);
        return true;
    } else if (join && is_of_pool(s, join)) {
        session_refuse(s, REFUSAL_CONFLICT,
                       "the job of this name was submitted and uses only pool nodes (start "
                       "tfe-agent --pool or use another --job)");
        session_finish(s);
        return true;
    } else if (!join ||
               !has_pooled(s)) { /* the agent of a pool node does not count as a use of its own */
        fault = count_token_use(s, node);
    }
    if (fault) {
        session_dismiss(s, fault);
    } else if (is_node_limit_reached(s, node, !join)) {
        session_refuse(
            s, REFUSAL_LIMIT_REACHED,
            "node limit of this token is reached (ask the server's operator for another token)");
        session_finish(s);
        return true;
    }
    return fault != NULL;
}

/* The pool ends an agent by a signal. Returns why it takes the node from its job, 0 if it does
 * not. */
static enum tfe_cause release_cause_of(const struct session *s)
{
    struct rdzv_node node;
    if (rdzv_get_session_node(s->all->rdzv, s->number, &node) != 0) {
        return (enum tfe_cause)0;
    }
    return pool_release_cause(s->all->pool, node.job, node.name);
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
        session_enroll(s, &msg->u.enrol);
        return;
    }
    if (s->pooled || (msg->type == MSG_POOL && !known)) {
        const struct msg_pool *pool = &msg->u.pool;
        if (msg->type == MSG_POOL && is_refused(s, pool->node, pool->node_secret, NULL)) {
            return;
        }
        pool_handle_message(s->all->pool, s, msg);
        if (s->pooled && msg->type == MSG_POOL) {
            channel_expect(s->channel, 0);
            session_idle(s, false);
        }
        return;
    }
    if (msg->type == MSG_LOG_CHUNK || msg->type == MSG_LOG_DONE) {
        return; /* from an agent whose log request has ended: log_relay_handle() has ignored it */
    }
    if (msg->type == MSG_EXITED) {
        log_relay_exited(s->all->logs, s->number, &msg->u.exited);
    }
    if (reports_is_only_handler(msg->type) && known) {
        reports_handle(s->all->reports, s->number, &s->report, msg);
        return;
    }
    struct tfe_msg noticed;
    if (msg->type == MSG_NOTICE && msg->u.notice.kind == NOTICE_SIGNAL && known) {
        noticed = *msg;
        noticed.u.notice.released_for = release_cause_of(s);
        msg = &noticed;
    }
    if (refused_for_address(s, msg) ||
        (msg->type == MSG_JOIN &&
         is_refused(s, msg->u.join.node, msg->u.join.node_secret, &msg->u.join))) {
        return;
    }
    /* Set before the step, because the step may close the session and reset the field. */
    s->known = known || msg->type == MSG_JOIN;
    __builtin_prefetch(
        &s->all->by_number[s->number]); /* the response to the message will read it */
    int rc = s->all->ops->message(s->all->ops_ctx, s->number, s->by, msg);
    if (rc == 0) {
        if (s->known && msg->type != MSG_RENEW) {
            reports_handle(s->all->reports, s->number, &s->report, msg);
        }
        if (!known) {
            channel_expect(s->channel, 0); /* no timeout applies between messages */
            session_idle(s, s->phase == SESSION_LEAVING);
        }
        return;
    }
    s->known = known;
    if (rc == TFE_ENOMEM) {
        session_refuse(s, REFUSAL_LIMIT_REACHED, "the server is out of memory (try again later)");
    } else {
        session_refuse(s, REFUSAL_BAD_REQUEST,
                       rc == TFE_ESTATE ? "a session must begin with JOIN and serve only that node"
                                        : "unexpected message in this state of the session");
    }
    session_finish(s);
}

/* Admits the session of an observer or admin and closes sessions that exceed their share. Returns
 * false if s itself exceeds it or memory runs out. */
static bool admit_operator(struct session *s)
{
    struct admission *operators = s->all->operators;
    const struct admission_claim claim = admission_claim_of(s->by, 1);
    if (admission_enter(operators, &claim, s, &s->operator_slot) != 0) {
        return false;
    }
    for (struct admission_slot *place;
         (place = admission_next_eviction(operators, &s->operator_slot, NULL));) {
        admission_leave(operators, place);
        if (place == &s->operator_slot) {
            return false;
        }
        session_refuse(place->owner, REFUSAL_LIMIT_REACHED,
                       "session closed: too many sessions, and this token has the most");
        session_finish(place->owner);
    }
    return true;
}

/* Returns the reason why an authenticated session cannot stay, or NULL. */
static const char *no_place(struct session *s)
{
    struct sessions *all = s->all;
    const bool asks = s->by->role != PRINCIPAL_AGENT;
    const bool is_privileged = admission_claim_of(s->by, 1).is_privileged;
    uint32_t reserved = is_privileged ? 0 : LIMIT_ADMIN_SESSIONS;
    bool is_full = sessions_shown(all) + reserved > all->n_max;
    if (asks) {
        return is_full || !admit_operator(s)
                   ? "too many tfe-ctl sessions, of this token or in total (try again later)"
                   : NULL;
    }
    return is_full || !assign_number(all, s) ? "too many agents: the server's session limit is "
                                               "reached (raise its limit of open files)"
                                             : NULL;
}

static void on_established(void *ctx, struct channel *ch, const struct principal *by)
{
    struct session *s = ctx;
    struct sessions *all = s->all;
    char peer[ENDPOINT_TEXT_MAX];
    (void)ch;
    admission_leave(all->unauthenticated, &s->unauthenticated);
    s->by = by;
    s->phase = SESSION_OPEN;
    log_debug("session_opened", LOG_S("peer", peer_text(&s->peer, peer)),
              LOG_S("role", principal_role_name(by->role)));
    channel_expect(ch, LIMIT_SILENCE_MS);
    session_idle(s, by->role == PRINCIPAL_AGENT);
    if (!session_check_token(s,
                             clock_wall())) { /* the token may have expired since the handshake */
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
    if (!fault && log_relay_handle(s->all->logs, s->number, msg)) {
        s->busy = false; /* requested log lines do not count against the message rate */
        return;
    }
    if (!fault && msg->type == MSG_BUNDLE_PUT) { /* requested bytes do not count either */
        channel_expect(ch, LIMIT_SILENCE_MS);
        if (!pool_handle_bundle(s->all->pool, s->by, &msg->u.bundle_put)) {
            session_refuse(s, REFUSAL_BAD_REQUEST,
                           "unexpected BUNDLE_PUT: the server has not requested it");
            session_finish(s);
        }
        s->busy = false;
        session_release(s);
        return;
    }
    /* A node that downloads requests the next piece when it has written the last one. */
    if (msg->type != MSG_RENEW && !(msg->type == MSG_FETCH && s->pooled) &&
        !rate_pass(&s->message_rate, clock_mono(), LIMIT_MESSAGE_MS, LIMIT_MESSAGE_BURST)) {
        session_refuse(s, REFUSAL_LIMIT_REACHED, "message rate of this session is exceeded");
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

/* Writes at most one audit row per minute about peers without a valid token. */
static void audit_unauthenticated(struct session *s, enum channel_end end, const char *detail)
{
    if (end == CHANNEL_UNAUTHORISED &&
        rate_pass(&s->all->audit_rate, clock_mono(), UNAUTHENTICATED_AUDIT_MS, 1)) {
        session_audit(s, "refused", detail, channel_end_name(end));
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
    audit_unauthenticated(s, end, detail);
    session_drop(s);
}

/* Continues the table after the socket has drained. Returns false if out of memory: the session
 * must end, because the peer would wait for the rest for ever. */
static bool continue_table(struct session *s)
{
    int rc = table_stream_go_on(s->table);
    if (rc == 0) {
        table_stream_free(s->table);
        s->table = NULL;
    }
    return rc == 0 || rc == TFE_EMORE;
}

/* Continues the response that the peer is reading. Returns false if out of memory. */
static bool continue_response(struct session *s)
{
    channel_expect(s->channel, LIMIT_SILENCE_MS);
    return response_continue(&s->response) == 0;
}

static void on_drained(void *ctx, struct channel *ch)
{
    struct session *s = ctx;
    (void)ch;
    s->busy = true;
    if ((s->table && !continue_table(s)) || (s->response && !continue_response(s))) {
        session_disconnect(s);
    }
    if (s->pooled) {
        pool_drained(s);
    }
    s->busy = false;
    session_release(s);
}

/* The peer has sent nothing within LIMIT_SILENCE_MS although a message or the rest of one was due.
 */
static void on_silent(void *ctx, struct channel *ch)
{
    struct session *s = ctx;
    if (s->response && s->response->waits) { /* the peer waits for the server */
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

/* --- accepting --- */

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
    if (admission_enter(all->unauthenticated, &claim, s, &s->unauthenticated) != 0) {
        (void)close(fd);
    } else if (channel_accept(all->base, fd, all->handshake, &all->params, LIMIT_HANDSHAKE_MS,
                              &channel_callbacks, s, &s->channel) == 0) {
        return s;
    }
    s->channel = NULL;
    session_drop(s);
    return NULL;
}

void session_yield(struct session *s)
{
    admission_leave(s->all->unauthenticated, &s->unauthenticated);
    if (channel_has_request(s->channel)) {
        session_idle(s, true);
    } else {
        session_drop(s);
    }
}
