/* server/store/sqlite_schema.c: the tables, one step for each version that was ever released.
 *
 * A step is never changed afterwards: files that were made by it are out there. The number of the
 * last step that was taken is the file's user_version. */
#include <stdio.h>

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
    /* 6. fenced: the job is over, and nobody has heard that what it ran has ended. */
    "ALTER TABLE jobs ADD COLUMN fenced INTEGER NOT NULL DEFAULT 0;",
    /* 7. Keys that the server has to remember: made on order, or taken back. Times in ms since
       1970, 0 never; used_by: ids of nodes, with commas. */
    "CREATE TABLE keys(key TEXT PRIMARY KEY NOT NULL, role INTEGER NOT NULL, scope TEXT NOT NULL,"
    " label TEXT NOT NULL, generation INTEGER NOT NULL, uses INTEGER NOT NULL,"
    " used_by TEXT NOT NULL, made INTEGER NOT NULL, expires INTEGER NOT NULL,"
    " revoked INTEGER NOT NULL) WITHOUT ROWID;"
    /* Whom an operator has evicted, until when; node: its id then. */
    "CREATE TABLE bans(node TEXT NOT NULL, job TEXT NOT NULL, key TEXT NOT NULL,"
    " token TEXT NOT NULL,"
    " name TEXT NOT NULL, until INTEGER NOT NULL, PRIMARY KEY(node, job)) WITHOUT ROWID;"
    /* Who ordered what. Rows come, and never change or go. */
    "CREATE TABLE audit(number INTEGER PRIMARY KEY, at INTEGER NOT NULL, key TEXT NOT NULL,"
    " label TEXT NOT NULL, source TEXT NOT NULL, what TEXT NOT NULL, about TEXT NOT NULL,"
    " result TEXT NOT NULL, hash TEXT NOT NULL);"
    "CREATE TRIGGER audit_changes BEFORE UPDATE ON audit"
    " BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;"
    "CREATE TRIGGER audit_shrinks BEFORE DELETE ON audit"
    " BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;",
    /* 8. fixed_ports: the member's trainers have the same ones in every epoch. */
    "ALTER TABLE members ADD COLUMN fixed_ports INTEGER NOT NULL DEFAULT 0;",
    /* 9. What proves that all a member ran is dead, and the port of its guard that gives it out. */
    "ALTER TABLE members ADD COLUMN death_hash TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE members ADD COLUMN guard_port INTEGER NOT NULL DEFAULT 0;",
    /* 10. taken_over: another process has come with the member's id. */
    "ALTER TABLE members ADD COLUMN taken_over INTEGER NOT NULL DEFAULT 0;",
    /* 11. What people look at: events; and numbers that scripts tell, where ord counts the points
       of a series, of which some are dropped (common/base/series.h). */
    "CREATE TABLE events(number INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL,"
    " level INTEGER NOT NULL, job TEXT NOT NULL, run INTEGER NOT NULL, epoch INTEGER NOT NULL,"
    " node TEXT NOT NULL, name TEXT NOT NULL, says TEXT NOT NULL);"
    "CREATE INDEX events_by_job ON events(job, number);"
    "CREATE TABLE series(id INTEGER PRIMARY KEY, job TEXT NOT NULL, run INTEGER NOT NULL,"
    " name TEXT NOT NULL, ord INTEGER NOT NULL, epoch INTEGER NOT NULL, step INTEGER NOT NULL,"
    " at INTEGER NOT NULL, value REAL NOT NULL);"
    "CREATE UNIQUE INDEX series_points ON series(job, run, name, ord);",
    /* 12. Jobs that were handed in. number: in their order; run_key: of their run; spec: SUBMIT as
       it travels, in hexadecimal; conditions: a line "NAME STATUS AT_MS REASON SENTENCE" each;
       nodes: of the pool, a line "NODE ASSIGNMENT TASK" each; started: it ran first, since it was
       handed in or resumed. */
    "CREATE TABLE submissions(job TEXT PRIMARY KEY NOT NULL, number INTEGER NOT NULL,"
    " run_key TEXT NOT NULL, spec TEXT NOT NULL, conditions TEXT NOT NULL, nodes TEXT NOT NULL,"
    " started INTEGER NOT NULL) WITHOUT ROWID;",
    /* 13. Of nodes, which the jobs of the key's scope may have together; 0 none was said. */
    "ALTER TABLE keys ADD COLUMN quota INTEGER NOT NULL DEFAULT 0;",
};

int sqlite_schema_newest(void)
{
    return (int)(sizeof(steps) / sizeof(steps[0]));
}

static int run(struct store *s, const char *sql, struct tfe_why *why)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : sqlite_error(s, "bring the schema forward", why);
}

/* A column that is not there yet begins with the setting. */
static int add_column(struct store *s, const char *table, const char *name, uint32_t setting,
                      struct tfe_why *why)
{
    char sql[160];
    (void)snprintf(sql, sizeof(sql), "SELECT %s FROM %s LIMIT 0", name, table);
    int sq = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    if (sq == SQLITE_OK) {
        return 0;
    }
    if (sq != SQLITE_ERROR) {
        return sqlite_error(s, "bring the schema forward", why);
    }
    (void)snprintf(sql, sizeof(sql), "ALTER TABLE %s ADD COLUMN %s INTEGER NOT NULL DEFAULT %u",
                   table, name, (unsigned)setting);
    return run(s, sql, why);
}

/* What a job wants grows by fields of its table (job_spec.h), which need no step; nor does resized:
 * an operator has changed its sizes. */
static int add_spec_columns(struct store *s, struct tfe_why *why)
{
    int rc = add_column(s, "jobs", "resized", 0, why);
    rc = rc ? rc : add_column(s, "jobs", "epoch_ps", 0, why);
    rc = rc ? rc : add_column(s, "jobs", "ps_resized", 0, why);
    rc = rc ? rc : add_column(s, "ledger", "restarts", 0, why);
    for (size_t i = 0; rc == 0 && i < JOB_SPEC_N; i++) {
        rc = add_column(s, "jobs", job_spec_fields[i].name, job_spec_fields[i].setting, why);
    }
    return rc;
}

int sqlite_schema_migrate(struct store *s, int from, struct tfe_why *why)
{
    char pragmas[128];
    if (from == sqlite_schema_newest()) {
        return add_spec_columns(s, why);
    }
    int rc = run(s, "BEGIN IMMEDIATE", why);
    if (rc != 0) {
        return rc;
    }
    for (int i = from; rc == 0 && i < sqlite_schema_newest(); i++) {
        rc = run(s, steps[i], why);
    }
    if (rc == 0) {
        rc = add_spec_columns(s, why);
    }
    if (rc == 0) {
        (void)sqlite3_snprintf(sizeof(pragmas), pragmas,
                               "PRAGMA application_id=%d;PRAGMA user_version=%d;COMMIT",
                               SQLITE_STORE_APPLICATION, sqlite_schema_newest());
        rc = run(s, pragmas, why);
    }
    if (rc != 0 && sqlite3_get_autocommit(s->db) == 0) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return rc;
}
