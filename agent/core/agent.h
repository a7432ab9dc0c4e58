/* agent/core/agent.h: interface of the agent's state machine, which decides what a node does next.
 * Pure: no I/O, no clock, no globals. */
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

/* Exit codes of the agent (design 9). */
enum agent_exit {
    AGENT_EXIT_OK = 0,
    AGENT_EXIT_FAILED = 1,
    AGENT_EXIT_USAGE = 2,
    AGENT_EXIT_UNREACHED = 69,
    AGENT_EXIT_UNAUTHORISED = 77,
    AGENT_EXIT_NOT_FOUND = 127,
    AGENT_EXIT_SIGNAL = 128 /* plus the signal number */
};

/* Maximum number of proofs of termination that an agent forwards from its own machine. */
#define AGENT_PROOFS_MAX 8

/* Configuration of an agent. The strings are borrowed and must outlive the core. */
struct agent_config {
    struct tfe_id job;
    struct tfe_id node;
    /* node is the hash of this secret; only this agent has it */
    char node_secret[MSG_NODE_SECRET_CHARS + 1];
    const char *node_name;
    /* requested job size and policy; unset options take the server's defaults */
    struct job_spec spec;
    /* Settings of this node only. */
    bool follows_commit; /* --git names a branch or tag: check out the commit that the job runs */
    bool new_run; /* start a new run if the job has finished; ignored after the first WELCOME */
    const char *run_key; /* id of the run that the node belongs to, or NULL for any run */
    bool durable;
    bool has_role; /* the node accepts only replicas of `role` */
    enum tfe_task role;
    bool fixed_ports;       /* use the same ports in every epoch */
    uint64_t highest_epoch; /* newest epoch in this node's checkpoints, or 0 if none */
    uint32_t pid;
    uint32_t join_timeout_ms;
    /* upper bound of the time between two renewals; 0 to use the server's interval */
    uint32_t monitor_interval_ms;
    uint32_t exit_grace_ms; /* time for the other trainers to end after the first one succeeded */
    uint32_t preempt_grace_ms; /* longest time from a signal to the exit; 0 to exit at once */
    uint64_t seed;             /* seed of the generator for random jitter */
    /* Hash of the proof of termination that the first guard holds ("" if none), and the port where
     * that guard listens. */
    struct tfe_id proof_hash;
    uint16_t guard_port;
    /* Proofs of termination that earlier agents of this job left on this machine, in
     * hexadecimal. */
    const char *proofs[AGENT_PROOFS_MAX]; /* NULL-terminated if shorter */
};

enum agent_event_type {
    AGENT_BEGIN,        /* the first event, sent once */
    AGENT_TICK,         /* the deadline of the last step has passed */
    AGENT_CONNECTED,    /* connected to the server; uses host */
    AGENT_DISCONNECTED, /* the connection attempt failed or the connection closed; uses lost */
    AGENT_MESSAGE,      /* a message from the server; uses msg */
    AGENT_PORTS_HELD,   /* the ports of HOLD_PORTS are reserved; uses ports */
    AGENT_PORTS_FAILED, /* the ports could not be reserved; uses reason */
    AGENT_SPAWNED,      /* a trainer has started; uses process */
    /* a trainer did not start; uses end: code 127 if not found, 126 if not executable */
    AGENT_SPAWN_FAILED,
    AGENT_TRAINER_EXITED, /* a trainer has exited; uses end */
    AGENT_SWEPT,     /* SWEEP is complete: no descendant is left and no port accepts connections */
    AGENT_STANDBY,   /* pid of a trainer's warm standby, 0 if it has none; uses process */
    AGENT_LISTENING, /* all trainers of the epoch listen on their ports; uses epoch */
    AGENT_FENCED,    /* the fence deadline passed and the guard has killed all trainers */
    AGENT_GUARD,     /* a guard has started, initially or as a replacement; uses guard_pid */
    AGENT_PROBED,    /* result of a PROBE; uses probed */
    /* a proof of termination that another node's guard gave to a PROBE; uses certificate */
    AGENT_PROOF,
    AGENT_GUARD_LOST, /* the guard died; all processes that it had started are killed and reaped */
    AGENT_PROGRESS,   /* a script reported progress; uses progress */
    AGENT_ALONE,  /* a trainer of the epoch does not use the cluster assigned to it; uses epoch */
    AGENT_IDLE,   /* idle_since: time since which no trainer is active, NEVER if one is active */
    AGENT_NOTICE, /* this machine may be taken away; uses notice */
    /* result of CHECK_OUT: the node's files are at the commit, or reason says why not; uses
     * checkout */
    AGENT_CHECKED_OUT,
    AGENT_SIGNAL /* a termination signal arrived; uses signo */
};

enum agent_link {
    AGENT_LINK_LOST,        /* an established connection broke */
    AGENT_LINK_UNREACHABLE, /* the server did not accept the connection */
    /* the server closed the connection without answering handshake message 1 */
    AGENT_LINK_UNAUTHORISED
};

/* A termination notice for this machine. A later notice of the same kind replaces an earlier
 * one. */
struct agent_notice {
    enum tfe_notice kind;
    struct tfe_mono deadline; /* NEVER if unknown */
    bool withdrawn;
    bool uncertain;
    const char *source;
};

struct agent_event {
    enum agent_event_type type;
    struct tfe_mono now;
    union { /* the member that `type` names */
        /* address where peers reach this node, or NULL if it has no IPv4 address */
        const char *host;
        struct {
            enum agent_link how;
            const char *reason; /* sentence fragment for the log, or NULL */
        } lost;
        const struct tfe_msg *msg;
        struct {
            uint64_t epoch;
            const uint16_t *v; /* one reserved port for each trainer */
            size_t n;
        } ports;
        const char *reason;
        struct {
            uint32_t local, pid;
            const char *tensorflow; /* version of TensorFlow that a standby has imported, or NULL */
        } process;
        struct msg_exited end; /* how one trainer ended; its epoch field is unset */
        uint64_t epoch;
        uint32_t guard_pid;
        struct msg_probed probed;
        const char *certificate;
        struct {
            uint32_t local;
            struct msg_progress report; /* all fields, after any of them changed */
        } progress;
        struct tfe_mono idle_since;
        struct agent_notice notice;
        struct {
            uint64_t commit, script_digest; /* as in job_spec */
            const char *reason;             /* NULL on success */
        } checkout;
        uint32_t signo;
    };
};

enum agent_action_type {
    AGENT_CONNECT,    /* open a new connection to the server; ends in CONNECTED or DISCONNECTED */
    AGENT_DISCONNECT, /* send queued data, then close the connection; ends in DISCONNECTED */
    AGENT_HANG_UP,    /* close the unresponsive connection at once; ends in DISCONNECTED */
    AGENT_SEND,       /* send msg to the server */
    AGENT_HOLD_PORTS, /* reserve ports; ends in PORTS_HELD or PORTS_FAILED */
    AGENT_RESPOND,    /* start or stop answering probes on reserved ports, before the next action */
    AGENT_PROBE,      /* try to reach the ports in probe; ends in PROBED */
    AGENT_SPAWN,      /* start the trainers of an epoch; each ends in SPAWNED or SPAWN_FAILED */
    AGENT_SWEEP,      /* terminate all trainers; ends in SWEPT, after every TRAINER_EXITED */
    AGENT_SAVE,       /* ask the scripts to save a checkpoint */
    AGENT_CHECK_OUT,  /* change the node's files to a git commit; ends in CHECKED_OUT */
    AGENT_FENCE,      /* set the time when the guard kills all trainers */
    AGENT_EXIT,       /* exit the process; always the last action */
    AGENT_TRACE       /* write a log entry */
};

/* For each log entry: name, level, and the log keys of its rank, number and text (NULL to omit). */
#define AGENT_TRACES(X)                                                                            \
    X(CONNECTING, "connecting", WARN, NULL, "waited_ms", "reason") /* no connection yet */         \
    X(JOINED, "joined", INFO, NULL, "ttl_ms", NULL)                                                \
    X(LINK_LOST, "connection_lost", WARN, NULL, NULL, "reason")                                    \
    X(READY, "ready", DEBUG, NULL, NULL, NULL)                                                     \
    X(EPOCH, "epoch", INFO, "rank", "nodes", "cause")                                              \
    X(STOPPING, "stopping", INFO, NULL, NULL, "reason")                                            \
    X(TRAINER_EXITED, "trainer_exited", INFO, "local_rank", "status", NULL)                        \
    X(EXITED, "exited", INFO, NULL, "status", "how")        /* exit of the whole node */           \
    X(VOID_START, "void_start", WARN, NULL, NULL, "reason") /* reason for ignoring START */        \
    X(FENCED, "fenced", WARN, NULL, NULL, NULL)                                                    \
    X(GUARD_LOST, "guard_lost", ERROR, NULL, NULL, NULL)                                           \
    X(NOTICE, "notice", WARN, NULL, "deadline_ms", "source") /* 0 ms if unknown */                 \
    X(DRAINING, "draining", INFO, NULL, "signal", NULL)                                            \
    X(REFUSED, "refused", ERROR, NULL, NULL, "reason") /* number is the refusal code */

enum agent_trace_kind {
#define AGENT_TRACE_ENUM(NAME, name, level, rank, number, text) AGENT_TRACE_##NAME,
    AGENT_TRACES(AGENT_TRACE_ENUM)
#undef AGENT_TRACE_ENUM
};

enum agent_trace_level { AGENT_LEVEL_DEBUG, AGENT_LEVEL_INFO, AGENT_LEVEL_WARN, AGENT_LEVEL_ERROR };

struct agent_trace_format {
    const char *name;
    enum agent_trace_level level;
    const char *rank, *number, *text;
};
const struct agent_trace_format *agent_trace_format(enum agent_trace_kind kind);

struct agent_trace {
    enum agent_trace_kind kind;
    uint64_t epoch; /* 0 if the entry belongs to no epoch */
    uint32_t rank;
    uint64_t number;
    bool is_signal; /* TRAINER_EXITED, EXITED: a signal ended the trainer; number is 128 + signal */
    const char *text;
};

/* Position of this node's trainers in an epoch. */
struct agent_place {
    uint64_t epoch;
    uint32_t run;
    /* rank of the node's first trainer; its other trainers have the ranks after it */
    uint32_t rank;
    uint32_t n;                 /* number of trainers: nproc for a worker, otherwise 1 */
    uint32_t restarts;          /* how many times this node has started trainers before */
    bool is_again;              /* the trainers restart within the same epoch, on the same ports */
    bool has_roles;             /* the job has replicas other than workers */
    const struct msg_row *rows; /* the complete cluster table, ordered by rank */
    size_t n_rows;
    /* row of the node's first trainer; an evaluator has rank n_rows and no entry in rows */
    struct msg_row own;
};

/* One action for the I/O layer. Pointers stay valid until the next agent_step, or as long as the
 * event that caused the action. */
struct agent_action {
    enum agent_action_type type;
    union { /* the member that `type` names */
        struct tfe_msg msg;
        struct {
            uint64_t epoch;
            bool fresh; /* reserve different ports than for the previous epoch */
        } hold;
        struct {
            /* true to send the node's id to each client of these ports; false to stop */
            bool on;
            uint64_t epoch;
            const uint16_t *ports; /* reserved ports */
            size_t n_ports;
        } respond;
        const struct msg_probe *probe;
        struct agent_place spawn;
        /* A second SWEEP with planned unset may follow while the first is in progress; it ends the
         * grace period. */
        struct {
            uint64_t epoch;
            /* ask trainers that listen to stop and give them grace_ms; kill the others at once */
            bool planned;
            uint32_t grace_ms; /* grace period of a planned sweep */
            bool waits;        /* give all trainers the grace period, whether they listen or not */
            /* a state kept in memory is enough; the scripts need not write it to disk */
            bool in_memory;
        } sweep;
        struct {
            uint64_t epoch;
            uint64_t number;
            struct tfe_mono deadline; /* NEVER if there is none */
            bool in_memory;           /* a state kept in memory is enough */
        } save;
        struct tfe_mono fence;
        uint64_t commit; /* of CHECK_OUT, as in job_spec */
        struct {
            int code;
            const char *sentence; /* text for the user, or NULL */
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

/* Creates a core. Copies config and borrows mem. Returns TFE_EINVAL if an id or a size is out of
 * range, or TFE_ENOMEM. */
int agent_new(const struct agent_config *config, const struct tfe_mem *mem,
              struct agent **ret) TFE_MUST_CHECK;
void agent_free(struct agent *a);

/* Handles one event and stores the resulting actions in *ret. On an error the state is unchanged
 * and *ret holds no action and the previous deadline: TFE_ENOMEM; TFE_EINVAL for a message or value
 * that is not allowed (the caller closes the connection); TFE_ESTATE if the event is not legal in
 * this state. */
int agent_step(struct agent *a, const struct agent_event *event,
               struct agent_actions *ret) TFE_MUST_CHECK;

#endif
