/* agent/os/ports.h: reserves TCP ports for trainers until the trainers listen on them. */
#ifndef TFE_AGENT_OS_PORTS_H
#define TFE_AGENT_OS_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/msg.h"
#include "common/text/reason.h"

/* Two sets of ports for all trainers of this node. Odd and even epochs alternate between the
 * sets, so that a stale peer of the last epoch never reaches a trainer of the current one, and
 * each set rarely changes. Numbers come in pairs that differ in the last bit, the odd number for
 * odd epochs, so that most rows of the next table follow from the current one (see "turned" of
 * TABLE). If a neighbour is in use, any number is taken. Each port is reserved by a bound socket
 * with SO_REUSEPORT that never listens; the kernel refuses connections to it. */
struct ports;

/* Reserves ports. If fixed is 0 the kernel chooses two sets; otherwise one set, the nproc
 * ports from fixed on, serves all epochs, and each port is first bound without SO_REUSEPORT
 * to detect other users. Returns TFE_ESYS with reason ("port 5555 is in use"), or TFE_EINVAL
 * for invalid numbers. */
int ports_new(uint32_t nproc, uint16_t fixed, struct ports **ret,
              struct tfe_reason *reason) TFE_MUST_CHECK;
void ports_free(struct ports *ports);

/* Binds the set of an epoch again and stores its nproc numbers, valid until the next ports_*
 * call. fresh chooses new pairs first, unless the ports are fixed; their other halves serve the
 * other parity from its next ports_hold on. Returns TFE_ESYS with reason set. */
int ports_hold(struct ports *ports, uint64_t epoch, bool fresh, const uint16_t **ret_numbers,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* Closes the reserving sockets of the epoch's set, because its trainers listen now. */
void ports_release(struct ports *ports, uint64_t epoch);

/* Returns a non-blocking socket bound to the port (0 for any port), which only sockets with
 * SO_REUSEPORT, such as a trainer's, can share. Returns -1 with errno set. */
int ports_bind(uint16_t port);

/* Returns true if a process still accepts connections on a port of the epoch's set
 * although all trainers have been reaped; *ret_port is that port. Tries from this machine
 * and takes a few ms at most. */
bool ports_still_accepting(struct ports *ports, uint64_t epoch, uint16_t *ret_port);

#endif
