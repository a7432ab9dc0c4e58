/* agent/pool/slots.h: runs several pool nodes on one machine, each as a process (--slots). */
#ifndef TFE_AGENT_POOL_SLOTS_H
#define TFE_AGENT_POOL_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#define SLOTS_MAX 64u

/* Forks n > 1 processes and returns true in each, with its number from 0. The parent forwards
 * signals, restarts a process that is killed by a signal, and returns false with *ret_code, the
 * exit code, when all have ended. */
bool slots_fork(uint32_t n, uint32_t *ret_slot, int *ret_code);

#endif
