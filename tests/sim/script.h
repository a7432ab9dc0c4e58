/* tests/sim/script.h: scripts that are on the agent's channel: they tell how far they are, save
 * when asked to, and may use the grace of a planned stop. */
#ifndef TFE_TESTS_SIM_SCRIPT_H
#define TFE_TESTS_SIM_SCRIPT_H

#include "tests/sim/cluster.h"

/* Its trainer listens: the script says hello. */
void script_up(struct world *w, struct node *node, uint32_t local);
/* The server sends a STOP of this epoch. */
void script_stop_sent(struct world *w, uint32_t job, uint64_t epoch, bool planned);
/* The server tells this node that its job is over: an evaluator that it has stopped as planned need
 * not be through with its grace by then. */
void script_finish_sent(struct world *w, uint32_t node);
/* A fault begins on this machine (NAMES_NONE: everywhere): no planned end is judged there. */
void script_disturb(struct world *w, uint32_t node);
/* All of its ranks know where it goes on. */
void script_goes_on(struct world *w, struct cluster *c);
/* A step is done; with it a checkpoint, if saved. */
void script_stepped(struct world *w, struct cluster *c, bool saved);
/* The last step was done: each rank's script is through, and its process has yet to end. */
void script_ends(struct world *w, struct cluster *c);
/* The agent hands on a SAVE; to no trainer of another epoch. Its deadline is on the machine's
 * clock. */
void script_ask(struct world *w, struct node *node, const struct agent_action *save);
/* The server says that what it asked the scripts of this epoch to save is saved. */
void script_confirmed(struct world *w, uint32_t job, uint64_t epoch);
/* The trainers of the node are to end: those that listen have so long, the others are killed at
 * once. in_memory: what is kept there need not be saved. */
void script_stop(struct world *w, struct node *node, uint32_t grace_ms, bool in_memory);
/* From which step the next epoch can go on, by the disk or by who has no notice. */
uint64_t script_safe_step(struct world *w, const struct cluster *c);
/* Whether a member was warned so late that the server cannot have heard of it when it took the
 * state for saved: what memory keeps may go with it. */
bool script_is_news(struct world *w, const struct cluster *c);

#endif
