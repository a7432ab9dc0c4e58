/* server/store/sqlite_rows.c: ledger, events, keys, bans and the audit log, stored in columns so
 * that other programs can read them. */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/records/audit_chain.h"
#include "server/store/sqlite_private.h"

/* Number of events to retain over all jobs, about 30 MB. Events are counted occasionally, because
 * their numbers skip values at each start of a server. */
#define EVENTS_MAX 100000
#define EVENTS_PRUNE_INTERVAL 1000

/* --- ledger ----------------------------------------------------------------------------------- */

/* Returns false if the row is invalid. */
static bool read_epoch(struct sqlite_row *at, struct msg_epoch_row *row)
{
    row->epoch = (uint64_t)column_int(at);
    row->run = (uint32_t)column_int(at);
    row->cause = (enum tfe_cause)column_int(at);
    row->blamed = column_text(at);
    row->planned = column_int(at) != 0;
    row->members = (uint32_t)column_int(at);
    for (int i = 0; i < EPOCH__TIMES; i++) {
        const int64_t ms = column_int(at);
        row->at[i].ms = ms < 0 ? 0 : ms; /* the time is negative if the clock was set back */
    }
    row->saved_step = (uint64_t)column_int_if(at, &row->has_saved);
    row->lost_steps = (uint64_t)column_int_if(at, &row->has_lost);
    row->over = column_int(at) != 0;
    row->restarts = (uint32_t)column_int(at);
    row->failed = column_int(at) != 0;
    return row->epoch != 0 && row->run != 0;
}

int store_put_row(struct store *s, const char *job, const struct msg_epoch_row *r,
                  struct tfe_wall now, struct tfe_reason *reason)
{
#define TIME_VALUE(NAME, column) V_INT(r->at[EPOCH_##NAME].ms),
    return sqlite_run(s,
                      CALL("write the ledger", STATEMENT_PUT_ROW, V_TEXT(job), V_INT(now.ms),
                           V_INT(r->epoch), V_INT(r->run), V_INT(r->cause), V_TEXT(r->blamed),
                           V_INT(r->planned), V_INT(r->members),
                           TFE_EPOCH_TIMES(TIME_VALUE) /**/
                           V_INT_IF(r->has_saved, r->saved_step),
                           V_INT_IF(r->has_lost, r->lost_steps), V_INT(r->over), V_INT(r->restarts),
                           V_INT(r->failed)),
                      reason);
#undef TIME_VALUE
}

/* --- events ----------------------------------------------------------------------------------- */

static int put_event(struct store *s, const struct msg_event_row *row, struct tfe_reason *reason)
{
    int rc = sqlite_run(s,
                        CALL("write an event", STATEMENT_PUT_EVENT, V_INT(row->number),
                             V_INT(row->at.ms), V_TEXT(row->kind), V_INT(row->level),
                             V_TEXT(row->job), V_INT(row->run), V_INT(row->epoch),
                             V_TEXT(row->node), V_TEXT(row->name), V_TEXT(row->message)),
                        reason);
    return rc != 0 || row->number % EVENTS_PRUNE_INTERVAL != 0
               ? rc
               : sqlite_run(s, CALL("cut the events", STATEMENT_CUT_EVENTS, V_INT(EVENTS_MAX)),
                            reason);
}

static void read_event(struct sqlite_row *at, struct msg_event_row *row)
{
    row->number = (uint64_t)column_int(at);
    row->at.ms = column_int(at);
    row->kind = column_text(at);
    row->level = (enum tfe_event_level)column_int(at);
    row->job = column_text(at);
    row->run = (uint32_t)column_int(at);
    row->epoch = (uint64_t)column_int(at);
    row->node = column_text(at);
    row->name = column_text(at);
    row->message = column_text(at);
}

/* --- keys and bans ---------------------------------------------------------------------------- */

static int put_key(struct store *s, const struct msg_token_row *k, struct tfe_reason *reason)
{
    return sqlite_run(s,
                      CALL("write a key", STATEMENT_PUT_KEY, V_TEXT(k->key), V_INT(k->role),
                           V_TEXT(k->scope), V_TEXT(k->label), V_INT(k->generation), V_INT(k->uses),
                           V_TEXT(k->used_by), V_INT(k->made.ms), V_INT(k->expires.ms),
                           V_INT(k->revoked.ms), V_INT(k->quota)),
                      reason);
}

static void read_key(struct sqlite_row *at, struct msg_token_row *k)
{
    k->key = column_text(at);
    k->role = (uint32_t)column_int(at);
    k->scope = column_text(at);
    k->label = column_text(at);
    k->generation = (uint32_t)column_int(at);
    k->uses = (uint32_t)column_int(at);
    k->used_by = column_text(at);
    k->made.ms = column_int(at);
    k->expires.ms = column_int(at);
    k->revoked.ms = column_int(at);
    k->quota = (uint32_t)column_int(at);
}

static int put_ban(struct store *s, const struct msg_ban_row *b, struct tfe_reason *reason)
{
    return sqlite_run(s,
                      CALL("write a ban", STATEMENT_PUT_BAN, V_TEXT(b->node), V_TEXT(b->job),
                           V_TEXT(b->key), V_TEXT(b->token), V_TEXT(b->name), V_INT(b->until.ms)),
                      reason);
}

static void read_ban(struct sqlite_row *at, struct msg_ban_row *b)
{
    b->node = column_text(at);
    b->job = column_text(at);
    b->key = column_text(at);
    b->token = column_text(at);
    b->name = column_text(at);
    b->until.ms = column_int(at);
}

/* --- audit log -------------------------------------------------------------------------------- */

/* The last row of the audit log. */
struct last {
    uint64_t number; /* row number; 0 if the log is empty */
    char hash[AUDIT_HASH_CHARS + 1];
};

static int read_last(void *ctx, struct sqlite_row *at)
{
    struct last *last = ctx;
    last->number = (uint64_t)column_int(at);
    (void)snprintf(last->hash, sizeof(last->hash), "%s", column_text(at));
    return 0;
}

static int append_audit(struct store *s, const struct msg_audit_row *row, struct tfe_reason *reason)
{
    static const char what[] = "write the audit";
    struct last last = {.hash = ""};
    char hash[AUDIT_HASH_CHARS + 1];
    struct msg_audit_row a = *row;
    int rc = sqlite_read(s, CALL_PLAIN(what, STATEMENT_AUDIT_LAST), read_last, &last, reason);
    if (rc != 0) {
        return rc;
    }
    a.number = last.number + 1;
    audit_hash(&a, last.hash, hash);
    return sqlite_run(s,
                      CALL(what, STATEMENT_PUT_AUDIT, V_INT(a.number), V_INT(a.at.ms),
                           V_TEXT(a.key), V_TEXT(a.label), V_TEXT(a.from), V_TEXT(a.what),
                           V_TEXT(a.about), V_TEXT(a.result), V_TEXT(hash)),
                      reason);
}

static void read_audit(struct sqlite_row *at, struct msg_audit_row *a)
{
    a->number = (uint64_t)column_int(at);
    a->at.ms = column_int(at);
    a->key = column_text(at);
    a->label = column_text(at);
    a->from = column_text(at);
    a->what = column_text(at);
    a->about = column_text(at);
    a->result = column_text(at);
    a->hash = column_text(at);
}

/* --- all types of rows ------------------------------------------------------------------------ */

int store_put_message(struct store *s, enum tfe_msg_type type, const void *row,
                      struct tfe_reason *reason)
{
    switch ((int)type) {
    case STORE_SUBMISSION:
        return sqlite_put_submission(s, row, reason);
    case MSG_EVENT_ROW:
        return put_event(s, row, reason);
    case MSG_TOKEN_ROW:
        return put_key(s, row, reason);
    case MSG_BAN_ROW:
        return put_ban(s, row, reason);
    }
    TFE_ASSERT(type == MSG_AUDIT_ROW);
    return append_audit(s, row, reason);
}

struct reading {
    enum tfe_msg_type type;
    store_message_fn fn;
    void *ctx;
};

static int read_row(void *ctx, struct sqlite_row *at)
{
    const struct reading *to = ctx;
    struct tfe_msg msg = {.type = to->type};
    bool is_valid = true;
    switch ((int)to->type) {
    case MSG_EPOCH_ROW:
        is_valid = read_epoch(at, &msg.u.epoch_row);
        break;
    case MSG_EVENT_ROW:
        read_event(at, &msg.u.event_row);
        break;
    case MSG_TOKEN_ROW:
        read_key(at, &msg.u.token_row);
        break;
    case MSG_BAN_ROW:
        read_ban(at, &msg.u.ban_row);
        break;
    case MSG_AUDIT_ROW:
        read_audit(at, &msg.u.audit_row);
        break;
    }
    return !is_valid || at->is_bad || at->failed ? 0 : to->fn(to->ctx, &msg);
}

static enum statement statement_of(const struct store_page *page)
{
    switch ((int)page->type) {
    case MSG_EPOCH_ROW:
        return STATEMENT_ROWS;
    case MSG_EVENT_ROW:
        if (page->last > 0) {
            return page->job ? STATEMENT_EVENTS_LAST_OF_JOB : STATEMENT_EVENTS_LAST;
        }
        return page->job ? STATEMENT_EVENTS_OF_JOB : STATEMENT_EVENTS_AFTER;
    case MSG_TOKEN_ROW:
        return STATEMENT_KEYS;
    case MSG_BAN_ROW:
        return STATEMENT_BANS;
    }
    TFE_ASSERT(page->type == MSG_AUDIT_ROW);
    return STATEMENT_AUDIT;
}

int store_read(struct store *s, const struct store_page *page, store_message_fn fn, void *ctx,
               struct tfe_reason *reason)
{
    struct reading to = {page->type, fn, ctx};
    return sqlite_read(s,
                       CALL("read rows", statement_of(page), V_TEXT(page->job),
                            V_INT(page->last > 0 ? 0 : page->after),
                            V_INT(page->last > 0 ? page->last : page->max)),
                       read_row, &to, reason);
}

int store_prune(struct store *s, struct tfe_wall before, uint32_t max, uint32_t *ret_n,
                struct tfe_reason *reason)
{
    static const enum statement prunes[] = {STATEMENT_PRUNE_ROWS, STATEMENT_PRUNE_EVENTS,
                                            STATEMENT_PRUNE_BANS, STATEMENT_PRUNE_KEYS};
    int rc = 0;
    *ret_n = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(prunes) / sizeof(prunes[0]); i++) {
        rc = sqlite_run(s, CALL("prune the history", prunes[i], V_INT(before.ms), V_INT(max)),
                        reason);
        const uint32_t n = rc == 0 ? (uint32_t)sqlite3_changes(s->db) : 0;
        *ret_n = n > *ret_n ? n : *ret_n;
    }
    return rc;
}
