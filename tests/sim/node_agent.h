/* tests/sim/node_agent.h: interface between node.c (the machine) and node_agent.c (the agent's I/O
 * layer). */
#ifndef TFE_TESTS_SIM_NODE_AGENT_H
#define TFE_TESTS_SIM_NODE_AGENT_H

#include "tests/sim/node.h"

/* --- node_agent.c --- */
void node_agent_begin(struct world *w, struct node *n, uint32_t job);
/* The process is gone; its connection has been handled. */
void node_agent_end(struct world *w, struct node *n);
/* Passes the event to the core now. */
void node_agent_event(struct world *w, struct node *n, const struct agent_event *event);
/* A report of the machine to the agent's core. */
struct node_report {
    enum agent_event_type type;
    uint64_t epoch;
    uint32_t local;
    uint32_t code, signal; /* for TRAINER_EXITED; for IDLE code 1 means idle */
    bool is_own;           /* the exit was the trainer's own fault */
};
/* Passes the report to the core after ms, once the agent can run. Lost if the process ends. */
void node_agent_later(struct world *w, struct node *n, int64_t ms, struct node_report report);
/* Sets the core's timer by the node's present clock. */
void node_agent_arm(struct world *w, struct node *n);

/* --- node.c --- */
void node_wait(struct node *n, const struct sim_event *event);
void node_set_fence(struct world *w, struct node *n, struct tfe_mono fence);
void node_check_fence(struct world *w, struct node *n);
/* Kills the node's trainers. grace_ms: time that listening trainers have to save and end; 0:
 * none. */
void node_sweep(struct world *w, struct node *n, uint32_t grace_ms, bool in_memory);
void node_kill_trainers(struct world *w, struct node *n);
void node_guard_orphaned(struct world *w, struct node *n);

#endif
