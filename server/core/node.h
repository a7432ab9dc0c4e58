/* server/core/node.h: one agent process, put together from its parts. */
#ifndef TFE_SERVER_CORE_NODE_H
#define TFE_SERVER_CORE_NODE_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/message/msg.h"
#include "server/core/core.h"
#include "server/core/lease.h"
#include "server/core/notice.h"
#include "server/core/probe.h"
#include "server/core/quarantine.h"
#include "server/core/ready.h"
#include "server/core/rebuild.h"
#include "server/core/room.h"
#include "server/core/seat.h"

/* Its connection. Written by presence.c. */
struct node_session {
    uint32_t number;         /* or NO_SESSION */
    uint32_t told_spread_ms; /* the last that it was told, on this visit */
    uint64_t visit;          /* tells its connections apart: their numbers come again */
};

/* Which process ids it has, for those who look. Written by on_processes.c.
 */
struct node_processes {
    uint32_t guard_pid;
    uint32_t n_trainer_pids;
    uint32_t n_standby_pids;
    uint32_t *trainer_pids; /* nproc each, in this node's own block */
    uint32_t *standby_pids;
};

/* Three ways of being: connected (session), suspect (a lease but no session), and gone (no lease;
 * kept only while it has a seat in the current epoch, because a new epoch must know what became of
 * its trainers). */
struct node {
    /* What a renewal looks at, side by side: of thousands of nodes, each is cold memory when its
     * turn comes. */
    struct job *job;
    struct lease lease;
    struct node_session session;
    struct seat seat;

    RB_ENTRY(node) by_id;
    struct node *next_dead; /* on the core's list of what the next step frees */
    struct tfe_id id;
    uint64_t join_order;    /* smaller: longer in the job */
    uint64_t highest_epoch; /* that this process has followed, for all that is known */
    uint32_t pid;
    struct holder joined_by;
    bool is_gone;
    /* As its JOIN said. */
    bool has_role; /* it takes places of that role and no other */
    enum tfe_task role;
    bool is_durable;          /* its machine is not one of those that go away */
    bool is_spot;             /* the cloud says that it is; written by on_facts.c, forgotten with
                                 the process */
    bool has_fixed_ports;     /* the same in every epoch */
    bool has_version;         /* its job's; written by version.c and presence.c */
    struct tfe_id proof_hash; /* of its death certificate; "": it has none */
    uint16_t guard_port;      /* where that may be had; 0: nowhere */
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
    return node->seat.index != NO_SEAT;
}

/* One block with everything the node will ever need, but for the long name of a host; its id is
 * set, its job is not. NULL: out of memory. Preconditions: id is valid, name is within
 * TFE_LABEL_MAX. */
struct node *node_new(struct rdzv *r, const char *id, const char *name, uint32_t nproc);
/* NULL is fine. It is in no tree, and nothing points to it. */
void node_free(struct rdzv *r, struct node *node);
struct node *node_find(struct job *job, const char *id);
/* Into its job's tree, in which no other has its id. */
void node_insert(struct job *job, struct node *node);
/* The highest epoch that it has followed: by its own word, or because it has started it. */
void node_note_epoch(struct node *node, uint64_t epoch);
/* What proves that all it ran is dead, and where that may be had; hash NULL or "": nothing does. */
void node_note_death(struct node *node, const char *hash, uint16_t guard_port);
/* Within what time it is to come back when its connection breaks, with a ttl of that length
 * (design 6). */
uint32_t node_spread_ms(const struct node *node, uint32_t ttl_ms);

#endif
