/* common/records/client.c: a queue of requests on one reconnecting connection. */
#include "common/records/client.h"

#include <event2/event.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/rate.h"
#include "common/base/timer.h"
#include "common/channel/channel.h"
#include "common/records/schemas.h"

/* Delay before the first reconnect; a restarted server is back within a few attempts. */
#define RETRY_MS 250

/* A server that exits during a handshake looks as if it rejected the token, so a rejection counts
 * only if it occurs twice, with this delay between. */
#define REJECTIONS 2
#define REJECTED_RETRY_MS 1000

/* After this time a new request checks whether the rejection still holds, because a flooded server
 * or a network that loses one direction looks the same. */
#define REJECTED_AGAIN_MS 5000

/* Burst of requests; below the server's limit, beyond which the server closes the session. */
#define REQUEST_BURST (LIMIT_MESSAGE_BURST - 20)

/* Time limit of connect and handshake. */
#define DIAL_MS 10000

struct client {
    struct client_config config;
    struct handshake_params params;
    struct channel *channel; /* the connection; NULL if there is none and none is being set up */
    struct event *retry;     /* reconnect timer; while pending no connection is attempted */
    struct event *turn;      /* processes the queue in the next iteration of the loop */
    struct client_request *first; /* head of the queue: the current or next request */
    struct rate rate;
    uint32_t retry_ms;
    unsigned rejections;
    bool is_connected;
    bool is_sent; /* the first request has been sent on this connection */
    enum {
        NO_ORPHAN,
        ORPHAN_QUERY,
        ORPHAN_ORDER
    } orphan;         /* kind of a cancelled request whose response is being dropped */
    bool is_rejected; /* requests fail at once until rejected_at + REJECTED_AGAIN_MS */
    struct tfe_mono rejected_at;
};

/* --- queue ------------------------------------------------------------------------------------ */

static void turn_soon(struct client *c)
{
    if (c->first) {
        event_active(c->turn, EV_TIMEOUT, 0);
    }
}

/* Ends the first request; its callback may free c. */
static void end_first(struct client *c, enum client_end end, enum tfe_refusal code,
                      const char *sentence)
{
    struct client_request *request = c->first;
    c->first = request->next;
    c->is_sent = false;
    request->next = NULL;
    turn_soon(c);
    request->ended(request, end, code, sentence);
}

/* Drops the rest of the response to a cancelled request. */
static void orphan(struct client *c, const struct client_request *request)
{
    c->orphan = client_is_order(request->message->type) ? ORPHAN_ORDER : ORPHAN_QUERY;
}

static void retry_in(struct client *c, uint32_t in_ms, const char *reason)
{
    c->channel = NULL;
    c->is_connected = false;
    c->is_sent = false;
    c->orphan = NO_ORPHAN;
    if (!c->first) {
        return; /* the next request will connect */
    }
    (void)timer_after(c->retry, in_ms);
    if (c->config.waiting) {
        c->config.waiting(c->config.ctx, reason);
    }
}

static void retry(struct client *c, const char *reason)
{
    uint32_t in_ms = c->retry_ms;
    uint32_t twice = in_ms * 2;
    c->retry_ms = twice < c->config.retry_max_ms ? twice : c->config.retry_max_ms;
    retry_in(c, in_ms, reason);
}

/* --- channel ---------------------------------------------------------------------------------- */

static void on_established(void *ctx, struct channel *ch, const struct principal *by)
{
    struct client *c = ctx;
    c->is_connected = true;
    c->rejections = 0;
    c->retry_ms = RETRY_MS;
    turn_soon(c);
    if (c->config.connected) {
        c->config.connected(c->config.ctx);
    }
}

/* Requests whose responses have records, and the types of these. Each of them ends with STATUS_END,
 * except that of BUNDLE_HAVE; DONE ends the responses to all other requests. */
static const struct {
    enum tfe_msg_type request;
    enum tfe_msg_type rows[6];
} responses[] = {
    {MSG_STATUS,
     {MSG_STATUS_JOB, MSG_STATUS_NODE, MSG_HEALTH, MSG_SERIES_ROW, MSG_CONDITION_ROW,
      MSG_POOL_ROW}},
    {MSG_EPOCHS, {MSG_EPOCH_ROW, MSG_STATUS_JOB}},
    {MSG_EVENTS, {MSG_EVENT_ROW}},
    {MSG_SERIES, {MSG_SERIES_ROW}},
    {MSG_LOGS, {MSG_LOG_LINES}},
    {MSG_POOL_NODES, {MSG_POOL_ROW}},
    {MSG_DEMAND, {MSG_DEMAND_ROW}},
    {MSG_GAUGES, {MSG_GAUGE}},
    {MSG_AGENTS, {MSG_AGENT_ROW}},
    {MSG_BANS, {MSG_BAN_ROW}},
    {MSG_AUDIT, {MSG_AUDIT_ROW}},
    {MSG_TOKENS, {MSG_TOKEN_ROW}},
    {MSG_TOKEN_CREATE, {MSG_TOKEN}},
    {MSG_BUNDLE_HAVE, {MSG_BUNDLE_WANT}},
};

/* Returns the types of the records of a response; NULL if it has none. */
static const enum tfe_msg_type *rows_of(enum tfe_msg_type request)
{
    for (size_t i = 0; i < sizeof(responses) / sizeof(responses[0]); i++) {
        if (responses[i].request == request) {
            return responses[i].rows;
        }
    }
    return NULL;
}

/* True if the message type may be part of the response. */
static bool is_answer(enum tfe_msg_type request, enum tfe_msg_type type)
{
    const enum tfe_msg_type *rows = rows_of(request);
    bool is_row = false;
    for (size_t i = 0; rows && i < sizeof(responses[0].rows) / sizeof(rows[0]); i++) {
        is_row = is_row || rows[i] == type;
    }
    return is_row;
}

bool client_is_order(enum tfe_msg_type request)
{
    return request == MSG_BUNDLE_HAVE || !rows_of(request);
}

static bool is_end(bool is_order, enum tfe_msg_type type)
{
    return type == MSG_REFUSED || type == (is_order ? MSG_DONE : MSG_STATUS_END);
}

static void on_message(void *ctx, struct channel *ch, const struct tfe_msg *msg)
{
    struct client *c = ctx;
    struct client_request *request = c->is_sent ? c->first : NULL;
    if (c->orphan != NO_ORPHAN) {
        if (is_end(c->orphan == ORPHAN_ORDER, msg->type)) {
            c->orphan = NO_ORPHAN;
            turn_soon(c);
        }
        return;
    }
    if (!request) {
        return;
    }
    channel_expect(ch, c->config.silence_ms);
    if (msg->type == MSG_REFUSED) {
        end_first(c, CLIENT_REFUSED, msg->u.refused.code, msg->u.refused.sentence);
        return;
    }
    if (is_end(client_is_order(request->message->type), msg->type)) {
        end_first(c, CLIENT_ANSWERED, 0, "");
        return;
    }
    if (!is_answer(request->message->type, msg->type)) {
        orphan(c, request);
        end_first(c, CLIENT_UNEXPECTED, 0, CLIENT_UNEXPECTED_SENTENCE);
    } else if (request->row) {
        request->row(request, msg);
    } else if (record_list_add(&request->list, schema_of(msg->type), &msg->u) != 0) {
        orphan(c, request);
        end_first(c, CLIENT_FAILED, 0, "out of memory");
    }
}

static void on_silent(void *ctx, struct channel *ch)
{
    struct client *c = ctx;
    if (c->is_sent || c->orphan != NO_ORPHAN) {
        channel_free(ch);
        retry(c, "no response from the server");
    }
}

static void reject(struct client *c)
{
    c->is_rejected = true;
    c->rejected_at = clock_mono();
}

static void on_closed(void *ctx, struct channel *ch, enum channel_end how, const char *detail)
{
    struct client *c = ctx;
    switch (how) {
    case CHANNEL_UNAUTHORISED:
        if (++c->rejections >= REJECTIONS) {
            reject(c);
        }
        retry_in(c, c->is_rejected ? 0 : REJECTED_RETRY_MS, "the token was rejected");
        return;
    case CHANNEL_NO_MEMORY:
    case CHANNEL_EOF:
    case CHANNEL_RESET:
    case CHANNEL_TIMEOUT:
    case CHANNEL_UNREACHABLE:
    case CHANNEL_PROTOCOL:
    case CHANNEL_OVERFLOW:
        retry(c, detail);
        return;
    }
}

static const struct channel_ops channel_callbacks = {
    .established = on_established, .message = on_message, .closed = on_closed, .silent = on_silent};

static void dial(struct client *c)
{
    const struct join_info *join = c->config.join;
    int rc = channel_connect(c->config.base, join->host, join->port, join->token, &c->params,
                             DIAL_MS, &channel_callbacks, c, &c->channel);
    if (rc == TFE_EPROTO) {
        reject(c);
        retry_in(c, 0, "the token names no usable server key");
    } else if (rc != 0) {
        retry(c, tfe_error_sentence(rc));
    }
}

/* Sends the first request, within the server's rate limit. */
static void send_first(struct client *c)
{
    if (!rate_pass(&c->rate, clock_mono(), LIMIT_MESSAGE_MS, REQUEST_BURST)) {
        (void)timer_after(c->turn, LIMIT_MESSAGE_MS);
        return;
    }
    record_list_done(&c->first->list);
    int rc = channel_send(c->channel, c->first->message);
    if (rc == 0) {
        c->is_sent = true;
        c->first->n_sent++;
        channel_expect(c->channel, c->config.silence_ms);
    } else if (rc == TFE_EINVAL) {
        end_first(c, CLIENT_REFUSED, REFUSAL_BAD_REQUEST,
                  "a name is too long or contains invalid characters");
    } else if (!channel_ends_itself(rc)) {
        end_first(c, CLIENT_FAILED, 0, "cannot send the request");
    }
}

static void on_iteration(evutil_socket_t fd, short what, void *ctx)
{
    struct client *c = ctx;
    if (!c->first) {
        return;
    }
    if (c->is_rejected && tfe_mono_sub(clock_mono(), c->rejected_at) > REJECTED_AGAIN_MS) {
        c->is_rejected = false;
    }
    if (c->is_rejected) {
        end_first(c, CLIENT_UNAUTHORISED, REFUSAL_NOT_AUTHORISED,
                  "not authorised: the server does not accept this token (it may belong to another "
                  "server, or have expired)");
    } else if (!c->channel) {
        if (!event_pending(c->retry, EV_TIMEOUT, NULL)) {
            dial(c);
        }
    } else if (c->is_connected && !c->is_sent && c->orphan == NO_ORPHAN) {
        send_first(c);
    }
}

/* --- interface -------------------------------------------------------------------------------- */

int client_new(const struct client_config *config, struct client **ret)
{
    struct client *c = calloc(1, sizeof(*c));
    if (!c) {
        return TFE_ENOMEM;
    }
    c->config = *config;
    c->retry_ms = RETRY_MS;
    c->params =
        (struct handshake_params){.version_min = PROTOCOL_VERSION, .version_max = PROTOCOL_VERSION};
    randombytes_buf(&c->params.boot_nonce, sizeof(c->params.boot_nonce));
    c->retry = evtimer_new(config->base, on_iteration, c);
    c->turn = evtimer_new(config->base, on_iteration, c);
    if (!c->retry || !c->turn) {
        client_free(c);
        return TFE_ENOMEM;
    }
    *ret = c;
    return 0;
}

void client_request(struct client *c, struct client_request *request)
{
    struct client_request **at = &c->first;
    request->n_sent = 0;
    request->turn = c->first ? c->first->turn : 0;
    for (const struct client_request *other = c->first; other; other = other->next) {
        request->turn += memcmp(other->owner, request->owner, sizeof(request->owner)) == 0;
    }
    while (*at && (*at)->turn <= request->turn) {
        at = &(*at)->next;
    }
    request->next = *at;
    *at = request;
    turn_soon(c);
}

void client_cancel(struct client *c, struct client_request *request)
{
    struct client_request **at = &c->first;
    while (*at && *at != request) {
        at = &(*at)->next;
    }
    if (*at) {
        if (c->first == request && c->is_sent) {
            orphan(c, request);
            c->is_sent = false;
        }
        *at = request->next;
        request->next = NULL;
        turn_soon(c);
    }
    record_list_done(&request->list);
}

int client_send_more(struct client *c, const struct tfe_msg *msg)
{
    return c->is_sent ? channel_send(c->channel, msg) : TFE_ESTATE;
}

bool client_is_connected(const struct client *c)
{
    return c->is_connected;
}

void client_free(struct client *c)
{
    if (c) {
        channel_free(c->channel);
        event_drop(&c->retry);
        event_drop(&c->turn);
        free(c);
    }
}
