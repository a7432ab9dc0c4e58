/* tests/unit/agent/pool_node.h: fixture: runs pool_run with a function of the test in place of
 * the event loop. Connection, child agents, files, directories and clock are simulated; calls to
 * them are recorded as text. */
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
    bool is_over; /* the event loop has ended */
    uplink_event_fn *on_event;
    void *ctx;
    event_callback_fn on_signal;
    void *signal_ctx;
    struct pool_child_options child; /* options of the running child */
    bool has_child;
    /* the child has ended, and its descendants are alive or cannot be killed */
    bool is_dead, is_stuck;
    bool starts, lays; /* whether that can be done */
    bool has_scratch, has_files;
    struct files_options files;
    bool enters;         /* whether a container can be started */
    unsigned neighbours; /* of the last scratch */
    bool is_running;     /* what the cloud's sources were told: trainers are running */
    char job_root[64];
    uint32_t azure_ms; /* polling interval for Azure */
} node;

int node_begin(void **state);
/* Checks that nothing of a job is left. */
int node_end(void **state);

/* Runs the node in this slot and returns its exit code. */
int node_run_slot(void (*story)(void), uint32_t slot);
int node_run(void (*story)(void)); /* the same in slot 0 */

/* Checks and clears the record of messages and calls; the quiet variant ignores it. */
void node_said_is(const char *expected);
void node_quiet(void);

/* Advances the time and fires timers that expire. */
void node_pass(int64_t ms);
void node_signal_comes(int signo);

/* Reports that the connection is established. */
void node_connected(void);
void node_disconnected_by(enum agent_link how);
void node_disconnected(void);

/* Delivers a message from the server. */
void node_message(struct tfe_msg msg);
void node_welcome(void);
struct tfe_msg node_assign(uint64_t assignment);
void node_assigned(uint64_t assignment);
void node_released(uint64_t assignment, uint32_t within_ms, enum tfe_out out, bool is_over);

/* Reports the end of the child agent. */
void node_ended(uint32_t code);

/* Connects and delivers WELCOME. */
void node_up(void);
/* Runs an assignment up to the start of its agent. */
void node_works(uint64_t assignment);
/* Ends the idle node by a signal. */
void node_leaves(void);

#endif
