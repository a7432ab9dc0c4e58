/* server/core/ready.c: what a node was READY with: the epoch, the ports, the table it holds, the
 * state that its memory keeps. */
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
    node->ready.memory = (struct msg_memory){.bytes = memory->bytes,
                                             .has_kept = may_be,
                                             .epoch = may_be ? memory->epoch : 0,
                                             .step = may_be ? memory->step : 0};
}
