/* tests/sim/script.h: scripts on the agent's channel: they report progress, save on request, and
 * may use the grace of a planned stop. */
#ifndef TFE_TESTS_SIM_SCRIPT_H
#define TFE_TESTS_SIM_SCRIPT_H

#include "tests/sim/cluster.h"

/* The trainer listens: its script connects to the channel. */
void script_up(struct world *w, struct node *node, uint32_t local);
/* The server sends a STOP of this epoch. */
void script_stop_sent(struct world *w, uint32_t job, uint64_t epoch, bool planned);
/* The server sends FINISH to this node: an evaluator that was stopped as planned may still be
 * within its grace. */
void script_finish_sent(struct world *w, uint32_t node);
/* A fault begins on this machine (NAMES_NONE: everywhere): planned ends there are not checked. */
void script_disturb(struct world *w, uint32_t node);
/* All ranks of the cluster know from which step it continues. */
void script_goes_on(struct world *w, struct cluster *c);
/* A step is done; with a checkpoint if saved. */
void script_stepped(struct world *w, struct cluster *c, bool saved);
/* The last step is done: each rank's script has ended, and its process has yet to end. */
void script_ends(struct world *w, struct cluster *c);
/* The agent passes a SAVE to its trainers of that epoch. The deadline is on the machine's clock. */
void script_ask(struct world *w, struct node *node, const struct agent_action *save);
/* The server reports that the requested checkpoint of this epoch exists. */
void script_confirmed(struct world *w, uint32_t job, uint64_t epoch);
/* Stops the trainers of the node: those that listen have grace_ms, the others are killed at once.
 * in_memory: state kept in memory need not be saved. */
void script_stop(struct world *w, struct node *node, uint32_t grace_ms, bool in_memory);
/* Returns from which step the next epoch can continue, by the disk or the memory of nodes without
 * notice. */
uint64_t script_safe_step(struct world *w, const struct cluster *c);
/* Returns true if a member was warned so late that the server cannot have known when it considered
 * the state saved: state kept in memory may go away with it. */
bool script_is_news(struct world *w, const struct cluster *c);

#endif
