/* tests/sim/server.h: the shell of the rendezvous core in the simulator. */
#ifndef TFE_TESTS_SIM_SERVER_H
#define TFE_TESTS_SIM_SERVER_H

#include "common/message/msg.h"
#include "server/core/rdzv.h"
#include "tests/sim/world.h"

/* config.incarnation is set anew at every start. The server is not up yet. */
struct server *server_new(struct world *w, const struct rdzv_config *config);
void server_free(struct world *w);
struct rdzv_config *server_config(struct world *w);

bool server_is_up(const struct world *w);
/* What it had in memory is lost; its connections end. Of the writes under way `kept` are on disk.
 */
void server_kill(struct world *w, uint32_t kept);
void server_start(struct world *w);
/* One turn of its loop takes so long: nothing is read and no timer runs meanwhile. */
void server_be_late(struct world *w, int64_t ms);
/* An allocation is about to fail, or it is late, or not there. */
bool server_is_disturbed(const struct world *w);
/* Whether a lease of somebody heard of then ended while the server was late, which it has had no
 * time to make good. */
bool server_late_for(const struct world *w, const struct node *node);
int64_t server_late_until(const struct world *w);
/* What its clock shows. */
struct tfe_mono server_clock(const struct world *w);
/* When it shows so much more than it did at `since`. */
int64_t server_when(const struct world *w, int64_t since, int64_t ms);
/* The longest lease that may have been granted so far: it is lengthened where there are many. */
uint32_t server_longest_lease_ms(const struct world *w);
/* The longest that it may wait for a fence that is told now. */
int64_t server_longest_fence_ms(const struct world *w);
/* Rate of its clock, 1,000,000 is right. */
void server_set_rate(struct world *w, int64_t ppm);
/* RDZV_DRAIN, RDZV_EVICT (node: its id) or RDZV_STOP_JOB; what is not there is left alone. */
void server_resize(struct world *w, const char *job, uint32_t min, uint32_t max);
void server_order(struct world *w, enum rdzv_event_type order, const char *job, const char *node);
/* … and it has to be gone within so long, MSG_UNSET: as soon as is convenient. */
void server_drain(struct world *w, const char *job, const char *node, uint32_t within_ms);
/* The k-th allocation from now on fails. */
void server_fail_memory(struct world *w, uint64_t k);
/* For looking only; NULL while it is down. */
const struct rdzv *server_core(const struct world *w);

/* A message of a hostile member, if the server can hear it, as from the wire, on one of its
 * SERVER_HOSTILE_MAX connections, which is made if it is not there. msg NULL: the connection ends.
 */
#define SERVER_HOSTILE_MAX 4
void server_hostile(struct world *w, uint32_t place, const struct tfe_msg *msg);
/* The epoch in which the server has a job; 0: none. */
uint64_t server_epoch(const struct world *w, const char *job);

/* From the net. */
bool server_accept(struct world *w, uint32_t conn);
void server_receive(struct world *w, uint32_t conn, const struct tfe_msg *msg);
void server_hung_up(struct world *w, uint32_t conn);

/* From the disk. */
void server_written(struct world *w, const char *job, uint64_t sequence, bool ok);

#endif
