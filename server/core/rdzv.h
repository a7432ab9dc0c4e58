/* server/core/rdzv.h: the door of the rendezvous core: one event in, a list of actions out. Pure:
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

/* Records that one step asks to be written at most. */
#define RDZV_PERSIST_MAX 1000

/* Settings of a server. Durations in ms. */
struct rdzv_config {
    uint64_t incarnation;      /* random, new per server process */
    uint32_t ttl_ms;           /* of a lease */
    uint32_t fence_ms;         /* 0: 120 s for an epoch of one node, else 300 s; at least 3 x ttl */
    uint32_t gather_max_ms;    /* first start: so long after min are ready, in any case */
    uint32_t exit_grace_ms;    /* for the others, after the chief ended well */
    uint32_t renew_rate;       /* renewals per second that leases are lengthened for; 0: 5,000 */
    uint32_t probe_ms;         /* an address that nobody reaches for so long is refused; 0: 30 s */
    uint32_t probe_rate;       /* addresses that nodes are asked to try per second; 0: 5,000 */
    uint32_t max_sessions;     /* sessions are numbered 0 … max_sessions - 1 */
    uint32_t max_nodes;        /* with so many leases no newcomer is let in; 0: max_sessions */
    uint32_t max_jobs_per_key; /* that agents with one key open; 0: 5,000 */
    uint32_t max_nodes_per_key; /* that are connected with one key; 0: any number */
    struct job_spec wishes;     /* what counts where a job has no wish of its own */
};

enum rdzv_event_type {
    RDZV_MESSAGE,        /* msg came on session (of an agent) */
    RDZV_CLOSED,         /* the connection of session ended, for whatever reason */
    RDZV_PERSISTED,      /* the record of this job and sequence is durable */
    RDZV_PERSIST_FAILED, /* it could not be written; the core will ask again, or see conflict */
    RDZV_DRAIN,          /* an operator takes this node out of its job, in an orderly way */
    RDZV_EVICT,          /* … at once, whether it answers or not */
    RDZV_STOP_JOB,       /* an operator ends this job */
    RDZV_GROW,           /* … or has it take in at once who waits for a place */
    RDZV_RESIZE,         /* … or says how many nodes it may have */
    RDZV_FORGET,         /* … or forgets it; job NULL: those that have been idle since `before` */
    RDZV_UNBAN,          /* a node that was evicted may come again, for all the core minds */
    RDZV_TICK            /* time has come to the deadline of the last step, or passed it */
};

struct rdzv_event {
    enum rdzv_event_type type;
    struct tfe_mono now;        /* earlier than the last event's counts as the last event's */
    const struct principal *by; /* who speaks: MESSAGE and an operator's orders; borrowed */
    uint32_t session;           /* MESSAGE, CLOSED */
    const struct tfe_msg *msg;  /* MESSAGE; borrowed for the call */
    const char *job;            /* PERSISTED, PERSIST_FAILED, orders; borrowed */
    const char *node;           /* DRAIN, EVICT, UNBAN: the node's id; borrowed */
    bool has_within;            /* DRAIN: it has to be gone so soon */
    uint32_t within_ms;
    uint32_t min_nodes, max_nodes; /* RESIZE */
    uint32_t n_ps;                 /* RESIZE; MSG_UNSET: as many as now */
    uint64_t sequence;             /* PERSISTED, PERSIST_FAILED: the record's */
    bool conflict; /* PERSIST_FAILED: what is on disk is not the predecessor: another server */
    struct tfe_wall before; /* FORGET of old ones */
    struct tfe_wall wall;   /* civil time, for sentences and records only; 0: not known */
};

enum rdzv_action_type {
    RDZV_SEND,    /* msg to session */
    RDZV_CLOSE,   /* flush, then close session; the core has forgotten it already */
    RDZV_PERSIST, /* record: make it durable, then PERSISTED, or say PERSIST_FAILED */
    RDZV_EXIT,    /* sentence: this process has to end at once, another one is in charge */
    RDZV_LEDGER,  /* ledger: note it, in place of what was noted of the same epoch; no answer */
    RDZV_TRACE    /* something a person may want to read */
};

/* What happened, for logs and for the simulator's expected traces: name, level, and under which
 * names its number and text are logged, if they are. */
#define RDZV_TRACES(X)                                                                             \
    X(JOB_STATE, "job_state", DEBUG, NULL, "state") /* number: the run that begins */              \
    X(NODE_JOINED, "node_joined", INFO, NULL, "name")                                              \
    X(NODE_BACK, "node_back", INFO, NULL, NULL) /* a known node on a new connection */             \
    X(NODE_READY, "node_ready", DEBUG, NULL, "host")                                               \
    X(NODE_UNVERIFIED, "node_unverified", DEBUG, NULL, "host")   /* nobody to try it */            \
    X(NODE_VERIFIED, "node_verified", DEBUG, NULL, "by")         /* who reached its address */     \
    X(NODE_UNREACHED, "node_unreached", WARN, "for_ms", "tried") /* since the first try */         \
    X(NODE_DEAD, "node_dead", WARN, NULL, "by")         /* its trainers: who has shown it */       \
    X(NODE_SUSPECT, "node_suspect", WARN, NULL, NULL)   /* no connection, and no GOODBYE */        \
    X(NODE_LOST, "node_lost", WARN, NULL, "reason")     /* lease over, or left out of a switch */  \
    X(NODE_LEFT, "node_left", INFO, NULL, NULL)         /* GOODBYE, or let go after a drain */     \
    X(NODE_EXITED, "node_exited", INFO, "code", "tail") /* or 128 + signal */                      \
    X(PLACE_RESTART, "place_restart", INFO, "number", NULL)    /* the epoch goes on meanwhile */   \
    X(PLACE_EMPTY, "place_empty", WARN, "workers", "reason")   /* number: workers that go on */    \
    X(PLACE_DONE, "place_done", INFO, "workers", NULL)         /* exit status 0: starts no more */ \
    X(EVALUATOR, "evaluator", INFO, "number", "how")           /* starts, starts again, ended */   \
    X(NODE_QUARANTINED, "node_quarantined", WARN, "ms", "how") /* own_fault, … */                \
    X(NODE_REFUSED, "node_refused", WARN, NULL, "reason")                                          \
    X(LISTENING, "node_listening", DEBUG, "ms", NULL)     /* since its START, 0 not known */       \
    X(SWITCH, "switch", INFO, NULL, "cause")              /* epoch: that ends; of the next */      \
    X(EPOCH, "epoch", INFO, "members", "cause")           /* that begins */                        \
    X(REBUILT, "rebuilt", WARN, "members", NULL)          /* the running epoch, by their word */   \
    X(WAIT_FENCE, "wait_fence", WARN, "ms", NULL)         /* the switch waits so long */           \
    X(MASS_LOSS, "mass_loss", ERROR, "held_ms", "reason") /* nothing is decided so long */         \
    X(END, "end", INFO, "fruitless", "how")               /* epochs in a row; peer_caused, … */  \
    X(RESTARTS, "restarts", INFO, "used", "reason")       /* … there are less than before */     \
    X(WRITE_FAILED, "write_failed", ERROR, "again_in_ms", NULL)                                    \
    X(LINGERS, "lingers", INFO, NULL, NULL) /* the job has succeeded, and what runs goes on */     \
    X(JOB_FINISHED, "job_finished", INFO, NULL, "reason")                                          \
    X(NODE_DRAINING, "node_draining", INFO, NULL, "name")        /* an operator's order */         \
    X(NODE_EVICTED, "node_evicted", WARN, NULL, "name")          /* likewise */                    \
    X(JOB_STOPPING, "job_stopping", INFO, NULL, NULL)            /* likewise */                    \
    X(JOB_RESIZED, "job_resized", INFO, "max", NULL)             /* likewise */                    \
    X(NODE_NOTICED, "node_noticed", INFO, "deadline_ms", "kind") /* 0: it has none */              \
    X(NODE_ALONE, "node_alone", WARN, "rank", NULL) /* does not use the cluster it was given */    \
    X(NODE_STAYS, "node_stays", INFO, NULL, "name") /* its notice was withdrawn */                 \
    X(SAVE, "save", INFO, "number", NULL)           /* scripts are asked */                        \
    X(GROWTH_WAITS, "growth_waits", INFO, NULL, "reason") /* for a first checkpoint */             \
    X(SAVED, "saved", INFO, "after_ms", NULL)             /* … and have answered */

enum rdzv_trace_kind {
#define RDZV_TRACE_ENUM(NAME, name, level, number, text) TRACE_##NAME,
    RDZV_TRACES(RDZV_TRACE_ENUM)
#undef RDZV_TRACE_ENUM
};

/* "job_state", … static, never NULL. */
const char *rdzv_trace_name(enum rdzv_trace_kind kind);

struct rdzv_trace {
    enum rdzv_trace_kind kind;
    const char *job;  /* NULL: none */
    const char *node; /* NULL: none */
    const char *name; /* its label */
    uint64_t epoch;
    uint64_t number;
    const char *text; /* NULL: none */
    bool uncertain;   /* NODE_NOTICED: it may come to nothing, or sooner */
    bool stopped;     /* NODE_EXITED: by its agent, as it was told to */
};

/* Nodes that are remembered to have reached a node. */
#define RDZV_KNOWN_TO_MAX 3

/* A member of a recorded epoch; its index in the record is its seat. */
struct rdzv_member {
    const char *node;
    const char *name;
    const char *host;
    const uint16_t *ports; /* as many as the job has processes per node */
    uint64_t join_order;   /* smaller: longer in the job */
    bool durable;          /* as its JOIN said, like fixed_ports */
    bool fixed_ports;
    bool drained; /* an operator takes it out: it is in no later epoch */
    /* Nodes that have got its id from its address: what they find closed there proves something. */
    const struct tfe_id *known_to;
    uint32_t n_known_to;    /* at most RDZV_KNOWN_TO_MAX */
    const char *proof_hash; /* as its JOIN said: of its death certificate; "" none … */
    uint32_t guard_port;    /* … and where that may be had */
    bool taken_over;        /* another process has come with its id: nothing proves its death */
};

/* What must be on disk before anybody hears of it: a job and its newest epoch, or its end. */
struct rdzv_record {
    uint64_t sequence; /* counts up; a later record of a job replaces the earlier ones */
    const char *job;
    bool gone; /* the job is forgotten: nothing of it is kept, and nothing below counts but
                  predecessor */
    struct job_spec spec; /* no wish is open */
    uint32_t epoch_ps;    /* of this epoch: the next may have spec's. 0: it has, too */
    bool resized;    /* an operator has said how many nodes: what agents bring does not count */
    bool ps_resized; /* … and how many ps */
    uint32_t run;
    const char *run_key; /* tfe_id: as the agents name the run; "" they do not */
    uint32_t restarts;
    uint32_t fruitless;   /* epochs in a row that came to nothing */
    uint32_t backoff_ms;  /* the last one between two of them */
    bool has_progressed;  /* an epoch of this run has, before this one */
    uint64_t predecessor; /* the epoch on disk must be this one: compare-and-set */
    uint64_t epoch;
    enum tfe_cause cause;
    uint32_t ttl_ms;   /* the largest that was ever granted */
    uint32_t fence_ms; /* likewise */
    bool over;         /* the job has ended; result and sentence count */
    bool fenced;       /* over: nothing is known of what it ran, a next run waits for the fence */
    enum tfe_result result;
    const char *sentence;
    struct tfe_wall ended;             /* over: when, 0 not known */
    const struct rdzv_member *members; /* by seat */
    uint32_t n_members;
    /* How named runs before this one ended: a line "RUN KEY RESULT ENDED_MS" for each; "" none. */
    const char *past;
};

/* What is known of an epoch: why it began, what each phase of its beginning cost, how it ended.
 * What is not known (a time that is NEVER, blamed "", a flag that is false) leaves standing what
 * was noted before: a server that adopts an epoch knows less of its beginning than the one that
 * began it. */
struct rdzv_ledger {
    const char *job;
    struct msg_epoch_row row;         /* but for its times, which are civil */
    struct tfe_mono at[EPOCH__TIMES]; /* NEVER: not known, or not yet */
};

/* Everything an action points to belongs to the core and lives until the next rdzv_step. */
struct rdzv_action {
    enum rdzv_action_type type;
    uint32_t session; /* SEND, CLOSE */
    /* A SEND of MSG_TABLE carries the whole table; the shell cuts it into chunks. Tables of one
     * (job, epoch) have the same rows pointer, so that they can be encoded once. */
    struct tfe_msg msg;               /* SEND */
    const struct rdzv_record *record; /* PERSIST */
    const char *sentence;             /* EXIT */
    const struct rdzv_ledger *ledger; /* LEDGER */
    struct rdzv_trace trace;          /* TRACE */
};

struct rdzv_actions {
    const struct rdzv_action *v; /* owned by the core, in the order they are to be carried out */
    size_t n;
    struct tfe_mono deadline; /* when to come back with TICK; may be in the past: soon */
};

struct rdzv;

/* TFE_EINVAL: a setting is out of its range. TFE_ENOMEM. mem must outlive the core. */
int rdzv_new(const struct rdzv_config *config, const struct tfe_mem *mem,
             struct rdzv **ret) TFE_MUST_CHECK;
void rdzv_free(struct rdzv *r);

/* Takes one event in. On an error nothing has changed and *ret is empty with the old deadline:
 * TFE_ENOMEM; TFE_EINVAL: session out of range, a message that no agent may send, or sizes that the
 * codec would not have let through; TFE_ESTATE: not legal now (a message other than JOIN on a
 * session that no node holds): the shell closes that session; TFE_ENOENT: an operator's order for a
 * job or a node that is not there. TFE_ESTATE: the job cannot be forgotten, there are nodes of it.
 * TFE_EAUTH: it cannot have so many ps (rdzv_refusal). */
int rdzv_step(struct rdzv *r, const struct rdzv_event *event,
              struct rdzv_actions *ret) TFE_MUST_CHECK;

/* Why the last step was TFE_EAUTH, as a sentence. Until the next step. */
const char *rdzv_refusal(const struct rdzv *r);

/* After rdzv_new and before the first event: takes a job in as it was last recorded. A running
 * epoch is adopted: its members have the largest lease and the full fence from now on to come back
 * with it. The record is copied. TFE_EINVAL: it contradicts itself. TFE_EEXIST. TFE_ENOMEM: nothing
 * changed. */
int rdzv_restore(struct rdzv *r, struct tfe_mono now,
                 const struct rdzv_record *record) TFE_MUST_CHECK;

/* A job of this name has a record that cannot be read: it is shown as such, unless its agents bring
 * it back. TFE_EINVAL: it is no name of a job. TFE_ENOMEM. */
int rdzv_set_aside(struct rdzv *r, const char *name) TFE_MUST_CHECK;

/* Reading, for status. Fills *ret_job with the first job whose name is above `after` (NULL: the
 * first of all); TFE_ENOENT: none left. Strings live until the next rdzv_step. */
int rdzv_view_job(const struct rdzv *r, const char *after,
                  struct msg_status_job *ret_job) TFE_MUST_CHECK;

/* When a turn of the server's loop was last so late that no lease ends for it; at 0: never. */
struct tfe_mono rdzv_view_late(const struct rdzv *r);
/* Adds what the job of this row waits for, kept in room, and how long it has been in its state. */
void rdzv_view_waits(const struct rdzv *r, struct msg_status_job *job, char room[MSG_SENTENCE_MAX]);
/* Likewise, of a node, where not all of the job wait for the same. */
void rdzv_view_node_waits(const struct rdzv *r, const char *job, struct msg_status_node *row,
                          char room[MSG_SENTENCE_MAX]);

/* The key whose agent has opened this job. False: there is no such job, or it is not known since
 * the server was started. */
bool rdzv_job_opener(const struct rdzv *r, const char *name, uint8_t ret[PRINCIPAL_KEY_ID_BYTES]);
/* The job of this name. TFE_ENOENT. Strings live until the next rdzv_step. */
int rdzv_find_job(const struct rdzv *r, const char *name,
                  struct msg_status_job *ret_job) TFE_MUST_CHECK;

/* How the agents of the job name its run; "": they do not, or there is no such job. Lives until the
 * next rdzv_step. */
const char *rdzv_run_key(const struct rdzv *r, const char *job);

/* How the job's run has ended. Lives until the next rdzv_step. */
struct rdzv_outcome {
    bool lingers;         /* it has succeeded, and what still runs goes on: it has not ended yet */
    bool is_used_up;      /* failed: one restart too many was charged */
    const char *sentence; /* "": it has not ended */
};
struct rdzv_outcome rdzv_outcome(const struct rdzv *r, const char *job);

/* The node of the job whose id is the first above `after`; members and spares alike. */
int rdzv_view_node(const struct rdzv *r, const char *job, const char *after,
                   struct msg_status_node *ret_node) TFE_MUST_CHECK;

/* Whether the node is one of the job's running epoch, or of the one that it is leaving. */
bool rdzv_is_member(const struct rdzv *r, const char *job, const char *node);
/* Whom a session is about, and where it stands. Borrowed until the next rdzv_step. */
struct rdzv_place {
    const char *job, *node, *name;
    uint32_t run;
    uint64_t epoch; /* of the job */
    bool has_rank;  /* it is a member, and that epoch runs, begins or ends */
    uint32_t rank;  /* of its first trainer */
    uint32_t n_members;
};
/* TFE_ENOENT: no node has joined in it. O(1). */
int rdzv_place_of(const struct rdzv *r, uint32_t session, struct rdzv_place *ret) TFE_MUST_CHECK;
/* The session that the node speaks in; UINT32_MAX: it is not connected. */
uint32_t rdzv_session_of(const struct rdzv *r, const char *job, const char *node);

/* Nodes that a person may mean by one name. */
#define RDZV_FOUND_MAX 4
struct rdzv_found {
    uint32_t n; /* all of them; the first few by job and id are in v */
    struct {
        const char *job;
        const char *node;
        const char *name;
        const uint8_t *token_id; /* that it came with; NULL: not known, after a restart */
        uint32_t session;        /* UINT32_MAX: it is not connected */
        bool has_rank;           /* it is a member */
        uint32_t rank;           /* of its first trainer */
    } v[RDZV_FOUND_MAX];
};

/* The node that speaks in this session, as rdzv_find_node; TFE_ENOENT: none has joined in it. */
int rdzv_node_of(const struct rdzv *r, uint32_t session, struct rdzv_found *ret) TFE_MUST_CHECK;

/* Who has this id; if nobody, which connected nodes have this label; if none, which suspects. Looks
 * at every node of the jobs that `by` may give orders about: for people's questions only.
 * TFE_ENOENT: nobody. What is pointed to lives until the
 * next rdzv_step. */
int rdzv_find_node(const struct rdzv *r, const struct principal *by, const char *name,
                   struct rdzv_found *ret_found) TFE_MUST_CHECK;

#endif
