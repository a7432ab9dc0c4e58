/* server/core/ready.h: what a node was READY with: the epoch, the ports, the table it holds, the
 * state that its memory keeps. */
#ifndef TFE_SERVER_CORE_READY_H
#define TFE_SERVER_CORE_READY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/message/msg.h"

struct node;
struct rdzv;

/* Written by ready.c. */
struct ready {
    uint64_t epoch;        /* its READY; 0 none */
    uint64_t table_digest; /* of the table it said it holds; 0 none */
    uint16_t *ports;       /* nproc; valid once it has been ready */
    char *host;            /* "" before the first READY */
    size_t host_room;
    struct msg_memory memory; /* … or a later PROGRESS */
};

/* Whether it could be in the next epoch as things stand. */
bool node_is_ready(const struct node *node);
/* READY for this epoch, or (0) no more; the job counts. Also before something changes that
 * node_is_ready looks at. */
void ready_set(struct node *node, uint64_t epoch);
/* Names of hosts that are no longer than most lie in the node's own block. */
#define READY_HOST_ROOM 48
/* Room for this one. TFE_ENOMEM: nothing changed. */
int ready_reserve(struct rdzv *r, struct node *node, const char *host) TFE_MUST_CHECK;
/* Frees what lies outside of its block. */
void ready_done(struct rdzv *r, struct node *node);
/* Precondition: ready_reserve. Where its trainers are reached, by its READY or, where a server has
 * lost its disk, its JOIN. */
void ready_learn(struct node *node, const char *host, const uint16_t *ports, size_t n_ports);
/* The table that it holds; 0: none, all of the next one has to be told. */
void ready_set_table(struct node *node, uint64_t digest);
/* What its memory keeps, by its own word: of an epoch to come nothing can be there. The job adds up
 * how much it is. */
void ready_set_memory(struct node *node, const struct msg_memory *memory);

#endif
