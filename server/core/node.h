/* server/core/node.h: a node (one agent process) with all its parts: connection, READY, version of
 * TensorFlow. */
#ifndef TFE_SERVER_CORE_NODE_H
#define TFE_SERVER_CORE_NODE_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/message/msg.h"
#include "server/core/core.h"
#include "server/core/epoch.h"
#include "server/core/join_limits.h"
#include "server/core/lease.h"
#include "server/core/notice.h"
#include "server/core/probe.h"
#include "server/core/rebuild.h"
#include "server/core/verdict.h"

struct node;
struct rdzv;

/* The node's latest READY. Written by node.c. */
struct ready {
    uint64_t epoch;        /* number of the epoch for which the node is READY; 0 if none */
    uint64_t table_digest; /* digest of the table that the node holds; 0 if none */
    uint16_t *ports;       /* nproc ports; valid after the first READY */
    char *host;            /* address of the node; "" before the first READY */
    size_t host_cap;
    struct msg_memory memory; /* state kept in memory, from READY or a later PROGRESS */
};

/* Returns true if the node could be in the next epoch at present. */
bool node_is_ready(const struct node *node);
/* Sets the epoch for which the node is READY (0: none) and updates the job's counter. Also to be
 * called before a change of anything that node_is_ready reads. */
void ready_set(struct node *node, uint64_t epoch);
/* Size of the buffer for a host name in the node's own memory block. */
#define READY_HOST_CAP 48
/* Reserves memory for this host name. Returns 0, or TFE_ENOMEM; nothing has changed then. */
int ready_reserve(struct rdzv *r, struct node *node, const char *host) TFE_MUST_CHECK;
/* Sets the address at which the node's trainers are reached, from READY or, if the server has lost
 * its disk, from JOIN. Precondition: ready_reserve. */
void ready_learn(struct node *node, const char *host, const uint16_t *ports, size_t n_ports);
/* Sets the digest of the table that the node holds; 0: none, so the next table is sent whole. */
void ready_set_table(struct node *node, uint64_t digest);
/* Sets the state that the node keeps in memory, as it reports, and updates the job's total. A
 * report about a future epoch is ignored. */
void ready_set_memory(struct node *node, const struct msg_memory *memory);

/* TensorFlow version of a job. Written by node.c. */
struct version {
    struct tfe_id text; /* version of TensorFlow that the nodes of the job have reported, or "" */
    uint32_t n_nodes;   /* number of nodes that have reported it */
};

/* Notes the version that the node reports (NULL: unknown). Returns true if the node was refused
 * because the other nodes have another version. */
bool version_note(struct rdzv *r, struct node *node, const char *text);

/* Connection of a node. Written by node.c. */
struct node_session {
    uint32_t number;         /* number of the session, or NO_SESSION */
    uint32_t sent_spread_ms; /* latest reconnect spread sent to the node on this connection */
    uint64_t visit; /* number of the connection, never reused, whereas session numbers are */
    uint64_t wait;  /* number of the text about its wait that the node has received; view.c */
    bool has_wait;  /* that text says that the node waits */
};

/* Process ids of a node, for display. Written by on_trainer.c. */
struct node_processes {
    uint32_t guard_pid;
    uint32_t n_trainer_pids;
    uint32_t n_standby_pids;
    uint32_t *trainer_pids; /* nproc entries each, in the node's own memory block */
    uint32_t *standby_pids;
};

/* A node is connected (it has a session), suspect (it has a lease and no session) or gone (no
 * lease). A node that is gone is kept only while it has a slot in the current epoch, because the
 * next epoch depends on what became of its trainers. */
struct node {
    /* The fields that a renewal reads, next to each other: with thousands of nodes each one is cold
     * memory when its renewal arrives. */
    struct job *job;
    struct lease lease;
    struct node_session session;
    struct slot slot;

    RB_ENTRY(node) by_id;
    struct node *next_dead; /* next in the core's list of nodes to free in the next step */
    struct tfe_id id;
    uint64_t join_order;    /* rank of seniority: smaller means longer in the job */
    uint64_t highest_epoch; /* highest epoch that this process is known to have followed */
    uint32_t pid;
    struct holder joined_by;
    bool is_gone;
    /* The following fields come from the node's JOIN. */
    bool has_role; /* the node takes replicas of that role only (--role) */
    enum tfe_task role;
    bool is_durable; /* the node's machine is not preemptible, by its own declaration */
    /* the node's machine is a spot machine, by the cloud's metadata; written by on_liveness.c,
     * cleared if another process takes the id */
    bool is_spot;
    /* a check of the node's machine fails; written by on_liveness.c, cleared as is_spot */
    bool is_unfit;
    bool has_fixed_ports;     /* the node uses the same ports in every epoch */
    bool has_version;         /* the node counts in job.version; written by node.c */
    struct tfe_id proof_hash; /* hash of the node's proof of termination, or "" */
    /* port at which the node's guard hands out the proof of termination; 0 if none */
    uint16_t guard_port;
    char *name;
    struct ready ready;
    struct notice notice;
    struct probing probing;
    struct quarantine quarantine;
    struct report report;
    struct node_processes processes;
};

RB_HEAD(node_tree, node);
int node_compare(const struct node *a, const struct node *b);
RB_PROTOTYPE(node_tree, node, by_id, node_compare)

static inline bool node_is_connected(const struct node *node)
{
    return node->session.number != NO_SESSION;
}

static inline bool node_is_member(const struct node *node)
{
    return node->slot.index != NO_SLOT;
}

/* Allocates a node with everything that it needs, except a host name longer than READY_HOST_CAP,
 * in one block. Sets its id, not its job. Returns NULL if out of memory. Precondition: id is valid,
 * name is at most TFE_LABEL_MAX long. */
struct node *node_new(struct rdzv *r, const char *id, const char *name, uint32_t nproc);
/* Frees a node that is in no tree and to which nothing points. NULL is allowed. */
void node_free(struct rdzv *r, struct node *node);
struct node *node_find(struct job *job, const char *id);
/* Inserts the node into its job's tree. Precondition: no node there has its id. */
void node_insert(struct job *job, struct node *node);
/* Raises the highest epoch that the node has followed, as it reported or because it has started
 * it. */
void node_note_epoch(struct node *node, uint64_t epoch);
/* Sets the hash of the node's proof of termination and the port where to get it. hash NULL or ""
 * means that there is none. */
void node_set_proof(struct node *node, const char *hash, uint16_t guard_port);
/* Returns the time over which the nodes of the job spread their reconnects after a lost connection,
 * given this ttl (design 6). */
uint32_t node_spread_ms(const struct node *node, uint32_t ttl_ms);

/* --- connection ------------------------------------------------------------------------------- */

/* Attaches the node to a session and grants it a lease. */
void node_attach(struct rdzv *r, struct node *node, uint32_t session);
/* Detaches the node from its session. Its READY becomes void. */
void node_detach(struct rdzv *r, struct node *node);
/* Removes the node: it has neither lease nor session any more. A member stays in the tree, marked
 * as gone, until the next epoch. */
void node_remove(struct rdzv *r, struct node *node);
/* Removes a node and, if it is connected, sends it REFUSED. The reason is in r->sentence. */
void node_refuse(struct rdzv *r, struct node *node, enum tfe_refusal code);
/* Sends PREPARE for the next epoch, which also asks the node to answer probes if its address must
 * be verified. */
void node_prepare(struct rdzv *r, struct node *node);
/* Notes the reconnect spread (node_spread_ms) that is sent to the node now, and returns it. */
uint32_t node_note_spread(struct node *node, uint32_t spread_ms);

#endif
