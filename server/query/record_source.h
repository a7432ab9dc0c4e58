/* server/query/record_source.h: the interface between a source of records (jobs, events, epochs,
 * keys, metrics) and a writer that pulls them at its own pace.
 *
 * Each record is a message; its type names the schema (common/records/schemas.h). To show something
 * new, add a message, its schema and a source here; writers do not distinguish schemas. */
#ifndef TFE_SERVER_QUERY_RECORD_SOURCE_H
#define TFE_SERVER_QUERY_RECORD_SOURCE_H

#include <stdbool.h>
#include <stdlib.h>

#include "common/base/error.h"
#include "common/message/msg.h"

struct deny_list;
struct keys;
struct principal;
struct rdzv;
struct rows;
struct events;
struct sessions;
struct writer;

struct rows_ops {
    int (*next)(struct rows *rows, struct tfe_msg *ret);
    void (*free)(struct rows *rows); /* NULL: free(3) */
};

/* The base of each record source (its first member). A source keeps a position, not pointers into
 * the core, because the core may change between two turns of the loop. */
struct rows {
    const struct rows_ops *ops;
    void (*wake)(void *ctx);
    void *wake_ctx;
    /* Called when the last message (see rows_is_end) is sent; NULL if unused. */
    void (*ended)(void *ctx, const struct tfe_msg *last);
    void *ended_ctx;
};

/* Allocates a zeroed source of `size` bytes, which begins with its struct rows, and sets *ret to
 * it. Returns NULL if out of memory. */
static inline void *rows_new(const struct rows_ops *ops, size_t size, struct rows **ret)
{
    struct rows *rows = calloc(1, size);
    if (rows) {
        rows->ops = ops;
        *ret = rows;
    }
    return rows;
}

/* Sets *ret to the next message and returns 0. The message is valid until the next step of the
 * core or call of the source; no message follows one for which rows_is_end() is true. Returns
 * TFE_EMORE if the next message is not available yet (wake() is called when it is), TFE_ENOMEM if
 * the response cannot be completed. */
static inline int TFE_MUST_CHECK rows_next(struct rows *rows, struct tfe_msg *ret)
{
    return rows->ops->next(rows, ret);
}

/* Sets the function that is called, from the event loop, when a source that returned TFE_EMORE can
 * continue. It is never called from inside rows_next(). */
static inline void rows_on_wake(struct rows *rows, void (*wake)(void *ctx), void *ctx)
{
    rows->wake = wake;
    rows->wake_ctx = ctx;
}

/* Frees the source. NULL is allowed. */
static inline void rows_free(struct rows *rows)
{
    if (rows && rows->ops->free) {
        rows->ops->free(rows);
    } else {
        free(rows);
    }
}

/* Returns true if a message of this type ends a response: STATUS_END, DONE or REFUSED. */
static inline bool rows_is_end(enum tfe_msg_type type)
{
    return type == MSG_STATUS_END || type == MSG_DONE || type == MSG_REFUSED;
}

/* Lists problems of the server (HEALTH), then all jobs that `by` may see and their nodes, or one
 * job (request->job), or jobs without nodes: STATUS_JOB, the newest SERIES_ROWs of the job, its
 * STATUS_NODEs, …, STATUS_END, or REFUSED. The list is read over several turns of the loop and is
 * no snapshot: a node that joins meanwhile may be missing. all and by outlive the source. Returns
 * 0 or TFE_ENOMEM. */
int rows_status(const struct sessions *all, const struct principal *by,
                const struct msg_status *request, struct rows **ret) TFE_MUST_CHECK;

/* Lists the events that match the request and that `by` may see: EVENT_ROW …, STATUS_END, or
 * REFUSED. The arguments outlive the source. Returns 0 or TFE_ENOMEM. */
int rows_events(struct writer *writer, const struct events *events, const struct principal *by,
                const struct msg_events *request, struct rows **ret) TFE_MUST_CHECK;

/* Lists the epochs of a job: EPOCH_ROW …, the job's STATUS_JOB unless the job is forgotten,
 * STATUS_END, or REFUSED. all outlives the source. Returns 0 or TFE_ENOMEM. */
int rows_ledger(const struct sessions *all, const char *job, struct rows **ret) TFE_MUST_CHECK;

/* Copies the database to the new file DIR/NAME: DONE when the copy is complete, or REFUSED.
 * Returns 0 or TFE_ENOMEM. */
int rows_backup(struct writer *writer, const char *dir, const char *name,
                struct rows **ret) TFE_MUST_CHECK;

/* Lists the audit log: AUDIT_ROW …, STATUS_END, or REFUSED. writer outlives the source. Returns 0
 * or TFE_ENOMEM. */
int rows_audit(struct writer *writer, struct rows **ret) TFE_MUST_CHECK;

/* Create a token: TOKEN, STATUS_END. Revoke or rotate: DONE. List all keys: TOKEN_ROW …,
 * STATUS_END. Each may end with REFUSED. keys and writer outlive the source. Return 0 or
 * TFE_ENOMEM. */
int rows_token_create(struct keys *keys, struct writer *writer,
                      const struct msg_token_create *request, struct rows **ret) TFE_MUST_CHECK;
int rows_token_revoke(struct keys *keys, struct writer *writer, const char *name,
                      struct rows **ret) TFE_MUST_CHECK;
int rows_token_rotate(struct keys *keys, struct writer *writer, enum tfe_rotation step,
                      struct rows **ret) TFE_MUST_CHECK;
int rows_tokens(struct keys *keys, struct rows **ret) TFE_MUST_CHECK;

/* Lists the deny-list entries of jobs that `by` may see: BAN_ROW …, STATUS_END. Both arguments
 * outlive the source. Returns 0 or TFE_ENOMEM. */
int rows_bans(const struct deny_list *bans, const struct principal *by,
              struct rows **ret) TFE_MUST_CHECK;

/* Lists the server's metrics: GAUGE …, STATUS_END. Returns 0 or TFE_ENOMEM. */
int rows_gauges(const struct sessions *all, struct rows **ret) TFE_MUST_CHECK;

#endif
