/* agent/guard/guard_proto.h: what agent and guard say to each other on their SOCK_SEQPACKET pair.
 */
#ifndef TFE_AGENT_GUARD_GUARD_PROTO_H
#define TFE_AGENT_GUARD_GUARD_PROTO_H

#include "agent/guard/guard.h"

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

/* What the block (a sealed memfd) holds, as NUL-terminated strings one after the other: n_args,
 * then n_env, then the directory if there is one. Read by agent/python/tfe_bootstrap.py, too: keep
 * them equal. */
struct guard_words {
    uint64_t block_bytes;
    uint32_t n_args;
    uint32_t n_env;
    uint32_t has_directory;
    uint32_t unused;
};

/* Agent to guard. */
struct guard_order {
    uint32_t word;
    uint32_t slot;            /* SPAWN, SIGNAL */
    uint32_t number;          /* SWEEP: comes back in SWEPT */
    int32_t signo;            /* SIGNAL */
    int64_t deadline_ms;      /* FENCE: CLOCK_BOOTTIME; INT64_MAX disarms */
    struct guard_words words; /* SPAWN */
    uint32_t flags;           /* SPAWN: of enum guard_spawn_flag */
    uint32_t from;            /* SPAWN: the standby's slot that may take it, or GUARD_NO_SLOT */
};

#define GUARD_NO_SLOT UINT32_MAX

enum guard_spawn_flag {
    GUARD_AS_STANDBY = 1, /* with a socket as GUARD_CONTROL_FD, to be handed something later */
    GUARD_IN_BACKGROUND = 2
};

/* The standby's socket. The guard hands a trainer's start over there: the words of the SPAWN, with
 * its descriptors. */
#define GUARD_CONTROL_FD 3

/* Bootstrap to guard: one byte, the last with a sentence's fragment behind it. */
enum guard_says {
    GUARD_SAYS_WARM = 'W',  /* has imported, waits */
    GUARD_SAYS_TAKEN = 'T', /* begins the script now: whatever comes is the script's */
    GUARD_SAYS_COLD = 'C'   /* cannot take the script, and why; ends */
};

#endif
