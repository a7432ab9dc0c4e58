/* tests/unit/agent/pool_node.h: fixture: a pool node with a fake clock, in the same process as its
 * server. The connection, the job's files and the agents of jobs are real; such an agent is this
 * program, which executes the job's command. */
#ifndef TFE_TESTS_UNIT_AGENT_POOL_NODE_H
#define TFE_TESTS_UNIT_AGENT_POOL_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_settings.h"
#include "tests/unit/channel/socketpair.h"
#include "tests/unit/folder.h"

extern struct node_fixture {
    struct agent_settings settings;
    struct world server;       /* its server side is the connection of the node */
    bool is_over;              /* the node has left its event loop */
    unsigned renewals;         /* number of RENEWs that the server has received */
    bool server_is_silent;     /* it answers no RENEW */
    char received[1024];       /* messages from the node, as text */
    char folder[FOLDER_BYTES]; /* for scripts; $D in their environment */
} node;

/* Set up and tear down; the latter checks that no process and no directory of a job is left. */
int node_begin(void **state);
int node_end(void **state);

/* Starts the node in this slot. */
void node_start(uint32_t slot);
/* Ends a node that has left its event loop, and returns its exit code. */
int node_code(void);

/* Advances the time; the event loops run before and after. */
void node_pass(int64_t ms);

/* Runs the event loops until the server has received exactly these messages since the last call
 * ("" none). */
void node_sends(const char *expected);

#define NODE_UNTIL(condition)                                                                      \
    do {                                                                                           \
        const long give_up_ = folder_ms() + TIMEOUT_MS;                                            \
        while (!(condition)) {                                                                     \
            node_pass(0);                                                                          \
            if (folder_ms() > give_up_) {                                                          \
                fail_msg("%s did not come true", #condition);                                      \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* Sends a message of the server. */
void node_tell(struct tfe_msg msg);
void node_welcome(void);
/* Returns ASSIGN of a job that runs this shell script and has these fields, an object in JSON; its
 * text is valid until the next call. node_assign sends one. */
struct tfe_msg node_job(uint64_t assignment, const char *script, const char *fields);
void node_assign(uint64_t assignment, const char *script);
void node_release(uint64_t assignment, uint32_t within_ms, enum tfe_out out);

/* Chooses whether the next connections reach the server, and whether their token is its own. */
void node_reach(bool is_there, bool is_authorised);
/* Closes the server's end of the connection. */
void node_cut(void);
/* Lets the node connect, and answers its POOL. */
void node_joins(void);
/* Connects, and assigns a job that waits until a signal ends it. */
void node_works(uint64_t assignment);

/* Returns true if a script has made this file in its folder. */
bool node_has(const char *name);

#endif
