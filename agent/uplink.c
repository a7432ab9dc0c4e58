/* agent/uplink.c: implementation of uplink.h: one channel at a time, whose end becomes an
 * event for the core. */
#include "agent/uplink.h"

#include <event2/event.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/local_addr.h"
#include "agent/os/prober.h"
#include "agent/output/log_serve.h"
#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/limits.h"
#include "common/channel/channel.h"

/* Longest time to send queued data, including GOODBYE. */
#define FINISH_MS 2000

struct uplink {
    struct event_base *base;
    const struct join_info *info;
    const char *address_host;
    uplink_event_fn *on_event;
    void *ctx;
    struct channel *channel;
    bool is_loopback;
    struct enrollment *enrollment;
    struct handshake_params params;
    struct event *hung_up;   /* reports DISCONNECTED in the next iteration of the event loop */
    const char *reason;      /* reason reported by hung_up */
    struct log_serve *serve; /* NULL if requests for output are ignored */
};

static void report_event(struct uplink *u, struct agent_event event)
{
    event.now = clock_mono();
    u->on_event(u->ctx, &event);
}

static void on_established(void *ctx, struct channel *ch, const struct principal *by)
{
    struct uplink *u = ctx;
    char local[TFE_HOST_MAX + 1] = "";
    struct sockaddr_storage address;
    bool is_known = channel_local_address(ch, &address);
    u->is_loopback = is_known && prober_is_loopback(&address);
    const char *host = u->address_host;
    if (!host[0]) {
        host = !is_known || local_addr_find(&address, local) ? local : NULL;
    }
    enrollment_schedule(u->enrollment);
    report_event(u, (struct agent_event){.type = AGENT_CONNECTED, .host = host});
}

static void on_message(void *ctx, struct channel *ch, const struct tfe_msg *msg)
{
    struct uplink *u = ctx;
    bool is_of_logs =
        msg->type == MSG_LOG_REQUEST || msg->type == MSG_LOG_CREDIT || msg->type == MSG_LOG_STOP;
    if (msg->type == MSG_ENROLLED) {
        enrollment_handle_answer(u->enrollment, &msg->u.enrolled);
    } else if (is_of_logs && u->serve) {
        log_serve_handle(u->serve, msg);
    } else if (!is_of_logs) {
        report_event(u, (struct agent_event){.type = AGENT_MESSAGE, .msg = msg});
    }
}

/* Clients repeat their requests for output on the next channel. */
static void forget_channel(struct uplink *u)
{
    u->channel = NULL;
    if (u->serve) {
        log_serve_drop_requests(u->serve);
    }
}

static void on_closed(void *ctx, struct channel *ch, enum channel_end end, const char *detail)
{
    struct uplink *u = ctx;
    forget_channel(u);
    if (end == CHANNEL_UNAUTHORISED && enrollment_is_refused(u->enrollment)) {
        uplink_connect(u);
        return;
    }
    enum agent_link link = AGENT_LINK_LOST;
    if (end == CHANNEL_UNAUTHORISED) {
        link = AGENT_LINK_UNAUTHORISED;
    } else if (end == CHANNEL_UNREACHABLE || end == CHANNEL_TIMEOUT) {
        link = AGENT_LINK_UNREACHABLE;
    }
    report_event(u, (struct agent_event){.type = AGENT_DISCONNECTED, .lost = {link, detail}});
}

static void on_drained(void *ctx, struct channel *ch)
{
    struct uplink *u = ctx;
    log_serve_resume(u->serve);
}

static const struct channel_ops ops = {
    .established = on_established,
    .message = on_message,
    .closed = on_closed,
    .drained = on_drained,
};

static void on_hung_up(evutil_socket_t fd, short what, void *ctx)
{
    struct uplink *u = ctx;
    report_event(
        u, (struct agent_event){.type = AGENT_DISCONNECTED, .lost = {AGENT_LINK_LOST, u->reason}});
}

static void on_enrolment_due(void *ctx)
{
    struct uplink *u = ctx;
    if (u->channel) {
        struct tfe_msg msg = enrollment_request(u->enrollment);
        uplink_send(u, &msg);
    }
}

struct uplink *uplink_new(struct event_base *base, const struct join_info *info,
                          const char *state_dir, const char *address_host,
                          uplink_event_fn *on_event, void *ctx)
{
    struct uplink *u = must_alloc(sizeof(*u));
    *u = (struct uplink){
        .base = base,
        .info = info,
        .address_host = address_host,
        .on_event = on_event,
        .ctx = ctx,
        .params = {.version_min = PROTOCOL_VERSION, .version_max = PROTOCOL_VERSION},
        .hung_up = evtimer_new(base, on_hung_up, u)};
    must_succeed(u->hung_up);
    u->enrollment = enrollment_new(base, info->token, state_dir, on_enrolment_due, u);
    randombytes_buf(&u->params.boot_nonce, sizeof(u->params.boot_nonce));
    return u;
}

void uplink_free(struct uplink *u)
{
    if (u) {
        channel_free(u->channel);
        enrollment_free(u->enrollment);
        event_free(u->hung_up);
        free(u);
    }
}

static void hang_up(struct uplink *u, const char *reason)
{
    channel_free(u->channel);
    forget_channel(u);
    u->reason = reason;
    evtimer_add(u->hung_up, &(struct timeval){0});
}

void uplink_hang_up(struct uplink *u)
{
    hang_up(u, "no answer");
}

void uplink_key(struct uplink *u, char ret[ENROLLMENT_TEXT_MAX])
{
    (void)enrollment_text(u->enrollment, ret);
}

bool uplink_is_loopback(const struct uplink *u)
{
    return u->is_loopback;
}

void uplink_connect(struct uplink *u)
{
    int rc = channel_connect(u->base, u->info->host, u->info->port, enrollment_token(u->enrollment),
                             &u->params, LIMIT_HANDSHAKE_MS, &ops, u, &u->channel);
    if (rc) {
        u->channel = NULL;
        hang_up(u, tfe_error_sentence(rc));
    }
}

void uplink_finish(struct uplink *u)
{
    if (u->channel) {
        channel_finish(u->channel, FINISH_MS);
    } else {
        uplink_hang_up(u);
    }
}

void uplink_send(struct uplink *u, const struct tfe_msg *msg)
{
    int rc = u->channel ? channel_send(u->channel, msg) : 0;
    if (rc) {
        hang_up(u, tfe_error_sentence(rc));
    }
}

void uplink_offer(struct uplink *u, const struct tfe_msg *msg)
{
    int rc = u->channel ? channel_send(u->channel, msg) : 0;
    if (rc && !channel_ends_itself(rc)) {
        hang_up(u, tfe_error_sentence(rc));
    }
}

void uplink_serve(struct uplink *u, struct log_serve *serve)
{
    u->serve = serve;
}

bool uplink_accepts(void *ctx)
{
    struct uplink *u = ctx;
    if (u->channel && channel_queued(u->channel) < LIMIT_UNSENT_BYTES) {
        return true;
    }
    if (u->channel) {
        channel_want_drained(u->channel);
    }
    return false;
}
