/* agent/os/ports.h: TCP ports that are kept for trainers until these listen on them themselves.
 */
#ifndef TFE_AGENT_OS_PORTS_H
#define TFE_AGENT_OS_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/message/msg.h"

/* The ports of all trainers of this node, two sets of them: epochs use the sets in turn (odd,
 * even), so that a stale peer of the last epoch never reaches a trainer of this one, and a set
 * changes seldom. The numbers come in pairs that differ in the last bit, the odd one for the odd
 * epochs: who knows the table of one epoch knows most of the next one's (TABLE's "turned"); where
 * somebody else has a neighbour, any number serves. Each port is held by a socket bound with
 * SO_REUSEPORT that never listens (a SYN to it is refused). */
struct ports;

/* fixed 0: the kernel picks two sets. Else one set, fixed … fixed+nproc-1, serves every epoch; each
 * is first bound once without SO_REUSEPORT: TFE_ESYS with why "port 5555 is in use" names the one.
 */
int ports_new(uint32_t nproc, uint16_t fixed, struct ports **ret,
              struct tfe_reason *reason) TFE_MUST_CHECK;
void ports_free(struct ports *ports);

/* The set for an epoch, nproc numbers, valid until the next ports_* call; (re)binds what was let
 * go. fresh: take new pairs first (not with fixed ports), whose other halves serve the other parity
 * from its next ports_hold on. TFE_ESYS with why. */
int ports_hold(struct ports *ports, uint64_t epoch, bool fresh, const uint16_t **ret_numbers,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* The trainers of the epoch listen: the held sockets of its set are closed. */
void ports_let_go(struct ports *ports, uint64_t epoch);

/* Binds a non-blocking socket to the port (0: of the kernel's choice) so that a trainer with
 * SO_REUSEPORT can too, and nobody without it. -1 with errno. */
int ports_bind(uint16_t port);

/* Whether something still accepts on a port of the epoch's set, from this machine, although every
 * trainer was reaped. *ret_port names it. Takes a few ms at most, does not wait for the network. */
bool ports_still_accepting(struct ports *ports, uint64_t epoch, uint16_t *ret_port);

#endif
