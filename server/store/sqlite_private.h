/* server/store/sqlite_private.h: internals of the SQLite store, shared by sqlite*.c. */
#ifndef TFE_SERVER_STORE_SQLITE_PRIVATE_H
#define TFE_SERVER_STORE_SQLITE_PRIVATE_H

#include <limits.h>
#include <sqlite3.h>
#include <stdint.h>

#include "server/store/store.h"

/* SQLite application id "TFEr", which identifies the file's owner. */
#define SQLITE_STORE_APPLICATION 0x54464572
/* Schema version, stored as user_version. Increment it for every change of a table or of a
 * serialised record. */
#define SQLITE_STORE_SCHEMA 23

/* Prefix of the name of a job that is set aside; no valid id begins with it. */
#define SQLITE_ASIDE "!"

/* sqlite_schema creates the tables; sqlite_statements holds every statement on them. */
extern const char sqlite_schema[];

enum statement {
    STATEMENT_BEGIN,
    STATEMENT_COMMIT,
    STATEMENT_ROLLBACK,
    STATEMENT_INCARNATION, /* incarnation of the server that owns the store */
    STATEMENT_CURRENT_JOB, /* fields of a job for compare-and-set */
    STATEMENT_PUT_JOB,
    STATEMENT_JOBS,
    STATEMENT_SET_ASIDE,
    STATEMENT_FORGET_JOB,
    STATEMENT_FORGET_LEDGER,
    STATEMENT_FORGET_EVENTS,
    STATEMENT_PUT_SUBMISSION,
    STATEMENT_FORGET_SUBMISSION,
    STATEMENT_SUBMISSIONS,
    STATEMENT_PUT_ROW,
    STATEMENT_ROWS,
    STATEMENT_PRUNE_ROWS,
    STATEMENT_PUT_EVENT,
    STATEMENT_CUT_EVENTS, /* deletes all but the newest events */
    STATEMENT_EVENTS_AFTER,
    STATEMENT_EVENTS_OF_JOB,
    STATEMENT_EVENTS_LAST,
    STATEMENT_EVENTS_LAST_OF_JOB,
    STATEMENT_PRUNE_EVENTS,
    STATEMENT_PUT_KEY,
    STATEMENT_KEYS,
    STATEMENT_PRUNE_KEYS,
    STATEMENT_PUT_BAN,
    STATEMENT_BANS,
    STATEMENT_PRUNE_BANS,
    STATEMENT_PUT_AUDIT,
    STATEMENT_AUDIT,
    STATEMENT_AUDIT_LAST,
    STATEMENT__COUNT
};
extern const char *const sqlite_statements[STATEMENT__COUNT];

struct store {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENT__COUNT]; /* prepared at first use */
    uint64_t incarnation;
    bool in_memory;
    char path[PATH_MAX]; /* path of the file, for error messages */
};

/* Describes the last SQLite error with the file and the attempted operation. Returns TFE_ENOMEM or
 * TFE_EDISK. */
int sqlite_error(const struct store *s, const char *what, struct tfe_reason *reason);

/* Reports a damaged file and how to recover it. Returns TFE_EINVAL. */
int sqlite_damaged(const struct store *s, const char *what, struct tfe_reason *reason);

/* A value to bind. Texts and bytes must live until the statement has run. */
struct sqlite_value {
    enum { VALUE_NULL, VALUE_INT, VALUE_TEXT, VALUE_BYTES } form;
    int64_t number;
    const void *bytes;
    size_t n;
};
#define V_INT(x)                                                                                   \
    {                                                                                              \
        .form = VALUE_INT, .number = (int64_t)(x)                                                  \
    }
#define V_INT_IF(has, x)                                                                           \
    {                                                                                              \
        .form = (has) ? VALUE_INT : VALUE_NULL, .number = (int64_t)(x)                             \
    }
#define V_TEXT(x)                                                                                  \
    {                                                                                              \
        .form = VALUE_TEXT, .bytes = (x)                                                           \
    }
#define V_BYTES(x, size)                                                                           \
    {                                                                                              \
        .form = VALUE_BYTES, .bytes = (x), .n = (size)                                             \
    }

/* A statement with its values, and a description of the operation for error messages. */
struct sqlite_call {
    const char *what;
    enum statement which;
    const struct sqlite_value *v;
    size_t n;
};
#define CALL(what_, which_, ...)                                                                   \
    (&(const struct sqlite_call){.what = (what_),                                                  \
                                 .which = (which_),                                                \
                                 .v = (const struct sqlite_value[]){__VA_ARGS__},                  \
                                 .n = sizeof((const struct sqlite_value[]){__VA_ARGS__}) /         \
                                      sizeof(struct sqlite_value)})
#define CALL_PLAIN(what_, which_) (&(const struct sqlite_call){.what = (what_), .which = (which_)})

/* Prepares a statement unless it is prepared already. */
int sqlite_prepare(struct store *s, enum statement which, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Runs a statement that returns no rows. */
int sqlite_run(struct store *s, const struct sqlite_call *call,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* A result row, read column by column from the first. Values are borrowed until the next row. */
struct sqlite_row {
    sqlite3_stmt *at;
    int next;
    bool is_bad; /* a column had an unexpected type and was read as 0 or "" */
    bool failed; /* out of memory while reading a column */
};
int64_t column_int(struct sqlite_row *row);
/* Reads an integer; *ret_has is false if it is NULL. */
int64_t column_int_if(struct sqlite_row *row, bool *ret_has);
const char *column_text(struct sqlite_row *row);
const void *column_bytes(struct sqlite_row *row, size_t *ret_n);

/* Handles a row. A result other than 0 ends the query and is returned; unless a reason is set, the
 * error's text is used. */
typedef int (*sqlite_row_fn)(void *ctx, struct sqlite_row *row);

/* Runs a query. Returns an error of fn, TFE_EDISK or TFE_ENOMEM. */
int sqlite_read(struct store *s, const struct sqlite_call *call, sqlite_row_fn fn, void *ctx,
                struct tfe_reason *reason) TFE_MUST_CHECK;

#define SQLITE_TEXT_MAX 256

/* Return the first column of the first row of sql as text (truncated) or number, "" or 0 if there
 * is no row. `what` describes the operation for error messages. */
int sqlite_text(struct store *s, const char *sql, const char *what, char ret[SQLITE_TEXT_MAX],
                struct tfe_reason *reason) TFE_MUST_CHECK;
int sqlite_number(struct store *s, const char *sql, int64_t *ret,
                  struct tfe_reason *reason) TFE_MUST_CHECK;

/* Part of store_put_message. */
int sqlite_put_submission(struct store *s, const struct store_submission *row,
                          struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
