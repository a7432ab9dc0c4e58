/* server/query/store_rows.h: the base of the record sources that wait for the store: lists that are
 * read page by page, and orders that are acknowledged once they are durable. */
#ifndef TFE_SERVER_QUERY_STORE_ROWS_H
#define TFE_SERVER_QUERY_STORE_ROWS_H

#include "common/text/reason.h"
#include "server/query/record_source.h"
#include "server/store/writer.h"

/* The first member of the source. */
struct store_rows {
    struct rows rows;
    struct writer *writer;
    struct writer_request
        *request; /* pending operation; NULL if none, or if it continues by itself */
    bool waits;   /* true while an operation is pending */
    struct record_list page;
    size_t n_sent;            /* records of the page that have been sent */
    bool is_last;             /* true if the store has no records after the page */
    enum tfe_refusal refusal; /* 0 unless the operation failed */
    char sentence[sizeof(struct tfe_reason)];
};

/* As rows_new(). */
void *store_rows_new(const struct rows_ops *ops, size_t size, struct writer *writer,
                     struct rows **ret);
/* Cancels the pending operation and frees the source. */
void store_rows_free(struct rows *rows);

void store_rows_refuse(struct store_rows *s, enum tfe_refusal refusal, const char *sentence);

/* Implements writer_result_fn for the operation of a source (ctx), and wakes the source. */
void store_rows_on_result(void *ctx, int rc, struct record_list *page, const char *reason);

/* Waits for the operation that was queued. rc: the result of queuing it; unless it is 0, the
 * response is a refusal. */
void store_rows_wait(struct store_rows *s, int rc);

/* Returns the next record of the page, or NULL if there is none. */
const void *store_rows_next(struct store_rows *s);

/* Sets *ret to the end of the response: the refusal, or a message of this type. Returns 0, or
 * TFE_EMORE while an operation is pending. */
int store_rows_end(const struct store_rows *s, enum tfe_msg_type type, struct tfe_msg *ret);

#endif
