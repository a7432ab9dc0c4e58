/* tests/sim/judge.h: oracle: checks the server's decisions against the true state of machines and
 * time: which epochs it stops, which node leads, what its ledger contains. */
#ifndef TFE_TESTS_SIM_JUDGE_H
#define TFE_TESTS_SIM_JUDGE_H

#include "agent/core/agent.h"
#include "server/core/rdzv.h"
#include "tests/sim/cluster.h"

void judge_free(struct world *w);

/* Something has disturbed the machine, or has ended, and may have consequences for a while. */
void judge_disturbed(struct world *w, uint32_t node);
/* The cluster makes its first step now. */
void judge_trains(struct world *w, struct cluster *c);
/* The cluster makes a step again, with a restarted worker or without it, and only ends of trainers
 * came before. */
void judge_trains_again(struct world *w, struct cluster *c);
/* A server has started with what is on the disk. */
void judge_restart(struct world *w);
/* The server sends STOP of the epoch to this node. */
void judge_stop(struct world *w, uint32_t node, uint64_t epoch, bool planned);
/* Returns true if that STOP only drains a worker without which the epoch goes on. */
bool judge_drains(struct world *w, uint32_t node, uint64_t epoch);
/* The server ends the epoch. If planned, a disconnected node learns of it when it reconnects.
 * by_loss: because a node was lost. */
void judge_switch(struct world *w, uint32_t job, uint64_t epoch, bool planned, bool by_loss);
/* An operator cancels the job, which is in this epoch. */
void judge_stopping(struct world *w, uint32_t job, uint64_t epoch);
/* The cluster breaks. */
void judge_breaks(struct world *w, const struct cluster *c, const char *reason);
/* The server ends a lease; reports that it waits once more in this epoch. */
void judge_lost(struct world *w, uint32_t job, uint64_t epoch, uint32_t node);
void judge_massed(struct world *w, uint32_t job, uint64_t epoch);
/* Returns true if nothing would prevent the node from following a notice with this much time. */
bool judge_can_follow(struct world *w, uint32_t node, int64_t ms);
/* The node is told a notice with this much time. */
void judge_notice(struct world *w, uint32_t node, int64_t ms);
/* Checks, while there are no faults, all nodes that still have to leave and whose epoch nothing
 * disturbs. Returns true if any of them trains. */
bool judge_leaving(struct world *w);
/* The first trainer of an epoch starts and knows its table. */
void judge_forms(struct world *w, const struct cluster *c, const struct agent_place *place);

/* The server forms the epoch; now: time on its clock. */
void judge_chosen(struct world *w, uint32_t job, uint64_t epoch, int64_t now);
void judge_adopted(struct world *w, uint32_t job, uint64_t epoch);
/* The server rebuilds the epoch of a job whose record is lost from its members' reports. */
void judge_rebuilt(struct world *w, uint32_t job, uint64_t epoch);
/* The server has come back without the job's newest record: nodes may run an epoch that it does not
 * know. */
void judge_record_lost(struct world *w, uint32_t job);
/* The server has received the JOIN of the node; has admitted it. */
void judge_joins(struct world *w, uint32_t node, const struct msg_join *join);
void judge_welcomed(struct world *w, uint32_t node);
/* The server probes a node; receives a result or a proof of termination; considers the node with
 * this id dead. */
void judge_asks(struct world *w, const struct msg_probe *probe);
void judge_answered(struct world *w, const struct msg_probed *probed);
void judge_buries(struct world *w);
void judge_dead(struct world *w, const char *id);
/* A switch waits for a fence. */
void judge_fence(struct world *w, uint32_t job);
void judge_waits(struct world *w, uint32_t job);
void judge_formed(struct world *w, uint32_t job, uint64_t epoch);
void judge_ledger(struct world *w, uint32_t job, const struct rdzv_ledger *ledger, int64_t now);

#endif
