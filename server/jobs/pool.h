/* server/jobs/pool.h: nodes that wait for a job, and jobs that were handed in: placement's shell.
 * Sessions and orders go in; ASSIGN, RELEASE and orders to the core come out.
 *
 *   BUNDLE_HAVE, BUNDLE_PUT ► bundles.c ──► bundle_send.c: nodes that download ◄── FETCH
 *   POOL, FREED, RENEW ──► pool.c ──► placement ──► ASSIGN (once it is durable), RELEASE
 *   SUBMIT, SCALE, … ────► pool_orders.c ──┘  └──► pool_jobs.c: conditions, the store's rows
 *   the core's traces ───► pool_jobs.c: is the job running, over?
 *
 * The core knows nothing of it: an assigned node joins its job like one that was started by hand.
 */
#ifndef TFE_SERVER_JOBS_POOL_H
#define TFE_SERVER_JOBS_POOL_H

#include "common/base/reason.h"
#include "common/channel/admission.h"
#include "common/message/msg.h"
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
    const struct rdzv *core; /* borrowed, as all that follows */
    const struct session_ops *ops;
    void *ops_ctx;
    struct events *events;
    const struct reports *reports; /* how fast jobs are */
    struct keyring *keys;          /* what quotas there are; outlives the pool */
    const char *bundle_dir;        /* for what jobs bring along */
    uint64_t incarnation;
    uint32_t ttl_ms;       /* of a node's lease */
    uint32_t max_restarts; /* of jobs that say nothing */
    bool shows_arguments;  /* of jobs' commands, to observers */
};

/* TFE_ENOMEM. */
int pool_new(const struct pool_config *config, struct pool **ret) TFE_MUST_CHECK;
/* The writer answers no more. NULL is allowed. */
void pool_free(struct pool *p);

/* Takes in what is kept. Before the store is the writer's. As store_read_submissions. */
int pool_load(struct pool *p, struct store *store, struct tfe_reason *reason) TFE_MUST_CHECK;
/* From here on it is written there; before the first session. Outlives p's last turn. */
void pool_keep(struct pool *p, struct writer *writer);

/* What the core tells of itself. A trace_fn; ctx is a struct pool. */
void pool_trace(void *ctx, const struct rdzv_trace *trace);

/* What was queued for a node of the pool (s->pooled) is sent. */
void pool_drained(struct session *s);

/* A POOL that proves its node's id, or whatever else an agent says in a session that began with one
 * (s->pooled). Answers what makes no sense, and ends the session then. The caller releases s. */
void pool_take(struct pool *p, struct session *s, const struct tfe_msg *msg);
/* Borrowed from it. */
const char *pool_node_id(const struct pool_node *node);
/* The session of a node is no more. Nothing follows before the loop's next turn. */
void pool_left(struct session *s);

/* BUNDLE_PUT. False: nobody has asked for it. */
bool pool_take_bundle(struct pool *p, const struct principal *by, const struct msg_bundle_put *put);

/* An order about jobs that were handed in, which `by` may give: DONE once it is durable, or
 * REFUSED. *ret NULL: it is none. by outlives the source. TFE_ENOMEM. */
int rows_pool_order(struct pool *p, const struct principal *by, const struct tfe_msg *order,
                    struct rows **ret) TFE_MUST_CHECK;
/* The nodes of the pool: POOL_ROW …, STATUS_END. p outlives the source. TFE_ENOMEM. */
int rows_pool(struct pool *p, struct rows **ret) TFE_MUST_CHECK;

/* What a job's row borrows. */
struct pool_texts {
    char waits[MSG_SENTENCE_MAX];
    char command[MSG_SENTENCE_MAX];
    char source[MSG_WORD_MAX + 1];
    bool shows_arguments; /* else the command is shown without its arguments */
};
/* Whether `by` may see the arguments of commands. */
bool pool_shows_arguments(const struct pool *p, const struct principal *by);
/* The name of the submitted job that follows `after` (NULL: the first) by name; NULL: none does. */
const char *pool_next_job(const struct pool *p, const char *after);
/* Completes the row of a job of this name, which is the core's where is_in_core. False, and the row
 * is left alone: no such job was submitted, or a later run of its name was opened by agents. Texts
 * live until the next step or the next call of the pool. */
bool pool_show_job(struct pool *p, const char *name, bool is_in_core, struct pool_texts *texts,
                   struct msg_status_job *row);
/* The condition *at (from 0) of a submitted job, or the next one that it has; *at goes on. False:
 * none is left. room is of the name. */
bool pool_show_condition(const struct pool *p, const char *name, unsigned *at, char room[16],
                         struct msg_condition_row *ret);
/* The node that follows *after ("": the first) by id, of the job (NULL: of the pool); *after goes
 * on. False: none is left. */
bool pool_show_node(struct pool *p, const char *job, struct tfe_id *after,
                    struct msg_pool_row *ret);

/* What jobs want of the pool and what it has, all of one moment: DEMAND_ROW …, STATUS_END.
 * TFE_ENOMEM. */
int rows_demand(struct pool *p, struct rows **ret) TFE_MUST_CHECK;
/* events_owner_fn, ctx: a struct pool: the key that has submitted the job, else the one whose agent
 * has opened it. */
size_t pool_owner_of(const void *ctx, const char *job, uint8_t ret[ADMISSION_NAME_MAX]);
/* The node of the pool that DRAIN, EVICT or REVOKE_AGENT mean: by its id, its label, or the id of
 * the agent that works below it. NULL: none; unclear: several, or one that is no node of the pool,
 * too.
 */
struct pool_node *pool_meant(struct pool *p, const struct principal *by, const char *name,
                             bool *ret_is_unclear);
/* NULL: it is away. Borrowed. */
const struct session *pool_node_session(const struct pool_node *node);
/* It leaves its job and the pool: in an orderly way (DRAIN), or at once. */
void pool_obey(struct pool *p, struct pool_node *node, const struct tfe_msg *order,
               struct operator_answer *ret);

/* Takes a number of the pool, and one label of it; key NULL: it has none. */
typedef void pool_gauge_fn(void *ctx, const char *name, const char *key, const char *of,
                           uint64_t value);
/* The pool and its queue in numbers, as they are now. */
void pool_count(struct pool *p, pool_gauge_fn *add, void *ctx);

/* Whether a job was handed in and is not over, or has nodes of the pool. */
bool pool_holds(const struct pool *p, const char *job);
/* Forgets a job that is over and has no node any more. TFE_ENOENT: it was not handed in;
 * TFE_ESTATE. */
int pool_forget(struct pool *p, const char *job) TFE_MUST_CHECK;

#endif
