/* agent/core/agent.h: the door of the agent's core: what a node does next. Pure: no I/O, no clock,
 * no globals. */
#ifndef TFE_AGENT_CORE_AGENT_H
#define TFE_AGENT_CORE_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/mem.h"
#include "common/base/time.h"
#include "common/message/msg.h"

/* Exit codes of the agent, design 9. */
enum agent_exit {
    AGENT_EXIT_OK = 0,
    AGENT_EXIT_FAILED = 1,
    AGENT_EXIT_USAGE = 2,
    AGENT_EXIT_UNREACHED = 69,
    AGENT_EXIT_UNAUTHORISED = 77,
    AGENT_EXIT_NOT_FOUND = 127,
    AGENT_EXIT_SIGNAL = 128 /* + number */
};

/* Death certificates that an agent can bring from its own machine. */
#define AGENT_DEATHS_MAX 8

/* Strings are borrowed for the core's life. Durations in ms. */
struct agent_config {
    struct tfe_id job;
    struct tfe_id node;
    char node_secret[MSG_NODE_SECRET_CHARS + 1]; /* what node is the hash of; nobody else has it */
    const char *node_name;
    struct job_spec spec; /* what the job wants; no wish of its own: the server's setting */
    /* The node's own. */
    bool new_run;        /* asked for until the first WELCOME: what is over then is ours */
    const char *run_key; /* tfe_id: which run the node belongs to; NULL: any */
    bool durable;
    bool has_role; /* it takes places of that role and no other */
    enum tfe_task role;
    bool fixed_ports;       /* the same in every epoch */
    uint64_t highest_epoch; /* of the job's checkpoints, for all this node knows; 0: none */
    uint32_t pid;
    uint32_t join_timeout_ms;
    uint32_t monitor_interval_ms; /* longest time between two renewals; 0: as the server says */
    uint32_t exit_grace_ms;       /* for the other trainers, after the node's first ended well */
    uint32_t preempt_grace_ms;    /* from a signal to the end at the latest; 0: at once */
    uint64_t seed;                /* of jitter */
    /* Of the death certificate that the first guard has; hash "": it has none. */
    struct tfe_id proof_hash;
    uint16_t guard_port;
    /* Certificates that were found on this machine, in hexadecimal: earlier agents of the job. */
    const char *deaths[AGENT_DEATHS_MAX]; /* NULL: no more */
};

enum agent_event_type {
    AGENT_BEGIN,          /* once, first */
    AGENT_TICK,           /* the deadline of the last step has come */
    AGENT_CONNECTED,      /* host */
    AGENT_DISCONNECTED,   /* lost */
    AGENT_MESSAGE,        /* msg */
    AGENT_PORTS_HELD,     /* ports */
    AGENT_PORTS_FAILED,   /* why */
    AGENT_SPAWNED,        /* process: a trainer */
    AGENT_SPAWN_FAILED,   /* end, with code 127: not found, 126: not executable */
    AGENT_TRAINER_EXITED, /* end */
    AGENT_SWEPT,          /* answer to SWEEP: no descendant is left, no port still accepts */
    AGENT_STANDBY,        /* process: a trainer's warm standby; pid 0: it has none */
    AGENT_LISTENING,      /* epoch: every trainer of it listens */
    AGENT_FENCED,         /* the guard has killed everything, the fence had passed */
    AGENT_GUARD,          /* guard_pid: one is there (at the start, and after one was lost) */
    AGENT_PROBED,         /* probed: what came of a PROBE */
    AGENT_DEATH,          /* certificate: another node's guard gave it, for a PROBE */
    AGENT_GUARD_LOST,     /* it died; everything it had started has been killed and reaped */
    AGENT_PROGRESS,       /* progress */
    AGENT_ALONE,          /* epoch: a trainer of it does not use the cluster that it was given */
    AGENT_IDLE,           /* idle_since: its trainers show no sign of life since; NEVER: they do */
    AGENT_NOTICE,         /* notice: this machine will go away */
    AGENT_SIGNAL          /* signo: one of those that end a program */
};

enum agent_link {
    AGENT_LINK_LOST,        /* worked before, or could have */
    AGENT_LINK_UNREACHABLE, /* nobody answered there */
    AGENT_LINK_UNAUTHORISED /* closed without a byte after message 1 */
};

/* A warning from one source, which the log names. A later one of the same kind replaces it. */
struct agent_notice {
    enum tfe_notice kind;
    struct tfe_mono deadline; /* NEVER: none is known */
    bool withdrawn;
    bool uncertain;
    const char *source;
};

struct agent_event {
    enum agent_event_type type;
    struct tfe_mono now;
    union {               /* as type says */
        const char *host; /* where peers reach this node; NULL: nowhere, it has no IPv4 address */
        struct {
            enum agent_link how;
            const char *reason; /* a fragment for people, or NULL */
        } lost;
        const struct tfe_msg *msg;
        struct {
            uint64_t epoch;
            const uint16_t *v; /* nproc numbers, held for it */
            size_t n;
        } ports;
        const char *reason;
        struct {
            uint32_t local, pid;
            const char *tensorflow; /* of a standby: its version, or NULL */
        } process;
        struct msg_exited end; /* of one trainer: without epoch */
        uint64_t epoch;
        uint32_t guard_pid;
        struct msg_probed probed;
        const char *certificate;
        struct {
            uint32_t local;
            struct msg_progress told; /* in full, with every change */
        } progress;
        struct tfe_mono idle_since;
        struct agent_notice notice;
        uint32_t signo;
    };
};

enum agent_action_type {
    AGENT_CONNECT,    /* to the server, a new connection; ends in CONNECTED or DISCONNECTED */
    AGENT_DISCONNECT, /* send what is queued, then close; ends in DISCONNECTED */
    AGENT_HANG_UP,    /* close at once, nobody answers there; ends in DISCONNECTED */
    AGENT_SEND,       /* msg */
    AGENT_HOLD_PORTS, /* hold: ends in PORTS_HELD or PORTS_FAILED */
    AGENT_ANSWER,     /* answer; carried out before the next action */
    AGENT_PROBE,      /* probe: try those ports; ends in PROBED */
    AGENT_SPAWN,      /* spawn: start its trainers; each ends in SPAWNED or SPAWN_FAILED */
    AGENT_SWEEP,      /* sweep: TERM and KILL; ends in SWEPT, after the TRAINER_EXITEDs */
    AGENT_SAVE,       /* save: tell the scripts to */
    AGENT_FENCE,      /* fence: the guard kills everything then */
    AGENT_EXIT,       /* exit. Last action ever */
    AGENT_TRACE       /* trace: something a person may want to read */
};

/* name, level, and under which names its rank, number and text are logged (NULL: not at all). */
#define AGENT_TRACES(X)                                                                            \
    X(CONNECTING, "connecting", WARN, NULL, "waited_ms", "reason") /* still not there */           \
    X(JOINED, "joined", INFO, NULL, "ttl_ms", NULL)                                                \
    X(LINK_LOST, "connection_lost", WARN, NULL, NULL, "reason")                                    \
    X(READY, "ready", DEBUG, NULL, NULL, NULL)                                                     \
    X(EPOCH, "epoch", INFO, "rank", "nodes", "cause")                                              \
    X(STOPPING, "stopping", INFO, NULL, NULL, "reason")                                            \
    X(TRAINER_EXITED, "trainer_exited", INFO, "local_rank", "status", NULL)                        \
    X(EXITED, "exited", INFO, NULL, "status", "how")        /* of the node */                      \
    X(VOID_START, "void_start", WARN, NULL, NULL, "reason") /* why it was not followed */          \
    X(FENCED, "fenced", WARN, NULL, NULL, NULL)                                                    \
    X(GUARD_LOST, "guard_lost", ERROR, NULL, NULL, NULL)                                           \
    X(NOTICE, "notice", WARN, NULL, "deadline_ms", "source") /* 0: it has none */                  \
    X(DRAINING, "draining", INFO, NULL, "signal", NULL)                                            \
    X(REFUSED, "refused", ERROR, NULL, NULL, "reason") /* number: its code */

enum agent_trace_kind {
#define AGENT_TRACE_ENUM(NAME, name, level, rank, number, text) AGENT_TRACE_##NAME,
    AGENT_TRACES(AGENT_TRACE_ENUM)
#undef AGENT_TRACE_ENUM
};

enum agent_trace_level { AGENT_LEVEL_DEBUG, AGENT_LEVEL_INFO, AGENT_LEVEL_WARN, AGENT_LEVEL_ERROR };

struct agent_trace_words {
    const char *name;
    enum agent_trace_level level;
    const char *rank, *number, *text;
};
const struct agent_trace_words *agent_trace_words(enum agent_trace_kind kind);

struct agent_trace {
    enum agent_trace_kind kind;
    uint64_t epoch; /* 0: it is of none */
    uint32_t rank;
    uint64_t number;
    const char *text;
};

/* Where the trainers of this node stand in an epoch. */
struct agent_place {
    uint64_t epoch;
    uint32_t run;
    uint32_t rank;              /* of the first; the others follow on */
    uint32_t n;                 /* trainers: nproc of a worker, else 1 */
    uint32_t restarts;          /* times that this node has started trainers before */
    bool is_again;              /* … in this epoch, at the same ports */
    bool has_roles;             /* not all places of the job are workers' */
    const struct msg_row *rows; /* the whole table by rank */
    size_t n_rows;
    struct msg_row own; /* of the first; an evaluator's is not among rows, and its rank is n_rows */
};

/* What an action points to lives until the next agent_step, or as long as the event it answers. */
struct agent_action {
    enum agent_action_type type;
    union { /* as type says */
        struct tfe_msg msg;
        struct {
            uint64_t epoch;
            bool fresh; /* other ports than before */
        } hold;
        struct {
            bool on; /* let whoever connects to these ports know the node's id; else stop that */
            uint64_t epoch;
            const uint16_t *ports; /* held ones */
            size_t n_ports;
        } answer;
        const struct msg_probe *probe;
        struct agent_place spawn;
        struct { /* It may come again without planned while it goes on: no more grace. */
            uint64_t epoch;
            bool planned;      /* trainers that listen are told to stop first … */
            uint32_t grace_ms; /* and have so long to end by themselves; all others end at once */
            bool waits;        /* … all of them have that, whether they listen or not */
            bool in_memory;    /* … their state need not be on disk, if it is kept in memory */
        } sweep;
        struct {
            uint64_t epoch;
            uint64_t number;
            struct tfe_mono deadline; /* or NEVER */
            bool in_memory;           /* a state that is kept in memory will do */
        } save;
        struct tfe_mono fence;
        struct {
            int code;
            const char *sentence; /* NULL: none */
        } exit;
        struct agent_trace trace;
    };
};

struct agent_actions {
    const struct agent_action *v;
    size_t n;
    struct tfe_mono deadline;
};

struct agent;

/* TFE_EINVAL: sizes out of range. TFE_ENOMEM. config is copied, mem borrowed. */
int agent_new(const struct agent_config *config, const struct tfe_mem *mem,
              struct agent **ret) TFE_MUST_CHECK;
void agent_free(struct agent *a);

/* Takes one event in. On an error nothing has changed and *ret is empty with the old deadline:
 * TFE_ENOMEM; TFE_EINVAL: a message that no server may send or a value out of range (the shell
 * closes the connection); TFE_ESTATE: not legal now. */
int agent_step(struct agent *a, const struct agent_event *event,
               struct agent_actions *ret) TFE_MUST_CHECK;

#endif
