/* tests/sim/node_agent.h: between node.c (the machine) and node_agent.c (the agent's shell). */
#ifndef TFE_TESTS_SIM_NODE_AGENT_H
#define TFE_TESTS_SIM_NODE_AGENT_H

#include "tests/sim/node.h"

/* --- node_agent.c --- */
void node_agent_begin(struct world *w, struct node *n, uint32_t job);
/* The process is gone; its connection has been dealt with. */
void node_agent_end(struct world *w, struct node *n);
/* Into the core now. */
void node_agent_event(struct world *w, struct node *n, const struct agent_event *event);
/* A report of the machine's to the agent's core. */
struct node_report {
    enum agent_event_type type;
    uint64_t epoch;
    uint32_t local;
    uint32_t code, signal; /* TRAINER_EXITED; IDLE: 1, it is */
    bool is_own;           /* … and it was the trainer's own fault */
};
/* It reaches the core after so long, once the agent can run. Lost with the process. */
void node_agent_later(struct world *w, struct node *n, int64_t ms, struct node_report report);
/* Its timer, by its clock as it is now. */
void node_agent_arm(struct world *w, struct node *n);

/* --- node.c --- */
void node_wait(struct node *n, const struct sim_event *event);
void node_set_fence(struct world *w, struct node *n, struct tfe_mono fence);
void node_check_fence(struct world *w, struct node *n);
/* grace_ms: what listens has so long to save and to end; 0: nothing has. */
void node_sweep(struct world *w, struct node *n, uint32_t grace_ms, bool in_memory);
void node_kill_trainers(struct world *w, struct node *n);
void node_guard_orphaned(struct world *w, struct node *n);

#endif
