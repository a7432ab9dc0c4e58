/* server/core/ready.c: contents of a node's READY: epoch, ports, cluster table, state kept in
 * memory. */
#include "server/core/ready.h"

#include <string.h>

#include "server/core/job.h"

bool node_is_ready(const struct node *node)
{
    return node_is_connected(node) && !node->notice.is_leaving &&
           node->ready.epoch == epoch_next(node->job);
}

void ready_set(struct node *node, uint64_t epoch)
{
    bool was = node_is_ready(node);
    node->ready.epoch = epoch;
    bool is = node_is_ready(node);
    if (is && !was) {
        node->job->n_ready++;
    } else if (was && !is) {
        node->job->n_ready--;
    }
}

int ready_reserve(struct rdzv *r, struct node *node, const char *host)
{
    struct ready *ready = &node->ready;
    if (strlen(host) < ready->host_room) {
        return 0;
    }
    char *room = mem_new(r->mem, 1, TFE_HOST_MAX + 1);
    if (!room) {
        return TFE_ENOMEM;
    }
    memcpy(room, ready->host, strlen(ready->host) + 1);
    ready->host = room;
    ready->host_room = TFE_HOST_MAX + 1;
    return 0;
}

void ready_done(struct rdzv *r, struct node *node)
{
    if (node->ready.host_room > READY_HOST_ROOM) {
        mem_free(r->mem, node->ready.host);
    }
}

void ready_learn(struct node *node, const char *host, const uint16_t *ports, size_t n_ports)
{
    memcpy(node->ready.host, host, strlen(host) + 1);
    memcpy(node->ready.ports, ports, n_ports * sizeof(*ports));
}

void ready_set_table(struct node *node, uint64_t digest)
{
    node->ready.table_digest = digest;
}

void ready_set_memory(struct node *node, const struct msg_memory *memory)
{
    bool may_be = memory->has_kept && memory->epoch <= node->job->epoch.number;
    node->job->memory_bytes += memory->bytes - node->ready.memory.bytes;
    node->ready.memory = (struct msg_memory){.bytes = memory->bytes,
                                             .has_kept = may_be,
                                             .epoch = may_be ? memory->epoch : 0,
                                             .step = may_be ? memory->step : 0};
}
