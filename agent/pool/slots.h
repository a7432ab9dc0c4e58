/* agent/pool/slots.h: --slots: several nodes of the pool on one machine, each a process. */
#ifndef TFE_AGENT_POOL_SLOTS_H
#define TFE_AGENT_POOL_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#define SLOTS_MAX 64u

/* Forks n processes (more than one), each of which it returns true to, with its number from 0, and
 * keeps them until they have ended: signals are handed on, one that dies of a signal of its own is
 * started again. False, in the process that called it: all have ended, *ret_code is the code to
 * exit with. */
bool slots_fork(uint32_t n, uint32_t *ret_slot, int *ret_code);

#endif
