/* agent/uplink.c: one channel at a time; its ends become events for the core. */
#include "agent/uplink.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/channel.h"
#include "common/net/clock.h"
#include "common/net/limits.h"

/* How long a GOODBYE may take. */
#define FINISH_MS 2000

struct uplink {
    struct event_base *base;
    const struct join_info *info;
    const char *address_host;
    uplink_event_fn *on_event;
    void *ctx;
    struct channel *channel;
    struct hello_facts facts;
    struct event *hung_up; /* tells the core in the next turn of the loop */
};

static void tell(struct uplink *u, struct agent_event event)
{
    event.now = clock_mono();
    u->on_event(u->ctx, &event);
}

/* IPv4 where it is one; brackets for IPv6 come with the port. */
static void address_text(const struct sockaddr_storage *address, char *ret, size_t cap)
{
    ret[0] = '\0';
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        inet_ntop(AF_INET, &in->sin_addr, ret, (socklen_t)cap);
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)address;
        if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
            inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], ret, (socklen_t)cap);
        } else {
            inet_ntop(AF_INET6, &in6->sin6_addr, ret, (socklen_t)cap);
        }
    }
}

static void on_established(void *ctx, struct channel *ch, enum token_role role)
{
    (void)role;
    struct uplink *u = ctx;
    char local[INET6_ADDRSTRLEN] = "";
    struct sockaddr_storage address;
    if (!u->address_host[0] && channel_local_address(ch, &address)) {
        address_text(&address, local, sizeof(local));
    }
    tell(u, (struct agent_event){.type = AGENT_CONNECTED,
                                 .host = u->address_host[0] ? u->address_host : local});
}

static void on_message(void *ctx, struct channel *ch, const struct tfe_msg *msg)
{
    (void)ch;
    tell(ctx, (struct agent_event){.type = AGENT_MESSAGE, .msg = msg});
}

static void on_closed(void *ctx, struct channel *ch, enum channel_end end, const char *detail)
{
    (void)ch;
    struct uplink *u = ctx;
    u->channel = NULL;
    enum agent_link link = AGENT_LINK_LOST;
    if (end == CHANNEL_UNAUTHORISED) {
        link = AGENT_LINK_UNAUTHORISED;
    } else if (end == CHANNEL_UNREACHABLE || end == CHANNEL_TIMEOUT) {
        link = AGENT_LINK_UNREACHABLE;
    }
    tell(u, (struct agent_event){.type = AGENT_DISCONNECTED, .link = link, .text = detail});
}

static const struct channel_ops ops = {
    .established = on_established,
    .message = on_message,
    .closed = on_closed,
};

static void on_hung_up(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    tell(ctx, (struct agent_event){
                  .type = AGENT_DISCONNECTED, .link = AGENT_LINK_LOST, .text = "no answer"});
}

int uplink_new(struct event_base *base, const struct join_info *info, const char *address_host,
               uplink_event_fn *on_event, void *ctx, struct uplink **ret)
{
    struct uplink *u = calloc(1, sizeof(*u));
    if (!u) {
        return TFE_ENOMEM;
    }
    *u = (struct uplink){.base = base,
                         .info = info,
                         .address_host = address_host,
                         .on_event = on_event,
                         .ctx = ctx,
                         .facts = {.version_min = 1, .version_max = 1}};
    randombytes_buf(&u->facts.boot_nonce, sizeof(u->facts.boot_nonce));
    u->hung_up = evtimer_new(base, on_hung_up, u);
    if (!u->hung_up) {
        free(u);
        return TFE_ENOMEM;
    }
    *ret = u;
    return 0;
}

void uplink_free(struct uplink *u)
{
    if (u) {
        channel_free(u->channel);
        event_free(u->hung_up);
        free(u);
    }
}

static void end_soon(struct uplink *u)
{
    channel_free(u->channel);
    u->channel = NULL;
    evtimer_add(u->hung_up, &(struct timeval){0});
}

void uplink_connect(struct uplink *u)
{
    if (channel_connect(u->base, u->info->host, u->info->port, &u->info->token, &u->facts,
                        LIMIT_HANDSHAKE_MS, &ops, u, &u->channel)) {
        u->channel = NULL;
        end_soon(u);
    }
}

void uplink_finish(struct uplink *u)
{
    if (u->channel) {
        channel_finish(u->channel, FINISH_MS);
    } else {
        end_soon(u);
    }
}

void uplink_hang_up(struct uplink *u)
{
    end_soon(u);
}

void uplink_send(struct uplink *u, const struct tfe_msg *msg)
{
    if (u->channel && channel_send(u->channel, msg)) {
        end_soon(u);
    }
}
