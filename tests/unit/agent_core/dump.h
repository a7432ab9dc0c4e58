/* tests/unit/agent_core/dump.h: copies of an agent core's state, for tests that compare it
 * before and after an event. Leaves out what may change invisibly: addresses and capacity of
 * arrays, the time, and the last actions. */
#ifndef TFE_TESTS_UNIT_AGENT_CORE_DUMP_H
#define TFE_TESTS_UNIT_AGENT_CORE_DUMP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/state.h"

struct dump {
    struct agent a; /* all parts as bytes, with the parts that may change set to zero */
    char *tables;
};

/* Free the result with dump_free(). */
struct dump *dump_agent(const struct agent *a);

/* Returns a description of the first difference, or NULL if the states are equal. Frees both. */
const char *dump_difference(struct dump *one, struct dump *two);

#endif
