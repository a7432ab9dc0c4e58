/* server/session_end.c: how a session is refused, finished and released. */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/channel/channel.h"
#include "common/cli/log.h"
#include "server/auth/audit.h"
#include "server/events/counters.h"
#include "server/session.h"

/* Time for a closing peer to read what is flushed. */
#define FINISH_MS 1000

void session_idle(struct session *s, bool idles)
{
    if (idles && !s->idles) {
        TAILQ_INSERT_TAIL(&s->all->idle, s, idle_link);
    } else if (!idles && s->idles) {
        TAILQ_REMOVE(&s->all->idle, s, idle_link);
    }
    s->idles = idles;
}

void session_release(struct session *s)
{
    struct sessions *all = s->all;
    if (!s->channel) {
        session_idle(s, false);
    }
    if (s->channel || s->known || s->busy) {
        return;
    }
    if (s->number != SESSION_NO_NUMBER) {
        all->by_number[s->number] = NULL;
        all->free_numbers[all->n_free++] = s->number;
    }
    TAILQ_REMOVE(&all->list, s, link);
    all->n--;
    free(s);
    if (all->stopping && TAILQ_EMPTY(&all->list)) {
        event_active(&all->empty, EV_TIMEOUT, 0);
    }
}

void session_audit(const struct session *s, const char *what, const char *about, const char *result)
{
    const struct audit_client who = {
        .by = s->by,
        .label = s->by ? keyring_label(keys_ring(s->all->keys), s->by->origin) : "",
        .from = &s->peer};
    audit_record(s->all->writer, &who, what, about, result);
}

/* Adds an event with the order and who gave it: the role, and the label of the token. */
static void report_order(const struct session *s, const char *result)
{
    const char *label = s->by ? keyring_label(keys_ring(s->all->keys), s->by->origin) : "";
    const char *role = s->by ? principal_role_name(s->by->role) : "unknown";
    char who[MSG_KEY_LABEL_MAX + 32];
    if (label[0] != '\0') {
        (void)snprintf(who, sizeof(who), "%s (%s)", role, label);
    } else {
        (void)snprintf(who, sizeof(who), "%s", role);
    }
    events_report(
        s->all->events, &(struct msg_event_row){.kind = "ordered", .job = s->order->job.text},
        "%s ordered %s of %s: %s", who, msg_type_name(s->order->type), s->order->about, result);
}

void session_order_done(void *ctx, const struct tfe_msg *last)
{
    struct session *s = ctx;
    const char *result = last ? audit_result(last) : "unanswered";
    session_audit(s, msg_type_name(s->order->type), s->order->about, result);
    report_order(s, result);
    free(s->order);
    s->order = NULL;
}

/* Ends the session's work. Its channel may stay open to flush; without a channel the caller calls
 * session_release(). */
static void session_leave(struct session *s)
{
    struct sessions *all = s->all;
    if (s->phase == SESSION_LEAVING) {
        return;
    }
    admission_leave(all->operators, &s->operator_slot);
    s->phase = SESSION_LEAVING;
    response_done(&s->response);
    log_relay_agent_left(all->logs, s->number);
    if (s->order) {
        session_order_done(s, NULL);
    }
    table_stream_free(s->table);
    s->table = NULL;
    admission_leave(all->unauthenticated, &s->unauthenticated);
    reports_drop(all->reports, &s->report);
    session_idle(s, s->channel != NULL);
    if (s->pooled) {
        pool_left(s);
    }
    if (s->known) {
        if (all->stopping) {
            s->known = false;
        } else {
            /* sessions_forgotten() may be called at once; the caller frees the session. */
            bool busy = s->busy;
            s->busy = true;
            all->ops->closed(all->ops_ctx, s->number);
            s->busy = busy;
        }
    }
}

void session_send(struct session *s, const struct tfe_msg *msg)
{
    if (s->phase == SESSION_OPEN && s->channel) {
        const int rc = channel_send(s->channel, msg);
        if (rc != 0 && !channel_ends_itself(rc)) {
            session_drop(s);
        }
    }
}

void session_disconnect(struct session *s)
{
    session_leave(s); /* needs s->by, which is valid while the channel exists */
    channel_free(s->channel);
    s->channel = NULL;
}

void session_drop(struct session *s)
{
    session_disconnect(s);
    session_release(s);
}

void session_refuse(struct session *s, enum tfe_refusal code, const char *sentence)
{
    struct tfe_msg msg = {.type = MSG_REFUSED, .u.refused = {.code = code, .sentence = sentence}};
    uint64_t hidden;
    char peer[ENDPOINT_TEXT_MAX];
    s->all->gauges->refusals[(unsigned)code < COUNTERS_CODES ? code : 0]++;
    if (throttle_pass(s->all->refusals, s->by->origin, sizeof(s->by->origin), &hidden)) {
        log_warn("refused", LOG_S("peer", peer_text(&s->peer, peer)),
                 LOG_S("role", principal_role_name(s->by->role)),
                 LOG_S("code", msg_refusal_name(code)), LOG_S("reason", sentence),
                 LOG_U("not_logged", hidden));
        session_audit(s, "refused", sentence, msg_refusal_name(code));
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

void session_dismiss(struct session *s, const char *sentence)
{
    session_refuse(s, REFUSAL_NOT_AUTHORISED, sentence);
    session_finish(s);
}
