/* tests/sim/judge.h: judges the server's choices by the truth about machines and time: whom it
 * stops, who leads, what its ledger says. */
#ifndef TFE_TESTS_SIM_JUDGE_H
#define TFE_TESTS_SIM_JUDGE_H

#include "agent/core/agent.h"
#include "server/core/rdzv.h"
#include "tests/sim/cluster.h"

void judge_free(struct world *w);

/* Something has come over the machine, or has gone again, from which more may follow for a while.
 */
void judge_disturbed(struct world *w, uint32_t node);
/* The cluster makes its first step now. */
void judge_trains(struct world *w, struct cluster *c);
/* … with a worker that is back, or without it, and nothing but ends of trainers came over it. */
void judge_trains_again(struct world *w, struct cluster *c);
/* A server has begun with what is on the disk. */
void judge_restart(struct world *w);
/* The server stops the epoch on this node. */
void judge_stop(struct world *w, uint32_t node, uint64_t epoch, bool planned);
/* Whether that is for the place of one whom the others do without. */
bool judge_drains(struct world *w, uint32_t node, uint64_t epoch);
/* It ends the epoch; if planned, who is not here hears of it when it is back. by_loss: for a node
 * that was lost. */
void judge_switch(struct world *w, uint32_t job, uint64_t epoch, bool planned, bool by_loss);
/* An operator ends the job, which is in this epoch. */
void judge_stopping(struct world *w, uint32_t job, uint64_t epoch);
/* The cluster breaks. */
void judge_breaks(struct world *w, const struct cluster *c, const char *reason);
/* The server takes a lease for over; says that it waits once more in this epoch. */
void judge_lost(struct world *w, uint32_t job, uint64_t epoch, uint32_t node);
void judge_massed(struct world *w, uint32_t job, uint64_t epoch);
/* Whether nothing would be in the way of a notice with so much time. */
bool judge_can_follow(struct world *w, uint32_t node, int64_t ms);
/* … and the node is told. */
void judge_notice(struct world *w, uint32_t node, int64_t ms);
/* While no fault comes: of all who are still to go, and whose epoch nothing disturbs. Whether any
 * of them trains. */
bool judge_leaving(struct world *w);
/* The first trainer of an epoch begins, and knows its table. */
void judge_forms(struct world *w, const struct cluster *c, const struct agent_place *place);

/* The server says that it forms the epoch; now: on its clock. */
void judge_chosen(struct world *w, uint32_t job, uint64_t epoch, int64_t now);
void judge_adopted(struct world *w, uint32_t job, uint64_t epoch);
/* … of a job whose record is lost, by what those say who were in it. */
void judge_rebuilt(struct world *w, uint32_t job, uint64_t epoch);
/* The server has come back without the job's newest record: somebody may run what it does not know.
 */
void judge_record_lost(struct world *w, uint32_t job);
/* The server has its JOIN; has let it in. */
void judge_joins(struct world *w, uint32_t node, const struct msg_join *join);
void judge_welcomed(struct world *w, uint32_t node);
/* The server asks somebody about another one; hears what came of it, or a certificate; takes the
 * node with this id for dead. */
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
