/* server/jobs/pool_private.h: internals of the pool, shared by pool.c (time, start and end),
 * pool_nodes.c, pool_reports.c, pool_placement.c, pool_jobs.c, pool_orders.c, pool_removal.c,
 * bundle_send.c and query/query_pool.c. */
#ifndef TFE_SERVER_JOBS_POOL_PRIVATE_H
#define TFE_SERVER_JOBS_POOL_PRIVATE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <event2/event_struct.h>

#include "common/base/id.h"
#include "common/job/job_file.h"
#include "server/jobs/pool.h"
#include "server/query/batch.h"
#include "server/query/record_source.h"
#include "server/scheduler/gain.h"
#include "server/scheduler/placement.h"
#include "server/session.h"
#include "server/store/pack.h"
#include "server/store/writer.h"

/* Number of submitted jobs that the server remembers, each with its specification. */
#define POOL_JOBS_MAX 1000u
/* Part of POOL_JOBS_MAX that only unscoped admins may use. */
#define POOL_JOBS_RESERVE 50u

/* Index of the condition Created. The other conditions are the states of the job; exactly one of
 * them holds at a time. */
#define CONDITION_CREATED 0
#define CONDITION__COUNT STATE_SET_ASIDE

struct pool_condition {
    struct tfe_wall at; /* when it began or ended; 0 if it was never set */
    char reason[40];
    char message[512];
};

struct pool_node;

/* An order that is acknowledged once its job is durable. */
struct pool_order {
    struct rows rows;
    LIST_ENTRY(pool_order) link;
    struct pool_job *job;     /* job that the order waits for; NULL once it is durable or refused */
    uint64_t version;         /* version of the job that must be durable */
    enum tfe_refusal refusal; /* 0 if the order is not refused */
    char sentence[MSG_SENTENCE_MAX];
};

/* Maximum timer interval. Timers of the event loop stand still while the machine is suspended. */
#define POOL_CHECK_MS 1000

TAILQ_HEAD(pool_job_nodes, pool_node);
LIST_HEAD(pool_job_orders, pool_order);

/* What placement, quotas and time limits need of a job. */
struct pool_needs {
    uint32_t priority, min_nodes, max_nodes, n_ps, nproc;
    bool chief, evaluator, preempt, suspend;
    bool may_linger;                 /* clean_policy is None */
    char bundle[MSG_BUNDLE_HEX + 1]; /* digest of the job's bundle; "" if it has none */
    uint32_t limit;                  /* consecutive failed starts of nodes that the job survives */
    uint32_t active_deadline_ms;     /* 0 for never */
    uint32_t ttl_ms; /* time after the end at which the job is forgotten; MSG_UNSET for never */
};

/* A label that nodes of a job must carry. */
struct pool_label {
    uint8_t tasks;                     /* bits of enum tfe_task: the roles that need it */
    char text[MSG_POOL_LABEL_MAX + 1]; /* K=V */
};

struct pool_job {
    TAILQ_ENTRY(pool_job) link;
    struct pool *pool;
    struct tfe_id name;
    struct tfe_id run_key;
    bool is_submitter_known; /* false for jobs loaded at start-up */
    uint8_t submitter[PRINCIPAL_KEY_ID_BYTES];
    uint64_t number;
    char *spec; /* the job, in the canonical text of job_file.h */
    struct pool_needs needs;
    struct pool_condition conditions[CONDITION__COUNT];
    uint32_t condition;      /* index of the condition that is true in addition to Created */
    struct tfe_wall started; /* 0 if the job has not run since it was submitted or resumed */
    struct tfe_mono
        ends; /* active deadline, or end of the ttl after the job's end; NEVER if none */
    uint32_t n_assigned, n_released; /* number of nodes assigned and taken in this step */
    const char *release_reason;      /* why the last of these nodes was released */
    uint32_t failures;               /* failed starts of nodes since the job last ran */
    char start_error[256];           /* the last of them in one line; "" if there is none */
    bool is_over;
    bool lingers;     /* the job is over and its remaining trainers continue (clean_policy None) */
    bool is_placed;   /* the scheduler knows the job, because it has been durable */
    bool is_gone;     /* freed once the deletion is durable */
    bool is_replaced; /* deleted, and another job of its name owns the row now */
    bool is_stale;    /* the core knows more about the job than its conditions show */
    /* Version counters: the row on disk has at least version `written`. */
    uint64_t version, writing, written;
    struct gain gain; /* measured gain of a further node */
    bool by_samples;  /* the gain is in samples per second; otherwise in steps per second */
    uint32_t gain_reported;
    struct tfe_mono gain_at;
    struct writer_request *request; /* pending write; NULL if none */
    struct tfe_mono again;          /* time of the retry after a failed write */
    struct pool_job_nodes nodes;
    struct pool_job_orders orders; /* orders that wait until the job is durable */
};
TAILQ_HEAD(pool_jobs, pool_job);

struct bundle_reading;
struct bundles;
struct pool_bundle_queue;

/* Bytes of a bundle that a node has requested. */
struct pool_piece {
    uint32_t offset, length;
    struct bundle_reading *reading; /* NULL before the read is passed to the disk worker */
    bool is_read;
};

/* State of a node's bundle download; owned by bundle_send.c. */
struct pool_download {
    struct pool_bundle_queue *queue; /* queue of the requested bundle; NULL if none */
    TAILQ_ENTRY(pool_node) link;     /* link in the list of waiting or streaming nodes */
    enum { DOWNLOAD_NONE, DOWNLOAD_WAITING, DOWNLOAD_STREAMING } state;
    struct pool_piece
        pieces[2]; /* pieces not sent yet: one is read while the other is in transit */
    uint32_t n_pieces;
    bool is_complete;       /* true once the last byte is sent */
    struct batch_slot pass; /* the node's place in the batches of the event loop */
    struct tfe_mono since, window;
    uint32_t window_bytes; /* bytes requested since `window` */
    char *error;           /* why the last attempt failed; NULL if it did not */
};

struct pool_node {
    struct pool_download download;
    RB_ENTRY(pool_node) by_id;
    TAILQ_ENTRY(pool_node) by_lease, of_job;
    struct tfe_id id;
    struct msg_pool_row *row; /* what the node reported about itself */
    struct session *session;  /* NULL while the node is disconnected */
    bool is_lost;             /* the scheduler does not know yet that the node disconnected */
    struct tfe_mono lease;
    struct tfe_mono rests; /* the node gets no work before this time; NEVER if it does not rest */
    struct tfe_wall since;
    uint64_t assignment;  /* number of the assignment; 0 if none */
    struct pool_job *job; /* NULL if there is none or the server does not know the job */
    enum tfe_task task;
    bool is_assign_sent;
    bool is_leaving;
    enum tfe_cause release_cause; /* of the epoch after the node is_leaving; 0 if the job is over */
    bool is_noticed;              /* under notice */
    bool is_unfit;                /* a check of the node's machine fails */
    bool is_warned;               /* under notice or unfit: the node is assigned to no job */
    struct tfe_wall ends_at;      /* deadline of the notice; 0 if unknown */
    bool has_spot_label; /* the node has a spot label of its own, which overrides what the cloud
                          * reports
                          */
    enum tfe_out out;    /* reason why the node must leave the pool */
    uint32_t failures;   /* consecutive agents of one job that failed at once on the node */
    uint64_t failed_job; /* number of that job; 0 if none */
    uint64_t version;    /* version of the job at which the assignment is sent */
};
RB_HEAD(pool_tree, pool_node);
TAILQ_HEAD(pool_leases, pool_node);
TAILQ_HEAD(pool_downloads, pool_node);
TAILQ_HEAD(pool_queues, pool_bundle_queue);

struct pool {
    struct pool_config config;
    struct placement *placement;
    struct writer *writer; /* NULL before pool_keep() */
    char *shown;           /* the masked text of the job in the last row shown */
    struct bundles *bundles;
    struct pool_queues queues; /* queues of bundles; the first one gets the next free stream */
    uint32_t n_streaming;      /* nodes with a stream, of all queues */
    struct pool_tree nodes;
    struct pool_leases leases; /* nodes ordered by last renewal, the oldest first */
    struct pool_jobs jobs;
    uint32_t n_jobs;
    uint64_t last_number;
    uint64_t n_assigned, n_released; /* nodes, since the server started */
    struct event timer;
    struct tfe_mono fires;
    struct tfe_mono deadline; /* next deadline of the scheduler */
};

int pool_node_compare(const struct pool_node *a, const struct pool_node *b);
RB_PROTOTYPE(pool_tree, pool_node, by_id, pool_node_compare)

/* --- pool_placement.c --- */

/* Passes the event to the scheduler and carries out its decisions. Returns the result of
 * placement_step(). */
int pool_step(struct pool *p, struct placement_event event);
/* Adds a durable job to the scheduler, or updates its options there. */
int pool_place(struct pool *p, struct pool_job *job);
/* Ends the job with STATE_SUCCEEDED, STATE_FAILED or STATE_CANCELLED. */
void pool_end(struct pool *p, struct pool_job *job, enum tfe_job_state how, const char *reason,
              const char *message);
/* Updates the conditions of the job from the core. */
void pool_refresh(struct pool *p, struct pool_job *job);
/* Ends the trainers that still run after the job's end. */
void pool_end_lingering(struct pool *p, struct pool_job *job);
/* Ends the job as failed. */
void pool_fail(struct pool *p, struct pool_job *job, const char *reason, const char *message);
void pool_stop_in_core(const struct pool *p, const struct pool_job *job);
/* Sets the time at which the job ends by itself: its active deadline or its ttl. */
void pool_set_end(struct pool_job *job);
/* Writes the rows of changed jobs. */
void pool_write(struct pool *p);

/* --- pool_reports.c --- */

/* Tells the scheduler about nodes that disconnected, whose leases ended, or whose rest is over. */
void pool_nodes_check(struct pool *p);

/* --- pool_removal.c --- */

/* Removes the node from the pool and sends it the reason. */
void pool_node_out(struct pool *p, struct pool_node *node, enum tfe_out reason, uint32_t within_ms);
/* --- bundle_send.c --- */

/* Handles FETCH of a node. */
void pool_files_fetch(struct pool *p, struct pool_node *node, const struct msg_fetch *fetch);
/* The node's queue is sent and its batch slot is free; see batch.h. */
void pool_files_drained(struct pool *p, struct pool_node *node);
/* Ends the download: the node left its job or its session ended. */
void pool_files_leave(struct pool *p, struct pool_node *node);
/* Ends the streams of nodes that are too slow. */
void pool_files_check(struct pool *p);
/* Returns why a node of the job cannot download its bundle, and the node's name; NULL if all can.
 */
const char *pool_files_error(const struct pool_job *job, const char **ret_node);

/* --- pool_nodes.c --- */

/* Sends the removal to the node; sends it again if it may have been lost. */
void pool_node_send_removal(struct pool_node *node, uint32_t within_ms);

/* Returns NULL if there is no such node or id is invalid. */
struct pool_node *pool_node_find(struct pool *p, const char *id);
/* Returns NULL if out of memory. The scheduler does not know the node yet. */
struct pool_node *pool_node_new(struct pool *p, const char *id);
void pool_node_renew(struct pool *p, struct pool_node *node);
/* The node works for no job from now on. */
void pool_node_detach(struct pool *p, struct pool_node *node);
/* The node works for this job from now on. */
void pool_node_attach(struct pool *p, struct pool_node *node, struct pool_job *job,
                      uint64_t assignment, enum tfe_task task);
/* Frees a node that the scheduler does not know any more. */
void pool_node_drop(struct pool *p, struct pool_node *node);
/* Returns the node's name, or its id if it has none. */
const char *pool_node_label(const struct pool_node *node);
/* Returns true if the node carries the label K=V, of its own or by what its cloud reports. */
bool pool_node_has_label(const struct pool_node *node, const char *label);
/* Sends msg if the node is connected. */
static inline void pool_node_send(struct pool_node *node, const struct tfe_msg *msg)
{
    if (node->session) {
        session_send(node->session, msg);
    }
}
/* Makes the pool's timer fire at this time at the latest. */
void pool_wake(struct pool *p, struct tfe_mono when);

/* --- pool_jobs.c --- */

struct pool_job *pool_job_find(const struct pool *p, const char *name);
/* Creates a job, or begins the next run of a finished one. Returns 0, TFE_ENOMEM or TFE_EFULL. */
int pool_job_begin(struct pool *p, const char *name, struct pool_job **ret) TFE_MUST_CHECK;
void pool_job_free(struct pool_job *job);
/* Returns the needs of a canonical job. */
struct pool_needs pool_needs_of(const struct pool *p, const json_t *spec);
/* Sets the job to a canonical job. Returns 0, TFE_ENOMEM, or TFE_ETOOBIG if its text is too long.
 */
int pool_job_set(struct pool_job *job, const json_t *spec) TFE_MUST_CHECK;
/* Returns the canonical job, owned by the caller; NULL if out of memory. */
json_t *pool_job_spec(const struct pool_job *job) TFE_MUST_CHECK;
/* Reads the labels that the job's nodes must carry, ordered by roles. Returns 0 or TFE_ENOMEM. */
int pool_job_labels(const struct pool_job *job, struct pool_label ret[MSG_POOL_LABELS_MAX],
                    size_t *ret_n) TFE_MUST_CHECK;
/* Sets this condition, a state or CONDITION_CREATED, and clears all others except Created. */
void pool_job_is(struct pool_job *job, unsigned what, const char *reason, const char *message);
/* The same with the usual reason and sentence of the state. */
void pool_job_is_usual(struct pool_job *job, enum tfe_job_state state);
/* The state whose condition holds; WAITING for a job that was only created. */
enum tfe_job_state pool_job_state(const struct pool_job *job);
/* True if no condition but Created has ever held since the job was submitted. */
bool pool_job_is_fresh(const struct pool_job *job);
/* The condition that holds. */
const struct pool_condition *pool_job_condition(const struct pool_job *job);
/* Returns true if the job's nodes have roles; otherwise all are workers. */
bool pool_job_has_roles(const struct pool_job *job);
/* Marks the job as changed; its row is written later. */
void pool_job_touch(struct pool_job *job);
/* Writes the row if it has changed and no write is pending. */
void pool_job_write(struct pool_job *job, writer_result_fn done);
/* A write has ended: durable (rc 0) or failed. Acknowledges or refuses the orders that waited for
 * it. */
void pool_job_settle(struct pool_job *job, int rc, const char *reason);
/* Returns the scheduler's view of the job. False if the scheduler does not know it. */
bool pool_job_view(const struct pool_job *job, struct placement_view *ret);
/* Returns in how many ms a node that failed to start the job tries again; 0 if none does. */
uint32_t pool_job_retry_ms(const struct pool_job *job);
/* Returns what the job waits for, written to buf, or NULL. */
const char *pool_job_waits(struct pool_job *job, char buf[MSG_SENTENCE_MAX]);
/* Returns true if the core's job of that name is this run; *ret is its row, valid until the next
 * step of the core. */
bool pool_job_in_core(const struct pool_job *job, struct msg_status_job *ret);
/* Packs or unpacks one node of a job. */
void pool_job_pack_node(struct pack *k, const char **id, uint64_t *assignment, uint32_t *task);
/* Creates a job from a row of the store; *ret_nodes contains its packed nodes. Returns 0,
 * TFE_ENOMEM, or TFE_EINVAL if the row is invalid. */
int pool_job_load(struct pool *p, const struct store_submission *row, struct pack *ret_nodes,
                  struct pool_job **ret) TFE_MUST_CHECK;

#endif
