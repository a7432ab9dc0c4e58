/* server/store/sqlite_private.h: the inside of the SQLite store, for the files that make it up. */
#ifndef TFE_SERVER_STORE_SQLITE_PRIVATE_H
#define TFE_SERVER_STORE_SQLITE_PRIVATE_H

#include <limits.h>
#include <sqlite3.h>
#include <stdint.h>

#include "common/rows/row.h"
#include "server/store/store.h"

/* "TFEr": says in the file's header whose it is. */
#define SQLITE_STORE_APPLICATION 0x54464572

enum statement {
    STATEMENT_BEGIN,
    STATEMENT_COMMIT,
    STATEMENT_ROLLBACK,
    STATEMENT_INCARNATION, /* who writes here */
    STATEMENT_KEPT,        /* what CAS needs of a job */
    STATEMENT_PUT_JOB,
    STATEMENT_CLEAR_MEMBERS, /* of a job */
    STATEMENT_PUT_MEMBER,
    STATEMENT_JOBS, /* all */
    STATEMENT_MEMBERS,
    STATEMENT_PUT_ROW,
    STATEMENT_ROWS,
    STATEMENT_PRUNE,
    STATEMENT_PUT_EVENT,
    STATEMENT_CUT_EVENTS, /* but for the newest so many */
    STATEMENT_EVENTS_AFTER,
    STATEMENT_EVENTS_OF_JOB,
    STATEMENT_EVENTS_LAST,
    STATEMENT_EVENTS_LAST_OF_JOB,
    STATEMENT_PUT_POINT,
    STATEMENT_THIN,       /* a series */
    STATEMENT_NEWEST_RUN, /* of a job's series */
    STATEMENT_POINTS,
    STATEMENT_LAST_POINTS, /* one of each name */
    STATEMENT_PRUNE_EVENTS,
    STATEMENT_PRUNE_POINTS,
    STATEMENT__COUNT
};

struct sqlite_copy;

struct store {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENT__COUNT];
    uint64_t incarnation;
    struct sqlite_copy *copy; /* the backup under way, or NULL */
    bool in_memory;
    char path[PATH_MAX]; /* for sentences */
};

/* The error of the last call, said with the file's name and what was tried. TFE_ENOMEM or
 * TFE_EDISK. */
int sqlite_error(const struct store *s, const char *what, struct tfe_why *why);

/* Says that the file is damaged, and the ways out. Returns TFE_EINVAL. */
int sqlite_damaged(const struct store *s, const char *what, struct tfe_why *why);

/* A statement, and the kind of rows that its text names (columns_sql). */
struct sqlite_sql {
    enum statement which;
    const char *sql; /* NULL: the end of a list */
    const struct row_kind *kind;
};

int sqlite_prepare(struct store *s, const struct sqlite_sql *list,
                   struct tfe_why *why) TFE_MUST_CHECK;

/* Runs a statement that gives no rows, and makes it ready for the next time. */
int sqlite_run(struct store *s, enum statement which, const char *what,
               struct tfe_why *why) TFE_MUST_CHECK;

/* The same with a row bound to its places. */
int sqlite_put(struct store *s, enum statement which, const struct row_kind *kind, const void *row,
               const char *what, struct tfe_why *why) TFE_MUST_CHECK;

#define SQLITE_TEXT_MAX 256

/* The first column of the first row of sql, as text (cut), or as a number; "" or 0 if there is
 * none. what was tried, for the sentence. */
int sqlite_text(struct store *s, const char *sql, const char *what, char ret[SQLITE_TEXT_MAX],
                struct tfe_why *why) TFE_MUST_CHECK;
int sqlite_number(struct store *s, const char *sql, int64_t *ret,
                  struct tfe_why *why) TFE_MUST_CHECK;

/* --- sqlite_schema.c --- */

/* The newest schema that this program knows. */
int sqlite_schema_newest(void);
/* From schema `from` to the newest one, all or nothing. */
int sqlite_schema_migrate(struct store *s, int from, struct tfe_why *why) TFE_MUST_CHECK;

/* --- the others --- */

extern const struct sqlite_sql sqlite_jobs_sql[];
extern const struct sqlite_sql sqlite_ledger_sql[];
void sqlite_backup_end(struct store *s);

/* The entry of a new file has to be as durable as the file. False: errno. */
bool sqlite_sync_directory(const char *path);

/* Keeps an EVENT_ROW or a SERIES_ROW, as store_keep. */
int sqlite_keep_seen(struct store *s, enum tfe_msg_type type, const void *row,
                     struct tfe_why *why) TFE_MUST_CHECK;

/* Keeps a struct store_submission, or removes it. */
int sqlite_keep_submission(struct store *s, const void *row, struct tfe_why *why) TFE_MUST_CHECK;

/* Removes at most max of each that are older, the oldest first; *ret_n: of whichever were more. */
int sqlite_prune_seen(struct store *s, struct tfe_wall before, uint32_t max, uint32_t *ret_n,
                      struct tfe_why *why) TFE_MUST_CHECK;

/* Removes the keys and bans that ended before this. TFE_EDISK, TFE_ENOMEM. */
int sqlite_prune_trust(struct store *s, struct tfe_wall before, struct tfe_why *why) TFE_MUST_CHECK;

#endif
