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
#include "common/base/msg.h"
#include "common/base/time.h"

/* Exit codes of the agent, DESIGN 9. */
enum agent_exit {
    AGENT_EXIT_OK = 0,
    AGENT_EXIT_FAILED = 1,
    AGENT_EXIT_USAGE = 2,
    AGENT_EXIT_UNREACHED = 69,
    AGENT_EXIT_UNAUTHORISED = 77,
    AGENT_EXIT_NOT_FOUND = 127,
    AGENT_EXIT_SIGNAL = 128 /* + number */
};

/* Strings are borrowed for the core's life. Durations in ms. */
struct agent_config {
    struct tfe_id job;
    struct tfe_id node;
    const char *node_name;
    uint32_t min_nodes, max_nodes, nproc;
    uint32_t max_restarts, gather_ms, grow_wait_ms, stop_grace_ms; /* or MSG_UNSET */
    uint32_t elastic_timeout_ms;                                   /* likewise */
    bool new_run;        /* asked for until the first WELCOME: what is over then is ours */
    const char *run_key; /* tfe_id: which run the node belongs to; NULL: any */
    bool durable;
    bool no_grow;
    uint32_t chief_grace_ms; /* or MSG_UNSET */
    uint64_t script_digest;
    uint64_t
        highest_epoch; /* that the job's checkpoints are of, for all this node knows; 0: none */
    uint32_t pid;
    uint32_t join_timeout_ms;
    uint32_t monitor_interval_ms; /* longest time between two renewals; 0: as the server says */
    uint32_t exit_grace_ms;       /* for the other trainers, after the node's first ended well */
    uint32_t preempt_grace_ms;    /* from SIGTERM or SIGINT to the end at the latest; 0: at once */
    uint64_t seed;                /* of jitter */
};

enum agent_event_type {
    AGENT_BEGIN,          /* once, first */
    AGENT_TICK,           /* the deadline of the last step has come */
    AGENT_CONNECTED,      /* host: where peers reach this node, if the user did not say */
    AGENT_DISCONNECTED,   /* link: how it ended; text: a fragment for people */
    AGENT_MESSAGE,        /* msg */
    AGENT_PORTS_HELD,     /* ports: nproc numbers for epoch */
    AGENT_PORTS_FAILED,   /* text */
    AGENT_SPAWNED,        /* local, pid */
    AGENT_SPAWN_FAILED,   /* local, code: 127 not found, 126 not executable; text */
    AGENT_TRAINER_EXITED, /* local, code, signal, end, text: last lines of stderr */
    AGENT_SWEPT,          /* answer to SWEEP: no descendant is left, no port still accepts */
    AGENT_STANDBY,        /* local, pid: of its warm standby; 0: it has none */
    AGENT_LISTENING,      /* every trainer of epoch listens */
    AGENT_FENCED,         /* the guard has killed everything, the fence had passed */
    AGENT_GUARD,          /* pid: a guard is there (at the start, and after one was lost) */
    AGENT_PROBED,         /* probe, result: what came of a PROBE */
    AGENT_GUARD_LOST,     /* it died; everything it had started has been killed and reaped */
    AGENT_PROGRESS, /* progress: what a script of epoch told, or what was seen of its checkpoints */
    AGENT_NOTICE,   /* notice: this machine will go away; text: who says so */
    AGENT_SIGNAL    /* code: SIGTERM or SIGINT */
};

enum agent_link {
    AGENT_LINK_LOST,        /* worked before, or could have */
    AGENT_LINK_UNREACHABLE, /* nobody answered there */
    AGENT_LINK_UNAUTHORISED /* closed without a byte after message 1 */
};

/* How far a trainer has come in its epoch. Told again in full with every change. */
struct agent_progress {
    bool has_step;
    uint64_t step;    /* the last one that is done */
    bool has_trained; /* one was done in this epoch: the step is no more only a checkpoint's */
    bool has_saved;
    uint64_t saved_step; /* of its newest checkpoint */
    uint32_t saves;      /* checkpoints of this epoch; one that all ranks share counts once */
    uint64_t answers;    /* number of the newest SAVE the script had heard of when it began that */
    bool listens;        /* it is on the channel and can be asked to save */
};

/* A warning from one source. A later one of the same kind replaces it. */
struct agent_notice {
    enum tfe_notice kind;
    struct tfe_mono deadline; /* NEVER: none is known */
    bool withdrawn;
    bool uncertain;
};

struct agent_event {
    enum agent_event_type type;
    struct tfe_mono now;
    const struct tfe_msg *msg;
    enum agent_link link;
    const char *host;
    const char *text; /* NULL: "" */
    const uint16_t *ports;
    size_t n_ports;
    uint64_t epoch;
    uint32_t local;
    uint32_t pid;
    uint32_t code;
    uint32_t signal;
    enum tfe_ending end;
    uint64_t probe;
    enum tfe_probe_result result;
    struct agent_progress progress; /* with epoch, local */
    struct agent_notice notice;
};

enum agent_action_type {
    AGENT_CONNECT,    /* to the server, a new connection; ends in CONNECTED or DISCONNECTED */
    AGENT_DISCONNECT, /* send what is queued, then close; ends in DISCONNECTED */
    AGENT_HANG_UP,    /* close at once, nobody answers there; ends in DISCONNECTED */
    AGENT_SEND,       /* msg */
    AGENT_HOLD_PORTS, /* epoch, fresh: ends in PORTS_HELD or PORTS_FAILED */
    /* answer: let whoever connects to these ports (n_ports; held ones) know the node's id; else
     * stop that, before the next action is carried out. */
    AGENT_ANSWER,
    AGENT_PROBE, /* msg, a PROBE: try those ports; ends in PROBED */
    AGENT_SPAWN, /* place: start the node's nproc trainers; each ends in SPAWNED or SPAWN_FAILED */
    /* TERM and KILL everything of epoch; ends in SWEPT, after the TRAINER_EXITEDs. planned:
     * trainers that listen are told to stop first and have grace_ms to end by themselves, all
     * others end at once. It may come again without planned while that goes on: no more grace. */
    AGENT_SWEEP,
    AGENT_SAVE,  /* epoch, number, deadline (or NEVER): tell its scripts to save */
    AGENT_FENCE, /* deadline: the guard kills everything then */
    AGENT_EXIT,  /* code, text: one sentence, NULL none. Last action ever */
    AGENT_TRACE  /* something a person may want to read */
};

#define AGENT_TRACES(X)                                                                            \
    X(CONNECTING, "connecting", WARN) /* still not there: number: ms since the first try; text */  \
    X(JOINED, "joined", INFO)         /* number: ttl in ms */                                      \
    X(LINK_LOST, "connection_lost", WARN)     /* text: how */                                      \
    X(READY, "ready", DEBUG)                  /* epoch */                                          \
    X(EPOCH, "epoch", INFO)                   /* epoch, number: rank, nodes, text: cause */        \
    X(STOPPING, "stopping", INFO)             /* epoch, text: why */                               \
    X(TRAINER_EXITED, "trainer_exited", INFO) /* epoch, number: code or 128 + signal */            \
    X(EXITED, "exited", INFO)                 /* epoch, number: as above, of the node */           \
    X(VOID_START, "void_start", WARN)         /* epoch; text: why it was not followed */           \
    X(FENCED, "fenced", WARN)                 /* epoch */                                          \
    X(GUARD_LOST, "guard_lost", ERROR)                                                             \
    X(NOTICE, "notice", WARN)     /* number: ms to its deadline, 0 none; text: who says so */      \
    X(DRAINING, "draining", INFO) /* number: signal */                                             \
    X(REFUSED, "refused", ERROR)  /* number: code, text: sentence */

enum agent_trace_kind {
#define AGENT_TRACE_ENUM(NAME, name, level) AGENT_TRACE_##NAME,
    AGENT_TRACES(AGENT_TRACE_ENUM)
#undef AGENT_TRACE_ENUM
};

enum agent_trace_level { AGENT_LEVEL_DEBUG, AGENT_LEVEL_INFO, AGENT_LEVEL_WARN, AGENT_LEVEL_ERROR };

const char *agent_trace_name(enum agent_trace_kind kind);
enum agent_trace_level agent_trace_level(enum agent_trace_kind kind);

/* Where the trainers of this node stand in an epoch. */
struct agent_place {
    uint64_t epoch;
    uint32_t run;
    uint32_t rank;              /* of the first; the others follow on */
    uint32_t restarts;          /* epochs this node has started trainers in before */
    const struct msg_row *rows; /* the whole table by rank */
    size_t n_rows;
};

/* Everything an action points to lives until the next agent_step. */
struct agent_action {
    enum agent_action_type type;
    struct tfe_msg msg;
    struct agent_place place;
    struct tfe_mono deadline;
    uint64_t epoch;
    bool fresh;
    bool answer;
    bool planned;
    uint32_t grace_ms;
    const uint16_t *ports;
    size_t n_ports;
    int code;
    enum agent_trace_kind trace;
    uint64_t number;
    uint32_t nodes;
    const char *text;
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
