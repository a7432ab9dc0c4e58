/* common/message/msg.h: every message of the protocol as a plain struct; the vocabulary that cores,
 * codec and shells share. The bytes are proto/tfe.proto's and PROTOCOL.md's business. Pure. */
#ifndef TFE_COMMON_MESSAGE_MSG_H
#define TFE_COMMON_MESSAGE_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/range.h"
#include "common/base/time.h"
#include "common/message/job_spec.h"
#include "common/message/msg_enums.h"
#include "common/message/msg_pool.h"

/* In all structs below: strings are NUL-terminated and borrowed for the duration of the call they
 * are passed to; NULL where a string is optional and absent. Epochs start at 1; 0 means none. */

/* Python's line before an exception's frames and itself, in a tail. */
#define MSG_RAISED_HEAD "Traceback (most recent call last):"

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
    uint64_t restart;    /* number of the RESTART that had started them; 0: START had */
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
    const char *job;        /* tfe_id */
    const char *node;       /* tfe_id, made by the agent process: the hash of node_secret */
    const char *node_name;  /* label for people, at most TFE_LABEL_MAX */
    struct job_spec spec;   /* a wish that is open leaves it to the server */
    bool new_run;           /* if the job is over, begin its next run; else a plain JOIN */
    const char *run_key;    /* tfe_id: names the run that the node belongs to; NULL: any */
    bool durable;           /* this machine is not one of those that go away: for rank 0 */
    uint32_t pid;           /* of the agent; 0 unknown */
    uint64_t highest_epoch; /* highest this process has started, stopped or been told of, or found
                               in checkpoints */
    uint64_t running_epoch; /* the epoch whose trainers run here now, 0 none */
    const struct msg_exited *exited;   /* of the last epoch that ran here, or NULL */
    const struct msg_running *running; /* of running_epoch, else of the epoch of exited; or NULL */
    const char *node_secret;           /* what node is the hash of (common/channel/node_id.h) */
    bool fixed_ports;                  /* its trainers have the same ports in every epoch */
    const char *tensorflow;            /* tfe_id, its version; NULL: not known */
    const char *proof_hash; /* tfe_id: of its death certificate (DEATH); NULL: it has none */
    uint16_t guard_port;    /* where its guard will give that out; 0: nowhere */
    const char *host;       /* as its READYs will tell; NULL: not said */
    bool has_role;          /* the node takes places of that role and no other … */
    enum tfe_task role;
    bool evaluates;   /* running_epoch, exited are of an evaluator: no part of their epoch */
    uint64_t restart; /* of running_epoch, as in EXITED */
};

/* Asks for the lease to be prolonged. number counts up per connection and comes back in RENEWED. */
struct msg_renew {
    uint64_t number;
    /* Of the node with rank 0, for the end of a job (design 4.10): its trainers have shown no sign
     * of life for so long (0: they do); others of them have ended with exit status 0. */
    uint32_t idle_ms;
    bool others_ended;
};

/* What an agent lends its trainers to keep their state in, in all its places together, and the
 * newest state that is whole there. It outlives the trainers and their epochs, not the agent. */
struct msg_memory {
    uint64_t bytes;
    bool has_kept;
    uint64_t epoch, step; /* of that state, after this step; 0, 0: none */
};

/* "I could start this epoch at once": nothing of an older epoch runs here, the ports are held. */
struct msg_ready {
    uint64_t epoch;
    const char *host;      /* where peers reach the trainers, at most TFE_HOST_MAX */
    const uint16_t *ports; /* n_ports == nproc, by local rank, none 0 */
    size_t n_ports;
    uint64_t table_digest;  /* of the table this node holds; 0 none */
    bool answering;         /* it still answers probes on the ports, and so cannot start yet */
    const char *tensorflow; /* as in JOIN */
    struct msg_memory memory;
};

/* All trainers of the node listen on their ports. */
struct msg_listening {
    uint64_t epoch;
};

struct msg_goodbye {
    bool drained;     /* always true today: the node leaves on its own wish */
    bool interrupted; /* as in NOTICE */
};

/* Asks for a key of the agent's own, whose secret only it has. Not answered where the one that it
 * speaks with is good for long. */
struct msg_enrol {
    const char *public_key; /* X25519, 64 characters of hexadecimal */
};

/* Somebody brings a death certificate: what the guard of a node gives out once its agent is gone
 * and the last of all that it had started is reaped. The server's core is handed its hash. */
struct msg_death {
    const char *certificate; /* 64 characters of hexadecimal (common/channel/termination_proof.h) */
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
    uint64_t step;       /* the last one that is done */
    uint64_t saved_step; /* of the newest checkpoint */
    uint64_t answers;    /* number of the newest SAVE heard of when that was begun; 0 none */
    uint32_t saves;      /* checkpoints seen in this epoch */
    bool has_step;
    bool has_saved;
    bool listens; /* a script is there that can be asked to save */
    bool has_from;
    struct msg_memory memory;
    uint64_t from_step; /* where its scripts went on, in this epoch */
    bool ends;          /* a trainer has begun to exit 0 */
    /* As answers, of a state that was kept in memory for it. */
    uint64_t kept_answers;
    bool partitioned; /* a script's checkpoints fit another number of ps */
    bool alone;       /* a trainer does not use the cluster that it was given */
};

/* A number that a script tells, under a name of at most MSG_METRIC_NAME_MAX of A-Za-z0-9._/- */
struct msg_metric {
    const char *name;
    double value;
};

/* What scripts tell of themselves, besides PROGRESS: for people only. */
struct msg_metrics {
    uint64_t epoch;
    uint64_t step; /* the metrics are of this one */
    uint64_t samples;
    uint64_t total; /* steps that the run will have; 0: not known */
    const struct msg_metric *metrics;
    size_t n_metrics; /* at most MSG_METRICS_MAX */
};

/* This node will go away, or (withdrawn) will not after all. */
struct msg_notice {
    enum tfe_notice kind;
    uint32_t deadline_ms; /* from the sending; MSG_UNSET: none is known */
    bool withdrawn;
    bool uncertain;   /* it may come to nothing, or sooner */
    bool interrupted; /* somebody has ended this agent at its terminal: its machine stays */
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
    const char *says; /* a sentence for people; NULL: nothing */
};

struct msg_renewed {
    uint64_t number;
    uint32_t ttl_ms;
    uint32_t fence_ms;
    uint32_t spread_ms; /* from now on in place of WELCOME's; 0: as before */
    const char *waits;  /* a sentence: what the node is not training for; NULL: it has not to say */
    uint32_t waits_ms;  /* … until then at the latest; 0: nobody knows */
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
    bool planned;         /* nobody failed: a script that listens may use the stop grace to save */
    enum tfe_cause cause; /* of the epoch that follows; 0: not said */
    const char *blamed;   /* label of the node whose loss, exit or notice it is; NULL nobody's */
    const char *says;     /* for people: more than these say; NULL: nothing */
    bool in_memory;       /* planned: what is kept in memory need not be saved on disk */
};

/* Ask the scripts of this epoch for a checkpoint. */
struct msg_save {
    uint64_t epoch;
    uint64_t number;    /* counts up per job, from 1 */
    uint32_t within_ms; /* the switch comes then in any case; MSG_UNSET: not said */
    bool in_memory;     /* a state that is kept in memory answers it, too */
};

/* One row: the trainer with global rank `rank` is reached at host:port, and is `role` in
 * TensorFlow's cluster. Ranks of a role follow on: `first` is that of its index 0. */
struct msg_row {
    uint32_t rank;
    const char *host;
    uint16_t port;
    enum tfe_task role;
    uint32_t first;
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
    bool evaluates;    /* as evaluator, outside of the table: rank is world */
};

/* Start the node's trainers of this epoch again, where they were. */
struct msg_restart {
    uint64_t epoch;
    uint64_t number; /* counts up for the node within the epoch, from 1 */
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
    size_t n_ports;      /* 1..MSG_NPROC_MAX */
    uint16_t guard_port; /* SUSPECT: where its certificate may be had; 0: nowhere */
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

/* Asks for all jobs (job NULL) or for one, whoever opened them. Answered for each job by
 * STATUS_JOB, SERIES_ROWs, with `detail` CONDITION_ROWs and the POOL_ROWs of its nodes, and
 * STATUS_NODEs; then STATUS_END. */
struct msg_status {
    const char *job;
    bool jobs_only; /* without STATUS_NODEs */
    bool detail;    /* with CONDITION_ROWs and POOL_ROWs; only where job names one */
};

struct msg_status_job {
    const char *job;
    enum tfe_job_state state;
    const char *phase; /* what the core does for it, a word ("gathering", "preparing", ...); "" if
                          no agent has joined its run */
    uint32_t run;
    uint64_t epoch;
    uint32_t min_nodes;
    uint32_t max_nodes;
    uint32_t nproc;
    uint32_t restarts;  /* of the job-global budget, used so far */
    const char *waits;  /* what it waits for, a sentence; NULL: for nothing */
    uint32_t waits_ms;  /* … until then at the latest; 0: nobody knows */
    uint32_t members;   /* nodes of its epoch */
    uint32_t nodes;     /* all that it has … */
    uint32_t connected; /* … with a connection … */
    uint32_t ready;     /* … and ready for the next epoch */
    uint32_t restarts_left;
    uint32_t n_ps; /* beside the nodes that work, as chief and evaluator */
    bool chief;
    bool evaluator;
    /* Below: what its scripts tell. */
    bool has_step;
    uint64_t step;
    bool has_steps_per_s;
    double steps_per_s;
    bool has_samples_per_s;
    double samples_per_s;
    uint64_t total;          /* steps that the run will have; 0: not known */
    uint64_t samples;        /* 0: not known */
    uint32_t waits_since_ms; /* it has waited for that so long; 0: not known */
    const char *slow;        /* label of the node that the others wait for; NULL: none does so */
    uint32_t straggler_times_milli; /* its step takes so many times the others', times 1000 */
    uint64_t memory_bytes;          /* that its agents have given for the state of their trainers */
    /* Workers that ps serve: places in the running epoch (0: it has no ps, or no epoch runs), those
     * that work, and those that have ended with exit status 0. */
    uint32_t workers, workers_working, workers_done;
    uint32_t alone; /* nodes of the epoch whose trainers do not use the cluster they were given */
    struct tfe_wall since; /* when it entered its state; 0: not known */
    struct tfe_wall ended; /* when its run ended; 0: it has not, or not known */
    const char *reason;    /* why it failed or was cancelled, or, while it is tried again, its
                              last failure, one line; NULL: none */
    uint32_t retry_ms;     /* the next attempt comes by then; 0: none is due */
    /* A job that was submitted; of one that agents opened the rest is 0 or NULL. */
    bool is_submitted;
    uint32_t priority;
    uint32_t n_assigned;     /* nodes of the pool that work for it */
    struct tfe_wall created; /* when it was submitted */
    const char *source;      /* of its files; NULL: none */
    const char *command;     /* cut to a sentence */
    bool lingers;            /* it has succeeded, and what still runs of it goes on */
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
    const char *waits; /* as in STATUS_JOB, where it is not the same for all of the job */
    struct msg_memory memory;
    /* In a job that has roles: what its first trainer is in TensorFlow's cluster, and the index of
     * that there. */
    bool has_place;
    enum tfe_task task;
    uint32_t index;
    struct msg_facts facts;
    struct msg_vitals vitals;
    uint32_t times_milli; /* its step takes so many times the others' median; 0: not known */
    bool slow;
    const char *notice; /* the last one, a word; NULL: none. Times: 0 not known */
    struct tfe_wall notice_at, notice_deadline;
};

struct msg_status_end {
    uint32_t jobs;
    uint64_t newest; /* EVENTS: the highest number that there is */
};

/* Something that is not well with the server itself. In front of what answers STATUS, and only
 * where there is something. */
struct msg_health {
    const char *what;  /* a word of ours: "store", "disk", "late" */
    const char *says;  /* a sentence, for people */
    uint32_t since_ms; /* it was noticed so long ago */
};

/* Asks how much of what the server has and does. Answered by GAUGEs and STATUS_END. */
struct msg_gauges {
    char nothing;
};

/* One number. What ends in _total only grows while the server runs, and so do the buckets of
 * numbers that are spread: `le` says up to where one of them counts, `inf` for all. */
#define MSG_GAUGE_LABELS_MAX 128
struct msg_gauge {
    const char *name;   /* at most 64 bytes of a-z, 0-9 and _ */
    const char *labels; /* "code=evicted", "phase=stop,le=100"; "" none */
    uint64_t value;
};

/* The key: sessions that begin with it are as good as the one that it was asked for in. All in
 * hexadecimal. */
struct msg_enrolled {
    const char *key;         /* its id */
    const char *secret;      /* what its first flight is sealed with, as a token's */
    const char *certificate; /* what it is good for, sealed by the server */
    struct tfe_wall expires;
};

/* Orders of an operator, answered by DONE or REFUSED. A node is named by its id or its label. */
struct msg_drain {
    const char *node;   /* at most TFE_LABEL_MAX */
    uint32_t within_ms; /* it has to be gone by then; MSG_UNSET: as soon as is convenient */
};

struct msg_evict {
    const char *node; /* as in DRAIN */
    uint32_t for_ms;  /* so long nobody of its key and label joins the job; 0: only not it itself */
};

/* Lets a node that was evicted in again. */
struct msg_unban {
    const char *node; /* its id, or its label */
};

/* Asks for the agents that have a session. Answered by AGENT_ROWs and STATUS_END. */
struct msg_agents {
    char nothing;
};

struct msg_agent_row {
    const char *key;   /* that it speaks with now: its own, or a token */
    const char *token; /* that it came with at first */
    const char *label; /* of that token; "" none */
    const char *jobs;  /* pattern of the jobs that it may join */
    const char *from;  /* its address */
    bool enrolled;     /* key is its own */
    const char *node;  /* "" it has not joined */
    const char *name;  /* its label */
    const char *job;
    struct tfe_wall expires;
};

/* Ends a node's own key, and takes the node out as EVICT. */
struct msg_revoke_agent {
    const char *node; /* as in DRAIN */
};

/* Asks who is kept out. Answered by BAN_ROWs, the newest first, and STATUS_END. */
struct msg_bans {
    char nothing;
};

struct msg_ban_row {
    const char *node; /* its id then */
    const char *job;
    const char *key;   /* id of the key that it spoke with; "" not known */
    const char *name;  /* label */
    const char *token; /* that it came with at first; "" not known: any falls under it */
    struct tfe_wall until;
};

struct msg_grow {
    const char *job;
};

struct msg_forget {
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
    bool over;         /* nothing of this will change any more */
    uint32_t restarts; /* of workers' trainers, that nobody else was touched for */
};

/* Copies what the server keeps of its jobs into a new file of this name in its backup directory. */
struct msg_backup {
    const char *name; /* an id that does not begin with a dot */
};

/* Makes a token. Answered by TOKEN and STATUS_END, once what it is good for is durable. */
struct msg_token_create {
    uint32_t role;     /* enum principal_role */
    const char *scope; /* pattern of jobs, at most MSG_SCOPE_MAX; "*" all */
    uint32_t ttl_ms;   /* 0: for ever */
    uint32_t uses;     /* by so many nodes, at most MSG_KEY_USES_MAX; 0: any number */
    const char *label; /* at most MSG_KEY_LABEL_MAX */
    /* Nodes of the pool that all jobs of the scope may have together from now on, an admin's only;
     * MSG_NODES_MAX: any number; 0: as before. */
    uint32_t quota;
};

/* The only time that anybody is told a token. */
struct msg_token {
    const char *key;  /* its id, as in TOKEN_ROW */
    const char *text; /* at most MSG_TOKEN_MAX */
};

/* Asks for all keys that the server knows of. Answered by TOKEN_ROWs and STATUS_END. */
struct msg_tokens {
    char nothing;
};

/* What is known of a key, but nothing secret. Times: 0 never, or not known. */
struct msg_token_row {
    const char *key; /* its id: MSG_KEY_HEX characters of hexadecimal */
    uint32_t role;
    const char *scope;
    const char *label; /* "" none */
    uint32_t generation;
    uint32_t uses;
    const char *used_by; /* ids of the nodes, with commas */
    struct tfe_wall made, expires, revoked;
    const char
        *state;     /* "good", or why it is not: "expired", "revoked", "used up", "root removed" */
    uint32_t quota; /* that it brought (TOKEN_CREATE); 0: none */
};

/* Takes a token back: its sessions end, too. */
struct msg_token_revoke {
    const char *key; /* id, or label */
};

/* The ring of roots: a new one comes, becomes the one that is used, the older ones go. */
#define TFE_ROTATIONS(X)                                                                           \
    X(ROTATE_RENEW, 1, "renew")     /* install and use */                                          \
    X(ROTATE_INSTALL, 2, "install") /* one more, which new tokens are not made with yet */         \
    X(ROTATE_USE, 3, "use") /* new tokens, and those of the state directory, are of the newest */  \
    X(ROTATE_REMOVE, 4, "remove") /* those older than the one in use: their tokens end */

enum tfe_rotation { TFE_ROTATIONS(TFE_ENUMERATOR) };

struct msg_token_rotate {
    enum tfe_rotation step;
};

/* Asks for the audit. Answered by AUDIT_ROWs, the oldest first, and STATUS_END. */
struct msg_audit {
    char nothing;
};

/* One order, token act or refusal. */
struct msg_audit_row {
    uint64_t number; /* from 1, without a gap */
    struct tfe_wall at;
    const char *key;    /* id of the key that it was said with; "" none */
    const char *label;  /* what people call that */
    const char *from;   /* address */
    const char *what;   /* a message's name, or "refused" */
    const char *about;  /* node, job, key, … ; at most MSG_AUDIT_ABOUT_MAX - 1 bytes */
    const char *result; /* "done", or a refusal's name */
    const char *hash;   /* of this row and all before it (common/channel/audit_chain.h) */
};

/* Asks for what a job's trainers have printed. Answered by LOG_LINES …, and STATUS_END where it
 * does not follow. */
struct msg_logs {
    const char *job;
    bool has_rank;
    uint32_t rank;         /* else of all */
    const char *node;      /* as in DRAIN; NULL: of all */
    uint64_t epoch;        /* 0: what is at hand, the newest in any case */
    bool follow;           /* … and what they print from now on */
    uint32_t lines;        /* the last so many of each rank's streams; MSG_UNSET: all there are */
    struct tfe_wall since; /* only what was read later; ms 0: all */
};

/* Whole lines of one stream, which were read at one time. */
struct msg_log_lines {
    const char *node; /* id */
    const char *name; /* label */
    uint64_t epoch;
    uint32_t rank;
    enum tfe_stream stream;
    struct tfe_wall at; /* by its machine's clock; ms 0: not known */
    const char *text;   /* '\n' between lines; at most MSG_LOG_TEXT_MAX */
    uint64_t lost;      /* so many are missing before these */
    bool tail;          /* the server's own: the end of a trainer whose machine is gone */
    bool silent;        /* nothing but that this node does not answer */
};

/* The same of one agent's trainers, which answers by LOG_CHUNKs, and by LOG_DONE where it does not
 * follow. */
struct msg_log_ask {
    uint64_t ask;
    bool has_rank;
    uint32_t rank;
    uint64_t epoch;
    bool follow;
    uint32_t lines;
    struct tfe_wall since;
    uint32_t window; /* it may say chunks of so many bytes, each MSG_LOG_COST and its text … */
};

/* … and so many more. */
struct msg_log_credit {
    uint64_t ask;
    uint32_t bytes;
};

/* Nobody listens any more. */
struct msg_log_stop {
    uint64_t ask;
};

struct msg_log_chunk {
    uint64_t ask;
    uint64_t epoch;
    uint32_t rank;
    enum tfe_stream stream;
    struct tfe_wall at;
    const char *text;
    uint64_t lost;
    uint64_t behind; /* without text, as trainers end: so many lines still wait for credit */
};

struct msg_log_done {
    uint64_t ask;
};

/* Asks for events, of all jobs (job NULL) or of one: those above `after`, or, where that is 0 and
 * `last` is not, the newest so many. Answered by EVENT_ROWs, the oldest first, at most
 * MSG_EVENTS_MAX, and STATUS_END. */
struct msg_events {
    const char *job;
    uint64_t after;
    uint32_t last;
};

/* Something that has happened. Texts: "" none. */
struct msg_event_row {
    uint64_t number; /* grows; not all are there */
    struct tfe_wall at;
    const char *kind; /* a word */
    enum tfe_event_level level;
    const char *job; /* "": the server's own */
    uint32_t run;    /* 0: not known */
    uint64_t epoch;  /* 0: none */
    const char *node;
    const char *name; /* its label */
    const char *says; /* one sentence, for people */
};

/* Asks for what is kept of a run's metrics: of one name its points above `after`, or (name NULL) of
 * each the newest. Answered by SERIES_ROWs, the oldest first, and STATUS_END. */
struct msg_series {
    const char *job;
    uint32_t run; /* 0: the newest */
    const char *name;
    uint64_t after;
};

/* A point. A series is thinned as it grows: what is left is spread over the whole run. */
struct msg_series_row {
    const char *job;
    uint32_t run;
    const char *name;
    uint64_t ord; /* from 1, grows */
    uint64_t epoch, step;
    struct tfe_wall at;
    double value;
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
const char *msg_task_name(enum tfe_task task);
const char *msg_notice_name(enum tfe_notice kind);
const char *msg_probe_kind_name(enum tfe_probe_kind kind);
const char *msg_probe_result_name(enum tfe_probe_result result);
const char *msg_ending_name(enum tfe_ending ending);
const char *msg_rotation_name(enum tfe_rotation step);
const char *msg_stream_name(enum tfe_stream stream);
const char *msg_job_state_name(enum tfe_job_state state);
const char *msg_standby_name(enum tfe_standby state);
const char *msg_out_name(enum tfe_out reason);
const char *msg_event_level_name(enum tfe_event_level level);
const char *msg_source_name(enum tfe_source kind);
const char *msg_restart_policy_name(enum tfe_restart_policy policy);
const char *msg_clean_policy_name(enum tfe_clean_policy policy);
const char *msg_success_policy_name(enum tfe_success_policy policy);
const char *msg_environment_name(enum tfe_environment environment);

/* The job that a message of an agent, an observer or an admin names; NULL: none. */
const char *msg_job(const struct tfe_msg *msg);

#endif
