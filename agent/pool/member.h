/* agent/pool/member.h: a node of the pool as its server knows it, by a connection that comes and
 * goes: POOL, renewals, and another try after a while. */
#ifndef TFE_AGENT_POOL_MEMBER_H
#define TFE_AGENT_POOL_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_settings.h"
#include "agent/uplink.h"
#include "common/channel/join.h"
#include "common/message/msg.h"

struct event_base;
struct member;

/* All is borrowed for the member's life. The callbacks come from the loop. */
struct member_wish {
    struct event_base *base;
    const struct agent_settings *settings;
    const struct join_info *info;
    const char *node_name;
    uint32_t slot;
    /* What the server has it work for, until it has been told of the end; 0: idle. */
    uint64_t (*assignment)(void *ctx);
    bool (*works)(void *ctx); /* … and that is not over: it outlives any absence of the server */
    /* POOL is on its way: what the server is to hear before it decides on this node goes with it.
     */
    void (*connected)(void *ctx);
    void (*welcome)(void *ctx);
    /* All others that are not the connection's own. */
    void (*message)(void *ctx, const struct tfe_msg *msg);
    /* The connection has ended. False: there is no need for another. */
    bool (*down)(void *ctx);
    /* No server takes it, and no other try comes: with which code of the program, and why. */
    void (*lost)(void *ctx, int code, const char *sentence);
    void *ctx;
};

/* Its first try comes from the loop. */
struct member *member_new(const struct member_wish *wish);
/* NULL is allowed. */
void member_free(struct member *m);

/* Whether WELCOME has come on a connection that still is. */
bool member_is_up(const struct member *m);
/* Its connection, up or not; borrowed. */
struct uplink *member_uplink(const struct member *m);
/* Sends GOODBYE if it is up, then ends the connection. */
void member_goodbye(struct member *m);

#endif
