/* server/core/ready.h: contents of a node's READY: epoch, ports, cluster table, state kept in
 * memory. */
#ifndef TFE_SERVER_CORE_READY_H
#define TFE_SERVER_CORE_READY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/message/msg.h"

struct node;
struct rdzv;

/* The node's latest READY. Written by ready.c. */
struct ready {
    uint64_t epoch;        /* number of the epoch for which the node is READY; 0 if none */
    uint64_t table_digest; /* digest of the table that the node holds; 0 if none */
    uint16_t *ports;       /* nproc ports; valid after the first READY */
    char *host;            /* address of the node; "" before the first READY */
    size_t host_room;
    struct msg_memory memory; /* state kept in memory, from READY or a later PROGRESS */
};

/* Returns true if the node could be in the next epoch at present. */
bool node_is_ready(const struct node *node);
/* Sets the epoch for which the node is READY (0: none) and updates the job's counter. Also to be
 * called before a change of anything that node_is_ready reads. */
void ready_set(struct node *node, uint64_t epoch);
/* Size of the buffer for a host name in the node's own memory block. */
#define READY_HOST_ROOM 48
/* Reserves memory for this host name. Returns 0, or TFE_ENOMEM; nothing has changed then. */
int ready_reserve(struct rdzv *r, struct node *node, const char *host) TFE_MUST_CHECK;
/* Frees a host name that is not in the node's own memory block. */
void ready_done(struct rdzv *r, struct node *node);
/* Sets the address at which the node's trainers are reached, from READY or, if the server has lost
 * its disk, from JOIN. Precondition: ready_reserve. */
void ready_learn(struct node *node, const char *host, const uint16_t *ports, size_t n_ports);
/* Sets the digest of the table that the node holds; 0: none, so the next table is sent whole. */
void ready_set_table(struct node *node, uint64_t digest);
/* Sets the state that the node keeps in memory, as it reports, and updates the job's total. A
 * report about a future epoch is ignored. */
void ready_set_memory(struct node *node, const struct msg_memory *memory);

#endif
