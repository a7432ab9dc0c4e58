/* server/query/store_rows.c: the base of the record sources that wait for the store. */
#include "server/query/store_rows.h"

#include <stdio.h>
#include <stdlib.h>

void *store_rows_new(const struct rows_ops *ops, size_t size, struct writer *writer,
                     struct rows **ret)
{
    struct store_rows *s = rows_new(ops, size, ret);
    if (s) {
        s->writer = writer;
    }
    return s;
}

void store_rows_free(struct rows *rows)
{
    struct store_rows *s = (struct store_rows *)rows;
    if (s->request) {
        writer_cancel(s->writer, s->request);
    }
    record_list_done(&s->page);
    free(s);
}

void store_rows_refuse(struct store_rows *s, enum tfe_refusal refusal, const char *sentence)
{
    s->refusal = refusal;
    (void)snprintf(s->sentence, sizeof(s->sentence), "%s", sentence);
}

void store_rows_on_result(void *ctx, int rc, struct record_list *page, const char *reason)
{
    struct store_rows *s = ctx;
    s->request = NULL;
    s->waits = false;
    if (rc != 0) {
        const bool is_bad = rc == TFE_EINVAL || rc == TFE_EEXIST;
        store_rows_refuse(s, is_bad ? REFUSAL_BAD_REQUEST : REFUSAL_STORE, reason);
    } else if (page) {
        record_list_done(&s->page);
        s->page = *page;
        *page = (struct record_list){.v = NULL};
        s->n_sent = 0;
        s->is_last = s->page.n == 0; /* invalid rows make a page smaller than requested */
    }
    s->rows.wake(s->rows.wake_ctx);
}

void store_rows_wait(struct store_rows *s, int rc)
{
    s->waits = rc == 0;
    if (rc != 0) {
        store_rows_refuse(s, REFUSAL_LIMIT_REACHED,
                          "the server is out of memory (try again later)");
    }
}

const void *store_rows_next(struct store_rows *s)
{
    return s->n_sent < s->page.n ? s->page.v[s->n_sent++].at : NULL;
}

int store_rows_end(const struct store_rows *s, enum tfe_msg_type type, struct tfe_msg *ret)
{
    if (s->waits) {
        return TFE_EMORE;
    }
    *ret = (struct tfe_msg){.type = type};
    if (s->refusal != 0) {
        *ret = (struct tfe_msg){.type = MSG_REFUSED, .u.refused = {s->refusal, s->sentence}};
    }
    return 0;
}
