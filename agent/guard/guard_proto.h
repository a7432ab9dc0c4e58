/* agent/guard/guard_proto.h: the packets between agent and guard on their SOCK_SEQPACKET pair. */
#ifndef TFE_AGENT_GUARD_GUARD_PROTO_H
#define TFE_AGENT_GUARD_GUARD_PROTO_H

#include "agent/guard/guard.h"

/* Each packet is one struct. Both ends are the same program, forked, so byte order and
 * versions do not matter. */

enum guard_order_type {
    GUARD_SPAWN = 1, /* start a process; carries GUARD_FDS descriptors */
    GUARD_SIGNAL,
    GUARD_SWEEP,
    GUARD_FENCE,
    GUARD_LEAVE /* the agent exits in an orderly way and cleans up by itself; the last order */
};

/* Descriptors sent with GUARD_SPAWN, in this order. */
enum { GUARD_FD_BLOCK, GUARD_FD_STDOUT, GUARD_FD_STDERR, GUARD_FDS };

/* Contents of the block (a sealed memfd): NUL-terminated strings, n_args arguments, then n_env
 * variables, then the directory if has_directory. agent/python/tfe_bootstrap.py parses the same
 * layout; keep both in step. */
struct spawn_block_header {
    uint64_t block_bytes;
    uint32_t n_args;
    uint32_t n_env;
    uint32_t has_directory;
    uint32_t unused;
};

/* Packet from the agent to the guard. */
struct guard_order {
    uint32_t type;
    uint32_t slot;                   /* for SPAWN and SIGNAL */
    uint32_t number;                 /* for SWEEP; returned in SWEPT */
    int32_t signo;                   /* for SIGNAL */
    int64_t deadline_ms;             /* for FENCE: time on CLOCK_BOOTTIME, INT64_MAX to disarm */
    struct spawn_block_header block; /* for SPAWN */
    uint32_t flags;                  /* for SPAWN: bits of enum guard_spawn_flag */
    uint32_t from; /* for SPAWN: slot of a standby that may run it, or GUARD_NO_SLOT */
};

#define GUARD_NO_SLOT UINT32_MAX

enum guard_spawn_flag {
    /* the process gets a socket as GUARD_CONTROL_FD and waits there for a hand-over */
    GUARD_AS_STANDBY = 1,
    GUARD_IN_BACKGROUND = 2
};

/* Descriptor of a standby's socket. The guard sends the words and descriptors
 * of a SPAWN over it. */
#define GUARD_CONTROL_FD 3

/* Messages from the bootstrap to the guard: one byte; COLD is followed by a text. */
enum bootstrap_message {
    BOOTSTRAP_WARM = 'W',    /* the imports are complete and the standby waits */
    BOOTSTRAP_STARTED = 'T', /* the script starts now; later output and errors are the script's */
    BOOTSTRAP_COLD = 'C'     /* the standby cannot run the script and ends; the reason follows */
};

#endif
