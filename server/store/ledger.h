/* server/store/ledger.h: rows of the ledger: how a later one adds to what is kept, and pages of
 * them. Pure but for memory. */
#ifndef TFE_SERVER_STORE_LEDGER_H
#define TFE_SERVER_STORE_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/msg.h"

/* Fills what row does not know from what is kept of the same epoch: a server that was started anew
 * knows less of a running epoch than the one before it. blamed is borrowed from kept. */
void ledger_merge(struct msg_epoch_row *row, const struct msg_epoch_row *kept);

/* Some rows of one job, in the order of their epochs; the texts are the page's own. */
struct ledger_page {
    struct msg_epoch_row *rows;
    size_t n;
    size_t cap;
};

/* Copies the row. TFE_ENOMEM. A store_row_fn; ctx is a struct ledger_page. */
int ledger_page_add(void *ctx, const struct msg_epoch_row *row) TFE_MUST_CHECK;

/* Empties it; it can be used again. */
void ledger_page_done(struct ledger_page *page);

#endif
