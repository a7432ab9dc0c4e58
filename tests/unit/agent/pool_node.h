/* tests/unit/agent/pool_node.h: a node of the pool, pool_run whole, but for the loop, whose place
 * the story takes. The connection, the agents below it, the files and the directories of jobs are
 * the story's, as is the clock; what is done to them is written down. */
#ifndef TFE_TESTS_UNIT_AGENT_POOL_NODE_H
#define TFE_TESTS_UNIT_AGENT_POOL_NODE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_settings.h"
#include "agent/pool/child.h"
#include "agent/pool/files.h"
#include "agent/uplink.h"
#include "tests/unit/test_runner.h"

extern struct pool_node_bench {
    struct agent_settings settings; /* of the node */
    struct event_base *base;
    void (*story)(void);
    char said[4096];
    bool is_over; /* the loop was left */
    uplink_event_fn *on_event;
    void *ctx;
    event_callback_fn on_signal;
    void *signal_ctx;
    struct pool_child_options child; /* options of the running child */
    bool has_child;
    bool is_dead, is_stuck; /* the child has ended; its descendants have not, or cannot */
    bool starts, lays;      /* whether that can be done */
    bool has_scratch, has_files;
    struct files_options files;
    bool enters;         /* whether a container can be described */
    unsigned neighbours; /* of the last scratch */
    bool is_running;     /* what clouds are told of: whether trainers do */
    char job_root[64];
    uint32_t azure_ms; /* between two questions of its watch */
} node;

int node_begin(void **state);
/* Nothing of a job is left. */
int node_end(void **state);

/* Runs the node in its slot; its exit code. */
int node_run_slot(void (*story)(void), uint32_t slot);
int node_run(void (*story)(void)); /* the first one */

/* What it has said and done since the last of these; quiet: whatever that is. */
void node_said_is(const char *expected);
void node_quiet(void);

/* Time passes, and what is due on the way happens. */
void node_pass(int64_t ms);
void node_signal_comes(int signo);

/* Of its connection. */
void node_connected(void);
void node_disconnected_by(enum agent_link how);
void node_disconnected(void);

/* What the server says. */
void node_message(struct tfe_msg msg);
void node_welcome(void);
struct tfe_msg node_assign(uint64_t assignment);
void node_assigned(uint64_t assignment);
void node_released(uint64_t assignment, uint32_t within_ms, enum tfe_out out, bool is_over);

/* The agent below it has ended. */
void node_ended(uint32_t code);

/* It is connected and welcome. */
void node_up(void);
/* It works for that. */
void node_works(uint64_t assignment);
/* It ends by a signal: nothing is left, and so it leaves. */
void node_leaves(void);

#endif
