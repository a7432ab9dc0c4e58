/* server/ctl/epochs_rows.c: what the rows of a ledger mean: how long training stood still, and why.
 */
#include <stdlib.h>
#include <string.h>

#include "common/net/heap.h"
#include "server/ctl/epochs.h"

int epochs_add(struct epochs *e, const struct msg_epoch_row *row)
{
    if (mem_reserve(&heap_mem, (void **)&e->rows, &e->cap, e->n + 1, sizeof(*e->rows)) != 0) {
        return TFE_ENOMEM;
    }
    struct epochs_row copy = {
        .row = *row, .began = -1, .ended = -1, .standstill = -1, .running = -1};
    copy.row.blamed = strdup(row->blamed);
    if (copy.row.blamed == NULL) {
        return TFE_ENOMEM;
    }
    e->rows[e->n++] = copy;
    return 0;
}

void epochs_done(struct epochs *e)
{
    for (size_t i = 0; i < e->n; i++) {
        char *own;
        memcpy(&own, &e->rows[i].row.blamed, sizeof(own)); /* const for readers */
        free(own);
    }
    free(e->rows);
    *e = (struct epochs){.rows = NULL};
}

/* The first of these times that is known, or -1. */
static int64_t first_known(const struct msg_epoch_row *row, const enum tfe_epoch_time *which,
                           size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (row->at[which[i]].ms != 0) {
            return row->at[which[i]].ms;
        }
    }
    return -1;
}

void epochs_work_out(struct epochs *e, struct tfe_wall now)
{
    static const enum tfe_epoch_time began[] = {EPOCH_PROGRESSED, EPOCH_LISTENING, EPOCH_STARTED,
                                                EPOCH_COMMITTED};
    static const enum tfe_epoch_time due[] = {EPOCH_STOPPED, EPOCH_DETECTED, EPOCH_GATHERED,
                                              EPOCH_COMMITTED};
    for (size_t i = 0; i < e->n; i++) {
        struct epochs_row *r = &e->rows[i];
        bool is_last = i + 1 == e->n;
        const struct msg_epoch_row *next = is_last ? NULL : &e->rows[i + 1].row;
        r->began = first_known(&r->row, began, sizeof(began) / sizeof(began[0]));
        r->ended = r->row.at[EPOCH_ENDED].ms != 0 ? r->row.at[EPOCH_ENDED].ms : -1;
        if (r->ended < 0 && next != NULL) {
            r->ended = first_known(next, due, sizeof(due) / sizeof(due[0]));
        }
        int64_t until = r->ended >= 0 ? r->ended : is_last && !r->row.over ? now.ms : -1;
        if (r->began >= 0 && until >= r->began) {
            r->running = until - r->began;
        }
        const struct epochs_row *before = i > 0 ? r - 1 : NULL;
        if (before == NULL || before->row.run != r->row.run) {
            r->standstill = 0;
        } else if (before->ended >= 0 && r->began >= before->ended) {
            r->standstill = r->began - before->ended;
        }
    }
}

void epochs_sum(const struct epochs *e, struct epochs_total *ret)
{
    *ret = (struct epochs_total){.useful = -1};
    for (size_t i = 0; i < e->n; i++) {
        const struct epochs_row *r = &e->rows[i];
        ret->running += r->running > 0 ? r->running : 0;
        if (r->standstill > 0) {
            ret->standstill_all += r->standstill;
            ret->standstill[(unsigned)r->row.cause % EPOCHS_CAUSES] += r->standstill;
        }
        if (r->row.has_lost) {
            ret->has_lost = true;
            ret->lost_steps += r->row.lost_steps;
        }
    }
    int64_t all = ret->running + ret->standstill_all;
    if (all > 0) {
        ret->useful = 100.0 * (double)ret->running / (double)all;
    }
}
