/* tests/sim/probing.h: one machine tries another one's ports: who answers, accepts, refuses, or is
 * not there. */
#ifndef TFE_TESTS_SIM_PROBING_H
#define TFE_TESTS_SIM_PROBING_H

#include "common/message/msg.h"
#include "tests/sim/node.h"
#include "tests/sim/world.h"

/* The agent of this machine carries out a PROBE; what came of it reaches its core as AGENT_PROBED.
 */
void probing_try(struct world *w, struct node *prober, const struct msg_probe *probe);
void probing_free(struct world *w);

/* The address of a machine, and which machine has an address (NAMES_NONE: none). */
#define PROBING_HOST_MAX 16
void probing_host(uint32_t node, char host[PROBING_HOST_MAX]);
uint32_t probing_machine(const struct world *w, const char *host);

#endif
