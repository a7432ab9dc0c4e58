/* tests/unit/server/pool_fixture.h: a server (fixture.h) with nodes of its pool, agents of its jobs
 * and operators, which are clients over loopback; clocks and timers are the test's, and the disk
 * can refuse writes. */
#ifndef TFE_TESTS_UNIT_SERVER_POOL_FIXTURE_H
#define TFE_TESTS_UNIT_SERVER_POOL_FIXTURE_H

#include "server/jobs/pool_private.h"
#include "tests/unit/server/fixture.h"

enum { POOL_NODES = 4, POOL_AGENTS = 2 };

#define POOL_TTL_MS 10000
/* Lease of a node whose clock runs fast, plus a margin of 50 ms. */
#define POOL_LEASE_MS (10000 + 1060 + 50)

extern struct fixture server;

int pool_fixture_begin(void **state);
int pool_fixture_end(void **state);
/* Restarts the server. All connections end. */
void server_restart(void);

/* While refused, each write to the database fails with "disk full". */
void disk_refuses(bool is_refused);
/* true: blocks the writer thread once it has done what it was given before; false: lets it go on,
 * in the order of at most two such calls. */
void disk_hangs(bool is_hung);

/* Runs the server until everything that is due is done, including writes, unless the disk hangs. */
void server_settle(void);
/* Lets time pass; connected nodes and agents renew their leases every 2 s, except mute nodes. */
void server_pass(int64_t ms);

/* --- nodes ------------------------------------------------------------------------------------ */

/* Node i connects, with a label (NULL for none), while it works for this assignment; assignments
 * count from 1, and 0 is none. */
void node_comes(unsigned i, const char *label, uint64_t assignment);
/* Its connection ends. */
void node_leaves(unsigned i);
void node_is_mute(unsigned i);
/* Returns true if the server has closed its connection. */
bool node_is_closed(unsigned i);
void node_sends(unsigned i, struct tfe_msg msg);
void node_freed(unsigned i, uint64_t assignment, uint32_t code);
/* Returns the server's node, or NULL. */
struct pool_node *node_of(unsigned i);

/* Returns the messages that nodes have received since the last call, such as "0:assign 1 j any; ".
 */
const char *nodes_heard(void);
void nodes_heard_is(const char *expected);

/* --- jobs ------------------------------------------------------------------------------------- */

/* A job to submit. */
struct submitted {
    const char *name;
    uint32_t min_nodes, max_nodes;
    const char *fields; /* further members of the job file, "'ps': 1, 'chief': true"; or "" */
};

struct submitted spec_of(const char *name, uint32_t min, uint32_t max);
/* Executes an order of an admin. Returns "done", the refusal with its sentence, or "" if there is
 * no response yet. */
const char *server_order(struct tfe_msg msg);
const char *server_submit(struct submitted spec);
const char *server_order_about(enum tfe_msg_type type, const char *job);
/* Connects max nodes, submits the job, and discards the messages. */
void server_place(struct submitted spec);
struct pool_job *job_of(const char *name);
/* Returns the job's state as users see it, or "gone". */
const char *state_of(const char *job);
/* Returns the reason of its present condition, and its message. */
const char *condition_of(const char *job);
struct msg_status_job row_of(const char *job);

/* Agents 0 to n - 1 join the job and train. */
void agents_run(const char *job, uint32_t n);
/* The trainer of this rank ends. */
void rank_exits(uint32_t rank, uint32_t code);
void agent_leaves(unsigned i);

#endif
