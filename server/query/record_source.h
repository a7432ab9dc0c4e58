/* server/query/record_source.h: the seam between what can be seen and who shows it: a source has
 * rows, a sink pulls them at its own pace.
 *
 *   core ───► rows_status ──┐                ┌─► response_stream.h: a channel, as fast as its peer
 * reads store ──► rows_ledger ──┼─► rows_next() ─┤ store ──► rows_backup ──┘                └─►
 * whatever else is to show them
 *
 * A row is a message: it says one thing, of the kind that its type names (common/records/schemas.h
 * has the kinds' fields, as people see them). What is new to be seen takes a message, its kind
 * there, and a source here; no sink knows one kind from another. */
#ifndef TFE_SERVER_QUERY_RECORD_SOURCE_H
#define TFE_SERVER_QUERY_RECORD_SOURCE_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/message/msg.h"

struct bans;
struct keys;
struct principal;
struct rdzv;
struct rows;
struct events;
struct sessions;
struct writer;

struct rows_ops {
    int (*next)(struct rows *rows, struct tfe_msg *ret);
    void (*free)(struct rows *rows);
};

/* The first member of each source. A source keeps a position and no borrowed pointer: between two
 * turns of the loop the core may change in any way. */
struct rows {
    const struct rows_ops *ops;
    void (*wake)(void *ctx);
    void *wake_ctx;
    /* The last message, which rows_is_end knows, goes out; NULL: nobody wants to know. */
    void (*ended)(void *ctx, const struct tfe_msg *last);
    void *ended_ctx;
};

/* 0: *ret is the next message; it lives until the next step of the core, or call of the source. The
 * one that rows_is_end knows is the last, behind it there is nothing to ask for. TFE_EMORE: there
 * is none yet, wake() says when to ask again. TFE_ENOMEM: there is no last one. */
static inline int TFE_MUST_CHECK rows_next(struct rows *rows, struct tfe_msg *ret)
{
    return rows->ops->next(rows, ret);
}

/* Whom to wake after TFE_EMORE. From the loop, never from inside rows_next. */
static inline void rows_on_wake(struct rows *rows, void (*wake)(void *ctx), void *ctx)
{
    rows->wake = wake;
    rows->wake_ctx = ctx;
}

/* NULL is allowed. */
static inline void rows_free(struct rows *rows)
{
    if (rows) {
        rows->ops->free(rows);
    }
}

/* Whether a message of this type ends an answer: it is complete, done, or refused. */
static inline bool rows_is_end(enum tfe_msg_type type)
{
    return type == MSG_STATUS_END || type == MSG_DONE || type == MSG_REFUSED;
}

/* What is not well with the server (HEALTH), then all jobs and their nodes, or one (asks->job), or
 * jobs alone: STATUS_JOB, the newest of its SERIES_ROWs, its STATUS_NODEs, …, STATUS_END, or
 * REFUSED. Pulled in several turns of the loop it is no snapshot: a node that joins meanwhile may
 * or may not be in it. Only jobs that `by` may see. all and by outlive the source. TFE_ENOMEM. */
int rows_status(const struct sessions *all, const struct principal *by,
                const struct msg_status *asks, struct rows **ret) TFE_MUST_CHECK;

/* What has happened, as asked: EVENT_ROW …, STATUS_END, or REFUSED. Only what `by` may see. All
 * outlive the source. TFE_ENOMEM. */
int rows_events(struct writer *writer, const struct events *events, const struct principal *by,
                const struct msg_events *asked, struct rows **ret) TFE_MUST_CHECK;

/* The ledger of a job: EPOCH_ROW …, the job's STATUS_JOB where it is not forgotten, STATUS_END, or
 * REFUSED. all outlives the source. TFE_ENOMEM. */
int rows_ledger(const struct sessions *all, const char *job, struct rows **ret) TFE_MUST_CHECK;

/* A copy of the store in a new file, DIR/NAME: DONE once it is complete, or REFUSED. TFE_ENOMEM. */
int rows_backup(struct writer *writer, const char *dir, const char *name,
                struct rows **ret) TFE_MUST_CHECK;

/* Who ordered what: AUDIT_ROW …, STATUS_END, or REFUSED. writer outlives the source. TFE_ENOMEM. */
int rows_audit(struct writer *writer, struct rows **ret) TFE_MUST_CHECK;

/* A new token: TOKEN, STATUS_END; taken back or rotated: DONE; all keys: TOKEN_ROW …, STATUS_END.
 * Or REFUSED. keys and writer outlive the source. TFE_ENOMEM. */
int rows_token_create(struct keys *keys, struct writer *writer, const struct msg_token_create *wish,
                      struct rows **ret) TFE_MUST_CHECK;
int rows_token_revoke(struct keys *keys, struct writer *writer, const char *name,
                      struct rows **ret) TFE_MUST_CHECK;
int rows_token_rotate(struct keys *keys, struct writer *writer, enum tfe_rotation step,
                      struct rows **ret) TFE_MUST_CHECK;
int rows_tokens(struct keys *keys, struct rows **ret) TFE_MUST_CHECK;

/* Who is kept out of jobs that `by` may see: BAN_ROW …, STATUS_END. Both outlive the source.
 * TFE_ENOMEM. */
int rows_bans(const struct bans *bans, const struct principal *by,
              struct rows **ret) TFE_MUST_CHECK;

/* The server in numbers: GAUGE …, STATUS_END. TFE_ENOMEM. */
int rows_gauges(const struct sessions *all, struct rows **ret) TFE_MUST_CHECK;

#endif
