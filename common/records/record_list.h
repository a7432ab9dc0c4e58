/* common/records/record_list.h: a list of copied records, which collects a whole response. */
#ifndef TFE_COMMON_RECORDS_RECORD_LIST_H
#define TFE_COMMON_RECORDS_RECORD_LIST_H

#include "common/records/record.h"

/* A list of records. Zeroed: empty. */
struct row_list {
    struct row {
        const struct row_kind *kind;
        void *at; /* the record, owned by the list; computed fields may be set */
    } * v;
    size_t n;
    size_t cap;
};

/* Appends a copy of a record. Returns 0 or TFE_ENOMEM. */
int row_list_add(struct row_list *list, const struct row_kind *kind,
                 const void *row) TFE_MUST_CHECK;

/* Returns the first record if it has this schema, else NULL. */
const void *row_list_head(const struct row_list *list, const struct row_kind *kind);

/* Frees all records; the list can be reused. */
void row_list_done(struct row_list *list);

#endif
