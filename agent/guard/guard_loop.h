/* agent/guard/guard_loop.h: the loop of the guard process, between its set-up and its end. */
#ifndef TFE_AGENT_GUARD_GUARD_LOOP_H
#define TFE_AGENT_GUARD_GUARD_LOOP_H

#include <stdbool.h>

/* The guard's own descriptors. stdin and stdout are /dev/null, so that what comes through the pair
 * is never mistaken for one of them; stderr stays the agent's. */
enum { PAIR_FD = 3, CHILD_FD, FENCE_FD, FIRST_FREE_FD };

/* Serves the pair, the children and the fence; returns when the agent is gone and not one
 * descendant is left. Preconditions: the descriptors above are what their names say (a signalfd for
 * SIGCHLD, a non-blocking timerfd on CLOCK_BOOTTIME), every signal but the faults is blocked, and
 * this process is a subreaper. Once in a process. False: the agent did not say that it would go. */
bool guard_serve(void);

#endif
