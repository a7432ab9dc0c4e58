/* tests/unit/server_core/operator.h: commands of an operator, for tests. */
#ifndef TFE_TESTS_UNIT_SERVER_CORE_OPERATOR_H
#define TFE_TESTS_UNIT_SERVER_CORE_OPERATOR_H

#include "common/base/rng.h"
#include "tests/unit/server_core/server_fixture.h"

int order(struct world *w, enum rdzv_event_type what, const char *job, const char *node);
void drain(struct world *w, const char *node);
void evict(struct world *w, const char *node);
void stop_job(struct world *w);
void trainers_stop(struct world *w, uint32_t session, uint64_t epoch);
enum tfe_node_role role_of(const struct world *w, const char *id);

#endif
