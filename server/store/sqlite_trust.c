/* server/store/sqlite_trust.c: what is kept of keys and bans, and the audit: one row of a table for
 * each row that can be seen. */
#include "common/base/assert.h"
#include "common/net/audit_chain.h"
#include "server/store/sqlite_columns.h"
#include "server/store/sqlite_private.h"

#define KEY(field, kind) COLUMN(msg_token_row, field, kind)

static const struct row_field key_columns[] = {
    {KEY(key, ROW_TEXT)},       {KEY(role, ROW_U32)},    {KEY(scope, ROW_TEXT)},
    {KEY(label, ROW_TEXT)},     {KEY(uses, ROW_U32)},    {KEY(used_by, ROW_TEXT)},
    {KEY(generation, ROW_U32)}, {KEY(made, ROW_MOMENT)}, {KEY(expires, ROW_MOMENT)},
    {KEY(revoked, ROW_MOMENT)}, {KEY(quota, ROW_U32)},
};

COLUMNS(keys, msg_token_row, key_columns);

#define BAN(field, kind) COLUMN(msg_ban_row, field, kind)

static const struct row_field ban_columns[] = {
    {BAN(node, ROW_TEXT)}, {BAN(job, ROW_TEXT)},     {BAN(key, ROW_TEXT)},
    {BAN(name, ROW_TEXT)}, {BAN(until, ROW_MOMENT)}, {BAN(token, ROW_TEXT)},
};

COLUMNS(bans, msg_ban_row, ban_columns);

#define AUDIT(field, kind) COLUMN(msg_audit_row, field, kind)

static const struct row_field audit_columns[] = {
    {AUDIT(number, ROW_U64)},
    {AUDIT(at, ROW_MOMENT)},
    {AUDIT(key, ROW_TEXT)},
    {AUDIT(label, ROW_TEXT)},
    {.key = "source", .type = ROW_TEXT, .offset = offsetof(struct msg_audit_row, from)},
    {AUDIT(what, ROW_TEXT)},
    {AUDIT(about, ROW_TEXT)},
    {AUDIT(result, ROW_TEXT)},
    {AUDIT(hash, ROW_TEXT)},
};

COLUMNS(audit, msg_audit_row, audit_columns);

/* Of the table of that name. The first column is the primary key, in whose order rows are told. */
static const struct row_kind *kept_of(enum tfe_msg_type type)
{
    TFE_ASSERT(type == MSG_TOKEN_ROW || type == MSG_BAN_ROW || type == MSG_AUDIT_ROW);
    return type == MSG_TOKEN_ROW ? &keys : type == MSG_BAN_ROW ? &bans : &audit;
}

static int insert(struct store *s, const struct row_kind *k, const void *row, struct tfe_why *why)
{
    char sql[COLUMNS_SQL_MAX];
    sqlite3_stmt *put = NULL;
    /* A use that was noted before a key was revoked may be written after it. */
    const char *form = k == &keys   ? "INSERT INTO keys($) VALUES(#) ON CONFLICT(key) DO UPDATE SET"
                                      " used_by=excluded.used_by,"
                                      " revoked=max(revoked, excluded.revoked)"
                       : k == &bans ? "INSERT OR REPLACE INTO bans($) VALUES(#)"
                                    : "INSERT INTO audit($) VALUES(#)";
    columns_sql(sql, form, k);
    bool is_done = sqlite3_prepare_v2(s->db, sql, -1, &put, NULL) == SQLITE_OK &&
                   columns_bind(put, k, row) == SQLITE_OK && sqlite3_step(put) == SQLITE_DONE;
    int rc = is_done ? 0 : sqlite_error(s, "write what is known of keys and bans", why);
    (void)sqlite3_finalize(put);
    return rc;
}

/* A revoked key of which no row has to be there (token_is_kept) would be good again without one. Of
 * those that brought a quota the newest of a scope stays: its word counts. */
int sqlite_prune_trust(struct store *s, struct tfe_wall before, struct tfe_why *why)
{
    char sql[512];
    (void)sqlite3_snprintf(sizeof(sql), sql,
                           "DELETE FROM bans WHERE until < %lld; DELETE FROM keys WHERE"
                           " ((expires > 0 AND expires < %lld) OR"
                           " (revoked > 0 AND revoked < %lld AND key LIKE '02%%')) AND"
                           " (quota = 0 OR EXISTS (SELECT 1 FROM keys AS later WHERE"
                           " later.scope = keys.scope AND later.quota > 0 AND"
                           " later.made > keys.made))",
                           (long long)before.ms, (long long)before.ms, (long long)before.ms);
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : sqlite_error(s, "prune keys and bans", why);
}

/* Behind the last row of the audit. */
static int append(struct store *s, const struct row_kind *k, const struct msg_audit_row *row,
                  struct tfe_why *why)
{
    char before[SQLITE_TEXT_MAX];
    char hash[AUDIT_HASH_CHARS + 1];
    int64_t last = 0;
    struct msg_audit_row chained = *row;
    int rc = sqlite_number(s, "SELECT coalesce(max(number), 0) FROM audit", &last, why);
    if (rc == 0) {
        rc = sqlite_text(s, "SELECT hash FROM audit ORDER BY number DESC LIMIT 1", "audit", before,
                         why);
    }
    if (rc == 0) {
        chained.number = (uint64_t)last + 1;
        audit_hash(&chained, before, hash);
        chained.hash = hash;
        rc = insert(s, k, &chained, why);
    }
    return rc;
}

int store_keep(struct store *s, enum tfe_msg_type type, const void *row, struct tfe_why *why)
{
    if (type == MSG_EVENT_ROW || type == MSG_SERIES_ROW) {
        return sqlite_keep_seen(s, type, row, why);
    }
    if (type == STORE_SUBMISSION) {
        return sqlite_keep_submission(s, row, why);
    }
    const struct row_kind *k = kept_of(type);
    return type == MSG_AUDIT_ROW ? append(s, k, row, why) : insert(s, k, row, why);
}

int store_read_kept(struct store *s, enum tfe_msg_type type, uint64_t after, uint32_t max,
                    store_kept_fn fn, void *ctx, struct tfe_why *why)
{
    const struct row_kind *k = kept_of(type);
    char sql[COLUMNS_SQL_MAX];
    char form[128];
    sqlite3_stmt *rows = NULL;
    /* A text is above any number. */
    (void)sqlite3_snprintf(sizeof(form), form,
                           "SELECT $ FROM %s WHERE %s > %llu ORDER BY 1 LIMIT %u", k->name,
                           k->fields[0].key, (unsigned long long)after, max);
    columns_sql(sql, form, k);
    int sq = sqlite3_prepare_v2(s->db, sql, -1, &rows, NULL);
    int rc = sq == SQLITE_OK ? 0 : sqlite_error(s, "read what is known of keys and bans", why);
    while (rc == 0 && (sq = sqlite3_step(rows)) != SQLITE_DONE) {
        struct tfe_msg row = {.type = type};
        if (sq != SQLITE_ROW) {
            rc = sqlite_error(s, "read what is known of keys and bans", why);
        } else if (!columns_read(rows, k, &row.u)) {
            rc = fn(ctx, &row);
            if (rc != 0) {
                why_set(why, "%s: read what is known of keys and bans: %s", s->path,
                        tfe_error_sentence(rc));
            }
        }
    }
    (void)sqlite3_finalize(rows);
    return rc;
}
