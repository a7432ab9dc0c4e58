/* tests/unit/server_core/dump.h: writes the state of a rendezvous core as text, for tests in which
 * nothing may change. Omits what may change without effect: addresses of memory, reserved capacity,
 * and the time. */
#ifndef TFE_TESTS_UNIT_SERVER_CORE_DUMP_H
#define TFE_TESTS_UNIT_SERVER_CORE_DUMP_H

#include "server/core/core.h"

/* Returns the text; the caller frees it. */
char *dump_core(struct rdzv *r);

#endif
