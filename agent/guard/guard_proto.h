/* agent/guard/guard_proto.h: what agent and guard say to each other on their SOCK_SEQPACKET pair. */
#ifndef TFE_AGENT_GUARD_GUARD_PROTO_H
#define TFE_AGENT_GUARD_GUARD_PROTO_H

#include <stdint.h>

/* One struct a packet. Both ends are one program, forked: no byte order, no versions. */

enum guard_order_word {
    GUARD_SPAWN = 1, /* with three descriptors, below */
    GUARD_SIGNAL,
    GUARD_SWEEP,
    GUARD_FENCE
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
    uint32_t unused;
};

enum guard_event_word {
    GUARD_SPAWNED = 1,
    GUARD_SPAWN_FAILED,
    GUARD_EXITED,
    GUARD_SWEPT,
    GUARD_FENCED
};

/* Guard to agent. */
struct guard_event {
    uint32_t word;
    uint32_t slot; /* SWEPT: the sweep's number */
    int32_t pid;   /* SPAWNED; SWEPT: a stuck one or 0 */
    int32_t value; /* SPAWN_FAILED: errno; EXITED: wait status */
};

#endif
