/* tests/sim/net.h: connections between agents and the server: FIFO, late, stalled, cut, reset,
 * gone. */
#ifndef TFE_TESTS_SIM_NET_H
#define TFE_TESTS_SIM_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/message/msg.h"
#include "tests/sim/world.h"

#define NO_CONN UINT32_MAX

/* The way of one node to the server. What is stalled or cut waits, as in TCP, and comes when it
 * heals; a connection is not established meanwhile. */
struct link {
    uint32_t latency_lo, latency_hi; /* ms, one way */
    bool stalled;
    bool cut_up; /* node to server */
    bool cut_down;
    bool deafens;      /* is cut down once a JOIN has come up: the answer is lost */
    bool gone;         /* no such host any more: nothing, not even a FIN, ever comes */
    uint32_t try_tag;  /* of the connect under way */
    int64_t try_since; /* SIM_NEVER: none */
    uint32_t conns;    /* list, the newest first; NO_CONN ends it */
    uint32_t conn;     /* the agent process's own; NO_CONN */
};

/* The bytes of one message, shared by those who are sent the same table. */
struct net_bytes {
    uint32_t refs;
    uint32_t n;
    uint8_t v[];
};

struct net *net_new(struct world *w, uint32_t n_nodes);
void net_free(struct world *w);
/* The longest way of any node. */
uint32_t net_latency(const struct world *w);
struct link *net_link(struct world *w, uint32_t node);
/* After a change to the link: what waited goes on. */
void net_kick(struct world *w, uint32_t node);

/* --- the agent's end; results come through node_connected, node_receive, node_disconnected --- */
void net_connect(struct world *w, uint32_t node);
void net_agent_send(struct world *w, uint32_t node, const struct tfe_msg *msg);
/* What is queued is sent, then FIN. No disconnected comes of it. */
void net_agent_close(struct world *w, uint32_t node);
/* At once: what is not delivered is lost. A connect under way is given up. */
void net_agent_abort(struct world *w, uint32_t node);
/* Both ends see a reset. */
void net_reset(struct world *w, uint32_t node);
/* One end is told of a reset that the other has not made, and knows nothing of: it has the answer
 * when it says something. */
void net_false_reset(struct world *w, uint32_t node, bool to_server);
/* The host is gone: its end says nothing any more. */
void net_vanish(struct world *w, uint32_t node);

/* --- the server's end; server_accept, server_receive, server_hung_up --- */
void net_server_send(struct world *w, uint32_t conn, const struct tfe_msg *msg);
/* A table cut into chunks; the caller keeps its reference. */
struct net_bytes *net_encode_chunk(struct world *w, const struct msg_table *table, size_t first,
                                   size_t *ret_rows);
void net_bytes_drop(struct net_bytes *bytes);
void net_server_send_bytes(struct world *w, uint32_t conn, struct net_bytes *bytes);
void net_server_close(struct world *w, uint32_t conn);
/* The process has ended: every connection gets a FIN. */
void net_server_down(struct world *w);

/* Whether the agent has a connection, and so has the server. */
bool net_is_connected(const struct world *w, uint32_t node);
uint32_t net_conn_node(const struct world *w, uint32_t conn);
/* Of the agent process at its other end. */
uint32_t net_conn_job(const struct world *w, uint32_t conn);
/* The machine on which the first process with the id of that agent ran. */
uint32_t net_conn_known_as(const struct world *w, uint32_t conn);
/* The server's number of the session: kept for it here. */
uint32_t *net_conn_session(struct world *w, uint32_t conn);
/* Era of the server that accepted the agent's present connection; 0: none. */
uint32_t net_agent_era(const struct world *w, uint32_t node);

#endif
