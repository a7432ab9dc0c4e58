/* server/store/sqlite_open.c: a file becomes the store, or a sentence why it does not.
 *
 * The file is looked at before anything in it changes: one that is damaged, or somebody else's,
 * stays as it is. The connection holds SQLite's lock on the file for life (locking_mode EXCLUSIVE),
 * which also keeps the index of the WAL in this process's memory instead of in a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/store/sqlite.h"
#include "server/store/sqlite_private.h"

/* Somebody who looks into the file with another program holds it for moments. */
#define BUSY_MS 2000

static int make_file(const char *path, struct tfe_why *why)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        why_errno(why, "open %s", path);
        return TFE_EDISK;
    }
    (void)close(fd);
    return 0;
}

static int connect_file(struct sqlite_store *s, const char *vfs, struct tfe_why *why)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_PRIVATECACHE;
    int rc = sqlite3_open_v2(s->path, &s->db, flags, vfs);
    if (rc == SQLITE_OK) {
        (void)sqlite3_busy_timeout(s->db, BUSY_MS);
        /* Closing a file that is refused must not write to it. */
        (void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        rc = sqlite3_exec(s->db,
                          "PRAGMA locking_mode=EXCLUSIVE;PRAGMA temp_store=MEMORY;"
                          "PRAGMA cell_size_check=ON;PRAGMA trusted_schema=OFF",
                          NULL, NULL, NULL);
    }
    return rc == SQLITE_OK ? 0 : sqlite_error(s, "open", why);
}

/* Says what a person can do about an error while opening, and returns it: TFE_EINVAL for damage. */
static int advise(const struct sqlite_store *s, int err, struct tfe_why *why)
{
    switch (sqlite3_errcode(s->db)) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        why_set(
            why,
            "%s is damaged (%s); nothing was changed: restore it from a backup, or start once "
            "with --recover, which salvages what can be read into a new file and keeps this one",
            s->path, sqlite3_errmsg(s->db));
        return TFE_EINVAL;
    case SQLITE_BUSY:
        why_set(why, "%s is held by another program; end that one first", s->path);
        return err;
    default:
        return err; /* the error's own words do */
    }
}

/* Whose file it is, and of which schema. */
static int look(struct sqlite_store *s, int *ret_schema, struct tfe_why *why)
{
    int64_t application = 0;
    int64_t schema = 0;
    int64_t tables = 0;
    int err = sqlite_number(s, "PRAGMA application_id", &application, why);
    if (err == 0) {
        err = sqlite_number(s, "PRAGMA user_version", &schema, why);
    }
    if (err == 0) {
        err = sqlite_number(s, "SELECT count(*) FROM sqlite_schema", &tables, why);
    }
    if (err != 0) {
        return advise(s, err, why);
    }
    if (application != SQLITE_STORE_APPLICATION &&
        (application != 0 || schema != 0 || tables != 0)) {
        why_set(why,
                "%s is a database of another program; nothing was changed: move it away, or choose "
                "another --state-dir",
                s->path);
        return TFE_EDISK;
    }
    if (schema > sqlite_schema_newest()) {
        why_set(why,
                "%s was written by a newer tfe-rdzv (its schema is %lld, this one knows %d); "
                "nothing was changed: start that version",
                s->path, (long long)schema, sqlite_schema_newest());
        return TFE_EDISK;
    }
    *ret_schema = (int)schema;
    return 0;
}

/* The check tells of a page that the disk did not give as of a damaged one: "unable to get the
 * page. error code=266". Whoever salvages then, loses what may be there tomorrow. */
static bool is_unread(const char *verdict)
{
    static const char words[] = "error code=";
    const char *code = strstr(verdict, words);
    long number = code != NULL ? strtol(code + sizeof(words) - 1, NULL, 10) & 0xff : SQLITE_CORRUPT;
    return number != SQLITE_CORRUPT && number != SQLITE_NOTADB;
}

/* A page that does not fit the others is found now and not in the middle of a switch. */
static int check_pages(struct sqlite_store *s, struct tfe_why *why)
{
    sqlite3_stmt *check;
    if (sqlite3_prepare_v2(s->db, "PRAGMA quick_check(1)", -1, &check, NULL) != SQLITE_OK) {
        return advise(s, sqlite_error(s, "check", why), why);
    }
    int err = 0;
    if (sqlite3_step(check) != SQLITE_ROW) {
        err = advise(s, sqlite_error(s, "check", why), why);
    } else {
        const char *verdict = (const char *)sqlite3_column_text(check, 0);
        if (verdict != NULL && is_unread(verdict)) {
            why_set(why, "%s: check: %.200s", s->path, verdict);
            err = TFE_EDISK;
        } else if (verdict == NULL || strcmp(verdict, "ok") != 0) {
            why_set(why,
                    "%s is damaged (%.200s); nothing was changed: restore it from a backup, or "
                    "start once with --recover, which salvages what can be read into a new file "
                    "and keeps this one",
                    s->path, verdict != NULL ? verdict : "it cannot be checked");
            err = TFE_EINVAL;
        }
    }
    (void)sqlite3_finalize(check);
    return err;
}

static int use_wal(struct sqlite_store *s, struct tfe_why *why)
{
    sqlite3_stmt *mode;
    if (sqlite3_prepare_v2(s->db, "PRAGMA journal_mode=WAL", -1, &mode, NULL) != SQLITE_OK) {
        return sqlite_error(s, "turn the write-ahead log on", why);
    }
    int err = 0;
    if (sqlite3_step(mode) != SQLITE_ROW) {
        err = sqlite_error(s, "turn the write-ahead log on", why);
    } else {
        const char *name = (const char *)sqlite3_column_text(mode, 0);
        if (name == NULL || strcmp(name, "wal") != 0) {
            why_set(why, "%s: its file system does not take a write-ahead log", s->path);
            err = TFE_EDISK;
        }
    }
    (void)sqlite3_finalize(mode);
    if (err == 0 && sqlite3_exec(s->db, "PRAGMA synchronous=FULL", NULL, NULL, NULL) != SQLITE_OK) {
        err = sqlite_error(s, "make commits durable", why);
    }
    return err;
}

/* From here on no other server's transaction is legal. */
static int enter_incarnation(struct sqlite_store *s, struct tfe_wall now, struct tfe_why *why)
{
    sqlite3_stmt *enter;
    static const char sql[] =
        "INSERT INTO server(only, identity, incarnation, started_ms) VALUES(1, ?1, ?1, ?2) "
        "ON CONFLICT(only) DO UPDATE SET incarnation = ?1, started_ms = ?2";
    if (sqlite3_prepare_v2(s->db, sql, -1, &enter, NULL) != SQLITE_OK) {
        return sqlite_error(s, "enter this server", why);
    }
    int err = 0;
    if (sqlite3_bind_int64(enter, 1, (sqlite3_int64)s->incarnation) != SQLITE_OK ||
        sqlite3_bind_int64(enter, 2, now.ms) != SQLITE_OK || sqlite3_step(enter) != SQLITE_DONE) {
        err = sqlite_error(s, "enter this server", why);
    }
    (void)sqlite3_finalize(enter);
    return err;
}

static int prepare_all(struct sqlite_store *s, struct tfe_why *why)
{
    static const struct {
        enum statement which;
        const char *sql;
    } plain[] = {
        {STATEMENT_BEGIN, "BEGIN IMMEDIATE"},
        {STATEMENT_COMMIT, "COMMIT"},
        {STATEMENT_ROLLBACK, "ROLLBACK"},
        {STATEMENT_INCARNATION, "SELECT incarnation FROM server"},
    };
    int err = 0;
    for (size_t i = 0; err == 0 && i < sizeof(plain) / sizeof(plain[0]); i++) {
        err = sqlite_prepare(s, plain[i].which, plain[i].sql, why);
    }
    if (err == 0) {
        err = sqlite_jobs_prepare(s, why);
    }
    return err != 0 ? err : sqlite_ledger_prepare(s, why);
}

int sqlite_store_open(const char *path, uint64_t incarnation, struct tfe_wall now, const char *vfs,
                      struct store **ret, struct tfe_why *why)
{
    size_t n = strlen(path);
    struct sqlite_store *s = calloc(1, sizeof(*s));
    if (s == NULL || n >= sizeof(s->path)) {
        why_set(why, s == NULL ? "open %s: out of memory" : "%s: the path is too long", path);
        free(s);
        return s == NULL ? TFE_ENOMEM : TFE_EDISK;
    }
    s->store.ops = &sqlite_store_ops;
    s->incarnation = incarnation;
    memcpy(s->path, path, n + 1);
    int schema = 0;
    int err = vfs == NULL ? make_file(path, why) : 0;
    if (err == 0) {
        err = connect_file(s, vfs, why);
    }
    if (err == 0) {
        err = look(s, &schema, why);
    }
    if (err == 0) {
        err = check_pages(s, why);
    }
    if (err == 0) {
        err = use_wal(s, why);
    }
    if (err == 0) {
        err = sqlite_schema_migrate(s, schema, why);
    }
    if (err == 0) {
        err = enter_incarnation(s, now, why);
    }
    if (err == 0) {
        err = prepare_all(s, why);
    }
    if (err != 0) {
        sqlite_store_free(s);
        return err;
    }
    (void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    *ret = &s->store;
    return 0;
}
