/* agent/core/processes.h: the process ids on this node, as operators see them. */
#ifndef TFE_AGENT_CORE_PROCESSES_H
#define TFE_AGENT_CORE_PROCESSES_H

#include "agent/core/turn.h"

enum process_kind { PROCESS_TRAINER, PROCESS_STANDBY, PROCESS__KINDS };

struct processes {
    uint32_t guard;
    bool guard_lost; /* and no new one is there yet: nothing can be started */
    uint32_t pids[PROCESS__KINDS][MSG_NPROC_MAX]; /* 0: none */
    uint32_t live[PROCESS__KINDS][MSG_NPROC_MAX]; /* what the last PROCESSES points to */
    bool is_told;                                 /* … to the server, as it is */
};

void processes_guard(struct processes *p, uint32_t pid);
void processes_guard_lost(struct processes *p);
bool processes_may_start(const struct processes *p);

/* Precondition: local is a trainer of this node. pid 0: it is gone. */
void processes_set(struct processes *p, enum process_kind kind, uint32_t local, uint32_t pid);
void processes_trainers_gone(struct processes *p);

/* A new session of the server's knows none of them. */
void processes_forget_told(struct processes *p);

/* Tells them if they have changed. */
void processes_tell(struct processes *p, struct turn *t);

#endif
