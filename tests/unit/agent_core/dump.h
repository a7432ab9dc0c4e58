/* tests/unit/agent_core/dump.h: what an agent's core knows, kept to be compared: for stories in
 * which nothing may have changed. Left out is what may move without anybody noticing: room that was
 * reserved and where it lies, the time itself, and the last actions. */
#ifndef TFE_TESTS_UNIT_AGENT_CORE_DUMP_H
#define TFE_TESTS_UNIT_AGENT_CORE_DUMP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/state.h"

struct dump {
    struct agent a; /* bytes of every part, what may move cleared */
    char *tables;
};

/* dump_free() it. */
struct dump *dump_agent(const struct agent *a);

/* What differs; NULL: nothing. Frees both. */
const char *dump_difference(struct dump *one, struct dump *two);

#endif
