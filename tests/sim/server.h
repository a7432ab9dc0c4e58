/* tests/sim/server.h: I/O layer of the rendezvous core in the simulator. */
#ifndef TFE_TESTS_SIM_SERVER_H
#define TFE_TESTS_SIM_SERVER_H

#include "common/message/msg.h"
#include "server/core/rdzv.h"
#include "tests/sim/world.h"

/* Creates a server, which is not running yet. config.incarnation is set at every start. */
struct server *server_new(struct world *w, const struct rdzv_config *config);
void server_free(struct world *w);
struct rdzv_config *server_config(struct world *w);

bool server_is_up(const struct world *w);
/* Kills the server: its memory is lost and its connections end. Of the writes under way the first
 * `kept` are on disk. */
void server_kill(struct world *w, uint32_t kept);
void server_start(struct world *w);
/* Makes one iteration of the server's loop take this long: nothing is read and no timer runs
 * meanwhile. */
void server_be_late(struct world *w, int64_t ms);
/* Returns true if an allocation is about to fail, or the server is late or down. */
bool server_is_disturbed(const struct world *w);
/* Returns true if a lease of the node ended while the server was late, which has had no time to
 * extend it. */
bool server_late_for(const struct world *w, const struct node *node);
int64_t server_late_until(const struct world *w);
/* Returns what the server's clock shows. */
struct tfe_mono server_clock(const struct world *w);
/* Returns when the server's clock shows ms more than it did at `since`. */
int64_t server_when(const struct world *w, int64_t since, int64_t ms);
/* Returns the longest lease that may have been granted so far; leases get longer if there are
 * many. */
uint32_t server_longest_lease_ms(const struct world *w);
/* Returns the longest time that the server may wait for a fence that is granted now. */
int64_t server_longest_fence_ms(const struct world *w);
/* Sets the rate of the server's clock; 1,000,000 is exact. */
void server_set_rate(struct world *w, int64_t ppm);
/* Commands of operators: RDZV_DRAIN, RDZV_EVICT (node: its id), RDZV_STOP_JOB, RDZV_RESIZE; ignored
 * if the job or node does not exist. */
void server_resize(struct world *w, const char *job, uint32_t min, uint32_t max);
void server_order(struct world *w, enum rdzv_event_type order, const char *job, const char *node);
/* Drains the node within this time; MSG_UNSET: at a convenient time. */
void server_drain(struct world *w, const char *job, const char *node, uint32_t within_ms);
/* Makes the k-th allocation from now on fail. */
void server_fail_memory(struct world *w, uint64_t k);
/* Returns the core for inspection, or NULL while the server is down. */
const struct rdzv *server_core(const struct world *w);

/* Delivers a message of a hostile member, as if received, on one of its SERVER_HOSTILE_MAX
 * connections, which is opened if needed. msg NULL ends the connection. Ignored while the server
 * cannot receive. */
#define SERVER_HOSTILE_MAX 4
void server_hostile(struct world *w, uint32_t place, const struct tfe_msg *msg);
/* Returns the number of the job's epoch at the server; 0 if none. */
uint64_t server_epoch(const struct world *w, const char *job);

/* Events from the net. */
bool server_accept(struct world *w, uint32_t conn);
void server_receive(struct world *w, uint32_t conn, const struct tfe_msg *msg);
void server_hung_up(struct world *w, uint32_t conn);

/* Events from the disk. */
void server_written(struct world *w, const char *job, uint64_t sequence, bool ok);

#endif
