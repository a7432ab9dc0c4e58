/* server/store/sqlite_trust.c: keys, bans and the audit log, stored in columns. */
#include <stdio.h>

#include "common/base/assert.h"
#include "common/records/audit_chain.h"
#include "server/store/sqlite_private.h"

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

int store_put_message(struct store *s, enum tfe_msg_type type, const void *row,
                      struct tfe_reason *reason)
{
    TFE_ASSERT(type == STORE_SUBMISSION || type == MSG_EVENT_ROW || type == MSG_TOKEN_ROW ||
               type == MSG_BAN_ROW || type == MSG_AUDIT_ROW);
    return type == STORE_SUBMISSION ? sqlite_put_submission(s, row, reason)
           : type == MSG_EVENT_ROW  ? sqlite_put_event(s, row, reason)
           : type == MSG_TOKEN_ROW  ? put_key(s, row, reason)
           : type == MSG_BAN_ROW    ? put_ban(s, row, reason)
                                    : append_audit(s, row, reason);
}

struct reading {
    enum tfe_msg_type type;
    store_message_fn fn;
    void *ctx;
};

static int read_one(void *ctx, struct sqlite_row *at)
{
    const struct reading *to = ctx;
    struct tfe_msg msg = {.type = to->type};
    if (to->type == MSG_TOKEN_ROW) {
        read_key(at, &msg.u.token_row);
    } else if (to->type == MSG_BAN_ROW) {
        read_ban(at, &msg.u.ban_row);
    } else {
        read_audit(at, &msg.u.audit_row);
    }
    return at->is_bad || at->failed ? 0 : to->fn(to->ctx, &msg);
}

int store_read_messages(struct store *s, enum tfe_msg_type type, store_message_fn fn, void *ctx,
                        struct tfe_reason *reason)
{
    struct reading to = {type, fn, ctx};
    TFE_ASSERT(type == MSG_TOKEN_ROW || type == MSG_BAN_ROW);
    return sqlite_read(
        s,
        CALL_PLAIN("read keys and bans", type == MSG_TOKEN_ROW ? STATEMENT_KEYS : STATEMENT_BANS),
        read_one, &to, reason);
}

int store_read_audit(struct store *s, uint64_t after, uint32_t max, store_message_fn fn, void *ctx,
                     struct tfe_reason *reason)
{
    struct reading to = {MSG_AUDIT_ROW, fn, ctx};
    return sqlite_read(s, CALL("read the audit", STATEMENT_AUDIT, V_INT(after), V_INT(max)),
                       read_one, &to, reason);
}

int sqlite_prune_trust(struct store *s, struct tfe_wall before, struct tfe_reason *reason)
{
    int rc = sqlite_run(s, CALL("prune the bans", STATEMENT_PRUNE_BANS, V_INT(before.ms)), reason);
    return rc != 0 ? rc
                   : sqlite_run(s, CALL("prune the keys", STATEMENT_PRUNE_KEYS, V_INT(before.ms)),
                                reason);
}
