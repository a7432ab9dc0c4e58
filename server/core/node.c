/* server/core/node.c: a node (one agent process): its memory, its lookup, its properties. */
#include "server/core/node.h"

#include <string.h>

#include "server/core/job.h"

/* design 6: reconnects are spread so that at most this many nodes of a job reconnect per second. */
#define SPREAD_RATE 2500
#define SPREAD_LEAST_MS 100

int node_compare(const struct node *a, const struct node *b)
{
    return id_compare(&a->id, &b->id);
}

RB_GENERATE(node_tree, node, by_id, node_compare)

struct node *node_find(struct job *job, const char *id)
{
    struct node *node = id ? RB_ROOT(&job->nodes) : NULL;
    while (node) { /* as in job_find, without a whole node as key */
        int order = strcmp(id, node->id.text);
        if (order == 0) {
            break;
        }
        node = order < 0 ? RB_LEFT(node, by_id) : RB_RIGHT(node, by_id);
    }
    return node;
}

struct node *node_new(struct rdzv *r, const char *id, const char *name, uint32_t nproc)
{
    size_t name_n = strlen(name) + 1;
    size_t pids = (size_t)nproc * sizeof(uint32_t);
    size_t ports = (size_t)nproc * sizeof(uint16_t);
    char *block =
        mem_new(r->mem, 1, sizeof(struct node) + 2 * pids + ports + READY_HOST_ROOM + name_n);
    if (!block) {
        return NULL;
    }
    struct node *node = (void *)block;
    block += sizeof(*node);
    *node = (struct node){
        .lease = LEASE_NEW,
        .session.number = NO_SESSION,
        .seat = SEAT_NONE,
        .name = block + 2 * pids + ports + READY_HOST_ROOM,
        .ready.ports = (void *)(block + 2 * pids),
        .ready.host = block + 2 * pids + ports,
        .ready.host_room = READY_HOST_ROOM,
        .probing = PROBING_NEW,
        .quarantine = QUARANTINE_NEW,
        .processes = {.trainer_pids = (void *)block, .standby_pids = (void *)(block + pids)}};
    memcpy(node->name, name, name_n);
    (void)id_set(&node->id, id);
    return node;
}

void node_free(struct rdzv *r, struct node *node)
{
    if (node) {
        ready_done(r, node);
        mem_free(r->mem, node);
    }
}

void node_note_death(struct node *node, const char *hash, uint16_t guard_port)
{
    bool has = hash && id_set(&node->proof_hash, hash) == 0;
    node->guard_port = has ? guard_port : 0;
    if (!has) {
        node->proof_hash.text[0] = '\0';
    }
}

void node_insert(struct job *job, struct node *node)
{
    node->job = job;
    RB_INSERT(node_tree, &job->nodes, node);
    job->n_nodes++;
}

void node_note_epoch(struct node *node, uint64_t epoch)
{
    if (epoch > node->highest_epoch) {
        node->highest_epoch = epoch;
    }
}

uint32_t node_spread_ms(const struct node *node, uint32_t ttl_ms)
{
    uint32_t spread = node->job->n_nodes * 1000 / SPREAD_RATE;
    spread = spread < SPREAD_LEAST_MS ? SPREAD_LEAST_MS : spread;
    return spread < ttl_ms / 2 ? spread : ttl_ms / 2;
}
