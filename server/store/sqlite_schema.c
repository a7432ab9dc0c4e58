/* server/store/sqlite_schema.c: the tables of the store and all statements on them. */
#include "server/store/sqlite_private.h"

/* Tables. Times are in ms since 1970, 0 if unknown. */
const char sqlite_schema[] =
    /* incarnation of the server that owns the store */
    "CREATE TABLE server(only INTEGER PRIMARY KEY CHECK(only = 1), incarnation INTEGER NOT NULL,"
    " started_ms INTEGER NOT NULL);"
    /* record: serialised by job_record.c; incarnation: of the server that wrote it */
    "CREATE TABLE jobs(name TEXT PRIMARY KEY NOT NULL, epoch INTEGER NOT NULL,"
    " sequence INTEGER NOT NULL, incarnation INTEGER NOT NULL, record BLOB NOT NULL);"
    /* submitted jobs by number; record: serialised by the pool */
    "CREATE TABLE submissions(job TEXT PRIMARY KEY NOT NULL, number INTEGER NOT NULL,"
    " record BLOB NOT NULL);"
    /* ledger of epochs; touched_ms: time of the last change */
    "CREATE TABLE ledger(job TEXT NOT NULL, epoch INTEGER NOT NULL, run INTEGER NOT NULL,"
    " cause INTEGER NOT NULL, blamed TEXT NOT NULL, planned INTEGER NOT NULL,"
    " members INTEGER NOT NULL, detected INTEGER NOT NULL, stopped INTEGER NOT NULL,"
    " gathered INTEGER NOT NULL, committed INTEGER NOT NULL, started INTEGER NOT NULL,"
    " listening INTEGER NOT NULL, progressed INTEGER NOT NULL, ended INTEGER NOT NULL,"
    " saved_step INTEGER, lost_steps INTEGER, over INTEGER NOT NULL, restarts INTEGER NOT NULL,"
    " failed INTEGER NOT NULL,"
    " touched_ms INTEGER NOT NULL, PRIMARY KEY(job, epoch)) WITHOUT ROWID;"
    "CREATE INDEX ledger_by_age ON ledger(touched_ms);"
    "CREATE TABLE events(number INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL,"
    " level INTEGER NOT NULL, job TEXT NOT NULL, run INTEGER NOT NULL, epoch INTEGER NOT NULL,"
    " node TEXT NOT NULL, name TEXT NOT NULL, says TEXT NOT NULL);"
    "CREATE INDEX events_by_job ON events(job, number);"
    /* keys made or revoked by an order; used_by: node ids, comma-separated; quota: pool nodes for
     * all jobs of the scope together, 0 if unset */
    "CREATE TABLE keys(key TEXT PRIMARY KEY NOT NULL, role INTEGER NOT NULL, scope TEXT NOT NULL,"
    " label TEXT NOT NULL, generation INTEGER NOT NULL, uses INTEGER NOT NULL,"
    " used_by TEXT NOT NULL, made INTEGER NOT NULL, expires INTEGER NOT NULL,"
    " revoked INTEGER NOT NULL, quota INTEGER NOT NULL) WITHOUT ROWID;"
    /* evicted nodes */
    "CREATE TABLE bans(node TEXT NOT NULL, job TEXT NOT NULL, key TEXT NOT NULL,"
    " token TEXT NOT NULL, name TEXT NOT NULL, until INTEGER NOT NULL,"
    " PRIMARY KEY(node, job)) WITHOUT ROWID;"
    /* orders, as a hash chain; rows are only appended */
    "CREATE TABLE audit(number INTEGER PRIMARY KEY, at INTEGER NOT NULL, key TEXT NOT NULL,"
    " label TEXT NOT NULL, source TEXT NOT NULL, what TEXT NOT NULL, about TEXT NOT NULL,"
    " result TEXT NOT NULL, hash TEXT NOT NULL);"
    "CREATE TRIGGER audit_changes BEFORE UPDATE ON audit"
    " BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;"
    "CREATE TRIGGER audit_shrinks BEFORE DELETE ON audit"
    " BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;";

#define LEDGER                                                                                     \
    "epoch, run, cause, blamed, planned, members, detected, stopped, gathered, committed,"         \
    " started, listening, progressed, ended, saved_step, lost_steps, over, restarts, failed"
#define EVENTS "number, at, kind, level, job, run, epoch, node, name, says"
#define KEYS "key, role, scope, label, generation, uses, used_by, made, expires, revoked, quota"
#define BANS "node, job, key, token, name, until"
#define KNOWN_TIME(column)                                                                         \
    " " column " = iif(excluded." column " = 0, " column ", excluded." column "),"
#define AUDIT "number, at, key, label, source, what, about, result, hash"

/* Statements. Parameters of all queries of rows have the same meaning: ?1 the job, ?2 the number
 * after which rows start, ?3 the maximum number of rows. */
const char *const sqlite_statements[STATEMENT__COUNT] = {
    [STATEMENT_BEGIN] = "BEGIN IMMEDIATE",
    [STATEMENT_COMMIT] = "COMMIT",
    [STATEMENT_ROLLBACK] = "ROLLBACK",
    [STATEMENT_INCARNATION] = "SELECT incarnation FROM server",
    [STATEMENT_CURRENT_JOB] = "SELECT epoch, sequence, incarnation FROM jobs WHERE name = ?1",
    [STATEMENT_PUT_JOB] = "INSERT OR REPLACE INTO jobs(name, epoch, sequence, incarnation, record)"
                          " VALUES(?, ?, ?, ?, ?)",
    [STATEMENT_JOBS] = "SELECT name, record FROM jobs ORDER BY name",
    [STATEMENT_SET_ASIDE] =
        "UPDATE OR REPLACE jobs SET name = '" SQLITE_ASIDE "' || name WHERE name = ?1",
    [STATEMENT_FORGET_JOB] = "DELETE FROM jobs WHERE name IN (?1, '" SQLITE_ASIDE "' || ?1)",
    [STATEMENT_FORGET_LEDGER] = "DELETE FROM ledger WHERE job = ?1",
    [STATEMENT_FORGET_EVENTS] = "DELETE FROM events WHERE job = ?1",
    [STATEMENT_PUT_SUBMISSION] =
        "INSERT OR REPLACE INTO submissions(job, number, record) VALUES(?, ?, ?)",
    [STATEMENT_FORGET_SUBMISSION] = "DELETE FROM submissions WHERE job = ?1",
    [STATEMENT_SUBMISSIONS] = "SELECT job, number, record FROM submissions ORDER BY number",
    /* Known values replace stored ones, because a restarted server knows less about a running
     * epoch than the server before it. The first step is never replaced. */
    [STATEMENT_PUT_ROW] =
        "INSERT INTO ledger(job, touched_ms, " LEDGER ")"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT(job, epoch) DO UPDATE SET touched_ms = excluded.touched_ms,"
        " run = excluded.run, cause = excluded.cause, members = excluded.members,"
        " blamed = iif(excluded.blamed = '', blamed, excluded.blamed)," KNOWN_TIME("detected")
            KNOWN_TIME("stopped") KNOWN_TIME("gathered") KNOWN_TIME("committed")
                KNOWN_TIME("started") KNOWN_TIME("listening") KNOWN_TIME(
                    "ended") " progressed = iif(excluded.progressed = 0 OR (progressed > 0"
                             " AND progressed <= excluded.progressed), progressed, "
                             "excluded.progressed),"
                             " saved_step = coalesce(excluded.saved_step, saved_step),"
                             " lost_steps = coalesce(excluded.lost_steps, lost_steps),"
                             " planned = max(planned, excluded.planned), over = max(over, "
                             "excluded.over),"
                             " restarts = max(restarts, excluded.restarts), failed = max(failed, "
                             "excluded.failed)",
    [STATEMENT_ROWS] =
        "SELECT " LEDGER " FROM ledger WHERE job = ?1 AND epoch > ?2 ORDER BY epoch LIMIT ?3",
    /* retains the current epoch of each job, however old */
    [STATEMENT_PRUNE_ROWS] =
        "DELETE FROM ledger WHERE (job, epoch) IN (SELECT job, epoch FROM ledger AS old"
        " WHERE touched_ms < ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.name = old.job"
        " AND jobs.epoch = old.epoch) LIMIT ?2)",
    [STATEMENT_PUT_EVENT] =
        "INSERT OR IGNORE INTO events(" EVENTS ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [STATEMENT_CUT_EVENTS] =
        "DELETE FROM events WHERE number IN (SELECT number FROM events ORDER BY number"
        " LIMIT max(0, (SELECT count(*) FROM events) - ?1))",
    [STATEMENT_EVENTS_AFTER] =
        "SELECT " EVENTS " FROM events WHERE ?1 = '' AND number > ?2 ORDER BY number LIMIT ?3",
    [STATEMENT_EVENTS_OF_JOB] =
        "SELECT " EVENTS " FROM events WHERE job = ?1 AND number > ?2 ORDER BY number LIMIT ?3",
    [STATEMENT_EVENTS_LAST] =
        "SELECT " EVENTS " FROM (SELECT * FROM events WHERE ?1 = '' AND number > ?2"
        " ORDER BY number DESC LIMIT ?3) ORDER BY number",
    [STATEMENT_EVENTS_LAST_OF_JOB] =
        "SELECT " EVENTS " FROM (SELECT * FROM events WHERE job = ?1 AND number > ?2"
        " ORDER BY number DESC LIMIT ?3) ORDER BY number",
    [STATEMENT_PRUNE_EVENTS] = "DELETE FROM events WHERE number IN (SELECT number FROM events"
                               " ORDER BY number LIMIT ?2) AND at < ?1",
    /* a use noted before the key was revoked may be written later */
    [STATEMENT_PUT_KEY] = "INSERT INTO keys(" KEYS ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                          " ON CONFLICT(key) DO UPDATE SET used_by = excluded.used_by,"
                          " revoked = max(revoked, excluded.revoked)",
    [STATEMENT_KEYS] = "SELECT " KEYS " FROM keys ORDER BY key LIMIT ?3",
    /* retains revoked keys that would be valid without a record (token_is_stored), and the newest
     * key with a quota of each scope */
    [STATEMENT_PRUNE_KEYS] =
        "DELETE FROM keys WHERE key IN (SELECT key FROM keys AS old WHERE"
        " ((expires > 0 AND expires < ?1) OR (revoked > 0 AND revoked < ?1 AND key LIKE '02%'))"
        " AND (quota = 0 OR EXISTS (SELECT 1 FROM keys AS later WHERE later.scope = old.scope"
        " AND later.quota > 0 AND later.made > old.made)) LIMIT ?2)",
    [STATEMENT_PUT_BAN] = "INSERT OR REPLACE INTO bans(" BANS ") VALUES(?, ?, ?, ?, ?, ?)",
    [STATEMENT_BANS] = "SELECT " BANS " FROM bans ORDER BY node, job LIMIT ?3",
    [STATEMENT_PRUNE_BANS] = "DELETE FROM bans WHERE (node, job) IN"
                             " (SELECT node, job FROM bans WHERE until < ?1 LIMIT ?2)",
    [STATEMENT_PUT_AUDIT] = "INSERT INTO audit(" AUDIT ") VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [STATEMENT_AUDIT] = "SELECT " AUDIT " FROM audit WHERE number > ?2 ORDER BY number LIMIT ?3",
    [STATEMENT_AUDIT_LAST] = "SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1",
};
