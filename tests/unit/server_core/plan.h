/* tests/unit/server_core/plan.h: what scripts tell and machines warn of, for stories about planned
 * switches. */
#ifndef TFE_TESTS_UNIT_SERVER_CORE_PLAN_H
#define TFE_TESTS_UNIT_SERVER_CORE_PLAN_H

#include "tests/unit/server_core/operator.h"

void tells(struct world *w, uint32_t session, struct msg_progress progress);

/* Its script is there and can be asked, and has done so many steps. */
void listens(struct world *w, uint32_t session, uint64_t epoch, uint64_t step);

/* It has saved at that step, for the n-th time in the epoch, having heard of SAVE number `answers`.
 */
void saved(struct world *w, uint32_t session, uint64_t epoch, uint64_t step, uint32_t n,
           uint64_t answers);
/* Its memory keeps the state after that step, for SAVE number `answers`. */
void keeps(struct world *w, uint32_t session, uint64_t epoch, uint64_t step, uint64_t answers);
void noticed(struct world *w, uint32_t session, enum tfe_notice kind, uint32_t within_ms);
void notice_withdrawn(struct world *w, uint32_t session, enum tfe_notice kind);

/* All of the epoch's trainers are told to stop, end, and are ready again. */
void switch_over(struct world *w, uint32_t first, uint32_t n, uint64_t epoch);

#endif
