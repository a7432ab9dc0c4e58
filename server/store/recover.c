/* server/store/recover.c: what can still be read of a damaged SQLite store, in a new file.
 *
 * Each table is read from its begin to the first page that cannot be read, and then from its end. A
 * job that has not all its members any more must not be adopted: it is set aside, and its agents
 * bring it back with what they know. */
#include "server/store/recover.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/id.h"
#include "common/base/text.h"
#include "server/store/sqlite_private.h"

#define INCARNATION 1 /* of nobody: the server that comes next enters its own */

struct recovery {
    const char *path;
    char fresh[PATH_MAX];
    sqlite3 *old;
    struct store *to;
    store_load_fn takes_in;
    void *ctx;
    struct recover_report *report;
    int failed; /* SQLite's code: why the old file was not read on, which another try may do; 0 */
};

/* Neither damage nor the disk: what is behind it may be whole. */
static bool is_passing(int sq)
{
    return (sq & 0xff) == SQLITE_NOMEM || (sq & 0xff) == SQLITE_BUSY ||
           (sq & 0xff) == SQLITE_LOCKED;
}

static sqlite3 *db_of(struct store *store)
{
    return store->db;
}

/* Whether it opens and loads. TFE_EINVAL: it is damaged. */
static int look(struct recovery *r, struct tfe_wall now, struct tfe_why *why)
{
    struct store *store;
    int rc = store_open(r->path, INCARNATION, now, NULL, &store, why);
    if (rc == 0) {
        rc = store_load(store, r->takes_in, r->ctx, why);
        store_close(store);
    }
    return rc;
}

/* The statement that puts a row of `from` into the table of the same name, or NULL. */
static sqlite3_stmt *prepare_insert(struct recovery *r, const char *table, sqlite3_stmt *from)
{
    char sql[2048];
    struct text text;
    sqlite3_stmt *to = NULL;
    text_init(&text, sql, sizeof(sql));
    text_addf(&text, "INSERT OR IGNORE INTO %s(", table);
    for (int i = 0; i < sqlite3_column_count(from); i++) {
        text_addf(&text, "%s%s", i > 0 ? ", " : "", sqlite3_column_name(from, i));
    }
    for (int i = 0; i < sqlite3_column_count(from); i++) {
        text_add(&text, i > 0 ? ", ?" : ") VALUES(?");
    }
    text_add(&text, ")");
    if (sqlite3_prepare_v2(db_of(r->to), sql, -1, &to, NULL) != SQLITE_OK) {
        return NULL;
    }
    return to;
}

/* As many rows as can be read in this order. False: the new file does not take them. */
static bool copy_rows(struct recovery *r, const char *table, const char *order)
{
    char sql[256];
    sqlite3_stmt *from = NULL;
    bool takes = true;
    (void)snprintf(sql, sizeof(sql), "SELECT * FROM %s ORDER BY %s", table, order);
    int sq = sqlite3_prepare_v2(r->old, sql, -1, &from, NULL);
    if (sq != SQLITE_OK) {
        r->failed = is_passing(sq) ? sq : 0;
        return r->failed == 0; /* else not even the table can be read */
    }
    sqlite3_stmt *to = prepare_insert(r, table, from);
    takes = to || !is_passing(sqlite3_errcode(db_of(r->to)));
    while (to && takes && (sq = sqlite3_step(from)) == SQLITE_ROW) {
        int bound = SQLITE_OK;
        for (int i = 0; !is_passing(bound) && i < sqlite3_column_count(from); i++) {
            bound = sqlite3_bind_value(to, i + 1, sqlite3_column_value(from, i));
        }
        int put = is_passing(bound) ? bound : sqlite3_step(to);
        /* A row that breaks a rule of the schema is damaged, too. */
        takes = put == SQLITE_DONE || (put & 0xff) == SQLITE_CONSTRAINT;
        if (sqlite3_errcode(r->old) == SQLITE_NOMEM) {
            r->failed = SQLITE_NOMEM; /* of a value: it came as NULL */
            takes = false;
        }
        (void)sqlite3_reset(to);
    }
    if (takes && is_passing(sq)) {
        r->failed = sq;
        takes = false;
    }
    (void)sqlite3_finalize(to);
    (void)sqlite3_finalize(from);
    return takes;
}

static int copy_all(struct recovery *r, struct tfe_why *why)
{
    static const struct {
        const char *table;
        const char *forward, *backward;
    } tables[] = {
        {"server", "only", "only DESC"},
        {"jobs", "job", "job DESC"},
        {"members", "job, seat", "job DESC, seat DESC"},
        {"ledger", "job, epoch", "job DESC, epoch DESC"},
        {"keys", "key", "key DESC"},
        {"audit", "number", "number DESC"},
        {"bans", "node, job", "node DESC, job DESC"},
        {"submissions", "job", "job DESC"},
        {"events", "number", "number DESC"},
        {"series", "id", "id DESC"},
    };
    /* The new file's own identity is nobody's. Without one the server that comes next enters
     * another. */
    bool takes =
        sqlite3_exec(db_of(r->to), "BEGIN; DELETE FROM server", NULL, NULL, NULL) == SQLITE_OK;
    for (size_t i = 0; takes && i < sizeof(tables) / sizeof(tables[0]); i++) {
        takes = copy_rows(r, tables[i].table, tables[i].forward) &&
                copy_rows(r, tables[i].table, tables[i].backward);
    }
    if (r->failed != 0) {
        why_set(why, "%s: salvage: %s", r->path, sqlite3_errstr(r->failed));
        return (r->failed & 0xff) == SQLITE_NOMEM ? TFE_ENOMEM : TFE_EDISK;
    }
    if (!takes || sqlite3_exec(db_of(r->to), "COMMIT", NULL, NULL, NULL) != SQLITE_OK) {
        return sqlite_error(r->to, "salvage", why);
    }
    return 0;
}

static int visit_job(void *ctx, const struct rdzv_record *record, const char *fault)
{
    struct recovery *r = ctx;
    if (fault) {
        r->report->dropped++;
        return 0;
    }
    int rc = r->takes_in(r->ctx, record, NULL);
    rc = rc == TFE_EEXIST ? 0 : rc; /* on the first look */
    r->report->jobs += rc == 0 ? 1 : 0;
    return rc;
}

/* The old file and its log get new names, the new file gets theirs; at any moment one complete pair
 * is there. */
static int change_names(struct recovery *r, struct tfe_wall now, struct tfe_why *why)
{
    char log[PATH_MAX + 8];
    char kept_log[PATH_MAX + 8];
    char *kept = r->report->kept;
    int n = snprintf(kept, PATH_MAX, "%s.damaged-%lld", r->path, (long long)(now.ms / 1000));
    if (n < 0 || n >= PATH_MAX) {
        why_set(why, "%s: the path is too long", r->path);
        return TFE_EDISK;
    }
    (void)snprintf(log, sizeof(log), "%s-wal", r->path);
    (void)snprintf(kept_log, sizeof(kept_log), "%s-wal", kept);
    if (link(r->path, kept) != 0 || (rename(log, kept_log) != 0 && errno != ENOENT) ||
        rename(r->fresh, r->path) != 0) {
        why_errno(why, "keep %s as %s", r->path, kept);
        return TFE_EDISK;
    }
    (void)sqlite_sync_directory(r->path);
    return 0;
}

static int salvage(struct recovery *r, struct tfe_wall now, struct tfe_why *why)
{
    int64_t rows = 0;
    (void)unlink(r->fresh); /* of an attempt that did not end */
    int rc = store_open(r->fresh, INCARNATION, now, NULL, &r->to, why);
    if (rc != 0) {
        return rc == TFE_EINVAL ? TFE_EDISK : rc;
    }
    /* Whatever it says: tables that can be read are read. */
    int sq = sqlite3_open_v2(r->path, &r->old,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
                             NULL);
    if (is_passing(sq)) {
        why_set(why, "%s: salvage: %s", r->path, sqlite3_errstr(sq));
        rc = (sq & 0xff) == SQLITE_NOMEM ? TFE_ENOMEM : TFE_EDISK;
    } else if (sq == SQLITE_OK) {
        (void)sqlite3_db_config(r->old, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        (void)sqlite3_exec(r->old, "PRAGMA locking_mode=EXCLUSIVE;PRAGMA trusted_schema=OFF", NULL,
                           NULL, NULL);
        rc = copy_all(r, why);
    }
    (void)sqlite3_close(r->old);
    if (rc == 0) {
        rc = store_load(r->to, visit_job, r, why); /* what is not whole is set aside */
    }
    if (rc == 0) {
        rc = sqlite_number(r->to, "SELECT count(*) FROM ledger", &rows, why);
        r->report->rows = (uint32_t)rows;
    }
    store_close(r->to);
    return rc != 0 ? rc : change_names(r, now, why);
}

int sqlite_store_recover(const char *path, struct tfe_wall now, store_load_fn takes_in, void *ctx,
                         struct recover_report *ret, struct tfe_why *why)
{
    struct recovery r = {.path = path, .takes_in = takes_in, .ctx = ctx, .report = ret};
    *ret = (struct recover_report){.was_damaged = false};
    int n = snprintf(r.fresh, sizeof(r.fresh), "%s.salvaged", path);
    if (n < 0 || n >= (int)sizeof(r.fresh)) {
        why_set(why, "%s: the path is too long", path);
        return TFE_EDISK;
    }
    if (access(path, F_OK) != 0) {
        return 0;
    }
    int rc = look(&r, now, why);
    if (rc != TFE_EINVAL) {
        return rc;
    }
    ret->was_damaged = true;
    rc = salvage(&r, now, why);
    if (rc != 0) {
        (void)unlink(r.fresh);
    }
    return rc;
}
