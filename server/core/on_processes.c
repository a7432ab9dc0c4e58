/* server/core/on_processes.c: PROCESSES: process ids of a node, for display. */
#include "server/core/job.h"
#include "server/core/on.h"

int on_processes(struct rdzv *r, struct node *node, const struct msg_processes *processes)
{
    struct node_processes *p = &node->processes;
    size_t max = node->job->spec.nproc;
    if (processes->n_trainer_pids > max || processes->n_standby_pids > max) {
        return TFE_EINVAL;
    }
    p->guard_pid = processes->guard_pid;
    p->n_trainer_pids = (uint32_t)processes->n_trainer_pids;
    p->n_standby_pids = (uint32_t)processes->n_standby_pids;
    for (uint32_t i = 0; i < p->n_trainer_pids; i++) {
        p->trainer_pids[i] = processes->trainer_pids[i];
    }
    for (uint32_t i = 0; i < p->n_standby_pids; i++) {
        p->standby_pids[i] = processes->standby_pids[i];
    }
    return 0;
}
