/* server/store/sqlite_jobs.c: records of jobs as rows, and rows as records.
 *
 * One table says which column holds which field; inserting and loading follow it, so that a field
 * is written and read back or neither. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/record.h"
#include "server/store/sqlite_private.h"

enum kind { KIND_U32, KIND_U64, KIND_BOOL, KIND_CAUSE, KIND_RESULT, KIND_WALL, KIND_TEXT };

struct field {
    const char *column;
    enum kind kind;
    size_t offset;
};

#define FIELD(name, kind)                                                                          \
    {                                                                                              \
#name, kind, offsetof(struct rdzv_record, name)                                            \
    }

static const struct field fields[] = {
    FIELD(job, KIND_TEXT),
    FIELD(sequence, KIND_U64),
    FIELD(run, KIND_U32),
    FIELD(epoch, KIND_U64),
    FIELD(predecessor, KIND_U64),
    FIELD(cause, KIND_CAUSE),
    FIELD(min_nodes, KIND_U32),
    FIELD(max_nodes, KIND_U32),
    FIELD(nproc, KIND_U32),
    FIELD(max_restarts, KIND_U32),
    FIELD(gather_ms, KIND_U32),
    FIELD(grow_wait_ms, KIND_U32),
    FIELD(stop_grace_ms, KIND_U32),
    FIELD(elastic_timeout_ms, KIND_U32),
    FIELD(chief_grace_ms, KIND_U32),
    FIELD(no_grow, KIND_BOOL),
    FIELD(script_digest, KIND_U64),
    FIELD(run_key, KIND_TEXT),
    FIELD(restarts, KIND_U32),
    FIELD(fruitless, KIND_U32),
    FIELD(backoff_ms, KIND_U32),
    FIELD(has_progressed, KIND_BOOL),
    FIELD(ttl_ms, KIND_U32),
    FIELD(fence_ms, KIND_U32),
    FIELD(over, KIND_BOOL),
    FIELD(result, KIND_RESULT),
    FIELD(sentence, KIND_TEXT),
    FIELD(ended, KIND_WALL),
    FIELD(n_members, KIND_U32),
    FIELD(past, KIND_TEXT),
};

#define N_FIELDS ((int)(sizeof(fields) / sizeof(fields[0])))

/* "65535,", and MSG_NPROC_MAX of them. */
#define PORTS_TEXT_MAX (6 * MSG_NPROC_MAX + 1)
/* An id and a comma each. */
#define KNOWN_TO_TEXT_MAX (RDZV_KNOWN_TO_MAX * (TFE_ID_MAX + 1) + 1)

/* --- preparing --- */

int sqlite_jobs_prepare(struct sqlite_store *s, struct tfe_why *why)
{
    char columns[1024] = "";
    char places[256] = "";
    char sql[2048];
    for (int i = 0; i < N_FIELDS; i++) {
        size_t at = strlen(columns);
        (void)snprintf(columns + at, sizeof(columns) - at, "%s, ", fields[i].column);
        at = strlen(places);
        (void)snprintf(places + at, sizeof(places) - at, "?%d, ", i + 1);
    }
    (void)snprintf(sql, sizeof(sql),
                   "INSERT OR REPLACE INTO jobs(%sincarnation, written_ms) VALUES(%s?%d, ?%d)",
                   columns, places, N_FIELDS + 1, N_FIELDS + 2);
    int err = sqlite_prepare(s, STATEMENT_PUT_JOB, sql, why);
    (void)snprintf(sql, sizeof(sql), "SELECT %sincarnation FROM jobs ORDER BY job", columns);
    if (err == 0) {
        err = sqlite_prepare(s, STATEMENT_JOBS, sql, why);
    }
    if (err == 0) {
        err = sqlite_prepare(s, STATEMENT_KEPT,
                             "SELECT epoch, sequence, incarnation FROM jobs WHERE job = ?1", why);
    }
    if (err == 0) {
        err = sqlite_prepare(s, STATEMENT_CLEAR_MEMBERS, "DELETE FROM members WHERE job = ?1", why);
    }
    if (err == 0) {
        err = sqlite_prepare(s, STATEMENT_PUT_MEMBER,
                             "INSERT INTO members(job, seat, node, name, host, ports, join_order, "
                             "durable, drained, known_to) "
                             "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                             why);
    }
    if (err == 0) {
        err = sqlite_prepare(s, STATEMENT_MEMBERS,
                             "SELECT seat, node, name, host, ports, join_order, durable, drained, "
                             "known_to FROM members WHERE job = ?1 ORDER BY seat",
                             why);
    }
    return err;
}

/* --- a record into rows --- */

/* The text lives until the statement is run. */
static int bind_text(sqlite3_stmt *statement, int place, const char *text)
{
    return sqlite3_bind_text(statement, place, text != NULL ? text : "", -1, SQLITE_STATIC);
}

static int bind_field(sqlite3_stmt *statement, int place, const struct field *field,
                      const struct rdzv_record *record)
{
    const void *at = (const char *)record + field->offset;
    switch (field->kind) {
    case KIND_U32:
        return sqlite3_bind_int64(statement, place, *(const uint32_t *)at);
    case KIND_U64:
        return sqlite3_bind_int64(statement, place, (sqlite3_int64) * (const uint64_t *)at);
    case KIND_BOOL:
        return sqlite3_bind_int(statement, place, *(const bool *)at);
    case KIND_CAUSE:
        return sqlite3_bind_int(statement, place, (int)*(const enum tfe_cause *)at);
    case KIND_RESULT:
        return sqlite3_bind_int(statement, place, (int)*(const enum tfe_result *)at);
    case KIND_WALL:
        return sqlite3_bind_int64(statement, place, ((const struct tfe_wall *)at)->ms);
    case KIND_TEXT:
        return bind_text(statement, place, *(const char *const *)at);
    }
    return SQLITE_MISUSE;
}

static int put_job(struct sqlite_store *s, const struct rdzv_record *record, struct tfe_wall now,
                   struct tfe_why *why)
{
    sqlite3_stmt *put = s->statements[STATEMENT_PUT_JOB];
    int rc = SQLITE_OK;
    for (int i = 0; rc == SQLITE_OK && i < N_FIELDS; i++) {
        rc = bind_field(put, i + 1, &fields[i], record);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_int64(put, N_FIELDS + 1, (sqlite3_int64)s->incarnation);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_int64(put, N_FIELDS + 2, now.ms);
    }
    return rc == SQLITE_OK ? sqlite_run(s, STATEMENT_PUT_JOB, "write a job", why)
                           : sqlite_error(s, "write a job", why);
}

static void format_ports(char ret[PORTS_TEXT_MAX], const uint16_t *ports, uint32_t n)
{
    size_t at = 0;
    ret[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        at += (size_t)snprintf(ret + at, PORTS_TEXT_MAX - at, i > 0 ? ",%u" : "%u",
                               (unsigned)ports[i]);
    }
}

static void format_known_to(char ret[KNOWN_TO_TEXT_MAX], const struct rdzv_member *member)
{
    size_t at = 0;
    ret[0] = '\0';
    for (uint32_t i = 0; i < member->n_known_to; i++) {
        at += (size_t)snprintf(ret + at, KNOWN_TO_TEXT_MAX - at, i > 0 ? ",%s" : "%s",
                               member->known_to[i].text);
    }
}

static int put_members(struct sqlite_store *s, const struct rdzv_record *record,
                       struct tfe_why *why)
{
    sqlite3_stmt *clear = s->statements[STATEMENT_CLEAR_MEMBERS];
    sqlite3_stmt *put = s->statements[STATEMENT_PUT_MEMBER];
    if (bind_text(clear, 1, record->job) != SQLITE_OK) {
        return sqlite_error(s, "write the members", why);
    }
    int err = sqlite_run(s, STATEMENT_CLEAR_MEMBERS, "write the members", why);
    for (uint32_t seat = 0; err == 0 && seat < record->n_members; seat++) {
        const struct rdzv_member *member = &record->members[seat];
        char ports[PORTS_TEXT_MAX];
        char known_to[KNOWN_TO_TEXT_MAX];
        format_ports(ports, member->ports, record->nproc);
        format_known_to(known_to, member);
        if (bind_text(put, 1, record->job) != SQLITE_OK ||
            sqlite3_bind_int64(put, 2, seat) != SQLITE_OK ||
            bind_text(put, 3, member->node) != SQLITE_OK ||
            bind_text(put, 4, member->name) != SQLITE_OK ||
            bind_text(put, 5, member->host) != SQLITE_OK || bind_text(put, 6, ports) != SQLITE_OK ||
            sqlite3_bind_int64(put, 7, (sqlite3_int64)member->join_order) != SQLITE_OK ||
            sqlite3_bind_int(put, 8, member->durable) != SQLITE_OK ||
            sqlite3_bind_int(put, 9, member->drained) != SQLITE_OK ||
            bind_text(put, 10, known_to) != SQLITE_OK) {
            return sqlite_error(s, "write the members", why);
        }
        err = sqlite_run(s, STATEMENT_PUT_MEMBER, "write the members", why);
    }
    return err;
}

/* Compare-and-set: what is there must be what the record follows on. */
static int compare(struct sqlite_store *s, const struct rdzv_record *record, struct tfe_why *why)
{
    sqlite3_stmt *kept = s->statements[STATEMENT_KEPT];
    if (bind_text(kept, 1, record->job) != SQLITE_OK) {
        return sqlite_error(s, "read a job", why);
    }
    uint64_t epoch = 0;
    uint64_t sequence = 0;
    bool is_ours = false;
    int err = 0;
    int rc = sqlite3_step(kept);
    if (rc == SQLITE_ROW) {
        epoch = (uint64_t)sqlite3_column_int64(kept, 0);
        sequence = (uint64_t)sqlite3_column_int64(kept, 1);
        is_ours = (uint64_t)sqlite3_column_int64(kept, 2) == s->incarnation;
    } else if (rc != SQLITE_DONE) {
        err = sqlite_error(s, "read a job", why);
    }
    (void)sqlite3_reset(kept);
    if (err == 0 && !record_may_replace(record, epoch, sequence, is_ours)) {
        why_set(why,
                "%s: job %s stands at epoch %llu there and not at %llu: something else has written "
                "to it; this server ends, its agents go on",
                s->path, record->job, (unsigned long long)epoch,
                (unsigned long long)record->predecessor);
        err = TFE_ECONFLICT;
    }
    return err;
}

int sqlite_jobs_put(struct sqlite_store *s, const struct rdzv_record *record, struct tfe_wall now,
                    struct tfe_why *why)
{
    int err = compare(s, record, why);
    if (err == 0) {
        err = put_job(s, record, now, why);
    }
    return err != 0 ? err : put_members(s, record, why);
}

/* --- rows into a record --- */

/* What a record under way points to: one block for each job, freed when it has been handed over. */
struct reading {
    struct rdzv_record record;
    struct rdzv_member *members;
    uint16_t *ports;
    struct tfe_id (*known_to)[RDZV_KNOWN_TO_MAX];
    char **texts; /* of its members: node, name, host */
};

static void reading_done(struct reading *r)
{
    for (uint32_t i = 0; r->texts != NULL && i < 3 * r->record.n_members; i++) {
        free(r->texts[i]);
    }
    free(r->texts);
    free(r->known_to);
    free(r->ports);
    free(r->members);
}

static int damaged(const struct sqlite_store *s, const char *job, const char *what,
                   struct tfe_why *why)
{
    why_set(why,
            "%s is damaged (job %.64s: %s); nothing was changed: restore it from a backup, or "
            "start once with --recover, which salvages what can be read into a new file and keeps "
            "this one",
            s->path, job, what);
    return TFE_EINVAL;
}

static bool is_cause(sqlite3_int64 number)
{
    switch (number) {
#define CAUSE_CASE(NAME, value, name) case CAUSE_##NAME:
        TFE_CAUSES(CAUSE_CASE)
#undef CAUSE_CASE
        return true;
    default:
        return number == 0; /* of a job that never had an epoch */
    }
}

static bool is_result(sqlite3_int64 number)
{
    switch (number) {
#define RESULT_CASE(NAME, value, name) case RESULT_##NAME:
        TFE_RESULTS(RESULT_CASE)
#undef RESULT_CASE
        return true;
    default:
        return number == 0; /* it goes on */
    }
}

/* False: the column holds something else. Texts are borrowed from the statement. */
static bool read_field(sqlite3_stmt *row, int column, const struct field *field,
                       struct rdzv_record *record)
{
    void *at = (char *)record + field->offset;
    bool is_text = field->kind == KIND_TEXT;
    if (sqlite3_column_type(row, column) != (is_text ? SQLITE_TEXT : SQLITE_INTEGER)) {
        return false;
    }
    sqlite3_int64 number = is_text ? 0 : sqlite3_column_int64(row, column);
    switch (field->kind) {
    case KIND_U32:
        *(uint32_t *)at = (uint32_t)number;
        return number >= 0 && number <= UINT32_MAX;
    case KIND_U64:
        *(uint64_t *)at = (uint64_t)number;
        return true;
    case KIND_BOOL:
        *(bool *)at = number != 0;
        return true;
    case KIND_CAUSE:
        *(enum tfe_cause *)at = (enum tfe_cause)number;
        return is_cause(number);
    case KIND_RESULT:
        *(enum tfe_result *)at = (enum tfe_result)number;
        return is_result(number);
    case KIND_WALL:
        ((struct tfe_wall *)at)->ms = number;
        return true;
    case KIND_TEXT:
        *(const char **)at = (const char *)sqlite3_column_text(row, column);
        return *(const char **)at != NULL;
    }
    return false;
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
    struct rdzv_member *member = &r->members[seat];
    uint16_t *ports = r->ports + (size_t)seat * r->record.nproc;
    const char *listed = (const char *)sqlite3_column_text(row, 4);
    const char *known_to = (const char *)sqlite3_column_text(row, 8);
    uint32_t n_known_to = 0;
    for (int i = 0; i < 3; i++) {
        const char *text = (const char *)sqlite3_column_text(row, 1 + i);
        if (text == NULL) {
            return TFE_EINVAL;
        }
        r->texts[3 * seat + (uint32_t)i] = strdup(text);
        if (r->texts[3 * seat + (uint32_t)i] == NULL) {
            return TFE_ENOMEM;
        }
    }
    if (sqlite3_column_int64(row, 0) != seat || listed == NULL ||
        !scan_ports(listed, ports, r->record.nproc) || known_to == NULL ||
        !scan_known_to(known_to, r->known_to[seat], &n_known_to)) {
        return TFE_EINVAL;
    }
    *member = (struct rdzv_member){.node = r->texts[3 * seat],
                                   .name = r->texts[3 * seat + 1],
                                   .host = r->texts[3 * seat + 2],
                                   .ports = ports,
                                   .join_order = (uint64_t)sqlite3_column_int64(row, 5),
                                   .durable = sqlite3_column_int(row, 6) != 0,
                                   .drained = sqlite3_column_int(row, 7) != 0,
                                   .known_to = r->known_to[seat],
                                   .n_known_to = n_known_to};
    return 0;
}

static int read_members(struct sqlite_store *s, struct reading *r, struct tfe_why *why)
{
    uint32_t n = r->record.n_members;
    if (n > MSG_NODES_MAX || r->record.nproc < 1 || r->record.nproc > MSG_NPROC_MAX) {
        r->record.n_members = 0;
        return damaged(s, r->record.job, "sizes out of range", why);
    }
    r->members = calloc((size_t)n + 1, sizeof(*r->members));
    r->ports = calloc((size_t)n * r->record.nproc + 1, sizeof(*r->ports));
    r->known_to = calloc((size_t)n + 1, sizeof(*r->known_to));
    r->texts = calloc((size_t)n * 3 + 1, sizeof(*r->texts));
    if (r->members == NULL || r->ports == NULL || r->known_to == NULL || r->texts == NULL) {
        why_set(why, "%s: read job %s: out of memory", s->path, r->record.job);
        return TFE_ENOMEM;
    }
    sqlite3_stmt *rows = s->statements[STATEMENT_MEMBERS];
    if (bind_text(rows, 1, r->record.job) != SQLITE_OK) {
        return sqlite_error(s, "read the members", why);
    }
    uint32_t seat = 0;
    int err = 0;
    int rc;
    while (err == 0 && (rc = sqlite3_step(rows)) != SQLITE_DONE) {
        if (rc != SQLITE_ROW) {
            err = sqlite_error(s, "read the members", why);
        } else if (seat == n) {
            err = damaged(s, r->record.job, "too many members", why);
        } else {
            err = read_member(rows, seat++, r);
            if (err == TFE_EINVAL) {
                (void)damaged(s, r->record.job, "a member that makes no sense", why);
            } else if (err != 0) {
                why_set(why, "%s: read job %s: out of memory", s->path, r->record.job);
            }
        }
    }
    (void)sqlite3_reset(rows);
    (void)sqlite3_clear_bindings(rows); /* the job's name goes with the row of the other query */
    r->record.members = r->members;
    return err != 0 || seat == n ? err : damaged(s, r->record.job, "too few members", why);
}

static int load_row(struct sqlite_store *s, sqlite3_stmt *row, store_load_fn fn, void *ctx,
                    struct tfe_why *why)
{
    struct reading r = {.members = NULL};
    for (int i = 0; i < N_FIELDS; i++) {
        if (!read_field(row, i, &fields[i], &r.record)) {
            const char *job = (const char *)sqlite3_column_text(row, 0);
            return damaged(s, job != NULL ? job : "?", fields[i].column, why);
        }
    }
    int err = read_members(s, &r, why);
    if (err == 0) {
        err = fn(ctx, &r.record);
        if (err == TFE_EINVAL || err == TFE_EEXIST) {
            err = damaged(s, r.record.job, "the record contradicts itself", why);
        } else if (err != 0) {
            why_set(why, "%s: restore job %s: %s", s->path, r.record.job, tfe_error_sentence(err));
        }
    }
    reading_done(&r);
    return err;
}

int sqlite_jobs_load(struct sqlite_store *s, store_load_fn fn, void *ctx, struct tfe_why *why)
{
    sqlite3_stmt *rows = s->statements[STATEMENT_JOBS];
    int err = 0;
    int rc;
    while (err == 0 && (rc = sqlite3_step(rows)) != SQLITE_DONE) {
        err = rc == SQLITE_ROW ? load_row(s, rows, fn, ctx, why) : sqlite_error(s, "read", why);
    }
    (void)sqlite3_reset(rows);
    return err;
}
