/* server/core/rdzv.h: interface of the rendezvous core: one event in, a list of actions out. Pure:
 * no I/O, no clock, no globals. */
#ifndef TFE_SERVER_CORE_RDZV_H
#define TFE_SERVER_CORE_RDZV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/mem.h"
#include "common/base/time.h"
#include "common/message/job_spec.h"
#include "common/message/msg.h"
#include "common/message/principal.h"
#include "server/core/traces.h"

/* Maximum number of PERSIST actions that one step emits. */
#define RDZV_PERSIST_MAX 1000
/* What is said of a cancelled job, after "it" or its name. */
#define RDZV_CANCELLED "was cancelled by an operator"

/* Settings of a server. Durations are in milliseconds. */
struct rdzv_config {
    uint64_t incarnation; /* random number, new for each server process */
    uint32_t ttl_ms;      /* lease duration */
    /* fence duration; 0 means 120 s for an epoch of one node and 300 s otherwise; raised to 3 ×
     * ttl */
    uint32_t fence_ms;
    /* first start: the gather window closes this long after min nodes are ready */
    uint32_t gather_max_ms;
    /* time that the other trainers have to end after the chief has succeeded */
    uint32_t exit_grace_ms;
    /* renewals per second that the server can bear; leases get longer above it; 0 means 5,000 */
    uint32_t renew_rate;
    /* a node whose address no other node reaches for this long is refused; 0 means 30 s */
    uint32_t probe_ms;
    uint32_t probe_rate;   /* maximum number of address probes started per second; 0 means 5,000 */
    uint32_t max_sessions; /* session numbers range from 0 to max_sessions - 1 */
    /* maximum number of leases; further new nodes are refused; 0 means max_sessions */
    uint32_t max_nodes;
    /* maximum number of jobs opened by agents with one key; 0 means 5,000 */
    uint32_t max_jobs_per_key;
    /* maximum number of connected nodes with one key; 0 means no limit for a key for every job, and
     * a share of the free places for other keys */
    uint32_t max_nodes_per_key;
    struct job_spec defaults; /* server-wide defaults for options that a job does not set */
};

enum rdzv_event_type {
    RDZV_MESSAGE,   /* an agent sent msg on session */
    RDZV_CLOSED,    /* the connection of session has ended, for any reason */
    RDZV_PERSISTED, /* the record of this job and sequence is durable */
    /* the record could not be written; the core retries, or exits if conflict is set */
    RDZV_PERSIST_FAILED,
    RDZV_DRAIN,    /* operator: take the node out of its job at a suitable moment */
    RDZV_EVICT,    /* operator: take the node out of its job at once, connected or not */
    RDZV_STOP_JOB, /* operator: end the job */
    RDZV_GROW,     /* operator: grow the job now by the nodes that wait */
    /* operator: set the job's minimum and maximum number of nodes, and its number of ps */
    RDZV_RESIZE,
    /* operator: forget the job; job NULL: every job that has been idle since `before` */
    RDZV_FORGET,
    RDZV_UNBAN, /* an evicted node may join its job again */
    RDZV_TICK   /* the deadline of the last step has come or has passed */
};

struct rdzv_event {
    enum rdzv_event_type type;
    /* time of the event; an earlier time than the last event's counts as the last event's */
    struct tfe_mono now;
    /* sender of a MESSAGE or an operator's command; borrowed; NULL if unknown */
    const struct principal *by;
    uint32_t session;          /* MESSAGE, CLOSED: number of the session */
    const struct tfe_msg *msg; /* MESSAGE: the message; borrowed for the call */
    const char *job; /* PERSISTED, PERSIST_FAILED, operator's commands: name of the job; borrowed */
    const char *node; /* DRAIN, EVICT, UNBAN: id of the node; borrowed */
    bool has_within;  /* DRAIN: within_ms is set: the node must be gone within that time */
    uint32_t within_ms;
    uint32_t min_nodes, max_nodes; /* RESIZE: new limits of the number of nodes */
    uint32_t n_ps;     /* RESIZE: new number of ps, or MSG_UNSET to keep the present one */
    uint64_t sequence; /* PERSISTED, PERSIST_FAILED: sequence number of the record */
    /* PERSIST_FAILED: the stored record is not the predecessor: another server writes to the
     * store */
    bool conflict;
    /* FORGET without a job: forget jobs that have been idle since this time */
    struct tfe_wall before;
    struct tfe_wall wall; /* wall-clock time, for texts and records only; 0 if unknown */
};

enum rdzv_action_type {
    RDZV_SEND,    /* send msg to session */
    RDZV_CLOSE,   /* flush, then close session; the core has already released the session */
    RDZV_PERSIST, /* make record durable, then report PERSISTED or PERSIST_FAILED */
    /* this process must exit at once with sentence, because another server has taken over */
    RDZV_EXIT,
    /* store ledger, replacing the stored row of the same epoch; no reply is expected */
    RDZV_LEDGER,
    RDZV_TRACE /* an occurrence for the log */
};

/* Maximum number of nodes remembered as having reached a node's address. */
#define RDZV_KNOWN_TO_MAX 3

/* A member of a recorded epoch. Its index in the record is its slot. */
struct rdzv_member {
    const char *node;
    const char *name;
    const char *host;
    const uint16_t *ports; /* one port per process of the node (nproc) */
    uint64_t join_order;   /* rank of seniority: smaller means longer in the job */
    bool durable;          /* the node declared itself durable in its JOIN */
    bool fixed_ports;
    bool drained; /* an operator drains the node: it is in no later epoch */
    /* Nodes that received this node's id from its address. Only their probes can prove that its
     * trainers are dead. */
    const struct tfe_id *known_to;
    uint32_t n_known_to;    /* number of entries in known_to, at most RDZV_KNOWN_TO_MAX */
    const char *proof_hash; /* hash of the proof of termination, from the JOIN; "" if none */
    uint32_t guard_port; /* port at which the guard hands out the proof of termination; 0 if none */
    /* another process has joined with the node's id, so nothing can prove the first one's end */
    bool taken_over;
};

/* Maximum number of ended runs whose names are remembered. A late node of an older run counts as a
 * newcomer. */
#define RDZV_RUNS_MAX 16

/* An ended run. */
struct rdzv_run_end {
    uint32_t run;
    struct tfe_id
        key; /* run key chosen by the agents (--run); "" for a run that is not the job's last one */
    enum tfe_result result;
    struct tfe_wall at; /* time of the end; 0 if unknown */
};

/* The state that must be durable before any node learns of it: a job and its newest epoch, or the
 * job's end. */
struct rdzv_record {
    uint64_t sequence; /* grows; a later record of a job replaces the earlier ones */
    const char *job;
    /* the job is forgotten: the store deletes it and reads only job, sequence and predecessor */
    bool gone;
    struct job_spec spec; /* effective options of the job, defaults filled in */
    uint32_t epoch_ps;    /* number of ps in this epoch, which may differ from spec's; 0 if equal */
    /* an operator has set the numbers of nodes; those that agents ask for are ignored */
    bool resized;
    /* an operator has set the number of ps; those that agents ask for are ignored */
    bool ps_resized;
    uint32_t run;
    const char *run_key; /* the agents' name for the run (a tfe_id), or "" */
    uint32_t restarts;
    uint32_t failed_epochs; /* consecutive epochs that failed before progress */
    uint32_t backoff_ms;    /* latest back-off between two of these epochs */
    bool has_progressed;    /* an earlier epoch of this run has made progress */
    uint64_t predecessor;   /* compare-and-set: number of the epoch that must be in the store now */
    uint64_t epoch;
    enum tfe_cause cause;
    uint32_t ttl_ms;   /* longest lease ever granted in the job */
    uint32_t fence_ms; /* longest fence ever granted in the job */
    bool over;         /* the job has ended; result and sentence are set */
    /* only if over: trainers of the job may still run; the next run waits for the fence */
    bool fenced;
    enum tfe_result result;
    const char *sentence;
    struct tfe_wall ended;             /* only if over: time of the end; 0 if unknown */
    const struct rdzv_member *members; /* members in order of their slots */
    uint32_t n_members;
    struct rdzv_run_end past[RDZV_RUNS_MAX]; /* earlier named runs, the oldest first */
    uint32_t n_past;
};

/* Ledger row of an epoch: why it began, how long each phase of its start took, how it ended. Unset
 * values (a time that is NEVER, blamed "", a false flag) leave stored values unchanged, because a
 * server that adopts an epoch knows less about its start than the server that began it. */
struct rdzv_ledger {
    const char *job;
    /* all columns except the times, which are stored as wall-clock time */
    struct msg_epoch_row row;
    /* monotonic times of the phases; NEVER if unknown or not reached yet */
    struct tfe_mono at[EPOCH__TIMES];
};

/* What a ledger row reports first. */
enum rdzv_ledger_change {
    LEDGER_OTHER,
    LEDGER_STARTED,    /* the epoch starts */
    LEDGER_PROGRESSED, /* its first progress was reported to this server */
    LEDGER_CLOSED      /* it is over */
};

/* Pointers in an action belong to the core and are valid until the next rdzv_step. */
struct rdzv_action {
    enum rdzv_action_type type;
    uint32_t session; /* SEND, CLOSE: number of the session */
    /* A SEND of MSG_TABLE carries the whole table; the I/O layer cuts it into chunks. Tables of one
     * (job, epoch) share the rows pointer, so that the I/O layer can encode them once. */
    struct tfe_msg msg;               /* SEND: the message */
    const struct rdzv_record *record; /* PERSIST: the record to write */
    const char *sentence;             /* EXIT: the reason, for the log */
    const struct rdzv_ledger *ledger; /* LEDGER: the row to store */
    enum rdzv_ledger_change change;   /* LEDGER */
    struct rdzv_trace trace;          /* TRACE: what to log */
};

struct rdzv_actions {
    const struct rdzv_action *v; /* owned by the core; to be carried out in this order */
    size_t n;
    struct tfe_mono deadline; /* when to call again with TICK; a time in the past means at once */
};

struct rdzv;

/* Creates a core. mem must outlive it. Returns TFE_EINVAL if a setting is out of range,
 * TFE_ENOMEM. */
int rdzv_new(const struct rdzv_config *config, const struct tfe_mem *mem,
             struct rdzv **ret) TFE_MUST_CHECK;
void rdzv_free(struct rdzv *r);

/* Handles one event. After an error nothing has changed and *ret is empty with the old deadline.
 * Returns:
 *
 * TFE_ENOMEM;
 * TFE_EINVAL if the session is out of range, the message may not come from an agent, or its sizes
 * are not those that the codec accepts;
 * TFE_ESTATE for a message other than JOIN on a session without a node (the I/O layer closes the
 * session), or if the job cannot be forgotten because it has nodes;
 * TFE_ENOENT if the job or node of an operator's command does not exist;
 * TFE_EAUTH if the job cannot have that number of ps (see rdzv_refusal). */
int rdzv_step(struct rdzv *r, const struct rdzv_event *event,
              struct rdzv_actions *ret) TFE_MUST_CHECK;

/* Returns the reason of the last step's TFE_EAUTH. Valid until the next step. */
const char *rdzv_refusal(const struct rdzv *r);

/* Restores a job from its latest record. To be called after rdzv_new and before the first event. A
 * running epoch is adopted: its members have the longest lease and the full fence, counted from
 * now, to reconnect. The record is copied. Returns TFE_EINVAL if the record contradicts itself,
 * TFE_EEXIST if the job exists, TFE_ENOMEM; nothing has changed then. */
int rdzv_restore(struct rdzv *r, struct tfe_mono now,
                 const struct rdzv_record *record) TFE_MUST_CHECK;

/* Registers a job whose stored record is unreadable: it is only listed, until its agents rebuild
 * it. Returns TFE_EINVAL if the name is no valid job name, TFE_ENOMEM. */
int rdzv_set_aside(struct rdzv *r, const char *name) TFE_MUST_CHECK;

/* Fills *ret_job with the status of the first job whose name is greater than `after` (NULL: the
 * first job). Returns TFE_ENOENT if there is none. Strings are valid until the next rdzv_step. */
int rdzv_view_job(const struct rdzv *r, const char *after,
                  struct msg_status_job *ret_job) TFE_MUST_CHECK;

/* Returns when an iteration of the server's event loop was last so late that lease ends were
 * postponed; 0 if never. */
struct tfe_mono rdzv_view_late(const struct rdzv *r);
/* Why the job has failed or was cancelled, as one line; of one that continues, how its trainers
 * failed last and when they start again. *row: its reason (NULL: none, else in buf) and retry_ms.
 */
void rdzv_view_reason(const struct rdzv *r, struct msg_status_job *row, char buf[MSG_SENTENCE_MAX]);
/* Adds to the row what the job waits for, with the text in buf, and for how long it has been in
 * its state. */
void rdzv_view_waits(const struct rdzv *r, struct msg_status_job *job, char buf[MSG_SENTENCE_MAX]);
/* Adds to the row of a node what that node waits for, if the nodes of the job wait for different
 * things. */
void rdzv_view_node_waits(const struct rdzv *r, const char *job, struct msg_status_node *row,
                          char buf[MSG_SENTENCE_MAX]);

/* Fills *ret_job with the status of the job of this name. Returns TFE_ENOENT if there is none.
 * Strings are valid until the next rdzv_step. */
int rdzv_find_job(const struct rdzv *r, const char *name,
                  struct msg_status_job *ret_job) TFE_MUST_CHECK;

/* The run of a job, and who opened the job. Valid until the next step. */
struct rdzv_run {
    const char *key;       /* the agents' name for the run, or "" */
    const uint8_t *opener; /* id of the key whose agent opened the job; NULL if unknown */
    /* the run has succeeded, and its remaining trainers continue: it has not ended yet */
    bool lingers;
    bool is_used_up; /* the run failed because its restart budget is used up */
};
/* Returns the present run of the job, or one without a name if the job does not exist. */
struct rdzv_run rdzv_get_run(const struct rdzv *r, const char *job);

/* Fills *ret_node with the status of the job's first node whose id is greater than `after`, member
 * or spare. Returns TFE_ENOENT if there is none. */
int rdzv_view_node(const struct rdzv *r, const char *job, const char *after,
                   struct msg_status_node *ret_node) TFE_MUST_CHECK;

/* A node. Borrowed until the next step. */
struct rdzv_node {
    const char *job, *node, *name;
    const uint8_t *token_id; /* token with which it joined; NULL if unknown (after a restart) */
    uint32_t session;        /* UINT32_MAX if it is not connected */
    uint32_t run;
    uint64_t epoch; /* number of the job's current epoch */
    uint32_t n_members;
    bool is_member; /* it has a slot in that epoch */
    bool has_rank;  /* it has a slot, and the epoch is starting, running or being stopped */
    uint32_t rank;  /* rank of the first trainer of a member */
};
/* Fill *ret with the node that has joined in this session, or the node of this id. Return
 * TFE_ENOENT if there is none. */
int rdzv_get_session_node(const struct rdzv *r, uint32_t session,
                          struct rdzv_node *ret) TFE_MUST_CHECK;
int rdzv_get_node(const struct rdzv *r, const char *job, const char *node,
                  struct rdzv_node *ret) TFE_MUST_CHECK;

/* Maximum number of matches returned for a name that a user has typed. */
#define RDZV_FOUND_MAX 4
struct rdzv_found {
    uint32_t n; /* number of all matches; v has the first ones, by job and id */
    struct rdzv_node v[RDZV_FOUND_MAX];
};

/* Finds nodes by a name that a user has typed: the node with this id; else the connected nodes with
 * this label; else the disconnected ones. Searches all nodes of the jobs that `by` may control, so
 * it is for interactive commands only. Returns TFE_ENOENT if nothing matches. Strings are valid
 * until the next rdzv_step. */
int rdzv_find_node(const struct rdzv *r, const struct principal *by, const char *name,
                   struct rdzv_found *ret_found) TFE_MUST_CHECK;

#endif
