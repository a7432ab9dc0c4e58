/* server/jobs/pool_private.h: the inside of the pool, for the files that make it up: pool.c (nodes,
 * and the steps of placement), pool_orders.c, query_pool.c, pool_jobs.c (jobs that were handed in).
 */
#ifndef TFE_SERVER_JOBS_POOL_PRIVATE_H
#define TFE_SERVER_JOBS_POOL_PRIVATE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <event2/event_struct.h>

#include "common/base/id.h"
#include "common/message/arena.h"
#include "server/jobs/pool.h"
#include "server/query/batch.h"
#include "server/query/record_source.h"
#include "server/scheduler/gain.h"
#include "server/scheduler/placement.h"
#include "server/session.h"
#include "server/store/pack.h"
#include "server/store/writer.h"

/* Jobs that are remembered, each with its spec. */
#define POOL_JOBS_MAX 1000u
/* Of these, for unscoped admins alone. */
#define POOL_JOBS_RESERVE 50u

/* The first condition stands beside the others, each of which is a state of the job: one of them
 * holds at a time. */
#define CONDITION_CREATED 0
#define CONDITION__COUNT STATE_SET_ASIDE

struct pool_condition {
    bool status;
    struct tfe_wall at; /* 0: it never changed */
    char reason[40];
    char says[512];
};

struct pool_node;

/* Somebody waits until what he has ordered is durable. */
struct pool_order {
    struct rows rows;
    LIST_ENTRY(pool_order) link;
    struct pool_job *job;     /* NULL: it is, or was refused */
    uint64_t version;         /* of the job */
    enum tfe_refusal refusal; /* 0: none */
    char sentence[MSG_SENTENCE_MAX];
};

/* The loop's timers stand still while the machine is suspended: look at least this often. */
#define POOL_LOOK_MS 1000

TAILQ_HEAD(pool_job_nodes, pool_node);
LIST_HEAD(pool_job_orders, pool_order);

struct pool_job {
    TAILQ_ENTRY(pool_job) link; /* by number */
    struct pool *pool;
    struct tfe_id name;
    struct tfe_id run_key;
    bool is_submitter_known; /* since the server was started */
    uint8_t submitter[PRINCIPAL_KEY_ID_BYTES];
    uint64_t number;
    uint8_t *bytes; /* SUBMIT, encoded … */
    size_t n_bytes;
    uint32_t priority, min_nodes, max_nodes, n_ps; /* … and some of it */
    bool chief, evaluator, suspend;
    bool may_linger;                 /* clean_policy None */
    char bundle[MSG_BUNDLE_HEX + 1]; /* its digest; "": it brings none */
    uint32_t limit;                  /* starts of nodes that may fail in a row */
    uint32_t active_deadline_ms;
    uint32_t ttl_ms; /* after its end; MSG_UNSET: for ever */
    struct pool_condition conditions[CONDITION__COUNT];
    struct tfe_wall started;   /* 0: it has not run since it was handed in, or resumed */
    struct tfe_mono ends;      /* its active deadline, or its ttl after its end; NEVER */
    uint32_t n_given, n_taken; /* nodes, in this step */
    const char *taken_for;     /* the last of them */
    uint32_t failures;         /* starts of nodes that failed since it last ran */
    bool is_over;
    bool lingers;     /* it is over, and what still runs of it goes on (clean_policy None) */
    bool is_placed;   /* placement knows it: it was durable once */
    bool is_gone;     /* to be freed once that is durable */
    bool is_replaced; /* gone, and another one of its name is there: its row is that one's */
    bool is_stale;    /* the core knows more of it than its conditions */
    /* Changes are counted: what is written is `written` or more. */
    uint64_t version, writing, written;
    struct gain gain; /* what a node was seen to bring it … */
    bool by_samples;  /* … in samples a second, else in steps */
    uint32_t gain_told;
    struct tfe_mono gain_at;
    struct writer_ask *ask; /* the writer owes an answer */
    struct tfe_mono again;  /* after a write that failed */
    struct pool_job_nodes nodes;
    struct pool_job_orders orders; /* that wait for it to be durable */
};
TAILQ_HEAD(pool_jobs, pool_job);

struct bundle_reading;
struct bundles;
struct pool_bundle_queue;

/* Bytes of a bundle that a node has asked for. */
struct pool_piece {
    uint32_t offset, length;
    struct bundle_reading *reading; /* NULL: the disk was not asked yet */
    bool is_read;
};

/* How a node downloads the bundle of its job; bundle_send.c's. */
struct pool_download {
    struct pool_bundle_queue *queue; /* NULL: it has asked for no bundle */
    TAILQ_ENTRY(pool_node) link;     /* of the nodes that wait, or that have a stream */
    enum { DOWNLOAD_NONE, DOWNLOAD_WAITING, DOWNLOAD_STREAMING } state;
    struct pool_piece pieces[2]; /* not sent yet: one is read while the other travels */
    uint32_t n_pieces;
    bool is_complete;      /* the last byte is sent */
    struct gate_pass pass; /* of its stream */
    struct tfe_mono since, window;
    uint32_t window_bytes; /* that it has asked for since `window` */
    char *error;           /* why its last attempt failed; NULL: it did not */
};

struct pool_node {
    struct pool_download download;
    RB_ENTRY(pool_node) by_id;
    TAILQ_ENTRY(pool_node) by_lease, of_job;
    struct tfe_id id;
    struct msg_pool_row *row; /* what it said of itself */
    struct session *session;  /* NULL: it is away */
    bool is_lost;             /* placement is to hear that it went away */
    struct tfe_mono lease;
    struct tfe_mono rests; /* its place is not given away until then; NEVER: it does not rest */
    struct tfe_wall since;
    uint64_t assignment;  /* 0: none */
    struct pool_job *job; /* NULL: none, or nobody knows it */
    enum tfe_task task;
    bool is_told;
    bool is_leaving;
    bool is_warned;          /* its machine will go: it is given to no job */
    struct tfe_wall goes_at; /* the deadline of that warning; 0: none is known */
    bool says_spot;          /* one of its own labels does: the cloud's word is for people alone */
    enum tfe_out out;        /* it is to leave the pool */
    uint32_t failures;       /* agents in a row that failed at once */
    uint64_t version;        /* of the job, that it is to be told at */
};
RB_HEAD(pool_tree, pool_node);
TAILQ_HEAD(pool_leases, pool_node);
TAILQ_HEAD(pool_downloads, pool_node);
TAILQ_HEAD(pool_queues, pool_bundle_queue);

struct pool {
    struct pool_config config;
    struct placement *placement;
    struct writer *writer; /* NULL: nothing is written yet */
    struct arena arena;    /* of one spec at a time */
    struct bundles *bundles;
    struct pool_queues queues; /* of bundles; the next to get a stream comes first */
    uint32_t n_streaming;      /* nodes, of all queues */
    struct pool_tree nodes;
    struct pool_leases leases; /* who renewed longest ago comes first */
    struct pool_jobs jobs;
    uint32_t n_jobs;
    uint64_t last_number;
    uint64_t n_assigned, n_released; /* nodes, since this server's start */
    struct event timer;
    struct tfe_mono fires;
    struct tfe_mono deadline; /* placement's */
};

int pool_node_compare(const struct pool_node *a, const struct pool_node *b);
RB_PROTOTYPE(pool_tree, pool_node, by_id, pool_node_compare)

/* --- pool_placement.c --- */

#define POOL_CANCELLED "it was cancelled by an operator"

/* Has placement take the event in, and carries out what follows. What placement_step returned. */
int pool_step(struct pool *p, struct placement_event event);
/* Places a job that is durable, or tells placement what it wishes now. */
int pool_place(struct pool *p, struct pool_job *job);
/* The job ends: STATE_SUCCEEDED, STATE_FAILED or STATE_CANCELLED. */
void pool_end(struct pool *p, struct pool_job *job, enum tfe_job_state how, const char *reason,
              const char *says);
/* The core knows more of it: its conditions follow. */
void pool_refresh(struct pool *p, struct pool_job *job);
/* What lingers of it ends. */
void pool_let_go(struct pool *p, struct pool_job *job);
/* It ends as failed. */
void pool_fail(struct pool *p, struct pool_job *job, const char *reason, const char *says);
void pool_stop_in_core(const struct pool *p, const struct pool_job *job);
/* When it ends by itself, as it is now: by its active deadline, or its ttl. */
void pool_set_end(struct pool_job *job);
/* What has changed of jobs is written. */
void pool_write(struct pool *p);

/* --- pool_reports.c --- */

/* Those who went, whose lease has ended, or who have rested: placement hears of it. */
void pool_nodes_look(struct pool *p);

/* --- pool_removal.c --- */

/* It leaves the pool: is told so, and why. */
void pool_node_out(struct pool *p, struct pool_node *node, enum tfe_out reason, uint32_t within_ms);
/* --- bundle_send.c --- */

/* FETCH of a node. */
void pool_files_fetch(struct pool *p, struct pool_node *node, const struct msg_fetch *fetch);
/* What was queued for the node is sent, as the gate wanted to know. */
void pool_files_drained(struct pool *p, struct pool_node *node);
/* It works for its job no more, or its session has ended. */
void pool_files_leave(struct pool *p, struct pool_node *node);
/* Takes the streams of nodes that are too slow. */
void pool_files_check(struct pool *p);
/* Why a node of the job cannot download its bundle, and the node's name; NULL: all can. */
const char *pool_files_error(const struct pool_job *job, const char **ret_node);

/* --- pool_nodes.c --- */

/* Says that it is out; once more where that may be lost. */
void pool_node_say_out(struct pool_node *node, uint32_t within_ms);

/* NULL: there is none, or this is no id. */
struct pool_node *pool_node_find(struct pool *p, const char *id);
/* NULL: no memory. Placement does not know it yet. */
struct pool_node *pool_node_new(struct pool *p, const char *id);
void pool_node_renew(struct pool *p, struct pool_node *node);
/* It works for nothing. */
void pool_node_detach(struct pool *p, struct pool_node *node);
/* It works for the job from now on, and for no other. */
void pool_node_attach(struct pool *p, struct pool_node *node, struct pool_job *job,
                      uint64_t assignment, enum tfe_task task);
/* Placement knows it no more. */
void pool_node_drop(struct pool *p, struct pool_node *node);
/* The node's name, or its id where it has none. */
const char *pool_node_label(const struct pool_node *node);
/* To who is there. */
static inline void pool_node_say(struct pool_node *node, const struct tfe_msg *msg)
{
    if (node->session) {
        session_say(node->session, msg);
    }
}
/* The loop's timer fires then at the latest. */
void pool_wake(struct pool *p, struct tfe_mono when);

/* --- pool_jobs.c --- */

/* "Created", or the state's word, capitalised, in room. */
#define CONDITION_NAME_MAX 16
const char *pool_condition_name(unsigned condition, char room[CONDITION_NAME_MAX]);

struct pool_job *pool_job_find(const struct pool *p, const char *name);
/* A new one, or the next run of one that is over. TFE_ENOMEM, TFE_EFULL. */
int pool_job_begin(struct pool *p, const char *name, struct pool_job **ret) TFE_MUST_CHECK;
void pool_job_free(struct pool_job *job);
/* What it wants. TFE_ENOMEM; TFE_ETOOBIG. */
int pool_job_set(struct pool_job *job, const struct msg_spec *spec) TFE_MUST_CHECK;
/* … read back; texts live until the next call. TFE_ENOMEM. */
int pool_job_spec(struct pool_job *job, struct msg_spec *ret) TFE_MUST_CHECK;
/* Sets this condition, a state or CONDITION_CREATED, and clears all others except Created. */
void pool_job_is(struct pool_job *job, unsigned what, const char *reason, const char *says);
/* The state whose condition holds; WAITING for a job that was only created. */
enum tfe_job_state pool_job_state(const struct pool_job *job);
/* True if no condition but Created has ever held since the job was submitted. */
bool pool_job_is_fresh(const struct pool_job *job);
/* The condition that holds. */
const struct pool_condition *pool_job_condition(const struct pool_job *job);
/* Whether its nodes have roles; else all of them work alike. */
bool pool_job_has_roles(const struct pool_job *job);
/* Something of it has changed, and is to be written. */
void pool_job_touch(struct pool_job *job);
/* Writes it, if there is something to write and no write under way. */
void pool_job_write(struct pool_job *job, writer_answer_fn done);
/* What was written last is durable (rc 0), or was not taken: those who wait hear of it. */
void pool_job_settle(struct pool_job *job, int rc, const char *reason);
/* placement's view of it. False: placement does not know it. */
bool pool_job_view(const struct pool_job *job, struct placement_view *ret);
/* What it waits for; NULL: nothing. In room. */
const char *pool_job_waits(const struct pool_job *job, char room[MSG_SENTENCE_MAX]);
/* True if the core's job of that name is this run of it: *ret is its row then. Lives until the
 * core's next step. */
bool pool_job_in_core(const struct pool_job *job, struct msg_status_job *ret);
/* A node of a job that is packed. */
void pool_job_pack_node(struct pack *k, const char **id, uint64_t *assignment, uint32_t *task);
/* Of a row of the store; its nodes follow in *ret_nodes. TFE_ENOMEM; TFE_EINVAL: it makes no sense.
 */
int pool_job_load(struct pool *p, const struct store_submission *row, struct pack *ret_nodes,
                  struct pool_job **ret) TFE_MUST_CHECK;

#endif
