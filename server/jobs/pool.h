/* server/jobs/pool.h: the pool: nodes that work for submitted jobs, and these jobs. The I/O layer
 * around the scheduler.
 *
 *   BUNDLE_HAVE, BUNDLE_PUT ► bundles.c ──► bundle_send.c: nodes that download ◄── FETCH
 *   POOL, FREED, RENEW ──► pool_reports.c ─► scheduler ──► ASSIGN (once durable), RELEASE
 *   SUBMIT, SCALE, … ────► pool_orders.c ──┘  └──► pool_jobs.c: conditions, rows of the store
 *   traces of the core ──► pool_placement.c: is the job running, is it over?
 *
 * The core does not know the pool: an assigned node joins its job like one started by hand. */
#ifndef TFE_SERVER_JOBS_POOL_H
#define TFE_SERVER_JOBS_POOL_H

#include "common/channel/admission.h"
#include "common/message/msg.h"
#include "common/text/reason.h"
#include "server/core/rdzv.h"
#include "server/events/event_log.h"
#include "server/query/operator.h"
#include "server/sessions.h"
#include "server/store/store.h"

struct event_base;
struct keyring;
struct placement;
struct pool;
struct pool_node;
struct reports;
struct rows;
struct session;

struct pool_config {
    struct event_base *base;
    const struct rdzv *core; /* borrowed, as are all following pointers */
    const struct session_ops *ops;
    void *ops_ctx;
    struct events *events;
    const struct reports *reports; /* source of the jobs' throughput */
    struct keyring *keys;          /* source of quotas; outlives the pool */
    const char *bundle_dir;        /* directory of bundles */
    uint64_t incarnation;
    uint32_t ttl_ms;       /* lease of a pool node */
    uint32_t max_restarts; /* default for jobs that set no limit */
    bool shows_arguments;  /* observers see the arguments of jobs' commands */
};

/* Returns 0 or TFE_ENOMEM. */
int pool_new(const struct pool_config *config, struct pool **ret) TFE_MUST_CHECK;
/* Precondition: the writer is stopped. NULL is allowed. */
void pool_free(struct pool *p);

/* Loads the submitted jobs. Call it before the writer takes the store. Errors as
 * store_read_submissions(). */
int pool_load(struct pool *p, struct store *store, struct tfe_reason *reason) TFE_MUST_CHECK;
/* Sets the writer for changes from here on. Call it before the first session. The writer outlives
 * the pool's last step. */
void pool_keep(struct pool *p, struct writer *writer);

/* Follows the states of jobs in the core. */
void pool_trace(struct pool *p, const struct rdzv_trace *trace);

/* The data queued for a pool node (s->pooled) has been sent. */
void pool_drained(struct session *s);

/* Handles a POOL that proves its node's id, and every message of a session that began with one
 * (s->pooled). An invalid message is refused and ends the session. The caller calls
 * session_release(). */
void pool_handle_message(struct pool *p, struct session *s, const struct tfe_msg *msg);
/* Returns the id, borrowed from the node. */
const char *pool_node_id(const struct pool_node *node);
/* The session of a pool node has ended. Nothing follows before the next iteration of the loop. */
/* Returns the run key that the nodes of a submitted job bring, or NULL if no job of that name was
 * submitted or it is over. */
const char *pool_run_key(const struct pool *p, const char *job);
/* Returns why the pool takes the node of this label from its job, as the cause of the job's next
 * epoch; 0 if it does not. */
enum tfe_cause pool_release_cause(struct pool *p, const char *job, const char *label);
void pool_left(struct session *s);

/* Handles BUNDLE_PUT. Returns false if no upload requested these bytes. */
bool pool_handle_bundle(struct pool *p, const struct principal *by,
                        const struct msg_bundle_put *put);

/* Handles an order about submitted jobs that `by` may give: DONE once it is durable, or REFUSED.
 * *ret is NULL if msg is no such order. by outlives the source. Returns 0 or TFE_ENOMEM. */
int rows_pool_order(struct pool *p, const struct principal *by, const struct tfe_msg *order,
                    struct rows **ret) TFE_MUST_CHECK;
/* Lists the nodes of the pool: POOL_ROW …, STATUS_END. p outlives the source. Returns 0 or
 * TFE_ENOMEM. */
int rows_pool(struct pool *p, struct rows **ret) TFE_MUST_CHECK;

/* Buffers for the texts of a job's row. */
struct pool_texts {
    char waits[MSG_SENTENCE_MAX];
    bool shows_arguments; /* if false, the command is shown without its arguments */
};
/* Returns true if `by` may see the arguments of commands. */
bool pool_shows_arguments(const struct pool *p, const struct principal *by);
/* Returns the name of the submitted job that follows `after` (NULL: the first) in order of names,
 * or NULL. */
const char *pool_next_job(const struct pool *p, const char *after);
/* Completes the row of the submitted job of this name; the row comes from the core if is_in_core.
 * Returns false and leaves the row unchanged if no such job was submitted, or if agents have
 * opened a later run of its name. Texts are valid until the next step or the next call of the
 * pool. */
bool pool_show_job(struct pool *p, const char *name, bool is_in_core, struct pool_texts *texts,
                   struct msg_status_job *row);
/* Reason of a job that has failed because it had no restarts left. */
#define CONDITION_USED_UP "BackoffLimitExceeded"
/* Size of the buffer for the name of a condition: "Created" or the capitalised state. */
#define CONDITION_NAME_MAX 16
const char *pool_condition_name(unsigned condition, char buf[CONDITION_NAME_MAX]);
/* The usual reason and sentence of a state's condition. */
struct condition_text {
    const char *reason, *says;
};
struct condition_text condition_text(enum tfe_job_state state);
/* Shows the condition with index *at of a submitted job, or the next one that has been set, and
 * advances *at. Returns false after the last one. buf is the buffer for the name. */
bool pool_show_condition(const struct pool *p, const char *name, unsigned *at, char buf[16],
                         struct msg_condition_row *ret);
/* Shows the node that follows *after ("": the first) by id, of the job (NULL: of the pool), and
 * advances *after. Returns false after the last one. */
bool pool_show_node(struct pool *p, const char *job, struct tfe_id *after,
                    struct msg_pool_row *ret);

/* Lists what jobs want of the pool and what it has, at one moment: DEMAND_ROW …, STATUS_END.
 * Returns 0 or TFE_ENOMEM. */
int rows_demand(struct pool *p, struct rows **ret) TFE_MUST_CHECK;
/* Implements events_owner_fn, with a struct pool as ctx: the token that submitted the job, else
 * the token of the agent that opened it. */
size_t pool_owner_of(const void *ctx, const char *job, uint8_t ret[ADMISSION_NAME_MAX]);
/* Finds the pool node that DRAIN, EVICT or REVOKE_AGENT names: by its id, its label, or the id of
 * the agent below it. Returns NULL if there is none; *ret_is_unclear is true if several match, or
 * another node as well. */
struct pool_node *pool_find_target(struct pool *p, const struct principal *by, const char *name,
                                   bool *ret_is_unclear);
/* Returns the session, borrowed; NULL while the node is disconnected. */
const struct session *pool_node_session(const struct pool_node *node);
/* Removes the node from its job and the pool: in an orderly way (DRAIN), or at once. */
void pool_execute_order(struct pool *p, struct pool_node *node, const struct tfe_msg *order,
                        struct operator_response *ret);

/* Number of states of pool nodes. */
#define POOL_NODE_STATES 6

/* Nodes and submitted jobs by state, and how long the oldest waiting job has waited. */
struct pool_counts {
    struct pool_count {
        const char *state;
        uint32_t n;
    } nodes[POOL_NODE_STATES], jobs[STATE_CANCELLED + 1 - STATE_WAITING];
    int64_t oldest_ms;
    uint64_t assigned, released; /* nodes that were given to a job, or taken from one, ever */
};
/* Counts the nodes of the pool and its queue. */
void pool_count(struct pool *p, struct pool_counts *ret);
/* Returns how many submitted jobs the core does not know, because no agent has joined them. */
uint32_t pool_count_unjoined(const struct pool *p);

/* Returns true if the job was submitted and is not over, or has pool nodes. */
bool pool_holds(const struct pool *p, const char *job);
/* Forgets a job that is over and has no nodes. Returns 0; TFE_ENOENT if it was not submitted;
 * TFE_ESTATE. */
int pool_forget(struct pool *p, const char *job) TFE_MUST_CHECK;

#endif
