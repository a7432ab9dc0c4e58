/* server/query/query_keys.c: lists tokens and carries out orders about them. Each order is
 * acknowledged once it is durable. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/cli/log.h"
#include "server/auth/keys.h"
#include "server/query/record_source.h"

struct key_rows {
    struct rows rows;
    struct keys *keys;
    struct writer *writer;
    struct writer_request *ask; /* pending write; NULL if there is none */
    bool waits;                 /* true while the peer waits for the response */
    bool has_token;             /* true if the new token has not been sent yet */
    char key[MSG_KEY_HEX + 1];  /* id of the new token, or of the last one listed; "" if none */
    char text[MSG_TOKEN_MAX];
    enum tfe_refusal refusal; /* 0 if the order succeeded */
    char sentence[sizeof(struct tfe_reason)];
};

static void key_rows_free(struct rows *rows)
{
    struct key_rows *s = (struct key_rows *)rows;
    if (s->ask) {
        writer_cancel(s->writer, s->ask);
    }
    keys_forget_rotation(s->keys, s);
    sodium_memzero(s, sizeof(*s));
    free(s);
}

static struct key_rows *key_rows_new(const struct rows_ops *ops, struct keys *keys,
                                     struct writer *writer)
{
    struct key_rows *s = calloc(1, sizeof(*s));
    if (s) {
        s->rows.ops = ops;
        s->keys = keys;
        s->writer = writer;
    }
    return s;
}

static void fail(struct key_rows *s, enum tfe_refusal refusal, const char *sentence)
{
    s->refusal = refusal;
    (void)snprintf(s->sentence, sizeof(s->sentence), "%s", sentence);
}

/* Removes the new token again: it was not sent to the operator and never will be. */
static void unmake(struct key_rows *s)
{
    if (s->has_token) {
        s->has_token = false;
        keyring_discard(keys_ring(s->keys), s->key);
    }
}

static void on_answer(void *ctx, int rc, struct record_list *page, const char *reason)
{
    struct key_rows *s = ctx;
    (void)page;
    s->ask = NULL;
    s->waits = false;
    if (rc != 0) {
        fail(s, rc == TFE_EINVAL ? REFUSAL_BAD_REQUEST : REFUSAL_STORE, reason);
        unmake(s);
    }
    s->rows.wake(s->rows.wake_ctx);
}

/* Writes the row. The response is sent after it is durable. */
static void keep(struct key_rows *s, const struct msg_token_row *row)
{
    const struct tfe_msg msg = {.type = MSG_TOKEN_ROW, .u.token_row = *row};
    s->waits = writer_put(s->writer, &msg, on_answer, s, &s->ask) == 0;
    if (!s->waits) {
        fail(s, REFUSAL_LIMIT_REACHED, "the server is out of memory; try again later");
        unmake(s);
    }
}

/* Returns TFE_EMORE while the write is pending. Otherwise 0: *ret is a refusal (*ret_refused is
 * true), or left to the caller. */
static int outcome(const struct key_rows *s, struct tfe_msg *ret, bool *ret_refused)
{
    *ret_refused = s->refusal != 0;
    if (s->waits) {
        return TFE_EMORE;
    }
    if (s->refusal != 0) {
        *ret = (struct tfe_msg){.type = MSG_REFUSED, .u.refused = {s->refusal, s->sentence}};
    }
    return 0;
}

/* --- create a token --- */

static int create_next(struct rows *rows, struct tfe_msg *ret)
{
    struct key_rows *s = (struct key_rows *)rows;
    bool refused;
    int rc = outcome(s, ret, &refused);
    if (rc != 0 || refused) {
        return rc;
    }
    if (s->has_token) {
        s->has_token = false;
        *ret = (struct tfe_msg){.type = MSG_TOKEN, .u.token = {.key = s->key, .text = s->text}};
    } else {
        *ret = (struct tfe_msg){.type = MSG_STATUS_END};
    }
    return 0;
}

int rows_token_create(struct keys *keys, struct writer *writer, const struct msg_token_create *wish,
                      struct rows **ret)
{
    static const struct rows_ops ops = {.next = create_next, .free = key_rows_free};
    struct key_rows *s = key_rows_new(&ops, keys, writer);
    const struct msg_token_row *row;
    struct token token;
    if (!s) {
        return TFE_ENOMEM;
    }
    *ret = &s->rows;
    if (wish->uses > 0 && wish->role != PRINCIPAL_AGENT) {
        fail(s, REFUSAL_BAD_REQUEST, "only an agent's token can be for so many uses");
        return 0;
    }
    if (wish->quota > 0 &&
        (wish->role != PRINCIPAL_ADMIN || strcmp(wish->scope, PRINCIPAL_EVERY_JOB) == 0)) {
        fail(s, REFUSAL_BAD_REQUEST,
             "a quota takes an admin's token for some jobs: name their pattern");
        return 0;
    }
    int rc = keyring_make(keys_ring(keys), wish, clock_wall(), &token, &row);
    if (rc != 0) {
        fail(s, REFUSAL_LIMIT_REACHED,
             rc == TFE_EFULL     ? "the server knows as many keys as it takes"
             : rc == TFE_ETOOBIG ? "jobs of as many patterns as there may be have a quota: let one "
                                   "have any number, by --quota 65536"
                                 : "the server is out of memory; try again later");
        return 0;
    }
    token_format(&token, s->text);
    token_done(&token);
    (void)snprintf(s->key, sizeof(s->key), "%s", row->key);
    s->has_token = true;
    keep(s, row);
    return 0;
}

/* --- revoke and rotate --- */

static int order_next(struct rows *rows, struct tfe_msg *ret)
{
    bool refused;
    int rc = outcome((struct key_rows *)rows, ret, &refused);
    if (rc == 0 && !refused) {
        *ret = (struct tfe_msg){.type = MSG_DONE};
    }
    return rc;
}

static const struct rows_ops order_ops = {.next = order_next, .free = key_rows_free};

int rows_token_revoke(struct keys *keys, struct writer *writer, const char *name, struct rows **ret)
{
    struct key_rows *s = key_rows_new(&order_ops, keys, writer);
    const struct msg_token_row *row;
    if (!s) {
        return TFE_ENOMEM;
    }
    *ret = &s->rows;
    int rc = keyring_revoke(keys_ring(keys), name, clock_wall(), &row);
    if (rc == 0) {
        keep(s, row);
    } else if (rc == TFE_ENOENT) {
        fail(s, REFUSAL_NO_SUCH_KEY, "there is no key of that id or label on this server");
    } else if (rc == TFE_EEXIST) {
        fail(s, REFUSAL_BAD_REQUEST, "several keys have that label, name one by its id");
    } else {
        fail(s, REFUSAL_LIMIT_REACHED, "the server cannot remember it; try again later");
    }
    return 0;
}

int rows_token_rotate(struct keys *keys, struct writer *writer, enum tfe_rotation step,
                      struct rows **ret)
{
    struct key_rows *s = key_rows_new(&order_ops, keys, writer);
    if (!s) {
        return TFE_ENOMEM;
    }
    *ret = &s->rows;
    int rc = keys_rotate(keys, writer, step, on_answer, s);
    s->waits = rc == 0;
    if (rc != 0) {
        fail(s, REFUSAL_LIMIT_REACHED,
             rc == TFE_EEXIST ? "another rotation is under way"
                              : "the server is out of memory; try again later");
    }
    return 0;
}

/* --- list all tokens --- */

static int list_next(struct rows *rows, struct tfe_msg *ret)
{
    struct key_rows *s = (struct key_rows *)rows;
    const struct msg_token_row *row =
        keyring_next(keys_ring(s->keys), s->key[0] != '\0' ? s->key : NULL, clock_wall());
    if (row) {
        (void)snprintf(s->key, sizeof(s->key), "%s", row->key);
        *ret = (struct tfe_msg){.type = MSG_TOKEN_ROW, .u.token_row = *row};
    } else {
        *ret = (struct tfe_msg){.type = MSG_STATUS_END};
    }
    return 0;
}

int rows_tokens(struct keys *keys, struct rows **ret)
{
    static const struct rows_ops ops = {.next = list_next, .free = key_rows_free};
    struct key_rows *s = key_rows_new(&ops, keys, NULL);
    if (!s) {
        return TFE_ENOMEM;
    }
    *ret = &s->rows;
    return 0;
}
