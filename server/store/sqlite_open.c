/* server/store/sqlite_open.c: opens and closes the store, and runs transactions.
 *
 * The file is checked before anything in it changes: a damaged or foreign file stays as it is. The
 * connection holds SQLite's lock on the file for its lifetime (locking_mode EXCLUSIVE), which also
 * keeps the index of the WAL in memory instead of in a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/store/sqlite_private.h"

/* Time to wait for another program that reads the file briefly. */
#define BUSY_MS 2000

static int make_file(const char *path, struct tfe_reason *reason)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        reason_errno(reason, "open %s", path);
        return TFE_EDISK;
    }
    (void)close(fd);
    return 0;
}

static int connect_file(struct store *s, const char *vfs, struct tfe_reason *reason)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_PRIVATECACHE;
    int sq = sqlite3_open_v2(s->in_memory ? ":memory:" : s->path, &s->db, flags, vfs);
    if (sq == SQLITE_OK) {
        (void)sqlite3_busy_timeout(s->db, BUSY_MS);
        /* Closing a rejected file must not write to it. */
        (void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        sq = sqlite3_exec(s->db,
                          "PRAGMA locking_mode=EXCLUSIVE;PRAGMA temp_store=MEMORY;"
                          "PRAGMA cell_size_check=ON;PRAGMA trusted_schema=OFF",
                          NULL, NULL, NULL);
    }
    return sq == SQLITE_OK ? 0 : sqlite_error(s, "open", reason);
}

/* Adds advice to an error while opening and returns it; TFE_EINVAL for a damaged file. */
static int advise(const struct store *s, int rc, struct tfe_reason *reason)
{
    switch (sqlite3_errcode(s->db)) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return sqlite_damaged(s, sqlite3_errmsg(s->db), reason);
    case SQLITE_BUSY:
        reason_set(reason, "%s is locked by another process (stop that process first)", s->path);
        return rc;
    default:
        return rc; /* the error text suffices */
    }
}

/* Checks that the file is a store of this program, or is empty (*ret_is_new). */
static int check_file(struct store *s, bool *ret_is_new, struct tfe_reason *reason)
{
    int64_t application = 0;
    int64_t schema = 0;
    int64_t tables = 0;
    int rc = sqlite_number(s, "PRAGMA application_id", &application, reason);
    if (rc == 0) {
        rc = sqlite_number(s, "PRAGMA user_version", &schema, reason);
    }
    if (rc == 0) {
        rc = sqlite_number(s, "SELECT count(*) FROM sqlite_schema", &tables, reason);
    }
    if (rc != 0) {
        return advise(s, rc, reason);
    }
    *ret_is_new = tables == 0 &&
                  (application == SQLITE_STORE_APPLICATION || (application == 0 && schema == 0));
    if (application != SQLITE_STORE_APPLICATION && !*ret_is_new) {
        reason_set(reason,
                   "%s is a database of another program; nothing was changed (move it away or use "
                   "another --state-dir)",
                   s->path);
        return TFE_EDISK;
    }
    if (schema != SQLITE_STORE_SCHEMA && !*ret_is_new) {
        reason_set(
            reason,
            "%s was written by another version of tfe-rdzv (its schema is %lld, this version's is "
            "%d); nothing was changed (start that version or move the file away)",
            s->path, (long long)schema, SQLITE_STORE_SCHEMA);
        return TFE_EDISK;
    }
    return 0;
}

/* True if the check failed to read a page, which it reports like a damaged page: "unable to get the
 * page. error code=266". Such a file must not be salvaged, because the data may be readable
 * later. */
static bool is_unread(const char *verdict)
{
    static const char words[] = "error code=";
    const char *code = strstr(verdict, words);
    long number = code ? strtol(code + sizeof(words) - 1, NULL, 10) & 0xff : SQLITE_CORRUPT;
    return number != SQLITE_CORRUPT && number != SQLITE_NOTADB;
}

/* Checks all pages now, so that damage is not found in the middle of a switch. */
static int check_pages(struct store *s, struct tfe_reason *reason)
{
    char verdict[SQLITE_TEXT_MAX];
    int rc = sqlite_text(s, "PRAGMA quick_check(1)", "check", verdict, reason);
    if (rc != 0) {
        return advise(s, rc, reason);
    }
    if (strcmp(verdict, "ok") == 0) {
        return 0;
    }
    if (is_unread(verdict)) {
        reason_set(reason, "%s: check: %.200s", s->path, verdict);
        return TFE_EDISK;
    }
    return sqlite_damaged(s, verdict[0] != '\0' ? verdict : "cannot check it", reason);
}

static int use_wal(struct store *s, struct tfe_reason *reason)
{
    char mode[SQLITE_TEXT_MAX];
    int rc = sqlite_text(s, "PRAGMA journal_mode=WAL", "turn the write-ahead log on", mode, reason);
    if (rc == 0 && strcmp(mode, "wal") != 0) {
        reason_set(reason, "%s: its file system does not support a write-ahead log", s->path);
        rc = TFE_EDISK;
    }
    if (rc == 0 && sqlite3_exec(s->db, "PRAGMA synchronous=FULL", NULL, NULL, NULL) != SQLITE_OK) {
        rc = sqlite_error(s, "make commits durable", reason);
    }
    return rc;
}

/* Creates the tables in one transaction. */
static int create_tables(struct store *s, struct tfe_reason *reason)
{
    char pragmas[128];
    (void)sqlite3_snprintf(sizeof(pragmas), pragmas,
                           "PRAGMA application_id=%d;PRAGMA user_version=%d;COMMIT",
                           SQLITE_STORE_APPLICATION, SQLITE_STORE_SCHEMA);
    if (sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(s->db, sqlite_schema, NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_exec(s->db, pragmas, NULL, NULL, NULL) == SQLITE_OK) {
        return 0;
    }
    int rc = sqlite_error(s, "make the tables", reason);
    if (sqlite3_get_autocommit(s->db) == 0) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return rc;
}

/* Stores this server's incarnation: from here on transactions of other servers fail. */
static int enter_incarnation(struct store *s, struct tfe_wall now, struct tfe_reason *reason)
{
    char sql[256];
    (void)sqlite3_snprintf(sizeof(sql), sql,
                           "INSERT OR REPLACE INTO server(only, incarnation, started_ms) "
                           "VALUES(1, %lld, %lld)",
                           (long long)s->incarnation, (long long)now.ms);
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : sqlite_error(s, "enter this server", reason);
}

static int open_it(struct store *s, struct tfe_wall now, const char *vfs, struct tfe_reason *reason)
{
    bool is_new = true;
    int rc = !vfs && !s->in_memory ? make_file(s->path, reason) : 0;
    if (rc == 0) {
        rc = connect_file(s, vfs, reason);
    }
    if (rc == 0) {
        rc = check_file(s, &is_new, reason);
    }
    if (rc == 0 && !s->in_memory) {
        rc = check_pages(s, reason);
    }
    if (rc == 0 && !s->in_memory) {
        rc = use_wal(s, reason);
    }
    if (rc == 0 && is_new) {
        rc = create_tables(s, reason);
    }
    if (rc == 0) {
        rc = enter_incarnation(s, now, reason);
    }
    /* Prepare the rollback statement now, so that a transaction can be ended without memory. */
    return rc != 0 ? rc : sqlite_prepare(s, STATEMENT_ROLLBACK, reason);
}

/* --- transactions and closing ----------------------------------------------------------------- */

void store_rollback(struct store *s)
{
    /* Some errors, such as a full disk, end the transaction already. */
    if (sqlite3_get_autocommit(s->db) == 0) {
        (void)sqlite3_step(s->statements[STATEMENT_ROLLBACK]);
        (void)sqlite3_reset(s->statements[STATEMENT_ROLLBACK]);
    }
}

static int read_incarnation(void *ctx, struct sqlite_row *row)
{
    *(uint64_t *)ctx = (uint64_t)column_int(row);
    return 0;
}

int store_begin(struct store *s, struct tfe_reason *reason)
{
    uint64_t incarnation = 0;
    int rc = sqlite_run(s, CALL_PLAIN("begin", STATEMENT_BEGIN), reason);
    if (rc != 0) {
        return rc;
    }
    rc = sqlite_read(s, CALL_PLAIN("begin", STATEMENT_INCARNATION), read_incarnation, &incarnation,
                     reason);
    if (rc == 0 && incarnation != s->incarnation) {
        reason_set(reason,
                   "%s: another tfe-rdzv has taken over the database; this server exits, its "
                   "agents continue",
                   s->path);
        rc = TFE_ECONFLICT;
    }
    if (rc != 0) {
        store_rollback(s);
    }
    return rc;
}

int store_commit(struct store *s, struct tfe_reason *reason)
{
    int rc = sqlite_run(s, CALL_PLAIN("commit", STATEMENT_COMMIT), reason);
    if (rc != 0) {
        store_rollback(s);
    }
    return rc;
}

static void sqlite_store_free(struct store *s)
{
    for (int i = 0; i < STATEMENT__COUNT; i++) {
        (void)sqlite3_finalize(s->statements[i]);
    }
    (void)sqlite3_close(s->db);
    free(s);
}

void store_close(struct store *s)
{
    if (s) {
        store_rollback(s);
        sqlite_store_free(s);
    }
}

/* --- opening ---------------------------------------------------------------------------------- */

int store_open(const char *path, uint64_t incarnation, struct tfe_wall now, const char *vfs,
               struct store **ret, struct tfe_reason *reason)
{
    struct store *s = calloc(1, sizeof(*s));
    if (!s) {
        reason_set(reason, "open %s: out of memory", path ? path : "the jobs in memory");
        return TFE_ENOMEM;
    }
    s->incarnation = incarnation;
    s->in_memory = !path;
    int n = snprintf(s->path, sizeof(s->path), "%s", path ? path : "the store in memory");
    if (n >= (int)sizeof(s->path)) {
        reason_set(reason, "%s: the path is too long", path);
        free(s);
        return TFE_EDISK;
    }
    int rc = open_it(s, now, vfs, reason);
    if (rc != 0) {
        sqlite_store_free(s);
        return rc;
    }
    (void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    *ret = s;
    return 0;
}
