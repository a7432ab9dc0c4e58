/* common/message/msg.h: every message of the protocol as a plain struct, shared by cores, codec and
 * I/O layers. proto/tfe.proto and proto/PROTOCOL.md define the encoding and the meaning. Pure. */
#ifndef TFE_COMMON_MESSAGE_MSG_H
#define TFE_COMMON_MESSAGE_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/job_spec.h"
#include "common/message/msg_enums.h"
#include "common/message/msg_pool.h"
#include "common/message/range.h"

/* In all message structs, strings are NUL-terminated and borrowed for the duration of the call; an
 * optional string is NULL if absent. Epochs start at 1; 0 means none. */

/* First line of a Python traceback; marks an uncaught exception in a stderr tail. */
#define MSG_RAISED_HEAD "Traceback (most recent call last):"
/* The last line of a trainer that its agent has ended: this, and why. */
#define MSG_TAIL_BY_AGENT "ended by tfe-agent: "
/* In the sentence of a failed job, what a trainer printed last follows this. */
#define MSG_TAIL_HEAD "; its last lines were:\n"

/* EXITED: the end of a node's trainers in one epoch. The agent sends EXITED after all descendants
 * are reaped, and repeats it on every new connection until the server answers NOTED. */
struct msg_exited {
    uint64_t epoch;
    uint32_t local_rank; /* local rank of the trainer that decided the outcome: the first that
                            failed, else 0 */
    uint32_t code;       /* exit status 0..255; 0 if a signal ended the trainer */
    uint32_t signal;     /* signal that ended the trainer, or 0 */
    bool stopped; /* the agent itself ended the trainers (STOP, fence, drain): not a failure */
    const char
        *tail; /* last lines of the trainer's stderr, "" if none; at most MSG_TAIL_MAX bytes */
    enum tfe_ending
        end; /* how the trainer ended, as far as the agent knows more than the exit status */
    uint64_t restart; /* number of the RESTART that started the trainers; 0 if START did */
};

/* RUNNING: the epoch whose trainers run on a node, copied from its START, and the node's row of the
 * cluster table. A server that has lost its database rebuilds the epoch from these. */
struct msg_running {
    uint32_t run;
    uint32_t rank;   /* global rank of the node's first trainer */
    uint32_t nodes;  /* number of nodes in the epoch */
    uint32_t world;  /* number of trainers in the epoch */
    uint64_t digest; /* digest of the complete cluster table */
    const char *host;
    const uint16_t *ports; /* one port per trainer by local rank, none 0; n_ports == nproc */
    size_t n_ports;
    enum tfe_cause cause; /* why the epoch began */
};

/* JOIN: first message of an agent on every connection. Idempotent by node id. */
struct msg_join {
    const char *job;  /* job name, a tfe_id */
    const char *node; /* node id, a tfe_id: the hash of node_secret, chosen by the agent process */
    const char *node_name; /* node label for display, at most TFE_LABEL_MAX bytes */
    struct job_spec spec;  /* job settings; a field at MSG_UNSET takes the server's setting */
    bool new_run;          /* if the job is over, begin its next run */
    const char *run_key;   /* tfe_id that names the run the node belongs to; NULL for any run */
    bool durable;          /* the machine is not preemptible, so its node is preferred for rank 0 */
    uint32_t pid;          /* process id of the agent; 0 if unknown */
    uint64_t highest_epoch; /* highest epoch that this process has started, stopped or received, or
                               found in the names of its checkpoints */
    uint64_t running_epoch; /* epoch whose trainers run on the node now; 0 if none */
    const struct msg_exited *exited; /* end of the last epoch that ran on the node, or NULL */
    const struct msg_running
        *running; /* the epoch running_epoch, else the epoch of exited; NULL if neither */
    const char
        *node_secret; /* secret whose hash is the node id (common/credentials/node_secrets.h) */
    bool fixed_ports; /* the node's trainers use the same ports in every epoch */
    const char *tensorflow; /* TensorFlow version, a tfe_id; NULL if unknown */
    const char *proof_hash; /* hash of the node's proof of termination (DEATH), a tfe_id; NULL if it
                               has none */
    uint16_t guard_port; /* port where the guard will serve the proof of termination; 0 if none */
    const char *host;    /* host that the node's READY messages will name; NULL if unknown */
    bool has_role;       /* the node takes slots of `role` only */
    enum tfe_task role;
    bool evaluates;   /* running_epoch and exited belong to an evaluator, which is not part of that
                         epoch */
    uint64_t restart; /* number of the last RESTART in running_epoch, as in EXITED */
};

/* RENEW: asks for the lease to be renewed. RENEWED returns the number, which counts up per
 * connection. */
struct msg_renew {
    uint64_t number;
    /* Sent by the node with rank 0, for the end of a job (design 4.10). idle_ms: time since its
     * trainers last showed activity, 0 if they are active. others_ended: other trainers of the node
     * have exited with status 0. */
    uint32_t idle_ms;
    bool others_ended;
};

/* MEMORY: the memory that an agent lends its trainers for saved state, over all slots, and the
 * newest complete state in it. The memory outlives trainers and epochs, but not the agent. */
struct msg_memory {
    uint64_t bytes;
    bool has_snapshot;
    uint64_t epoch, step; /* epoch and step of the newest complete state; 0, 0 if none */
};

/* READY: the node can start this epoch at once. Nothing of an older epoch runs and the ports are
 * held. */
struct msg_ready {
    uint64_t epoch;
    const char *host;      /* host where peers reach the trainers, at most TFE_HOST_MAX bytes */
    const uint16_t *ports; /* one port per trainer by local rank, none 0; n_ports == nproc */
    size_t n_ports;
    uint64_t table_digest;  /* digest of the cluster table that the node holds; 0 if none */
    bool answering;         /* the node still answers probes on the ports, so it cannot start yet */
    const char *tensorflow; /* TensorFlow version, as in JOIN */
    struct msg_memory memory;
};

/* LISTENING: all trainers of the node listen on their ports. */
struct msg_listening {
    uint64_t epoch;
};

struct msg_goodbye {
    bool drained;     /* always true today: the node leaves at its own request */
    bool interrupted; /* a user ended the agent at its terminal, as in NOTICE */
};

/* ENROL: asks for a key of the agent's own, whose secret no other node has. Not answered if the
 * session's key is valid for a long time yet. */
struct msg_enrol {
    const char *public_key; /* X25519 public key, 64 hexadecimal characters */
};

/* DEATH: a proof of termination. The guard of a node discloses the proof after its agent has ended
 * and all descendants are reaped. The server's core receives the hash. */
struct msg_death {
    const char *certificate; /* proof of termination, 64 hexadecimal characters
                                (common/credentials/node_secrets.h) */
};

/* PROCESSES: process ids on the node, for operators. Sent when they change. */
struct msg_processes {
    uint32_t guard_pid; /* process id of the guard; 0 if none */
    const uint32_t *trainer_pids;
    size_t n_trainer_pids;
    const uint32_t *standby_pids;
    size_t n_standby_pids;
};

/* PROGRESS: progress of this node's trainers in an epoch, reported by scripts and seen in
 * checkpoints. A later message replaces an earlier one; counts and numbers only grow within an
 * epoch. */
struct msg_progress {
    uint64_t epoch;
    uint64_t step;       /* last completed step */
    uint64_t saved_step; /* step of the newest checkpoint */
    uint64_t answers; /* number of the newest SAVE received before that checkpoint was begun; 0 if
                         none */
    uint32_t saves;   /* checkpoints seen in this epoch */
    bool has_step;
    bool has_saved;
    bool listens; /* a script is connected that can be asked to save */
    bool has_from;
    struct msg_memory memory;
    uint64_t from_step; /* step from which the scripts resumed in this epoch */
    bool ends;          /* a trainer has begun to exit with status 0 */
    /* Number of the newest SAVE for which the state was stored in memory; 0 if none. */
    uint64_t snapshot_answers;
    bool partitioned; /* a script's checkpoints were written for another number of parameter servers
                       */
    bool alone;       /* a trainer does not use the cluster that it was given */
};

/* METRIC: a value that a script reports, under a name of at most MSG_METRIC_NAME_MAX characters of
 * A-Za-z0-9._/- */
struct msg_metric {
    const char *name;
    double value;
};

/* METRICS: values that scripts report besides PROGRESS, for display only. */
struct msg_metrics {
    uint64_t epoch;
    uint64_t step; /* step to which the metrics belong */
    uint64_t samples;
    uint64_t total; /* total steps of the run; 0 if unknown */
    const struct msg_metric *metrics;
    size_t n_metrics; /* number of metrics, at most MSG_METRICS_MAX */
};

/* ARTIFACT: state of the copy of the job's artifacts, which rank 0's trainer makes at its end; for
 * display only. */
struct msg_artifact {
    uint64_t epoch;
    enum tfe_artifact state;
    const char *place;     /* where the files are or will be, without secrets */
    uint64_t files, bytes; /* number of files and their size; 0 if not known yet */
    const char *error;     /* of the last attempt; NULL if none failed */
};

/* NOTICE: this node is about to be taken away or, if withdrawn, stays after all. */
struct msg_notice {
    enum tfe_notice kind;
    uint32_t deadline_ms; /* time from sending until the node ends; MSG_UNSET if unknown */
    bool withdrawn;
    bool uncertain;   /* the node may stay after all, or go sooner */
    bool interrupted; /* a user ended the agent at its terminal; the machine stays */
    /* Set by the server, never sent: the pool takes the node from its job, and this is the cause of
     * the next epoch. 0 if the notice is about the machine. */
    enum tfe_cause released_for;
};

/* PROBED: the result of a PROBE. */
struct msg_probed {
    uint64_t probe;
    enum tfe_probe_result result;
};

/* WELCOME: the answer to JOIN; the node has a lease. Durations count from the sending of JOIN. */
struct msg_welcome {
    const char *node;
    uint64_t incarnation; /* random number of the server process */
    uint32_t run;         /* run number of the job, from 1 */
    uint32_t ttl_ms;
    uint32_t fence_ms;
    uint32_t renew_ms;  /* renewal interval */
    uint32_t spread_ms; /* upper bound of the random delay before the first reconnect */
    uint32_t stop_grace_ms;
    const char *message; /* sentence for display; NULL if none */
};

struct msg_renewed {
    uint64_t number;
    uint32_t ttl_ms;
    uint32_t fence_ms;
    uint32_t spread_ms; /* replaces the reconnect spread of WELCOME; 0 if unchanged */
    /* sentence that says why the node does not train; NULL if it does, or if the sentence has not
     * changed since the last one on this connection */
    const char *waits;
    uint32_t waits_ms; /* with waits: time until the wait ends at the latest; 0 if unknown */
    bool no_wait;      /* the wait of the last sentence is over */
};

/* PREPARE: asks the node to prepare this epoch and answer READY. */
struct msg_prepare {
    uint64_t epoch;
    bool fresh_ports; /* use other ports: peers may still connect to those last used for this epoch
                         parity */
    bool
        answer; /* answer probes on the ports until a PREPARE of the same epoch without this flag */
};

/* STOP: end the trainers of this epoch and of every older one. */
struct msg_stop {
    uint64_t epoch;
    bool planned; /* no failure: a script that accepts requests may save during the stop grace */
    enum tfe_cause cause; /* cause of the epoch that follows; 0 if not given */
    const char *blamed;   /* label of the node that was lost, exited or gave notice; NULL if none */
    const char *message;  /* additional sentence for display; NULL if none */
    bool in_memory;       /* in a planned stop, state stored in memory need not be saved to disk */
};

/* SAVE: asks the scripts of this epoch for a checkpoint. */
struct msg_save {
    uint64_t epoch;
    uint64_t number;    /* counts up per job, from 1 */
    uint32_t within_ms; /* time until the switch starts in any case; MSG_UNSET if not given */
    bool in_memory;     /* a state stored in memory also satisfies the request */
};

/* ROW of the cluster table: the trainer with global rank `rank` listens on host:port and has `role`
 * in TensorFlow's cluster. Ranks of a role are consecutive; `first` is the rank of its index 0. */
struct msg_row {
    uint32_t rank;
    const char *host;
    uint16_t port;
    enum tfe_task role;
    uint32_t first;
};

/* TABLE: a chunk of the cluster table of an epoch. */
struct msg_table {
    uint64_t epoch;
    uint32_t world;       /* number of trainers in the complete table */
    uint64_t base_digest; /* digest of the table that the rows change; 0 if the rows are a complete
                             table */
    const struct msg_row *rows;
    size_t n_rows;
    bool turned; /* before the rows apply, each port of the base table is replaced by the other one
                    of its pair (table_port) */
};

/* START: start the trainers of this epoch. Follows the epoch's TABLE chunks. */
struct msg_start {
    uint64_t epoch;
    uint32_t run;
    uint32_t
        rank; /* global rank of the node's first trainer; its other trainers have the next ranks */
    uint32_t world; /* number of trainers in the epoch */
    uint32_t nodes; /* number of nodes in the epoch */
    enum tfe_cause cause;
    uint64_t table_digest;
    uint32_t fence_ms; /* fence of the epoch's members, as in RENEWED; 0 if not given */
    bool evaluates;    /* the node evaluates and is not in the table: rank is world */
};

/* RESTART: start the node's trainers of this epoch again, with the same ranks. */
struct msg_restart {
    uint64_t epoch;
    uint64_t number; /* counts up per node within the epoch, from 1 */
};

/* NOTED: the server has processed the EXITED of this epoch. */
struct msg_noted {
    uint64_t epoch;
};

/* LEASE_ENDED: the node is no longer part of the job; the server closes the connection. */
struct msg_lease_ended {
    uint64_t epoch; /* newest epoch of the job that the server knows */
};

/* PROBE: try to connect to another node's ports and report the result. */
struct msg_probe {
    uint64_t probe; /* probe number, returned in PROBED */
    enum tfe_probe_kind kind;
    const char *node; /* id of the node to which the ports belong */
    const char *host; /* host to connect to, at most TFE_HOST_MAX bytes */
    const uint16_t *ports;
    size_t n_ports;      /* number of ports, 1..MSG_NPROC_MAX */
    uint16_t guard_port; /* for SUSPECT: port where the node's guard serves its proof of
                            termination; 0 if none */
};

/* FINISH: the job is over, at least for this node. The agent ends what runs, and exits. */
struct msg_finish {
    enum tfe_result result;
    uint32_t run;
    const char *sentence; /* sentence for the user; after a failure with the blamed node, rank and
                             stderr tail */
};

struct msg_refused {
    enum tfe_refusal code;
    const char *sentence; /* one sentence that says what the user can do */
    uint64_t commit;      /* with REFUSAL_COMMIT_MISMATCH: the job's commit; 0 if it has none */
};

/* STATUS: asks for one job, or for all jobs (job NULL). Answered for each job by STATUS_JOB,
 * SERIES_ROWs, STATUS_NODEs and, with `detail`, CONDITION_ROWs and POOL_ROWs of its nodes; then
 * STATUS_END. */
struct msg_status {
    const char *job;
    bool jobs_only; /* omit STATUS_NODEs */
    bool detail;    /* include CONDITION_ROWs and POOL_ROWs; requires a job */
};

struct msg_status_job {
    const char *job;
    enum tfe_job_state state;
    const char *phase; /* current phase in the core, one word ("gathering", "preparing", ...); "" if
                          no agent has joined its run */
    uint32_t run;
    uint64_t epoch;
    uint32_t min_nodes;
    uint32_t max_nodes;
    uint32_t nproc;
    uint32_t restarts;  /* restarts of the job's budget used so far */
    const char *waits;  /* sentence that says what the job waits for; NULL if nothing */
    uint32_t waits_ms;  /* time until the wait ends at the latest; 0 if unknown */
    uint32_t members;   /* number of nodes in the job's epoch */
    uint32_t nodes;     /* number of nodes that the job has */
    uint32_t connected; /* number of the job's nodes with an open connection */
    uint32_t ready;     /* number of the job's nodes that are ready for the next epoch */
    uint32_t restarts_left;
    uint32_t n_ps; /* number of parameter servers, in addition to workers, chief and evaluator */
    bool chief;
    bool evaluator;
    /* Progress as reported by the job's scripts. */
    bool has_step;
    uint64_t step;
    bool has_steps_per_s;
    double steps_per_s;
    bool has_samples_per_s;
    double samples_per_s;
    uint64_t total;          /* total steps of the run; 0 if unknown */
    uint64_t samples;        /* samples processed; 0 if unknown */
    uint32_t waits_since_ms; /* how long the job has been waiting; 0 if unknown */
    const char *slow; /* label of the straggler, the node that the others wait for; NULL if none */
    uint32_t straggler_times_milli; /* ratio of the straggler's step time to that of the others,
                                       times 1000 */
    uint64_t memory_bytes; /* memory that the job's agents lend for the state of their trainers */
    /* Workers of a job with parameter servers: slots in the running epoch (0 without ps or epoch),
     * workers that run, and workers that have exited with status 0. */
    uint32_t workers, workers_working, workers_done;
    uint32_t
        alone; /* nodes of the epoch whose trainers do not use the cluster that they were given */
    struct tfe_wall since; /* when the job entered its state; 0 if unknown */
    struct tfe_wall
        ended;          /* when the job's run ended; 0 if it has not ended or the time is unknown */
    const char *reason; /* one line that says why the job failed or was cancelled or, during
                           retries, what its last failure was; NULL if none */
    uint32_t retry_ms;  /* time until the next attempt at the latest; 0 if none is scheduled */
    /* True for a submitted job. For a job that agents opened, the fields from priority to spec are
     * 0 or NULL. */
    bool is_submitted;
    uint32_t priority;
    uint32_t n_assigned;     /* pool nodes assigned to the job */
    struct tfe_wall created; /* when the job was submitted */
    bool lingers;            /* the job has succeeded and its remaining trainers continue to run */
    /* The job as a job file in JSON without its secrets: env is the list of names, and observers
     * see command only up to the script. NULL if none. */
    const char *spec;
    bool has_saved; /* the step of the newest checkpoint is known */
    uint64_t saved_step;
    struct tfe_wall saved; /* when the newest checkpoint was reported; 0 if none was */
};

/* STATUS_NODE: a node of the preceding STATUS_JOB. */
struct msg_status_node {
    const char *node;
    const char *name;
    enum tfe_node_role role;
    bool has_rank;
    uint32_t rank;    /* global rank of the node's first trainer */
    const char *host; /* host of the node; NULL until known */
    uint16_t port;
    uint32_t pid;
    struct msg_processes processes;
    const char
        *waits; /* what the node waits for, if this differs from STATUS_JOB; NULL if nothing */
    struct msg_memory memory;
    /* In a job with roles: the role of the node's first trainer in TensorFlow's cluster, and its
     * index within that role. */
    bool has_place;
    enum tfe_task task;
    uint32_t index;
    struct msg_machine_info machine_info;
    struct msg_machine_stats machine_stats;
    uint32_t times_milli; /* ratio of the node's step time to the median of the others, times 1000;
                             0 if unknown */
    bool slow;
    const char
        *notice; /* kind of the last notice, one word; NULL if none. The times are 0 if unknown. */
    struct tfe_wall notice_at, notice_deadline;
};

struct msg_status_end {
    uint32_t jobs;
    uint64_t newest; /* for EVENTS: the highest event number in the log */
};

/* HEALTH: a problem of the server itself. Sent before the answer to STATUS, only if there is a
 * problem. */
struct msg_health {
    const char *component; /* name of the problem, one word: "store", "disk", "late" */
    const char *message;   /* description of the problem, a sentence for display */
    uint32_t since_ms;     /* time since the problem was noticed */
};

/* GAUGES: asks for the server's metrics. Answered by GAUGEs and STATUS_END. */
struct msg_gauges {
    char nothing;
};

/* GAUGE: one metric, named as in Prometheus. */
#define MSG_GAUGE_LABELS_MAX 128
struct msg_gauge {
    const char *name;   /* metric name, at most 64 bytes of a-z, 0-9 and _ */
    const char *labels; /* labels such as "code=evicted" or "phase=stop,le=0.1"; "" if none */
    double value;
    const char *type; /* "gauge", "counter" or "histogram"; NULL except in a family's first GAUGE */
    const char *help; /* description, a sentence; NULL except in a family's first GAUGE */
};

/* ENROLLED: the agent's own key, with the rights of the session in which it was requested. All
 * fields in hexadecimal. */
struct msg_enrolled {
    const char *key; /* id of the key */
    const char
        *secret; /* secret that seals the first handshake message, as a token's secret does */
    const char *certificate; /* certificate of the key's rights, sealed by the server */
    struct tfe_wall expires;
};

/* DRAIN and the following are an operator's orders, answered by DONE or REFUSED. A node is named by
 * its id or its label. */
struct msg_drain {
    const char *node; /* id or label of the node, at most TFE_LABEL_MAX bytes */
    uint32_t
        within_ms; /* time until the node must be gone; MSG_UNSET for the next convenient moment */
};

struct msg_evict {
    const char *node; /* id or label of the node, as in DRAIN */
    uint32_t for_ms;  /* how long nodes with the same key and label are denied; 0 to deny this node
                         id only */
};

/* UNBAN: admits an evicted node again. */
struct msg_unban {
    const char *node; /* id or label of the node */
};

/* AGENTS: asks for the agents that have a session. Answered by AGENT_ROWs and STATUS_END. */
struct msg_agents {
    char nothing;
};

struct msg_agent_row {
    const char *key;   /* id of the key that the agent uses now: its own key or a token */
    const char *token; /* id of the token with which the agent first connected */
    const char *label; /* label of that token; "" if none */
    const char *jobs;  /* pattern of the jobs that the agent may join */
    const char *from;  /* address from which the agent connects */
    bool enrolled;     /* the agent uses a key of its own */
    const char *node;  /* node id; "" if the agent has not joined */
    const char *name;  /* label of the node */
    const char *job;
    struct tfe_wall expires;
};

/* REVOKE_AGENT: revokes a node's own key and evicts the node. */
struct msg_revoke_agent {
    const char *node; /* id or label of the node, as in DRAIN */
};

/* BANS: asks for the deny list. Answered by BAN_ROWs, newest first, and STATUS_END. */
struct msg_bans {
    char nothing;
};

struct msg_ban_row {
    const char *node; /* node id at the time of the eviction */
    const char *job;
    const char *key;   /* id of the key that the node used; "" if unknown */
    const char *name;  /* label of the node */
    const char *token; /* id of the token with which the node first connected; "" if unknown, which
                          matches any token */
    struct tfe_wall until;
};

struct msg_grow {
    const char *job;
};

struct msg_forget {
    const char *job;
};

/* DONE: the order has been accepted. */
struct msg_done {
    char nothing; /* placeholder: C has no empty struct */
};

/* EPOCHS: asks for the ledger of a job. Answered by EPOCH_ROWs, oldest first, and STATUS_END. */
struct msg_epochs {
    const char *job;
};

/* EPOCH_ROW: why an epoch began, how long each phase of its start took, and how it ended. */
struct msg_epoch_row {
    uint32_t run;
    uint64_t epoch;
    enum tfe_cause cause;
    const char
        *blamed;  /* label of the node whose loss, exit or notice began the epoch; "" if none */
    bool planned; /* the preceding epoch was stopped without a failure */
    uint32_t members;
    struct tfe_wall at[EPOCH__TIMES]; /* time of each phase; 0 if unknown or not reached */
    bool has_saved;                   /* a checkpoint was reported; saved_step is the newest */
    uint64_t saved_step;
    bool has_lost; /* lost_steps is known: steps after the checkpoint, repeated by the next epoch */
    uint64_t lost_steps;
    bool over;         /* the row is final */
    uint32_t restarts; /* restarts of single workers, during which all other nodes continued */
    bool failed;       /* the run failed with this epoch */
};

/* BACKUP: copies the server's database into a new file of this name in its backup directory. */
struct msg_backup {
    const char *name; /* file name, an id that does not begin with a dot */
};

/* TOKEN_CREATE: makes a token. Answered by TOKEN and STATUS_END once its record is durable. */
struct msg_token_create {
    uint32_t role;     /* role, an enum principal_role */
    const char *scope; /* job pattern, at most MSG_SCOPE_MAX bytes; "*" for all jobs */
    uint32_t ttl_ms;   /* lifetime; 0 for unlimited */
    uint32_t uses; /* number of nodes that may use the token, at most MSG_KEY_USES_MAX; 0 for any
                      number */
    const char *label; /* label, at most MSG_KEY_LABEL_MAX bytes */
    /* Number of pool nodes that all jobs of the scope may have together, set by an admin only;
     * MSG_NODES_MAX for any number, 0 if unchanged. */
    uint32_t quota;
};

/* TOKEN: the text of a new token. No other message contains it. */
struct msg_token {
    const char *key;  /* id of the token's key, as in TOKEN_ROW */
    const char *text; /* the token itself, at most MSG_TOKEN_MAX bytes */
};

/* TOKENS: asks for all keys known to the server. Answered by TOKEN_ROWs and STATUS_END. */
struct msg_tokens {
    char nothing;
};

/* TOKEN_ROW: the public properties of a key. A time is 0 if it is never or unknown. */
struct msg_token_row {
    const char *key; /* id of the key, MSG_KEY_HEX hexadecimal characters */
    uint32_t role;
    const char *scope;
    const char *label; /* label of the key; "" if none */
    uint32_t generation;
    uint32_t uses;
    const char *used_by; /* ids of the nodes that use the key, separated by commas */
    struct tfe_wall made, expires, revoked;
    const char *state; /* "good", or why the key is invalid: "expired", "revoked", "used up", "root
                          removed" */
    uint32_t quota;    /* quota set by the key's TOKEN_CREATE; 0 if none */
};

/* TOKEN_REVOKE: revokes a token and ends its sessions. */
struct msg_token_revoke {
    const char *key; /* id or label of the token */
};

/* Steps of a root key rotation: install a new root, use it for new tokens, remove the older
 * roots. */
#define TFE_ROTATIONS(X)                                                                           \
    X(ROTATE_RENEW, 1, "renew")     /* install a root and use it at once */                        \
    X(ROTATE_INSTALL, 2, "install") /* add a root that new tokens do not use yet */                \
    X(ROTATE_USE, 3,                                                                               \
      "use") /* use the newest root for new tokens and those of the state directory */             \
    X(ROTATE_REMOVE, 4,                                                                            \
      "remove") /* remove roots older than the one in use, which invalidates their tokens */

enum tfe_rotation { TFE_ROTATIONS(TFE_ENUMERATOR) };

struct msg_token_rotate {
    enum tfe_rotation step;
};

/* AUDIT: asks for the audit log. Answered by AUDIT_ROWs, oldest first, and STATUS_END. */
struct msg_audit {
    char nothing;
};

/* AUDIT_ROW: one order, token operation or refusal. */
struct msg_audit_row {
    uint64_t number; /* number of the row, from 1 without gaps */
    struct tfe_wall at;
    const char *key;    /* id of the key that signed the request; "" if none */
    const char *label;  /* label of the key */
    const char *from;   /* address of the client */
    const char *what;   /* name of the message, or "refused" */
    const char *about;  /* affected node, job or key; at most MSG_AUDIT_ABOUT_MAX - 1 bytes */
    const char *result; /* "done", or the name of a refusal */
    const char *hash;   /* hash over this row and all earlier rows (common/records/audit_chain.h) */
};

/* LOGS: asks for the output of a job's trainers. Answered by LOG_LINES and, without `follow`,
 * STATUS_END. */
struct msg_logs {
    const char *job;
    bool has_rank;
    uint32_t rank;         /* global rank; ignored without has_rank, which selects all ranks */
    const char *node;      /* id or label of the node, as in DRAIN; NULL for all nodes */
    uint64_t epoch;        /* epoch; 0 for all that is available, in any case the newest */
    bool follow;           /* also send lines printed from now on */
    uint32_t lines;        /* number of last lines of each rank's streams; MSG_UNSET for all */
    struct tfe_wall since; /* only lines read after this time; ms 0 for all */
};

/* LOG_LINES: complete lines of one stream that were read at one time. */
struct msg_log_lines {
    const char *node; /* node id */
    const char *name; /* node label */
    uint64_t epoch;
    uint32_t rank;
    enum tfe_stream stream;
    struct tfe_wall at; /* time by the clock of the trainer's machine; ms 0 if unknown */
    const char *text;   /* lines separated by newlines, at most MSG_LOG_TEXT_MAX bytes */
    uint64_t lost;      /* number of lines missing before these */
    bool tail;          /* the server's copy of the last lines of a trainer whose machine is gone */
    bool silent;        /* no lines: the node does not answer */
};

/* LOG_REQUEST: asks one agent for the output of its trainers. The agent answers by LOG_CHUNKs and,
 * without `follow`, LOG_DONE. */
struct msg_log_request {
    uint64_t request;
    bool has_rank;
    uint32_t rank;
    uint64_t epoch;
    bool follow;
    uint32_t lines;
    struct tfe_wall since;
    uint32_t window; /* initial credit in bytes; each chunk costs MSG_LOG_COST plus its text */
};

/* LOG_CREDIT: grants further bytes of credit. */
struct msg_log_credit {
    uint64_t request;
    uint32_t bytes;
};

/* LOG_STOP: the client no longer reads. */
struct msg_log_stop {
    uint64_t request;
};

struct msg_log_chunk {
    uint64_t request;
    uint64_t epoch;
    uint32_t rank;
    enum tfe_stream stream;
    struct tfe_wall at;
    const char *text;
    uint64_t lost;
    uint64_t behind; /* in a chunk without text, sent when trainers end: lines that still wait for
                        credit */
};

struct msg_log_done {
    uint64_t request;
};

/* EVENTS: asks for events of one job, or of all jobs (job NULL): those numbered above `after` or,
 * if after is 0, the newest `last`. Answered by at most MSG_EVENTS_MAX EVENT_ROWs, oldest first,
 * and STATUS_END. */
struct msg_events {
    const char *job;
    uint64_t after;
    uint32_t last;
};

/* EVENT_ROW: one event. Texts are "" if absent. */
struct msg_event_row {
    uint64_t number; /* event number, strictly increasing with gaps */
    struct tfe_wall at;
    const char *kind; /* name of the event, one word */
    enum tfe_event_level level;
    const char *job; /* job name; "" for an event of the server itself */
    uint32_t run;    /* run number; 0 if unknown */
    uint64_t epoch;  /* epoch; 0 if none */
    const char *node;
    const char *name;    /* label of the node */
    const char *message; /* description, one sentence for display */
};

/* SERIES: asks for the stored metrics of a run: the points of one series above `after`, or the
 * newest point of every series (name NULL). Answered by SERIES_ROWs, oldest first, and
 * STATUS_END. */
struct msg_series {
    const char *job;
    uint32_t run; /* run number; 0 for the newest run */
    const char *name;
    uint64_t after;
};

/* SERIES_ROW: one point of a series. As a series grows it is thinned evenly over the whole run. */
struct msg_series_row {
    const char *job;
    uint32_t run;
    const char *name;
    uint64_t ord; /* ordinal of the point, increasing from 1 */
    uint64_t epoch, step;
    struct tfe_wall at;
    double value;
};

/* One message of any type. */
struct tfe_msg {
    enum tfe_msg_type type;
    union {
#define TFE_MSG_MEMBER(NAME, name, number, sender) struct msg_##name name;
        TFE_MSGS(TFE_MSG_MEMBER)
#undef TFE_MSG_MEMBER
    } u;
};

/* Return static names, never NULL: "JOIN", "size_mismatch", "node_lost", "succeeded", "member". An
 * unknown value gives "?". */
const char *msg_type_name(enum tfe_msg_type type);
const char *msg_refusal_name(enum tfe_refusal code);
const char *msg_cause_name(enum tfe_cause cause);
const char *msg_result_name(enum tfe_result result);
const char *msg_role_name(enum tfe_node_role role);
const char *msg_task_name(enum tfe_task task);
const char *msg_notice_name(enum tfe_notice kind);
const char *msg_probe_kind_name(enum tfe_probe_kind kind);
const char *msg_probe_result_name(enum tfe_probe_result result);
const char *msg_ending_name(enum tfe_ending ending);
const char *msg_rotation_name(enum tfe_rotation step);
const char *msg_stream_name(enum tfe_stream stream);
const char *msg_job_state_name(enum tfe_job_state state);
const char *msg_standby_name(enum tfe_standby state);
const char *msg_artifact_name(enum tfe_artifact state);
const char *msg_out_name(enum tfe_out reason);
const char *msg_event_level_name(enum tfe_event_level level);
const char *msg_restart_policy_name(enum tfe_restart_policy policy);

/* Returns the job named by a message of an agent, an observer or an admin, or NULL if none. */
const char *msg_job(const struct tfe_msg *msg);

#endif
