/* tests/unit/server_core/plan.h: progress reports and notices, for tests of planned switches. */
#ifndef TFE_TESTS_UNIT_SERVER_CORE_PLAN_H
#define TFE_TESTS_UNIT_SERVER_CORE_PLAN_H

#include "tests/unit/server_core/operator.h"

void tells(struct world *w, uint32_t session, struct msg_progress progress);

/* Reports that the node's script listens and has made this many steps. */
void listens(struct world *w, uint32_t session, uint64_t epoch, uint64_t step);

/* Reports the n-th checkpoint of the epoch, at this step; `answers` is the number of the last SAVE
 * that the script has received. */
void saved(struct world *w, uint32_t session, uint64_t epoch, uint64_t step, uint32_t n,
           uint64_t answers);
/* Reports that the node's memory keeps the state after this step, for the SAVE with number
 * `answers`. */
void keeps(struct world *w, uint32_t session, uint64_t epoch, uint64_t step, uint64_t answers);
void noticed(struct world *w, uint32_t session, enum tfe_notice kind, uint32_t within_ms);
void notice_withdrawn(struct world *w, uint32_t session, enum tfe_notice kind);

/* All members of the epoch receive STOP, end, and are READY again. */
void switch_over(struct world *w, uint32_t first, uint32_t n, uint64_t epoch);

#endif
