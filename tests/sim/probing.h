/* tests/sim/probing.h: probes of one machine's ports by another: answered, accepted, refused or
 * unreachable. */
#ifndef TFE_TESTS_SIM_PROBING_H
#define TFE_TESTS_SIM_PROBING_H

#include "common/message/msg.h"
#include "tests/sim/node.h"
#include "tests/sim/world.h"

/* The machine's agent carries out a PROBE; the result reaches its core as AGENT_PROBED. */
void probing_try(struct world *w, struct node *prober, const struct msg_probe *probe);
void probing_free(struct world *w);

/* Conversion between a machine and its address (NAMES_NONE: no machine has it). */
#define PROBING_HOST_MAX 16
void probing_host(uint32_t node, char host[PROBING_HOST_MAX]);
uint32_t probing_machine(const struct world *w, const char *host);

#endif
