/* tests/unit/server_core/dump.h: everything that a rendezvous core knows, as text: for stories in
 * which nothing may have changed. Left out is what may move without anybody noticing: addresses,
 * room that was reserved, and the time itself. */
#ifndef TFE_TESTS_UNIT_SERVER_CORE_DUMP_H
#define TFE_TESTS_UNIT_SERVER_CORE_DUMP_H

#include "server/core/core.h"

/* The caller frees it. */
char *dump_core(struct rdzv *r);

#endif
