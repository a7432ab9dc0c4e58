/* server/query/query_keys.c: lists tokens and the deny list, and carries out orders about tokens.
 * Each order is acknowledged once it is durable. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "server/auth/deny_list.h"
#include "server/auth/keys.h"
#include "server/query/store_rows.h"

struct key_rows {
    struct store_rows store;
    struct keys *keys;
    bool has_token;            /* true if the new token has not been sent yet */
    char key[MSG_KEY_HEX + 1]; /* id of the new token, or of the last one listed; "" if none */
    char text[MSG_TOKEN_MAX];
};

static void key_rows_free(struct rows *rows)
{
    struct key_rows *s = (struct key_rows *)rows;
    keys_forget_rotation(s->keys, s);
    sodium_memzero(s->text, sizeof(s->text));
    store_rows_free(rows);
}

static struct key_rows *key_rows_new(const struct rows_ops *ops, struct keys *keys,
                                     struct writer *writer, struct rows **ret)
{
    struct key_rows *s = store_rows_new(ops, sizeof(*s), writer, ret);
    if (s) {
        s->keys = keys;
    }
    return s;
}

/* Removes a new token whose row was not stored: it was not sent to the operator and never will be.
 */
static void discard_token(struct key_rows *s)
{
    if (s->has_token) {
        s->has_token = false;
        keyring_discard(keys_ring(s->keys), s->key);
    }
}

static void on_written(void *ctx, int rc, struct record_list *page, const char *reason)
{
    if (rc != 0) {
        discard_token(ctx);
    }
    store_rows_on_result(ctx, rc, NULL, reason);
}

/* Writes the row. The response is sent after it is durable. */
static void store_row(struct key_rows *s, const struct msg_token_row *row)
{
    const struct tfe_msg msg = {.type = MSG_TOKEN_ROW, .u.token_row = *row};
    const int rc = writer_put(s->store.writer, &msg, on_written, s, &s->store.request);
    store_rows_wait(&s->store, rc);
    if (rc != 0) {
        discard_token(s);
    }
}

/* --- create a token --- */

static int create_next(struct rows *rows, struct tfe_msg *ret)
{
    struct key_rows *s = (struct key_rows *)rows;
    const int rc = store_rows_end(&s->store, MSG_STATUS_END, ret);
    if (rc == 0 && s->has_token) {
        s->has_token = false;
        *ret = (struct tfe_msg){.type = MSG_TOKEN, .u.token = {.key = s->key, .text = s->text}};
    }
    return rc;
}

int rows_token_create(struct keys *keys, struct writer *writer,
                      const struct msg_token_create *request, struct rows **ret)
{
    static const struct rows_ops ops = {.next = create_next, .free = key_rows_free};
    struct key_rows *s = key_rows_new(&ops, keys, writer, ret);
    const struct msg_token_row *row;
    struct token token;
    if (!s) {
        return TFE_ENOMEM;
    }
    if (request->uses > 0 && request->role != PRINCIPAL_AGENT) {
        store_rows_refuse(&s->store, REFUSAL_BAD_REQUEST,
                          "uses: only agent tokens have a node limit");
        return 0;
    }
    if (request->quota > 0 &&
        (request->role != PRINCIPAL_ADMIN || strcmp(request->scope, PRINCIPAL_EVERY_JOB) == 0)) {
        store_rows_refuse(&s->store, REFUSAL_BAD_REQUEST,
                          "quota: a quota needs an admin token for some jobs (give their pattern)");
        return 0;
    }
    int rc = keyring_make(keys_ring(keys), request, clock_wall(), &token, &row);
    if (rc != 0) {
        store_rows_refuse(
            &s->store, REFUSAL_LIMIT_REACHED,
            rc == TFE_EFULL ? "key store is full: the server holds its maximum number of keys"
            : rc == TFE_ETOOBIG
                ? "too many job patterns have a quota (remove one by setting it to 65536)"
                : "the server is out of memory (try again later)");
        return 0;
    }
    token_format(&token, s->text);
    token_done(&token);
    (void)snprintf(s->key, sizeof(s->key), "%s", row->key);
    s->has_token = true;
    store_row(s, row);
    return 0;
}

/* --- revoke and rotate --- */

static int order_next(struct rows *rows, struct tfe_msg *ret)
{
    return store_rows_end((struct store_rows *)rows, MSG_DONE, ret);
}

static const struct rows_ops order_ops = {.next = order_next, .free = key_rows_free};

int rows_token_revoke(struct keys *keys, struct writer *writer, const char *name, struct rows **ret)
{
    struct key_rows *s = key_rows_new(&order_ops, keys, writer, ret);
    const struct msg_token_row *row;
    if (!s) {
        return TFE_ENOMEM;
    }
    int rc = keyring_revoke(keys_ring(keys), name, clock_wall(), &row);
    if (rc == 0) {
        store_row(s, row);
    } else if (rc == TFE_ENOENT) {
        store_rows_refuse(&s->store, REFUSAL_NO_SUCH_KEY,
                          "there is no key with this id or label on this server");
    } else if (rc == TFE_EEXIST) {
        store_rows_refuse(&s->store, REFUSAL_BAD_REQUEST,
                          "several keys have this label (use the id)");
    } else {
        store_rows_refuse(&s->store, REFUSAL_LIMIT_REACHED,
                          "cannot write to the database (try again later)");
    }
    return 0;
}

int rows_token_rotate(struct keys *keys, struct writer *writer, enum tfe_rotation step,
                      struct rows **ret)
{
    struct key_rows *s = key_rows_new(&order_ops, keys, writer, ret);
    if (!s) {
        return TFE_ENOMEM;
    }
    const int rc = keys_rotate(keys, writer, step, store_rows_on_result, s);
    store_rows_wait(&s->store, rc);
    if (rc == TFE_EEXIST) {
        store_rows_refuse(&s->store, REFUSAL_LIMIT_REACHED, "another rotation is in progress");
    }
    return 0;
}

/* --- list all tokens --- */

static int list_next(struct rows *rows, struct tfe_msg *ret)
{
    struct key_rows *s = (struct key_rows *)rows;
    const struct msg_token_row *row =
        keyring_next(keys_ring(s->keys), s->key[0] != '\0' ? s->key : NULL, clock_wall());
    *ret = (struct tfe_msg){.type = MSG_STATUS_END};
    if (row) {
        (void)snprintf(s->key, sizeof(s->key), "%s", row->key);
        *ret = (struct tfe_msg){.type = MSG_TOKEN_ROW, .u.token_row = *row};
    }
    return 0;
}

int rows_tokens(struct keys *keys, struct rows **ret)
{
    static const struct rows_ops ops = {.next = list_next, .free = key_rows_free};
    return key_rows_new(&ops, keys, NULL, ret) ? 0 : TFE_ENOMEM;
}

/* --- list the deny list ----------------------------------------------------------------------- */

struct ban_rows {
    struct rows rows;
    const struct deny_list *bans;
    const struct principal *by;
    uint32_t next;
};

static int bans_next(struct rows *rows, struct tfe_msg *ret)
{
    struct ban_rows *s = (struct ban_rows *)rows;
    const struct msg_ban_row *row;
    while ((row = deny_list_at(s->bans, s->next++)) != NULL) {
        if (row->until.ms > clock_wall().ms && !principal_fault(s->by, MSG_BANS, row->job)) {
            *ret = (struct tfe_msg){.type = MSG_BAN_ROW, .u.ban_row = *row};
            return 0;
        }
    }
    *ret = (struct tfe_msg){.type = MSG_STATUS_END};
    return 0;
}

int rows_bans(const struct deny_list *bans, const struct principal *by, struct rows **ret)
{
    static const struct rows_ops ops = {.next = bans_next};
    struct ban_rows *s = rows_new(&ops, sizeof(*s), ret);
    if (!s) {
        return TFE_ENOMEM;
    }
    s->bans = bans;
    s->by = by;
    return 0;
}
