/* server/store/sqlite_seen.c: what is kept for people to see: events, and what scripts have told,
 * as series that are thinned as they grow. */
#include <string.h>

#include "common/base/assert.h"
#include "common/base/series.h"
#include "server/store/sqlite_columns.h"
#include "server/store/sqlite_private.h"

/* Events, of all jobs: the newest so many, some 30 MB. They are counted now and then: by their
 * numbers, which leap at each start of a server, there seem to be more. */
#define EVENTS_KEPT 100000
#define EVENTS_COUNTED_EACH 1000
/* Points, of all series of all runs: some 150 MB. */
#define POINTS_KEPT 2000000

#define READ_IT "read what was kept to be seen"

#define EVENT(field, kind) COLUMN(msg_event_row, field, kind)

static const struct row_field event_columns[] = {
    {EVENT(number, ROW_U64)}, {EVENT(at, ROW_MOMENT)}, {EVENT(kind, ROW_TEXT)},
    {EVENT(level, ROW_U32)},  {EVENT(job, ROW_TEXT)},  {EVENT(run, ROW_U32)},
    {EVENT(epoch, ROW_U64)},  {EVENT(node, ROW_TEXT)}, {EVENT(name, ROW_TEXT)},
    {EVENT(says, ROW_TEXT)},
};
COLUMNS(events, msg_event_row, event_columns);
_Static_assert(sizeof(enum tfe_event_level) == sizeof(uint32_t), "a U32");

#define POINT(field, kind) COLUMN(msg_series_row, field, kind)

static const struct row_field point_columns[] = {
    {POINT(job, ROW_TEXT)},  {POINT(run, ROW_U32)},    {POINT(name, ROW_TEXT)},
    {POINT(ord, ROW_U64)},   {POINT(epoch, ROW_U64)},  {POINT(step, ROW_U64)},
    {POINT(at, ROW_MOMENT)}, {POINT(value, ROW_REAL)},
};
COLUMNS(points, msg_series_row, point_columns);

/* In the reading statements ?1 is a job or "", ?2 the number that is told already, ?3 how many, ?4
 * a run, ?5 a name or "". */

static const struct sqlite_sql sqls[] = {
    {STATEMENT_PUT_EVENT, "INSERT OR IGNORE INTO events($) VALUES(#)", &events},
    {STATEMENT_CUT_EVENTS,
     "DELETE FROM events WHERE number IN (SELECT number FROM events ORDER BY number LIMIT max(0, "
     "(SELECT count(*) FROM events) - ?1))",
     NULL},
    {STATEMENT_EVENTS_AFTER, "SELECT $ FROM events WHERE number > ?2 ORDER BY number LIMIT ?3",
     &events},
    {STATEMENT_EVENTS_OF_JOB,
     "SELECT $ FROM events WHERE job = ?1 AND number > ?2 ORDER BY number LIMIT ?3", &events},
    {STATEMENT_EVENTS_LAST,
     "SELECT $ FROM (SELECT * FROM events ORDER BY number DESC LIMIT ?3) ORDER BY number", &events},
    {STATEMENT_EVENTS_LAST_OF_JOB,
     "SELECT $ FROM (SELECT * FROM events WHERE job = ?1 ORDER BY number DESC LIMIT ?3) ORDER BY "
     "number",
     &events},
    {STATEMENT_PUT_POINT, "INSERT OR IGNORE INTO series($) VALUES(#)", &points},
    {STATEMENT_THIN,
     "DELETE FROM series WHERE job = ?1 AND run = ?2 AND name = ?3 AND ord % ?4 <> 0", NULL},
    {STATEMENT_NEWEST_RUN, "SELECT coalesce(max(run), 0) FROM series WHERE job = ?1", NULL},
    {STATEMENT_POINTS,
     "SELECT $ FROM series WHERE job = ?1 AND run = ?4 AND name = ?5 AND ord > ?2 ORDER BY ord "
     "LIMIT ?3",
     &points},
    /* The newest point of each name, which are found one after the other: no look at all points. */
    {STATEMENT_LAST_POINTS,
     "WITH RECURSIVE names(n) AS (SELECT min(name) FROM series WHERE job = ?1 AND run = ?4 UNION "
     "ALL SELECT (SELECT min(name) FROM series WHERE job = ?1 AND run = ?4 AND name > n) FROM "
     "names "
     "WHERE n IS NOT NULL LIMIT ?3) SELECT $ FROM names CROSS JOIN series ON job = ?1 AND run = ?4 "
     "AND name = n AND ord = (SELECT max(ord) FROM series WHERE job = ?1 AND run = ?4 AND name = "
     "n) "
     "ORDER BY name",
     &points},
    {STATEMENT_PRUNE_EVENTS,
     "DELETE FROM events WHERE number IN (SELECT number FROM events ORDER BY number LIMIT ?2) AND "
     "at < ?1",
     NULL},
    {STATEMENT_PRUNE_POINTS,
     "DELETE FROM series WHERE id IN (SELECT id FROM series ORDER BY id LIMIT ?2) AND at < ?1",
     NULL},
};

/* Prepared when it is needed first: a store that only opens, or a server that nobody looks at, does
 * without. */
static int need(struct store *s, enum statement which, struct tfe_why *why)
{
    for (size_t i = 0; !s->statements[which] && i < sizeof(sqls) / sizeof(sqls[0]); i++) {
        if (sqls[i].which == which) {
            const struct sqlite_sql one[] = {sqls[i], {.sql = NULL}};
            return sqlite_prepare(s, one, why);
        }
    }
    return 0;
}

/* --- to be kept ------------------------------------------------------------------------------- */

static int put_event(struct store *s, const struct msg_event_row *row, struct tfe_why *why)
{
    int rc = need(s, STATEMENT_PUT_EVENT, why);
    rc = rc == 0 ? need(s, STATEMENT_CUT_EVENTS, why) : rc;
    if (rc == 0) {
        rc = sqlite_put(s, STATEMENT_PUT_EVENT, &events, row, "write an event", why);
    }
    if (rc != 0 || row->number % EVENTS_COUNTED_EACH != 0) {
        return rc;
    }
    (void)sqlite3_bind_int64(s->statements[STATEMENT_CUT_EVENTS], 1, EVENTS_KEPT);
    return sqlite_run(s, STATEMENT_CUT_EVENTS, "cut the events", why);
}

/* Half of the points go once there are as many as a series may have. */
static int thin(struct store *s, const struct msg_series_row *row, struct tfe_why *why)
{
    const uint64_t stride = series_stride(row->ord);
    if (stride == series_stride(row->ord - 1)) {
        return 0;
    }
    int rc = need(s, STATEMENT_THIN, why);
    if (rc != 0) {
        return rc;
    }
    sqlite3_stmt *at = s->statements[STATEMENT_THIN];
    if (sqlite3_bind_text(at, 1, row->job, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_int64(at, 2, row->run) != SQLITE_OK ||
        sqlite3_bind_text(at, 3, row->name, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_int64(at, 4, (sqlite3_int64)stride) != SQLITE_OK) {
        return sqlite_error(s, "thin a series", why);
    }
    return sqlite_run(s, STATEMENT_THIN, "thin a series", why);
}

/* What is above the limit goes a few at a time, so that no write takes long. */
static int cut_points(struct store *s, struct tfe_why *why)
{
    char sql[160];
    const sqlite3_int64 last = sqlite3_last_insert_rowid(s->db);
    if (last <= POINTS_KEPT || last % 1000 != 0) {
        return 0;
    }
    (void)sqlite3_snprintf(sizeof(sql), sql, "DELETE FROM series WHERE id <= %lld",
                           last - POINTS_KEPT);
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : sqlite_error(s, "cut the series", why);
}

static int put_point(struct store *s, const struct msg_series_row *row, struct tfe_why *why)
{
    int rc = need(s, STATEMENT_PUT_POINT, why);
    rc = rc != 0 ? rc : sqlite_put(s, STATEMENT_PUT_POINT, &points, row, "write a series", why);
    rc = rc == 0 ? thin(s, row, why) : rc;
    return rc == 0 ? cut_points(s, why) : rc;
}

int sqlite_keep_seen(struct store *s, enum tfe_msg_type type, const void *row, struct tfe_why *why)
{
    TFE_ASSERT(type == MSG_EVENT_ROW || type == MSG_SERIES_ROW);
    return type == MSG_EVENT_ROW ? put_event(s, row, why) : put_point(s, row, why);
}

/* --- read ------------------------------------------------------------------------------------- */

static enum statement statement_of(const struct store_page *page)
{
    if (page->type == MSG_SERIES_ROW) {
        return page->name ? STATEMENT_POINTS : STATEMENT_LAST_POINTS;
    }
    if (page->last > 0) {
        return page->job ? STATEMENT_EVENTS_LAST_OF_JOB : STATEMENT_EVENTS_LAST;
    }
    return page->job ? STATEMENT_EVENTS_OF_JOB : STATEMENT_EVENTS_AFTER;
}

/* *ret: the run that is meant. */
static int find_run(struct store *s, const struct store_page *page, int64_t *ret,
                    struct tfe_why *why)
{
    int rc = need(s, STATEMENT_NEWEST_RUN, why);
    sqlite3_stmt *newest = s->statements[STATEMENT_NEWEST_RUN];
    int sq = SQLITE_ROW;
    if (rc != 0) {
        return rc;
    }
    *ret = page->run;
    if (page->type == MSG_SERIES_ROW && page->run == 0) {
        sq = sqlite3_bind_text(newest, 1, page->job, -1, SQLITE_STATIC);
        sq = sq == SQLITE_OK ? sqlite3_step(newest) : sq;
        *ret = sq == SQLITE_ROW ? sqlite3_column_int64(newest, 0) : 0;
        (void)sqlite3_reset(newest);
    }
    return sq == SQLITE_ROW ? 0 : sqlite_error(s, READ_IT, why);
}

/* Not all of these stand in each statement: the others are not bound. */
static bool bind(sqlite3_stmt *at, const struct store_page *page, int64_t run)
{
    const int n = sqlite3_bind_parameter_count(at);
    const char *job = page->job ? page->job : "";
    const char *name = page->name ? page->name : "";
    const uint32_t most = page->last > 0 ? page->last : page->max;
    return sqlite3_bind_text(at, 1, job, -1, SQLITE_STATIC) == SQLITE_OK &&
           sqlite3_bind_int64(at, 2, (sqlite3_int64)page->after) == SQLITE_OK &&
           sqlite3_bind_int64(at, 3, most) == SQLITE_OK &&
           (n < 4 || sqlite3_bind_int64(at, 4, run) == SQLITE_OK) &&
           (n < 5 || sqlite3_bind_text(at, 5, name, -1, SQLITE_STATIC) == SQLITE_OK);
}

int store_read_page(struct store *s, const struct store_page *page, store_kept_fn fn, void *ctx,
                    struct tfe_why *why)
{
    const struct row_kind *kind = page->type == MSG_SERIES_ROW ? &points : &events;
    const enum statement which = statement_of(page);
    int64_t run;
    TFE_ASSERT(page->type == MSG_EVENT_ROW || page->type == MSG_SERIES_ROW);
    int rc = find_run(s, page, &run, why);
    rc = rc == 0 ? need(s, which, why) : rc;
    sqlite3_stmt *rows = s->statements[which];
    if (rc == 0 && !bind(rows, page, run)) {
        rc = sqlite_error(s, READ_IT, why);
    }
    int sq;
    while (rc == 0 && (sq = sqlite3_step(rows)) != SQLITE_DONE) {
        struct tfe_msg row = {.type = page->type};
        if (sq != SQLITE_ROW) {
            rc = sqlite_error(s, READ_IT, why);
        } else if (!columns_read(rows, kind, &row.u)) {
            rc = fn(ctx, &row);
            if (rc != 0) {
                why_set(why, "%s: %s: %s", s->path, READ_IT, tfe_error_sentence(rc));
            }
        }
    }
    (void)sqlite3_reset(rows); /* NULL is allowed */
    return rc;
}

/* --- pruned ----------------------------------------------------------------------------------- */

int sqlite_prune_seen(struct store *s, struct tfe_wall before, uint32_t max, uint32_t *ret_n,
                      struct tfe_why *why)
{
    static const enum statement prunes[] = {STATEMENT_PRUNE_EVENTS, STATEMENT_PRUNE_POINTS};
    int rc = 0;
    *ret_n = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(prunes) / sizeof(prunes[0]); i++) {
        rc = need(s, prunes[i], why);
        sqlite3_stmt *at = s->statements[prunes[i]];
        if (rc != 0) {
            return rc;
        }
        if (sqlite3_bind_int64(at, 1, before.ms) != SQLITE_OK ||
            sqlite3_bind_int64(at, 2, max) != SQLITE_OK) {
            return sqlite_error(s, "prune what was kept to be seen", why);
        }
        rc = sqlite_run(s, prunes[i], "prune what was kept to be seen", why);
        uint32_t n = rc == 0 ? (uint32_t)sqlite3_changes(s->db) : 0;
        *ret_n = n > *ret_n ? n : *ret_n;
    }
    return rc;
}
