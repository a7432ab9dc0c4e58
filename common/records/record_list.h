/* common/records/record_list.h: keeps rows, until all that belong together are there. */
#ifndef TFE_COMMON_RECORDS_RECORD_LIST_H
#define TFE_COMMON_RECORDS_RECORD_LIST_H

#include "common/records/record.h"

/* Zeroed, it is empty. */
struct row_list {
    struct row {
        const struct row_kind *kind;
        void *at; /* its own; what is not given may be worked out here */
    } * v;
    size_t n;
    size_t cap;
};

/* Adds a copy. TFE_ENOMEM. */
int row_list_add(struct row_list *list, const struct row_kind *kind,
                 const void *row) TFE_MUST_CHECK;

/* The first row, if it is of this kind; else NULL. */
const void *row_list_head(const struct row_list *list, const struct row_kind *kind);

/* Empties it; it can be used again. */
void row_list_done(struct row_list *list);

#endif
