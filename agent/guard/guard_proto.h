/* agent/guard/guard_proto.h: what agent and guard say to each other on their SOCK_SEQPACKET pair.
 */
#ifndef TFE_AGENT_GUARD_GUARD_PROTO_H
#define TFE_AGENT_GUARD_GUARD_PROTO_H

#include <stdint.h>

/* One struct a packet. Both ends are one program, forked: no byte order, no versions. */

enum guard_order_word {
    GUARD_SPAWN = 1, /* with three descriptors, below */
    GUARD_SIGNAL,
    GUARD_SWEEP,
    GUARD_FENCE,
    GUARD_LEAVE /* the agent ends by itself, and cleans up after itself: the last word */
};

/* Descriptors that travel with GUARD_SPAWN, in this order. */
enum { GUARD_FD_BLOCK, GUARD_FD_STDOUT, GUARD_FD_STDERR, GUARD_FDS };

/* Agent to guard. */
struct guard_order {
    uint32_t word;
    uint32_t slot;       /* SPAWN, SIGNAL */
    uint32_t number;     /* SWEEP: comes back in SWEPT */
    int32_t signo;       /* SIGNAL */
    int64_t deadline_ms; /* FENCE: CLOCK_BOOTTIME; INT64_MAX disarms */
    /* SPAWN: what the block (a sealed memfd) holds, as NUL-terminated strings one after the other:
     * n_args, then n_env, then the directory if there is one. */
    uint64_t block_bytes;
    uint32_t n_args;
    uint32_t n_env;
    uint32_t has_directory;
    uint32_t flags; /* SPAWN: of enum guard_spawn_flag */
    uint32_t from;  /* SPAWN: the standby's slot that may take it, or GUARD_NO_SLOT */
    uint32_t unused;
};

#define GUARD_NO_SLOT UINT32_MAX

enum guard_spawn_flag {
    GUARD_AS_STANDBY = 1, /* with a socket as GUARD_CONTROL_FD, to be handed something later */
    GUARD_IN_BACKGROUND = 2
};

/* Guard to bootstrap, on that socket, with the descriptors of the SPAWN it is about. Read by
 * agent/python/tfe_bootstrap.py: keep them equal. */
struct guard_hand_over {
    uint64_t block_bytes;
    uint32_t n_args;
    uint32_t n_env;
    uint32_t has_directory;
    uint32_t unused;
};
#define GUARD_CONTROL_FD 3

/* Bootstrap to guard: one byte, the last with a sentence's fragment behind it. */
enum guard_says {
    GUARD_SAYS_WARM = 'W',  /* has imported, waits */
    GUARD_SAYS_TAKEN = 'T', /* begins the script now: whatever comes is the script's */
    GUARD_SAYS_COLD = 'C'   /* cannot take the script, and why; ends */
};
#define GUARD_TEXT_MAX 200

enum guard_event_word {
    GUARD_SPAWNED = 1,
    GUARD_SPAWN_FAILED,
    GUARD_EXITED,
    GUARD_SWEPT,
    GUARD_FENCED,
    GUARD_WARM,
    GUARD_COLD
};

/* Guard to agent. */
struct guard_event {
    uint32_t word;
    uint32_t slot;            /* SWEPT: the sweep's number */
    int32_t pid;              /* SPAWNED; SWEPT: a stuck one or 0 */
    int32_t value;            /* SPAWN_FAILED: errno; EXITED: wait status */
    char why[GUARD_TEXT_MAX]; /* COLD */
};

#endif
