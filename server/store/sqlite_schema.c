/* server/store/sqlite_schema.c: the tables, one step for each version that was ever released.
 *
 * A step is never changed afterwards: files that were made by it are out there. The number of the
 * last step that was taken is the file's user_version. */
#include "server/store/sqlite_private.h"

static const char *const steps[] = {
    /* 1. incarnation of a job's row: of the server that wrote it. ports: decimal, by local rank,
       with commas. */
    "CREATE TABLE server(only INTEGER PRIMARY KEY CHECK(only = 1), identity INTEGER NOT NULL,"
    " incarnation INTEGER NOT NULL, started_ms INTEGER NOT NULL);"
    "CREATE TABLE jobs(job TEXT PRIMARY KEY NOT NULL, incarnation INTEGER NOT NULL,"
    " written_ms INTEGER NOT NULL, sequence INTEGER NOT NULL, run INTEGER NOT NULL,"
    " epoch INTEGER NOT NULL, predecessor INTEGER NOT NULL, cause INTEGER NOT NULL,"
    " min_nodes INTEGER NOT NULL, max_nodes INTEGER NOT NULL, nproc INTEGER NOT NULL,"
    " max_restarts INTEGER NOT NULL, gather_ms INTEGER NOT NULL, grow_wait_ms INTEGER NOT NULL,"
    " stop_grace_ms INTEGER NOT NULL, elastic_timeout_ms INTEGER NOT NULL,"
    " chief_grace_ms INTEGER NOT NULL, no_grow INTEGER NOT NULL, script_digest INTEGER NOT NULL,"
    " run_key TEXT NOT NULL, restarts INTEGER NOT NULL, ttl_ms INTEGER NOT NULL,"
    " fence_ms INTEGER NOT NULL, over INTEGER NOT NULL, result INTEGER NOT NULL,"
    " sentence TEXT NOT NULL, ended INTEGER NOT NULL, n_members INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE members(job TEXT NOT NULL, seat INTEGER NOT NULL, node TEXT NOT NULL,"
    " name TEXT NOT NULL, host TEXT NOT NULL, ports TEXT NOT NULL, join_order INTEGER NOT NULL,"
    " durable INTEGER NOT NULL, PRIMARY KEY(job, seat)) WITHOUT ROWID;",
    /* 2. past: how the named runs before this one ended, a line for each (server/core/rdzv.h). */
    "ALTER TABLE jobs ADD COLUMN past TEXT NOT NULL DEFAULT '';",
    /* 3. Times in ms since 1970, 0 where they are not known. touched_ms: of the last change. */
    "CREATE TABLE ledger(job TEXT NOT NULL, epoch INTEGER NOT NULL, run INTEGER NOT NULL,"
    " cause INTEGER NOT NULL, blamed TEXT NOT NULL, planned INTEGER NOT NULL,"
    " members INTEGER NOT NULL, detected INTEGER NOT NULL, stopped INTEGER NOT NULL,"
    " gathered INTEGER NOT NULL, committed INTEGER NOT NULL, started INTEGER NOT NULL,"
    " listening INTEGER NOT NULL, progressed INTEGER NOT NULL, ended INTEGER NOT NULL,"
    " saved_step INTEGER, lost_steps INTEGER, over INTEGER NOT NULL, touched_ms INTEGER NOT NULL,"
    " PRIMARY KEY(job, epoch)) WITHOUT ROWID;"
    "CREATE INDEX ledger_by_age ON ledger(touched_ms);",
    /* 4. known_to: ids of the nodes that have reached the member at its address, with commas.
       drained: an operator takes it out. */
    "ALTER TABLE members ADD COLUMN known_to TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE members ADD COLUMN drained INTEGER NOT NULL DEFAULT 0;",
    /* 5. The row of epochs that came to nothing, and whether one of the run did not. */
    "ALTER TABLE jobs ADD COLUMN fruitless INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN backoff_ms INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE jobs ADD COLUMN has_progressed INTEGER NOT NULL DEFAULT 0;",
};

int sqlite_schema_newest(void)
{
    return (int)(sizeof(steps) / sizeof(steps[0]));
}

static int run(struct sqlite_store *s, const char *sql, struct tfe_why *why)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : sqlite_error(s, "bring the schema forward", why);
}

int sqlite_schema_migrate(struct sqlite_store *s, int from, struct tfe_why *why)
{
    char pragmas[128];
    if (from == sqlite_schema_newest()) {
        return 0;
    }
    int err = run(s, "BEGIN IMMEDIATE", why);
    if (err != 0) {
        return err;
    }
    for (int i = from; err == 0 && i < sqlite_schema_newest(); i++) {
        err = run(s, steps[i], why);
    }
    if (err == 0) {
        (void)sqlite3_snprintf(sizeof(pragmas), pragmas,
                               "PRAGMA application_id=%d;PRAGMA user_version=%d;COMMIT",
                               SQLITE_STORE_APPLICATION, sqlite_schema_newest());
        err = run(s, pragmas, why);
    }
    if (err != 0 && sqlite3_get_autocommit(s->db) == 0) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return err;
}
