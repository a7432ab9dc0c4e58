/* common/base/msg.h: every message of the protocol as a plain struct; the vocabulary that cores,
 * codec and shells share. The bytes are proto/tfe.proto's and PROTOCOL.md's business. Pure. */
#ifndef TFE_COMMON_BASE_MSG_H
#define TFE_COMMON_BASE_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/time.h"

/* Ranges that the codec enforces on everything it decodes, so that a core sees no absurd size. */
#define MSG_NPROC_MAX 64u       /* trainers of one node; a machine has fewer accelerators */
#define MSG_NODES_MAX 65536u    /* members of a job, SECURITY.md */
#define MSG_TAIL_MAX 4096u      /* bytes of error tail that travel with EXITED */
#define MSG_ROWS_PER_CHUNK 512u /* rows of one TABLE; a chunk must also fit one frame */
#define MSG_SENTENCE_MAX 1024u  /* bytes of a sentence for a person */
#define MSG_PATH_MAX 1024u      /* bytes of a file's name */
#define MSG_PIDS_MAX 64u        /* process ids in one PROCESSES, per kind */
#define MSG_DURATION_MAX_MS (30u * 24u * 3600u * 1000u) /* any duration on the wire: 30 days */
/* Epoch numbers are 53 bits, so that JSON readers keep them whole. A node's word raises them to
 * half of that at most: a liar cannot exhaust them, nor make the honest reports that follow look
 * absurd. */
#define MSG_EPOCH_LIMIT (UINT64_C(1) << 52)

/* "This agent has no wish about it": the server's own setting counts. */
#define MSG_UNSET UINT32_MAX

/* Type byte of each message, its name, and who may send it: A agent to server, S server to agent or
 * to ctl, Q a query of ctl's (observer or admin), O an operator's order (admin). Numbers are never
 * used again. */
#define TFE_MSGS(X)                                                                                \
    X(JOIN, join, 1, A)                                                                            \
    X(RENEW, renew, 2, A)                                                                          \
    X(READY, ready, 3, A)                                                                          \
    X(LISTENING, listening, 4, A)                                                                  \
    X(EXITED, exited, 5, A)                                                                        \
    X(GOODBYE, goodbye, 6, A)                                                                      \
    X(PROCESSES, processes, 7, A)                                                                  \
    X(PROGRESS, progress, 8, A)                                                                    \
    X(NOTICE, notice, 9, A)                                                                        \
    X(PROBED, probed, 10, A)                                                                       \
    X(WELCOME, welcome, 32, S)                                                                     \
    X(RENEWED, renewed, 33, S)                                                                     \
    X(PREPARE, prepare, 34, S)                                                                     \
    X(STOP, stop, 35, S)                                                                           \
    X(TABLE, table, 36, S)                                                                         \
    X(START, start, 37, S)                                                                         \
    X(NOTED, noted, 38, S)                                                                         \
    X(LEASE_ENDED, lease_ended, 39, S)                                                             \
    X(PROBE, probe, 40, S)                                                                         \
    X(FINISH, finish, 41, S)                                                                       \
    X(REFUSED, refused, 42, S)                                                                     \
    X(SAVE, save, 43, S)                                                                           \
    X(STATUS, status, 64, Q)                                                                       \
    X(STATUS_JOB, status_job, 65, S)                                                               \
    X(STATUS_NODE, status_node, 66, S)                                                             \
    X(STATUS_END, status_end, 67, S)                                                               \
    X(DRAIN, drain, 68, O)                                                                         \
    X(EVICT, evict, 69, O)                                                                         \
    X(STOP_JOB, stop_job, 70, O)                                                                   \
    X(DONE, done, 71, S)                                                                           \
    X(EPOCHS, epochs, 72, Q)                                                                       \
    X(EPOCH_ROW, epoch_row, 73, S)                                                                 \
    X(BACKUP, backup, 74, O)

enum tfe_msg_type {
#define TFE_MSG_ENUM(NAME, name, number, sender) MSG_##NAME = (number),
    TFE_MSGS(TFE_MSG_ENUM)
#undef TFE_MSG_ENUM
};

/* Why the server refuses. Stable numbers; the name is what logs and PROTOCOL.md say. */
#define TFE_REFUSALS(X)                                                                            \
    X(NOT_AUTHORISED, 1, "not_authorised")                                                         \
    X(BAD_REQUEST, 2, "bad_request")                                                               \
    X(SIZE_MISMATCH, 3, "size_mismatch")                                                           \
    X(JOB_FINISHED, 4, "job_finished")                                                             \
    X(LIMIT_REACHED, 5, "limit_reached")                                                           \
    X(NO_SUCH_JOB, 6, "no_such_job")                                                               \
    X(NODE_REPLACED, 7, "node_replaced")                                                           \
    X(NO_SUCH_NODE, 8, "no_such_node")                                                             \
    X(EVICTED, 9, "evicted")                                                                       \
    X(ADDRESS_UNREACHABLE, 10, "address_unreachable")                                              \
    X(STORE, 11, "store")

enum tfe_refusal {
#define TFE_REFUSAL_ENUM(NAME, number, name) REFUSAL_##NAME = (number),
    TFE_REFUSALS(TFE_REFUSAL_ENUM)
#undef TFE_REFUSAL_ENUM
};

/* Why an epoch began; the words that users see in tables and JSON. */
#define TFE_CAUSES(X)                                                                              \
    X(START, 1, "start")                                                                           \
    X(NODE_LOST, 2, "node_lost")                                                                   \
    X(TRAINER_FAILED, 3, "trainer_failed")                                                         \
    X(JOINED, 4, "joined")                                                                         \
    X(DRAINED, 5, "drained")                                                                       \
    X(PREEMPTED, 6, "preempted")

enum tfe_cause {
#define TFE_CAUSE_ENUM(NAME, number, name) CAUSE_##NAME = (number),
    TFE_CAUSES(TFE_CAUSE_ENUM)
#undef TFE_CAUSE_ENUM
};

/* What is kept of an epoch's time, in the order in which it comes. DETECTED: the reason for the
 * epoch was seen. STOPPED: STOP to the epoch before. GATHERED: its members were READY. COMMITTED:
 * it was durable. STARTED: its first START. LISTENING: all members said so. PROGRESSED: the first
 * step was told. ENDED: its own STOP, or the job's end. */
#define TFE_EPOCH_TIMES(X)                                                                         \
    X(DETECTED, detected)                                                                          \
    X(STOPPED, stopped)                                                                            \
    X(GATHERED, gathered)                                                                          \
    X(COMMITTED, committed)                                                                        \
    X(STARTED, started)                                                                            \
    X(LISTENING, listening)                                                                        \
    X(PROGRESSED, progressed)                                                                      \
    X(ENDED, ended)

enum tfe_epoch_time {
#define TFE_EPOCH_TIME_ENUM(NAME, name) EPOCH_##NAME,
    TFE_EPOCH_TIMES(TFE_EPOCH_TIME_ENUM)
#undef TFE_EPOCH_TIME_ENUM
        EPOCH__TIMES
};

/* How it ended for a node: its job's result, or that it was drained from a job that goes on. */
#define TFE_RESULTS(X)                                                                             \
    X(SUCCEEDED, 1, "succeeded")                                                                   \
    X(FAILED, 2, "failed")                                                                         \
    X(STOPPED, 3, "stopped")                                                                       \
    X(DRAINED, 4, "drained")

enum tfe_result {
#define TFE_RESULT_ENUM(NAME, number, name) RESULT_##NAME = (number),
    TFE_RESULTS(TFE_RESULT_ENUM)
#undef TFE_RESULT_ENUM
};

/* What a node is to its job at this moment; the words of `tfe-ctl status`. */
#define TFE_ROLES(X)                                                                               \
    X(MEMBER, 1, "member")                                                                         \
    X(SPARE, 2, "spare")                                                                           \
    X(JOINING, 3, "joining")                                                                       \
    X(LEAVING, 4, "leaving")

enum tfe_node_role {
#define TFE_ROLE_ENUM(NAME, number, name) ROLE_##NAME = (number),
    TFE_ROLES(TFE_ROLE_ENUM)
#undef TFE_ROLE_ENUM
};

/* What warns that a node will go away. REBALANCE is a hint: it may, some time. */
#define TFE_NOTICES(X)                                                                             \
    X(REBALANCE, 1, "rebalance")                                                                   \
    X(PREEMPT, 2, "preempt")                                                                       \
    X(MAINTENANCE, 3, "maintenance")                                                               \
    X(SIGNAL, 4, "signal")                                                                         \
    X(OPERATOR, 5, "operator")

enum tfe_notice {
#define TFE_NOTICE_ENUM(NAME, number, name) NOTICE_##NAME = (number),
    TFE_NOTICES(TFE_NOTICE_ENUM)
#undef TFE_NOTICE_ENUM
};

/* What a node is asked to find out about another one's ports. */
#define TFE_PROBE_KINDS(X)                                                                         \
    X(ADDRESS, 1, "address") /* does the node itself answer there */                               \
    X(SUSPECT, 2, "suspect") /* are its trainers dead */

enum tfe_probe_kind {
#define TFE_PROBE_KIND_ENUM(NAME, number, name) PROBE_##NAME = (number),
    TFE_PROBE_KINDS(TFE_PROBE_KIND_ENUM)
#undef TFE_PROBE_KIND_ENUM
};

/* What came of it. Of several ports that differ the first in this list counts, but for the node's
 * own answer, which counts only where every port gave it. */
#define TFE_PROBE_RESULTS(X)                                                                       \
    X(ANSWERED_OURS, 1, "answered_ours")   /* all ports: the node's line, PROTOCOL.md section 9 */ \
    X(ANSWERED_OTHER, 2, "answered_other") /* another node's line, or something else */            \
    X(ACCEPTED, 3, "accepted")             /* a connection, and no line */                         \
    X(NO_ANSWER, 4, "no_answer")           /* nothing in time, or no way there */                  \
    X(REFUSED, 5, "refused")               /* a reset: nobody listens there */

enum tfe_probe_result {
#define TFE_PROBE_RESULT_ENUM(NAME, number, name) PROBE_##NAME = (number),
    TFE_PROBE_RESULTS(TFE_PROBE_RESULT_ENUM)
#undef TFE_PROBE_RESULT_ENUM
};

/* How a trainer came to its end, where the agent knows more than its exit status. */
#define TFE_ENDINGS(X)                                                                             \
    X(EXITED, 0, "exited")                     /* by itself, or by a signal */                     \
    X(OUT_OF_MEMORY, 1, "out_of_memory")       /* the kernel killed it for its memory */           \
    X(START_TIMEOUT, 2, "start_timeout")       /* not started up in time: the agent ended it */    \
    X(PROGRESS_TIMEOUT, 3, "progress_timeout") /* told of no step for too long: likewise */        \
    X(START_FAILED, 4, "start_failed")         /* aborted before its cluster was whole */

enum tfe_ending {
#define TFE_ENDING_ENUM(NAME, number, name) ENDING_##NAME = (number),
    TFE_ENDINGS(TFE_ENDING_ENUM)
#undef TFE_ENDING_ENUM
};

/* In all structs below: strings are NUL-terminated and borrowed for the duration of the call they
 * are passed to; NULL where a string is optional and absent. Epochs start at 1; 0 means none. */

/* The end of a node's trainers in one epoch. Sent once nothing of them runs any more (all
 * descendants reaped), repeated on every new connection until NOTED. */
struct msg_exited {
    uint64_t epoch;
    uint32_t local_rank; /* the trainer that decided: the first one that failed, else 0 */
    uint32_t code;       /* exit status 0..255; 0 when a signal ended it */
    uint32_t signal;     /* 0, or the signal that ended it */
    bool stopped;        /* ended by the agent itself (STOP, fence, drain): nobody's fault */
    const char *tail;    /* last lines of its stderr, "" if none; at most MSG_TAIL_MAX bytes */
    enum tfe_ending end; /* what else the agent knows of that trainer's end */
};

/* The epoch whose trainers run on a node, as its START said, and the node's row in its table: from
 * these a server that has lost its disk puts the epoch together again. */
struct msg_running {
    uint32_t run;
    uint32_t rank;   /* global rank of the node's first trainer */
    uint32_t nodes;  /* in the epoch */
    uint32_t world;  /* trainers in it */
    uint64_t digest; /* of the whole table */
    const char *host;
    const uint16_t *ports; /* n_ports == nproc, by local rank, none 0 */
    size_t n_ports;
    enum tfe_cause cause; /* why it began */
};

/* First message of an agent on every connection. Idempotent by node. */
struct msg_join {
    const char *job;       /* tfe_id */
    const char *node;      /* tfe_id, random, made by the agent process */
    const char *node_name; /* label for people, at most TFE_LABEL_MAX */
    uint32_t min_nodes;    /* 1..max_nodes */
    uint32_t max_nodes;    /* ..MSG_NODES_MAX */
    uint32_t nproc;        /* trainers per node, 1..MSG_NPROC_MAX */
    uint32_t max_restarts; /* wishes for a job that this JOIN opens, or MSG_UNSET */
    uint32_t gather_ms;
    uint32_t grow_wait_ms;
    uint32_t stop_grace_ms;
    uint32_t elastic_timeout_ms; /* below min for so long fails the job; 0: it waits for ever */
    bool new_run;                /* if the job is over, begin its next run; else a plain JOIN */
    uint64_t highest_epoch; /* highest this process has started, stopped or been told of, or found
                               in checkpoints */
    uint64_t running_epoch; /* the epoch whose trainers run here now, 0 none */
    uint64_t script_digest; /* of script and arguments: tells a late node from a new run */
    uint32_t pid;           /* of the agent; 0 unknown */
    const struct msg_exited *exited; /* of the last epoch that ran here, or NULL */
    bool durable;                    /* this machine is not one of those that go away: for rank 0 */
    const char *run_key;             /* tfe_id: names the run that the node belongs to; NULL: any */
    bool no_grow; /* wish, as those above: a running epoch is never ended to take more in */
    uint32_t
        chief_grace_ms; /* wish: a switch waits so long for a rank 0 that nothing is known of */
    const struct msg_running *running; /* of running_epoch, else of the epoch of exited; or NULL */
};

/* Asks for the lease to be prolonged. number counts up per connection and comes back in RENEWED. */
struct msg_renew {
    uint64_t number;
};

/* "I could start this epoch at once": nothing of an older epoch runs here, the ports are held. */
struct msg_ready {
    uint64_t epoch;
    const char *host;      /* where peers reach the trainers, at most TFE_HOST_MAX */
    const uint16_t *ports; /* n_ports == nproc, by local rank, none 0 */
    size_t n_ports;
    uint64_t table_digest; /* of the table this node holds; 0 none */
    bool answering;        /* it still answers probes on the ports, and so cannot start yet */
};

/* All trainers of the node listen on their ports. */
struct msg_listening {
    uint64_t epoch;
};

struct msg_goodbye {
    bool drained; /* always true today: the node leaves on its own wish */
};

/* Process ids on the node, for operators. Sent when they change. */
struct msg_processes {
    uint32_t guard_pid; /* 0 none */
    const uint32_t *trainer_pids;
    size_t n_trainer_pids;
    const uint32_t *standby_pids;
    size_t n_standby_pids;
};

/* How far the trainers of this node have come in an epoch: what its scripts tell, and what is seen
 * of their checkpoints. A later one replaces the earlier; counts and numbers only grow within an
 * epoch. */
struct msg_progress {
    uint64_t epoch;
    bool has_step;
    uint64_t step; /* the last one that is done */
    bool has_saved;
    uint64_t saved_step; /* of the newest checkpoint */
    uint32_t saves;      /* checkpoints seen in this epoch */
    uint64_t answers;    /* number of the newest SAVE heard of when that was begun; 0 none */
    bool listens;        /* a script is there that can be asked to save */
};

/* This node will go away, or (withdrawn) will not after all. */
struct msg_notice {
    enum tfe_notice kind;
    uint32_t deadline_ms; /* from the sending; MSG_UNSET: none is known */
    bool withdrawn;
    bool uncertain; /* it may come to nothing, or sooner */
};

/* What came of a PROBE. */
struct msg_probed {
    uint64_t probe;
    enum tfe_probe_result result;
};

/* Answer to JOIN: the node has a lease. Durations count from the sending of the JOIN. */
struct msg_welcome {
    const char *node;
    uint64_t incarnation; /* of the server process, random */
    uint32_t run;         /* run number of the job, from 1 */
    uint32_t ttl_ms;
    uint32_t fence_ms;
    uint32_t renew_ms;  /* renew this often */
    uint32_t spread_ms; /* first reconnect after a random time up to this */
    uint32_t stop_grace_ms;
};

struct msg_renewed {
    uint64_t number;
    uint32_t ttl_ms;
    uint32_t fence_ms;
    uint32_t spread_ms; /* from now on in place of WELCOME's; 0: as before */
};

/* Get ready for this epoch and say READY. */
struct msg_prepare {
    uint64_t epoch;
    bool fresh_ports; /* the ports last used for this parity may still be spoken to: take others */
    bool answer;      /* answer probes on them, until a PREPARE of the same epoch does without */
};

/* End the trainers of this epoch and of every older one, whatever they do. */
struct msg_stop {
    uint64_t epoch;
    bool planned; /* nobody failed: a script that listens may use the stop grace to save */
};

/* Ask the scripts of this epoch for a checkpoint. */
struct msg_save {
    uint64_t epoch;
    uint64_t number;    /* counts up per job, from 1 */
    uint32_t within_ms; /* the switch comes then in any case; MSG_UNSET: not said */
};

/* One row: the trainer with global rank `rank` is reached at host:port. */
struct msg_row {
    uint32_t rank;
    const char *host;
    uint16_t port;
};

/* A chunk of the cluster table of an epoch. */
struct msg_table {
    uint64_t epoch;
    uint32_t world;       /* trainers in the whole table */
    uint64_t base_digest; /* the rows change the table with this digest; 0: the table is whole */
    const struct msg_row *rows;
    size_t n_rows;
    bool turned; /* … after each port of that one has become the other of its pair (table_port) */
};

/* Start the trainers of this epoch. Follows its TABLE chunks. */
struct msg_start {
    uint64_t epoch;
    uint32_t run;
    uint32_t rank;  /* global rank of the node's first trainer; the others follow on */
    uint32_t world; /* trainers in the epoch */
    uint32_t nodes; /* nodes in the epoch */
    enum tfe_cause cause;
    uint64_t table_digest;
    uint32_t fence_ms; /* of a node of this epoch, as in RENEWED; 0: not said */
};

/* The EXITED of this epoch has been taken in. */
struct msg_noted {
    uint64_t epoch;
};

/* The node has no place any more; the connection closes after it. */
struct msg_lease_ended {
    uint64_t epoch; /* of the job, as the server knows it */
};

/* Try another node's ports, and say what came of it. */
struct msg_probe {
    uint64_t probe; /* comes back in PROBED */
    enum tfe_probe_kind kind;
    const char *node; /* whose ports they are */
    const char *host; /* at most TFE_HOST_MAX */
    const uint16_t *ports;
    size_t n_ports; /* 1..MSG_NPROC_MAX */
};

/* The job is over, at least for this node: end what runs, and exit. */
struct msg_finish {
    enum tfe_result result;
    uint32_t run;
    const char *sentence; /* what to tell the user; for a failure the blamed node, rank and tail */
};

struct msg_refused {
    enum tfe_refusal code;
    const char *sentence; /* one, a user can act on it */
};

/* Asks for all jobs (job NULL) or for one. Answered by STATUS_JOB, its STATUS_NODEs, …, STATUS_END.
 */
struct msg_status {
    const char *job;
};

struct msg_status_job {
    const char *job;
    const char *state; /* lower case */
    uint32_t run;
    uint64_t epoch;
    uint32_t min_nodes;
    uint32_t max_nodes;
    uint32_t nproc;
    uint32_t restarts; /* of the job-global budget, used so far */
};

/* A node of the STATUS_JOB before it. */
struct msg_status_node {
    const char *node;
    const char *name;
    enum tfe_node_role role;
    bool has_rank;
    uint32_t rank;    /* of its first trainer */
    const char *host; /* NULL before it is known */
    uint16_t port;
    uint32_t pid;
    struct msg_processes processes;
};

struct msg_status_end {
    uint32_t jobs;
};

/* Orders of an operator, answered by DONE or REFUSED. A node is named by its id or its label. */
struct msg_drain {
    const char *node;   /* at most TFE_LABEL_MAX */
    uint32_t within_ms; /* it has to be gone by then; MSG_UNSET: as soon as is convenient */
};

struct msg_evict {
    const char *node; /* likewise */
};

struct msg_stop_job {
    const char *job;
};

/* The order has been taken in. */
struct msg_done {
    char nothing; /* C has no empty struct */
};

/* Asks for the ledger of a job. Answered by its EPOCH_ROWs, the oldest first, and STATUS_END. */
struct msg_epochs {
    const char *job;
};

/* What is known of an epoch: why it began, what each phase of its beginning cost, how it ended. */
struct msg_epoch_row {
    uint32_t run;
    uint64_t epoch;
    enum tfe_cause cause;
    const char *blamed; /* label of the node whose loss, exit or notice began it; "" none */
    bool planned;       /* nobody had failed: the epoch before was stopped for it */
    uint32_t members;
    struct tfe_wall at[EPOCH__TIMES]; /* 0: not known, or not yet */
    bool has_saved;                   /* the newest checkpoint that was told */
    uint64_t saved_step;
    bool has_lost; /* steps done after that, which the next epoch did again */
    uint64_t lost_steps;
    bool over; /* nothing of this will change any more */
};

/* Copies what the server keeps of its jobs into a new file on its own machine. */
struct msg_backup {
    const char *path; /* absolute; at most MSG_PATH_MAX bytes */
};

/* One message. */
struct tfe_msg {
    enum tfe_msg_type type;
    union {
#define TFE_MSG_MEMBER(NAME, name, number, sender) struct msg_##name name;
        TFE_MSGS(TFE_MSG_MEMBER)
#undef TFE_MSG_MEMBER
    } u;
};

/* Names, static and never NULL: "JOIN", "size_mismatch", "node_lost", "succeeded", "member". A
 * number outside the list gives "?". */
const char *msg_type_name(enum tfe_msg_type type);
const char *msg_refusal_name(enum tfe_refusal code);
const char *msg_cause_name(enum tfe_cause cause);
const char *msg_result_name(enum tfe_result result);
const char *msg_role_name(enum tfe_node_role role);
const char *msg_notice_name(enum tfe_notice kind);
const char *msg_probe_kind_name(enum tfe_probe_kind kind);
const char *msg_probe_result_name(enum tfe_probe_result result);
const char *msg_ending_name(enum tfe_ending ending);

#endif
