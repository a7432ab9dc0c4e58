/* agent/pool/member.h: a pool node's registration at the server: connects, sends POOL, renews
 * the lease and reconnects. */
#ifndef TFE_AGENT_POOL_MEMBER_H
#define TFE_AGENT_POOL_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_settings.h"
#include "agent/uplink.h"
#include "common/credentials/join.h"
#include "common/message/msg.h"

struct event_base;
struct member;

/* Options. Pointers are borrowed for the lifetime. Callbacks are called from the event loop. */
struct member_options {
    struct event_base *base;
    const struct agent_settings *settings;
    const struct join_info *info;
    const char *node_name;
    uint32_t slot;
    /* Returns the current assignment until its end was reported to the server, or 0 if idle. */
    uint64_t (*assignment)(void *ctx);
    /* returns true while an assignment is running, even without a connection */
    bool (*works)(void *ctx);
    /* Called after POOL is queued: sends the messages that the server needs before it
     * decides about this node. */
    void (*connected)(void *ctx);
    void (*welcome)(void *ctx);
    /* Handles messages that do not concern the connection itself. */
    void (*message)(void *ctx, const struct tfe_msg *msg);
    /* Called when the connection has ended. Returns false to stay disconnected. */
    bool (*down)(void *ctx);
    /* Called when no server accepts the node and the member gives up, with the exit
     * code and a reason. */
    void (*lost)(void *ctx, int code, const char *sentence);
    void *ctx;
};

/* Creates a member and starts to connect. */
struct member *member_new(const struct member_options *options);
/* Frees a member. Accepts NULL. */
void member_free(struct member *m);

/* Returns true if WELCOME has arrived on the current connection. */
bool member_is_up(const struct member *m);
/* Returns the connection, established or not; borrowed. */
struct uplink *member_uplink(const struct member *m);
/* Sends GOODBYE if the node is registered, then closes the connection. */
void member_goodbye(struct member *m);

#endif
