/* server/store/sqlite_jobs.c: records of jobs as rows, and rows as records. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "server/store/sqlite_columns.h"
#include "server/store/sqlite_private.h"

/* --- which column is which field --- */

/* Both also 0: of a job that never had an epoch, or that goes on. */
static bool is_cause(enum tfe_cause number)
{
    return number == 0 || msg_cause_name(number)[0] != '?';
}

static bool is_result(enum tfe_result number)
{
    return number == 0 || msg_result_name(number)[0] != '?';
}

/* What the job wants. */
#define SPEC_COUNT ROW_U32
#define SPEC_DURATION ROW_U32
#define SPEC_FLAG ROW_BOOL
#define SPEC_DIGEST ROW_U64
#define SPEC_COLUMN(name, type, kind, ...) {COLUMN(job_spec, name, SPEC_##kind)},
static const struct row_field spec_columns[] = {JOB_SPEC_FIELDS(SPEC_COLUMN)};
COLUMNS(spec, job_spec, spec_columns);

static const struct row_field record_columns[] = {
    {COLUMN(rdzv_record, job, ROW_TEXT)},        {COLUMN(rdzv_record, sequence, ROW_U64)},
    {COLUMN(rdzv_record, run, ROW_U32)},         {COLUMN(rdzv_record, epoch, ROW_U64)},
    {COLUMN(rdzv_record, predecessor, ROW_U64)}, {COLUMN(rdzv_record, cause, ROW_U32)},
    {COLUMNS_OF(rdzv_record, spec, spec)},       {COLUMN(rdzv_record, run_key, ROW_TEXT)},
    {COLUMN(rdzv_record, restarts, ROW_U32)},    {COLUMN(rdzv_record, fruitless, ROW_U32)},
    {COLUMN(rdzv_record, backoff_ms, ROW_U32)},  {COLUMN(rdzv_record, has_progressed, ROW_BOOL)},
    {COLUMN(rdzv_record, ttl_ms, ROW_U32)},      {COLUMN(rdzv_record, fence_ms, ROW_U32)},
    {COLUMN(rdzv_record, over, ROW_BOOL)},       {COLUMN(rdzv_record, fenced, ROW_BOOL)},
    {COLUMN(rdzv_record, result, ROW_U32)},      {COLUMN(rdzv_record, sentence, ROW_TEXT)},
    {COLUMN(rdzv_record, ended, ROW_MOMENT)},    {COLUMN(rdzv_record, n_members, ROW_U32)},
    {COLUMN(rdzv_record, past, ROW_TEXT)},       {COLUMN(rdzv_record, resized, ROW_BOOL)},
    {COLUMN(rdzv_record, epoch_ps, ROW_U32)},    {COLUMN(rdzv_record, ps_resized, ROW_BOOL)},
};
COLUMNS(records, rdzv_record, record_columns);

/* A record, and who wrote it when. */
struct job_row {
    struct rdzv_record record;
    uint64_t incarnation;
    int64_t written_ms;
};

static const struct row_field job_columns[] = {
    {COLUMNS_OF(job_row, record, records)},
    {COLUMN(job_row, incarnation, ROW_U64)},
    {COLUMN(job_row, written_ms, ROW_MOMENT)},
};
COLUMNS(jobs, job_row, job_columns);

static const struct row_field member_part_columns[] = {
    {COLUMN(rdzv_member, node, ROW_TEXT)},        {COLUMN(rdzv_member, name, ROW_TEXT)},
    {COLUMN(rdzv_member, host, ROW_TEXT)},        {COLUMN(rdzv_member, join_order, ROW_U64)},
    {COLUMN(rdzv_member, durable, ROW_BOOL)},     {COLUMN(rdzv_member, drained, ROW_BOOL)},
    {COLUMN(rdzv_member, fixed_ports, ROW_BOOL)}, {COLUMN(rdzv_member, death_hash, ROW_TEXT)},
    {COLUMN(rdzv_member, guard_port, ROW_U32)},   {COLUMN(rdzv_member, taken_over, ROW_BOOL)},
};
COLUMNS(member_part, rdzv_member, member_part_columns);

/* A member, with its lists as texts: ports as decimals, ids of known_to, both with commas. */
struct member_row {
    const char *job;
    uint32_t seat;
    const char *ports;
    const char *known_to;
    struct rdzv_member member;
};

static const struct row_field member_columns[] = {
    {COLUMN(member_row, job, ROW_TEXT)},           {COLUMN(member_row, seat, ROW_U32)},
    {COLUMNS_OF(member_row, member, member_part)}, {COLUMN(member_row, ports, ROW_TEXT)},
    {COLUMN(member_row, known_to, ROW_TEXT)},
};
COLUMNS(members, member_row, member_columns);

/* "65535,", and MSG_NPROC_MAX of them. */
#define PORTS_TEXT_MAX (6 * MSG_NPROC_MAX + 1)
/* An id and a comma each. */
#define KNOWN_TO_TEXT_MAX (RDZV_KNOWN_TO_MAX * (TFE_ID_MAX + 1) + 1)

const struct sqlite_sql sqlite_jobs_sql[] = {
    {STATEMENT_PUT_JOB, "INSERT OR REPLACE INTO jobs($) VALUES(#)", &jobs},
    {STATEMENT_JOBS, "SELECT $ FROM jobs ORDER BY job", &records},
    {STATEMENT_KEPT, "SELECT epoch, sequence, incarnation FROM jobs WHERE job = ?1", NULL},
    {STATEMENT_CLEAR_MEMBERS, "DELETE FROM members WHERE job = ?1", NULL},
    {STATEMENT_PUT_MEMBER, "INSERT OR REPLACE INTO members($) VALUES(#)", &members},
    {STATEMENT_MEMBERS, "SELECT $ FROM members WHERE job = ?1 ORDER BY seat", &members},
    {.sql = NULL},
};

/* --- a record into rows --- */

/* Before the name of a job that is set aside; no id begins so. */
#define ASIDE "!"

static void format_lists(const struct rdzv_member *member, uint32_t n_ports,
                         char ret_ports[PORTS_TEXT_MAX], char ret_known_to[KNOWN_TO_TEXT_MAX])
{
    struct text text;
    text_init(&text, ret_ports, PORTS_TEXT_MAX);
    for (uint32_t i = 0; i < n_ports; i++) {
        text_addf(&text, "%s%u", i > 0 ? "," : "", (unsigned)member->ports[i]);
    }
    text_init(&text, ret_known_to, KNOWN_TO_TEXT_MAX);
    for (uint32_t i = 0; i < member->n_known_to; i++) {
        text_addf(&text, "%s%s", i > 0 ? "," : "", member->known_to[i].text);
    }
}

static int put_member(struct store *s, const struct rdzv_record *record, uint32_t seat,
                      struct tfe_why *why)
{
    char ports[PORTS_TEXT_MAX];
    char known_to[KNOWN_TO_TEXT_MAX];
    const struct member_row row = {.job = record->job,
                                   .seat = seat,
                                   .member = record->members[seat],
                                   .ports = ports,
                                   .known_to = known_to};
    format_lists(&row.member, record->spec.nproc, ports, known_to);
    return sqlite_put(s, STATEMENT_PUT_MEMBER, &members, &row, "write the members", why);
}

static int put_members(struct store *s, const struct rdzv_record *record, struct tfe_why *why)
{
    sqlite3_stmt *clear = s->statements[STATEMENT_CLEAR_MEMBERS];
    if (sqlite3_bind_text(clear, 1, record->job, -1, SQLITE_STATIC) != SQLITE_OK) {
        return sqlite_error(s, "write the members", why);
    }
    int rc = sqlite_run(s, STATEMENT_CLEAR_MEMBERS, "write the members", why);
    for (uint32_t seat = 0; rc == 0 && seat < record->n_members; seat++) {
        rc = put_member(s, record, seat, why);
    }
    return rc;
}

/* Whether what is kept of a job may be replaced by the record: it is the predecessor that the
 * record names, or an earlier try or record of the same server process (is_ours), whose answer the
 * core had not heard yet when it asked for this one. */
static bool may_replace(const struct rdzv_record *record, uint64_t kept_epoch,
                        uint64_t kept_sequence, bool is_ours)
{
    if (record->epoch < kept_epoch) {
        return false; /* epoch numbers never return */
    }
    return record->predecessor == kept_epoch || (is_ours && kept_sequence <= record->sequence);
}

/* Compare-and-set: what is there must be what the record follows on. */
static int compare(struct store *s, const struct rdzv_record *record, struct tfe_why *why)
{
    sqlite3_stmt *kept = s->statements[STATEMENT_KEPT];
    if (sqlite3_bind_text(kept, 1, record->job, -1, SQLITE_STATIC) != SQLITE_OK) {
        return sqlite_error(s, "read a job", why);
    }
    uint64_t epoch = 0;
    uint64_t sequence = 0;
    bool is_ours = false;
    int rc = 0;
    int sq = sqlite3_step(kept);
    if (sq == SQLITE_ROW) {
        epoch = (uint64_t)sqlite3_column_int64(kept, 0);
        sequence = (uint64_t)sqlite3_column_int64(kept, 1);
        is_ours = (uint64_t)sqlite3_column_int64(kept, 2) == s->incarnation;
    } else if (sq != SQLITE_DONE) {
        rc = sqlite_error(s, "read a job", why);
    }
    (void)sqlite3_reset(kept);
    if (rc == 0 && !(record->gone && sq == SQLITE_DONE) && /* else it is gone already */
        !may_replace(record, epoch, sequence, is_ours)) {
        why_set(why,
                "%s: job %s stands at epoch %llu there and not at %llu: something else has written "
                "to it; this server ends, its agents go on",
                s->path, record->job, (unsigned long long)epoch,
                (unsigned long long)record->predecessor);
        rc = TFE_ECONFLICT;
    }
    return rc;
}

/* The job, and what was set aside of one of its name; what its epochs cost, too. */
static int remove_job(struct store *s, const char *job, struct tfe_why *why)
{
    char *sql = sqlite3_mprintf("DELETE FROM jobs WHERE job IN (%Q, '" ASIDE "' || %Q);"
                                "DELETE FROM members WHERE job IN (%Q, '" ASIDE "' || %Q);"
                                "DELETE FROM ledger WHERE job = %Q;"
                                "DELETE FROM events WHERE job = %Q;"
                                "DELETE FROM series WHERE job = %Q",
                                job, job, job, job, job, job, job);
    int sq = sql ? sqlite3_exec(s->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (sq == SQLITE_NOMEM) {
        why_set(why, "%s: forget job %s: out of memory", s->path, job);
        return TFE_ENOMEM;
    }
    return sq == SQLITE_OK ? 0 : sqlite_error(s, "forget a job", why);
}

int store_put(struct store *s, const struct rdzv_record *record, struct tfe_wall now,
              struct tfe_why *why)
{
    int rc = compare(s, record, why);
    if (rc == 0 && record->gone) {
        return remove_job(s, record->job, why);
    }
    if (rc == 0) {
        const struct job_row row = {*record, s->incarnation, now.ms};
        rc = sqlite_put(s, STATEMENT_PUT_JOB, &jobs, &row, "write a job", why);
    }
    return rc != 0 ? rc : put_members(s, record, why);
}

/* --- rows into a record --- */

/* What a record under way points to, besides the row of its own. */
struct reading {
    struct rdzv_record record;
    struct rdzv_member *members;
    uint16_t *ports;
    struct tfe_id (*known_to)[RDZV_KNOWN_TO_MAX];
    struct member_row **rows; /* as they were read: the members' texts */
};

static void reading_done(struct reading *r)
{
    for (uint32_t i = 0; r->rows && i < r->record.n_members; i++) {
        free(r->rows[i]);
    }
    free(r->rows);
    free(r->known_to);
    free(r->ports);
    free(r->members);
}

/* Exactly n ports. */
static bool scan_ports(const char *text, uint16_t *ret, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        char *end;
        unsigned long port = strtoul(text, &end, 10);
        if (end == text || port == 0 || port > UINT16_MAX || *end != (i + 1 < n ? ',' : '\0')) {
            return false;
        }
        ret[i] = (uint16_t)port;
        text = end + 1;
    }
    return true;
}

/* False: something in it is no id, or there are too many. */
static bool scan_known_to(const char *text, struct tfe_id ret[RDZV_KNOWN_TO_MAX], uint32_t *ret_n)
{
    *ret_n = 0;
    while (text[0] != '\0') {
        char id[TFE_ID_MAX + 1];
        size_t n = strcspn(text, ",");
        if (n >= sizeof(id) || *ret_n == RDZV_KNOWN_TO_MAX) {
            return false;
        }
        memcpy(id, text, n);
        id[n] = '\0';
        if (id_set(&ret[*ret_n], id) != 0) {
            return false;
        }
        (*ret_n)++;
        text += text[n] == ',' ? n + 1 : n;
    }
    return true;
}

/* TFE_EINVAL: it makes no sense, why not said. */
static int read_member(sqlite3_stmt *row, uint32_t seat, struct reading *r)
{
    struct member_row read = {.job = NULL};
    struct rdzv_member *member = &r->members[seat];
    uint16_t *ports = r->ports + (size_t)seat * r->record.spec.nproc;
    if (columns_read(row, &members, &read) || read.seat != seat ||
        !scan_ports(read.ports, ports, r->record.spec.nproc) ||
        !scan_known_to(read.known_to, r->known_to[seat], &read.member.n_known_to)) {
        return TFE_EINVAL;
    }
    r->rows[seat] = row_copy(&members, &read); /* its texts go with the statement's row */
    if (!r->rows[seat]) {
        return TFE_ENOMEM;
    }
    *member = r->rows[seat]->member;
    member->ports = ports;
    member->known_to = r->known_to[seat];
    return 0;
}

/* A value that did not come for want of memory is no fault of the record's. */
static int failed_to_read(struct store *s, const char **ret_fault, struct tfe_why *why)
{
    if (sqlite3_errcode(s->db) != SQLITE_NOMEM) {
        return 0;
    }
    *ret_fault = NULL;
    return sqlite_error(s, "read a job", why);
}

/* *ret_fault: why they are none, else left alone. */
static int read_members(struct store *s, struct reading *r, const char **ret_fault,
                        struct tfe_why *why)
{
    uint32_t n = r->record.n_members;
    if (n > MSG_NODES_MAX || r->record.spec.nproc < 1 || r->record.spec.nproc > MSG_NPROC_MAX) {
        r->record.n_members = 0;
        *ret_fault = "sizes out of range";
        return 0;
    }
    r->members = calloc((size_t)n + 1, sizeof(*r->members));
    r->ports = calloc((size_t)n * r->record.spec.nproc + 1, sizeof(*r->ports));
    r->known_to = calloc((size_t)n + 1, sizeof(*r->known_to));
    r->rows = calloc((size_t)n + 1, sizeof(struct member_row *));
    if (!r->members || !r->ports || !r->known_to || !r->rows) {
        why_set(why, "%s: read job %s: out of memory", s->path, r->record.job);
        return TFE_ENOMEM;
    }
    sqlite3_stmt *rows = s->statements[STATEMENT_MEMBERS];
    if (sqlite3_bind_text(rows, 1, r->record.job, -1, SQLITE_STATIC) != SQLITE_OK) {
        return sqlite_error(s, "read the members", why);
    }
    uint32_t seat = 0;
    int rc = 0;
    int sq;
    while (rc == 0 && !*ret_fault && (sq = sqlite3_step(rows)) != SQLITE_DONE) {
        if (sq != SQLITE_ROW) {
            rc = sqlite_error(s, "read the members", why);
        } else if (seat == n) {
            *ret_fault = "too many members";
        } else {
            rc = read_member(rows, seat++, r);
            if (rc == TFE_EINVAL) {
                *ret_fault = "a member that makes no sense";
                rc = failed_to_read(s, ret_fault, why);
            } else if (rc != 0) {
                why_set(why, "%s: read job %s: out of memory", s->path, r->record.job);
            }
        }
    }
    (void)sqlite3_reset(rows);
    (void)sqlite3_clear_bindings(rows); /* the job's name goes with the row of the other query */
    r->record.members = r->members;
    if (rc == 0 && !*ret_fault && seat < n) {
        *ret_fault = "too few members";
    }
    return rc;
}

/* --- jobs that cannot be read --- */

/* Its rows get another name: nothing writes there, and its agents may bring the job back. */
static int set_aside(struct store *s, const char *job, struct tfe_why *why)
{
    char *sql =
        sqlite3_mprintf("BEGIN IMMEDIATE;"
                        "DELETE FROM members WHERE job = '" ASIDE "' || %Q;"
                        "UPDATE members SET job = '" ASIDE "' || job WHERE job = %Q;"
                        "UPDATE OR REPLACE jobs SET job = '" ASIDE "' || job WHERE job = %Q;"
                        "COMMIT",
                        job, job, job);
    if (!sql) {
        why_set(why, "%s: set job %s aside: out of memory", s->path, job);
        return TFE_ENOMEM;
    }
    int sq = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    int rc = sq == SQLITE_OK ? 0 : sqlite_error(s, "set a job aside", why);
    sqlite3_free(sql);
    if (sqlite3_get_autocommit(s->db) == 0) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return rc;
}

/* Names of jobs, each with its NUL. */
struct bad_jobs {
    char *names;
    size_t n;
};

static int add_bad(struct store *s, struct bad_jobs *bad, const char *job, struct tfe_why *why)
{
    size_t n = strlen(job) + 1;
    char *names = realloc(bad->names, bad->n + n);
    if (!names) {
        why_set(why, "%s: set job %s aside: out of memory", s->path, job);
        return TFE_ENOMEM;
    }
    memcpy(names + bad->n, job, n);
    bad->names = names;
    bad->n += n;
    return 0;
}

static int set_all_aside(struct store *s, struct bad_jobs *bad, struct tfe_why *why)
{
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < bad->n; at += strlen(bad->names + at) + 1) {
        rc = set_aside(s, bad->names + at, why);
    }
    free(bad->names);
    return rc;
}

static void tell_aside(store_load_fn fn, void *ctx, const char *job, const char *fault)
{
    (void)fn(ctx, &(struct rdzv_record){.job = job}, fault);
}

/* *ret_fault: why its record is none; NULL: it is one, or it could not be looked at. */
static int load_row(struct store *s, sqlite3_stmt *row, store_load_fn fn, void *ctx,
                    const char **ret_fault, struct tfe_why *why)
{
    struct reading r = {.members = NULL};
    *ret_fault = columns_read(row, &records, &r.record);
    if (*ret_fault) {
        return failed_to_read(s, ret_fault, why);
    }
    if (!is_cause(r.record.cause) || !is_result(r.record.result)) {
        *ret_fault = is_cause(r.record.cause) ? "result" : "cause";
        return 0;
    }
    int rc = read_members(s, &r, ret_fault, why);
    if (rc == 0 && !*ret_fault) {
        rc = fn(ctx, &r.record, NULL);
        if (rc == TFE_EINVAL || rc == TFE_EEXIST) {
            *ret_fault = "the record contradicts itself";
            rc = 0;
        } else if (rc != 0) {
            why_set(why, "%s: restore job %s: %s", s->path, r.record.job, tfe_error_sentence(rc));
        }
    }
    reading_done(&r);
    return rc;
}

int store_load(struct store *s, store_load_fn fn, void *ctx, struct tfe_why *why)
{
    sqlite3_stmt *rows = s->statements[STATEMENT_JOBS];
    struct bad_jobs bad = {.n = 0};
    int rc = 0;
    int sq;
    while (rc == 0 && (sq = sqlite3_step(rows)) != SQLITE_DONE) {
        if (sq != SQLITE_ROW) {
            rc = sqlite_error(s, "read", why);
            continue;
        }
        const char *job = (const char *)sqlite3_column_text(rows, 0);
        const char *fault = NULL;
        if (job && job[0] == ASIDE[0]) {
            tell_aside(fn, ctx, job + 1, "it was set aside before");
            continue;
        }
        rc = load_row(s, rows, fn, ctx, &fault, why);
        if (fault) {
            tell_aside(fn, ctx, job ? job : "", fault);
            rc = job ? add_bad(s, &bad, job, why) : 0;
        }
    }
    (void)sqlite3_reset(rows);
    int aside = set_all_aside(s, &bad, why);
    return rc != 0 ? rc : aside;
}
