/* agent/os/prober.h: tries the ports of other nodes for the server, all of a node's at once. */
#ifndef TFE_AGENT_OS_PROBER_H
#define TFE_AGENT_OS_PROBER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/message/msg.h"

struct event_base;
struct prober;

/* All of a probe, its name's resolution included, takes no longer. */
#define PROBER_MS 1000

/* More than the server asks of one node at a time (server/core/probe.c); 64 ports each. */
#define PROBER_MAX 16

/* Comes once for each probe, from the loop. */
typedef void prober_fn(void *ctx, uint64_t probe, enum tfe_probe_result result);

/* A guard that a probe names gave its node's death certificate, in hexadecimal: from the loop,
 * before or after what came of the probe itself, which does not wait for it. */
typedef void prober_death_fn(void *ctx, const char *certificate);

/* TFE_ENOMEM. */
int prober_new(struct event_base *base, prober_fn *on_done, prober_death_fn *on_death, void *ctx,
               struct prober **ret) TFE_MUST_CHECK;

/* Nothing comes of what is under way. */
void prober_free(struct prober *prober);

/* probe is copied. Link-local, multicast and unspecified addresses are never connected to, loopback
 * ones only if that is said: the result is NO_ANSWER. Where something is lacking here (memory,
 * descriptors, PROBER_MAX) the result is NO_ANSWER, which proves nothing. TFE_ENOMEM: not even that
 * can be said. */
int prober_start(struct prober *prober, const struct msg_probe *probe,
                 bool loopback) TFE_MUST_CHECK;

/* 127.0.0.0/8, ::1 */
bool prober_is_loopback(const struct sockaddr_storage *address);

#endif
