/* agent/core/processes.h: the process ids on this node, which the server shows to operators. */
#ifndef TFE_AGENT_CORE_PROCESSES_H
#define TFE_AGENT_CORE_PROCESSES_H

#include "agent/core/step_context.h"

enum process_kind { PROCESS_TRAINER, PROCESS_STANDBY, PROCESS__KINDS };

struct processes {
    uint32_t guard;
    bool guard_lost; /* the guard died and has no replacement yet, so no process can be started */
    uint32_t pids[PROCESS__KINDS][MSG_NPROC_MAX]; /* by local rank; 0 if none */
    /* arrays that the last PROCESSES message points to */
    uint32_t live[PROCESS__KINDS][MSG_NPROC_MAX];
    bool is_sent; /* the server has the current pids */
};

void processes_guard(struct processes *p, uint32_t pid);
void processes_guard_lost(struct processes *p);
bool processes_can_start(const struct processes *p);

/* Sets the pid of a local trainer or of its standby; 0 if it has ended. Precondition: local <
 * nproc. */
void processes_set(struct processes *p, enum process_kind kind, uint32_t local, uint32_t pid);
void processes_trainers_gone(struct processes *p);

/* Marks the pids as unsent, for a new session. */
void processes_mark_unsent(struct processes *p);

/* Sends PROCESSES if the pids changed since the last message. */
void processes_send(struct processes *p, struct step_context *t);

#endif
