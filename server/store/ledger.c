/* server/store/ledger.c: rows of the ledger: how a later one adds to what is kept, and pages of
 * them. */
#include "server/store/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "common/net/heap.h"

void ledger_merge(struct msg_epoch_row *row, const struct msg_epoch_row *kept)
{
    if (row->blamed[0] == '\0') {
        row->blamed = kept->blamed;
    }
    for (int i = 0; i < EPOCH__TIMES; i++) {
        if (row->at[i].ms == 0) {
            row->at[i] = kept->at[i];
        }
    }
    if (!row->has_saved) {
        row->has_saved = kept->has_saved;
        row->saved_step = kept->saved_step;
    }
    if (!row->has_lost) {
        row->has_lost = kept->has_lost;
        row->lost_steps = kept->lost_steps;
    }
    row->planned = row->planned || kept->planned;
    row->over = row->over || kept->over;
}

int ledger_page_add(void *ctx, const struct msg_epoch_row *row)
{
    struct ledger_page *page = ctx;
    if (mem_reserve(&heap_mem, (void **)&page->rows, &page->cap, page->n + 1,
                    sizeof(*page->rows)) != 0) {
        return TFE_ENOMEM;
    }
    struct msg_epoch_row copy = *row;
    copy.blamed = strdup(row->blamed);
    if (copy.blamed == NULL) {
        return TFE_ENOMEM;
    }
    page->rows[page->n++] = copy;
    return 0;
}

void ledger_page_done(struct ledger_page *page)
{
    for (size_t i = 0; i < page->n; i++) {
        char *own;
        memcpy(&own, &page->rows[i].blamed, sizeof(own)); /* const for readers */
        free(own);
    }
    free(page->rows);
    *page = (struct ledger_page){.rows = NULL};
}
