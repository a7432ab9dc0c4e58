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
#include "common/base/msg.h"
#include "common/base/time.h"

/* Records that one step asks to be written at most. */
#define RDZV_PERSIST_MAX 1000

/* Settings of a server. Durations in ms. A job that an agent opens with wishes of its own (JOIN)
 * keeps those instead. */
struct rdzv_config {
    uint64_t incarnation;   /* random, new per server process */
    uint64_t seed;          /* of the core's own random numbers */
    uint32_t ttl_ms;        /* of a lease */
    uint32_t fence_ms;      /* 0: 120 s for an epoch of one node, else 300 s; at least 3 x ttl */
    uint32_t gather_ms;     /* first start: nobody new for so long closes the window */
    uint32_t gather_max_ms; /* … and so long after min are ready, in any case */
    uint32_t grow_wait_ms;  /* kept for the job, not used yet */
    uint32_t stop_grace_ms; /* a trainer's time between stop and kill */
    uint32_t elastic_timeout_ms; /* below min for so long fails a job; 0: it waits for ever */
    uint32_t exit_grace_ms;      /* for the others, after rank 0 ended well */
    uint32_t max_restarts;       /* job-global */
    uint32_t renew_rate;         /* renewals per second that leases are lengthened for; 0: 5,000 */
    uint32_t probe_ms;     /* an address that nobody reaches for so long is refused; 0: 30 s */
    uint32_t max_sessions; /* sessions are numbered 0 … max_sessions - 1 */
    uint32_t max_nodes;    /* with so many leases no newcomer is let in; 0: max_sessions */
};

enum rdzv_event_type {
    RDZV_MESSAGE,        /* msg came on session (of an agent) */
    RDZV_CLOSED,         /* the connection of session ended, for whatever reason */
    RDZV_PERSISTED,      /* the record of this job and sequence is durable */
    RDZV_PERSIST_FAILED, /* it could not be written; the core will ask again, or see conflict */
    RDZV_DRAIN,          /* an operator takes this node out of its job, in an orderly way */
    RDZV_EVICT,          /* … at once, whether it answers or not */
    RDZV_STOP_JOB,       /* an operator ends this job */
    RDZV_TICK            /* time has come to the deadline of the last step, or passed it */
};

struct rdzv_event {
    enum rdzv_event_type type;
    struct tfe_mono now;       /* earlier than the last event's counts as the last event's */
    uint32_t session;          /* MESSAGE, CLOSED */
    const struct tfe_msg *msg; /* MESSAGE; borrowed for the call */
    const char *job;           /* PERSISTED, PERSIST_FAILED, DRAIN, EVICT, STOP_JOB; borrowed */
    const char *node;          /* DRAIN, EVICT: the node's id; borrowed */
    bool has_within;           /* DRAIN: it has to be gone so soon */
    uint32_t within_ms;
    uint64_t sequence; /* PERSISTED, PERSIST_FAILED: the record's */
    bool conflict;     /* PERSIST_FAILED: what is on disk is not the predecessor: another server */
    struct tfe_wall wall; /* civil time, for sentences and records only; 0: not known */
};

enum rdzv_action_type {
    RDZV_SEND,    /* msg to session */
    RDZV_CLOSE,   /* flush, then close session; the core has forgotten it already */
    RDZV_PERSIST, /* record: make it durable, then PERSISTED, or say PERSIST_FAILED */
    RDZV_EXIT,    /* sentence: this process has to end at once, another one is in charge */
    RDZV_LEDGER,  /* ledger: note it, in place of what was noted of the same epoch; no answer */
    RDZV_TRACE    /* something a person may want to read */
};

/* What happened, for logs and for the simulator's expected traces. NODE_DRAINING and NODE_EVICTED
 * (text: label) and JOB_STOPPING are an operator's orders. */
#define RDZV_TRACES(X)                                                                             \
    X(JOB_STATE, "job_state")             /* text: new state, number: the run that begins */       \
    X(NODE_JOINED, "node_joined")         /* text: label */                                        \
    X(NODE_BACK, "node_back")             /* a known node on a new connection */                   \
    X(NODE_READY, "node_ready")           /* epoch, text: host */                                  \
    X(NODE_UNVERIFIED, "node_unverified") /* ready, with nobody to try its address; text: host */  \
    X(NODE_VERIFIED, "node_verified")     /* text: the node that reached its address */            \
    X(NODE_UNREACHED, "node_unreached") /* number: ms since the first try; text: what was tried */ \
    X(NODE_DEAD, "node_dead") /* its trainers are: text: the node that found their ports closed */ \
    X(NODE_SUSPECT, "node_suspect") /* its connection is gone without a GOODBYE */                 \
    X(NODE_LOST, "node_lost")       /* lease over, or left out of a switch; text: why */           \
    X(NODE_LEFT, "node_left")       /* GOODBYE, or let go after a drain */                         \
    X(NODE_EXITED, "node_exited")   /* epoch, number: code or 128 + signal, text: error tail */    \
    X(NODE_QUARANTINED,                                                                            \
      "node_quarantined")           /* number: ms, text: own_fault, … before its first step */   \
    X(NODE_REFUSED, "node_refused") /* text: sentence */                                           \
    X(LISTENING, "node_listening")  /* epoch, number: ms since its START, 0 not known */           \
    X(SWITCH, "switch")             /* epoch that ends; text: cause of the next */                 \
    X(EPOCH, "epoch")               /* epoch that begins, number: members, text: cause */          \
    X(REBUILT, "rebuilt")       /* the running epoch, from what so many members (number) said */   \
    X(WAIT_FENCE, "wait_fence") /* the switch waits so many ms (number) for the fence */           \
    X(MASS_LOSS, "mass_loss")   /* number: ms for which nothing is decided; text: why */           \
    X(END, "end")           /* of an epoch by an exit; number: fruitless epochs in a row, text:    \
                                       own_fault, peer_caused, … */                              \
    X(RESTARTS, "restarts") /* number: of the budget used; text: why less than before */           \
    X(WRITE_FAILED, "write_failed") /* number: ms until the next try */                            \
    X(JOB_FINISHED, "job_finished") /* text: sentence */                                           \
    X(NODE_DRAINING, "node_draining")                                                              \
    X(NODE_EVICTED, "node_evicted")                                                                \
    X(JOB_STOPPING, "job_stopping")                                                                \
    X(NODE_NOTICED, "node_noticed") /* number: ms to its deadline, 0 none; text: kind */           \
    X(NODE_STAYS, "node_stays")     /* its notice was withdrawn */                                 \
    X(SAVE, "save")                 /* scripts are asked; number: the SAVE's */                    \
    X(SAVED, "saved")               /* … and have answered; number: ms since then */

enum rdzv_trace_kind {
#define RDZV_TRACE_ENUM(NAME, name) TRACE_##NAME,
    RDZV_TRACES(RDZV_TRACE_ENUM)
#undef RDZV_TRACE_ENUM
};

/* "job_state", … static, never NULL. */
const char *rdzv_trace_name(enum rdzv_trace_kind kind);

struct rdzv_trace {
    enum rdzv_trace_kind kind;
    const char *job;  /* NULL: none */
    const char *node; /* NULL: none */
    uint64_t epoch;
    uint64_t number;
    const char *text; /* NULL: none */
    bool uncertain;   /* NODE_NOTICED: it may come to nothing, or sooner */
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
    bool durable;          /* as its JOIN said */
    bool drained;          /* an operator takes it out: it is in no later epoch */
    /* Nodes that have got its id from its address: what they find closed there proves something. */
    const struct tfe_id *known_to;
    uint32_t n_known_to; /* at most RDZV_KNOWN_TO_MAX */
};

/* What must be on disk before anybody hears of it: a job and its newest epoch, or its end. */
struct rdzv_record {
    uint64_t sequence; /* counts up; a later record of a job replaces the earlier ones */
    const char *job;
    uint32_t min_nodes, max_nodes, nproc;
    uint32_t max_restarts, gather_ms, grow_wait_ms, stop_grace_ms, elastic_timeout_ms;
    uint32_t chief_grace_ms;
    bool no_grow;
    uint64_t script_digest;
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
    uint32_t run;
    uint64_t epoch;
    enum tfe_cause cause;
    const char *blamed; /* label of the node whose loss, exit or notice began it; "" none */
    bool planned;       /* nobody had failed: the epoch before was stopped for it */
    uint32_t n_members;
    struct tfe_mono detected;   /* the reason for it was seen */
    struct tfe_mono stopped;    /* STOP to the epoch before */
    struct tfe_mono gathered;   /* its members were READY */
    struct tfe_mono committed;  /* it was durable */
    struct tfe_mono started;    /* its first START */
    struct tfe_mono listening;  /* all members said LISTENING */
    struct tfe_mono progressed; /* the first PROGRESS told of a step */
    struct tfe_mono ended;      /* its own STOP, or the job's end */
    bool has_saved;             /* the newest checkpoint that was told */
    uint64_t saved_step;
    bool has_lost; /* steps done after that, which the next epoch does again */
    uint64_t lost_steps;
    bool is_over; /* nothing of this will change any more */
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
 * job or a node that is not there. */
int rdzv_step(struct rdzv *r, const struct rdzv_event *event,
              struct rdzv_actions *ret) TFE_MUST_CHECK;

/* After rdzv_new and before the first event: takes a job in as it was last recorded. A running
 * epoch is adopted: its members have the largest lease and the full fence from now on to come back
 * with it. The record is copied. TFE_EINVAL: it contradicts itself. TFE_EEXIST. TFE_ENOMEM: nothing
 * changed. */
int rdzv_restore(struct rdzv *r, struct tfe_mono now,
                 const struct rdzv_record *record) TFE_MUST_CHECK;

/* Reading, for status. Fills *ret_job with the first job whose name is above `after` (NULL: the
 * first of all); TFE_ENOENT: none left. Strings live until the next rdzv_step. */
int rdzv_view_job(const struct rdzv *r, const char *after,
                  struct msg_status_job *ret_job) TFE_MUST_CHECK;

/* The node of the job whose id is the first above `after`; members and spares alike. */
int rdzv_view_node(const struct rdzv *r, const char *job, const char *after,
                   struct msg_status_node *ret_node) TFE_MUST_CHECK;

/* Nodes that a person may mean by one name. */
#define RDZV_FOUND_MAX 4
struct rdzv_found {
    uint32_t n; /* all of them; the first few by job and id are in v */
    struct {
        const char *job;
        const char *node;
    } v[RDZV_FOUND_MAX];
};

/* Who has this id; if nobody, which connected nodes have this label; if none, which suspects. Looks
 * at every node: for people's questions only. TFE_ENOENT: nobody. Strings live until the next
 * rdzv_step. */
int rdzv_find_node(const struct rdzv *r, const char *name,
                   struct rdzv_found *ret_found) TFE_MUST_CHECK;

#endif
