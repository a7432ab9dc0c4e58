/* agent/os/prober.h: probes the ports of other nodes for the server, all ports of
 * a node in parallel. */
#ifndef TFE_AGENT_OS_PROBER_H
#define TFE_AGENT_OS_PROBER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/message/msg.h"

struct event_base;
struct prober;

/* Timeout of a probe, including name resolution. */
#define PROBER_MS 1000

/* Maximum number of concurrent probes, of up to 64 ports each. The server requests fewer from
 * one node at a time (server/core/probe.c). */
#define PROBER_MAX 16

/* Reports the result of one probe. Called once per probe, from the event loop. */
typedef void prober_fn(void *ctx, uint64_t probe, enum tfe_probe_result result);

/* Delivers a proof of termination in hexadecimal, which the guard named in a probe gave out.
 * Called from the event loop before or after prober_fn; the probe does not wait for it. */
typedef void prober_proof_fn(void *ctx, const char *certificate);

/* Creates a prober. */
struct prober *prober_new(struct event_base *base, prober_fn *on_done, prober_proof_fn *on_proof,
                          void *ctx);

/* Cancels all probes; no callback follows. */
void prober_free(struct prober *prober);

/* Starts a probe; probe is copied. Link-local, multicast and unspecified addresses are never
 * tried, loopback addresses only if loopback is set; the result is then NO_ANSWER. A lack of
 * memory, descriptors or slots also gives NO_ANSWER, which proves nothing. Returns TFE_ENOMEM if
 * not even that result can be reported. */
int prober_start(struct prober *prober, const struct msg_probe *probe,
                 bool loopback) TFE_MUST_CHECK;

/* Returns true for addresses in 127.0.0.0/8 and for ::1. */
bool prober_is_loopback(const struct sockaddr_storage *address);

#endif
