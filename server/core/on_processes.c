/* server/core/on_processes.c: PROCESSES: which process ids a node has, for those who look. */
#include <string.h>

#include "server/core/core.h"
#include "server/core/events.h"

int on_processes(struct rdzv *r, struct node *node, const struct msg_processes *processes)
{
    (void)r;
    if (processes->n_trainer_pids > node->job->nproc ||
        processes->n_standby_pids > node->job->nproc) {
        return TFE_EINVAL;
    }
    node->guard_pid = processes->guard_pid;
    node->n_trainer_pids = (uint32_t)processes->n_trainer_pids;
    node->n_standby_pids = (uint32_t)processes->n_standby_pids;
    for (uint32_t i = 0; i < node->n_trainer_pids; i++) {
        node->trainer_pids[i] = processes->trainer_pids[i];
    }
    for (uint32_t i = 0; i < node->n_standby_pids; i++) {
        node->standby_pids[i] = processes->standby_pids[i];
    }
    return 0;
}
