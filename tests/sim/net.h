/* tests/sim/net.h: simulated connections between agents and the server: FIFO; they can be slow,
 * stalled, cut, reset or gone. */
#ifndef TFE_TESTS_SIM_NET_H
#define TFE_TESTS_SIM_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/message/msg.h"
#include "tests/sim/world.h"

#define NO_CONN UINT32_MAX

/* Link of one node to the server. Data on a stalled or cut link waits, as in TCP, and arrives when
 * the link recovers; no connection is established meanwhile. */
struct link {
    uint32_t latency_lo, latency_hi; /* one-way latency in ms */
    bool stalled;
    bool cut_up; /* the direction from the node to the server is cut */
    bool cut_down;
    bool deafens; /* the direction to the node is cut once a JOIN has arrived: its reply is lost */
    bool gone;    /* the host no longer exists: nothing, not even a FIN, ever arrives */
    uint32_t try_tag;  /* generation of the connect under way */
    int64_t try_since; /* when the connect under way began; SIM_NEVER if none is */
    uint32_t conns;    /* list of connections, the newest first; NO_CONN ends it */
    uint32_t conn;     /* connection of the agent process, or NO_CONN */
};

/* Bytes of one message, shared by the receivers of the same table. */
struct net_bytes {
    uint32_t refs;
    uint32_t n;
    uint8_t v[];
};

struct net *net_new(struct world *w, uint32_t n_nodes);
void net_free(struct world *w);
/* Returns the highest latency of any node. */
uint32_t net_latency(const struct world *w);
struct link *net_link(struct world *w, uint32_t node);
/* Delivers what has waited, after a change to the link. */
void net_kick(struct world *w, uint32_t node);

/* --- the agent's end; results arrive in node_connected, node_receive, node_disconnected --- */
void net_connect(struct world *w, uint32_t node);
void net_agent_send(struct world *w, uint32_t node, const struct tfe_msg *msg);
/* Sends what is queued, then FIN. node_disconnected is not called. */
void net_agent_close(struct world *w, uint32_t node);
/* Closes at once: what is not delivered is lost. Cancels a connect under way. */
void net_agent_abort(struct world *w, uint32_t node);
/* Resets the connection at both ends. */
void net_reset(struct world *w, uint32_t node);
/* Resets the connection at one end only; the other end notices when it sends something. */
void net_false_reset(struct world *w, uint32_t node, bool to_server);
/* The host is gone: its end sends nothing any more. */
void net_vanish(struct world *w, uint32_t node);

/* --- the server's end; events arrive in server_accept, server_receive, server_hung_up --- */
void net_server_send(struct world *w, uint32_t conn, const struct tfe_msg *msg);
/* Encodes a chunk of a table; the caller keeps its reference. */
struct net_bytes *net_encode_chunk(struct world *w, const struct msg_table *table, size_t first,
                                   size_t *ret_rows);
void net_bytes_drop(struct net_bytes *bytes);
void net_server_send_bytes(struct world *w, uint32_t conn, struct net_bytes *bytes);
void net_server_close(struct world *w, uint32_t conn);
/* The server's process has ended: every connection gets a FIN. */
void net_server_down(struct world *w);

/* Returns true if both the agent and the server have the connection. */
bool net_is_connected(const struct world *w, uint32_t node);
uint32_t net_conn_node(const struct world *w, uint32_t conn);
/* Returns the job of the agent process at the other end. */
uint32_t net_conn_job(const struct world *w, uint32_t conn);
/* Returns the machine on which the first process with that agent's id ran. */
uint32_t net_conn_known_as(const struct world *w, uint32_t conn);
/* Returns where the server's session number of the connection is stored. */
uint32_t *net_conn_session(struct world *w, uint32_t conn);
/* Returns the era of the server that accepted the agent's present connection; 0 if there is
 * none. */
uint32_t net_agent_era(const struct world *w, uint32_t node);

#endif
