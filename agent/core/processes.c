/* agent/core/processes.c: implementation of processes.h. */
#include "agent/core/processes.h"

void processes_guard(struct processes *p, uint32_t pid)
{
    p->guard = pid;
    p->guard_lost = false;
    p->is_sent = false;
}

void processes_guard_lost(struct processes *p)
{
    p->guard = 0;
    p->guard_lost = true;
}

bool processes_can_start(const struct processes *p)
{
    return !p->guard_lost;
}

void processes_set(struct processes *p, enum process_kind kind, uint32_t local, uint32_t pid)
{
    p->is_sent = p->is_sent && p->pids[kind][local] == pid;
    p->pids[kind][local] = pid;
}

void processes_trainers_gone(struct processes *p)
{
    for (uint32_t local = 0; local < MSG_NPROC_MAX; local++) {
        processes_set(p, PROCESS_TRAINER, local, 0);
    }
}

void processes_mark_unsent(struct processes *p)
{
    p->is_sent = false;
}

/* Copies the pids of running processes of a kind to live; returns their number. */
static size_t gather(struct processes *p, enum process_kind kind)
{
    size_t n = 0;
    for (uint32_t local = 0; local < MSG_NPROC_MAX; local++) {
        if (p->pids[kind][local]) {
            p->live[kind][n++] = p->pids[kind][local];
        }
    }
    return n;
}

void processes_send(struct processes *p, struct step_context *t)
{
    struct tfe_msg *msg = p->is_sent ? NULL : step_send_if_up(t, MSG_PROCESSES);
    if (!msg) {
        return;
    }
    p->is_sent = true;
    msg->u.processes = (struct msg_processes){
        .guard_pid = p->guard,
        .trainer_pids = p->live[PROCESS_TRAINER],
        .n_trainer_pids = gather(p, PROCESS_TRAINER),
        .standby_pids = p->live[PROCESS_STANDBY],
        .n_standby_pids = gather(p, PROCESS_STANDBY),
    };
}
