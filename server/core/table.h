/* server/core/table.h: the cluster table of an epoch, and the two before it that changes are told
 * from. */
#ifndef TFE_SERVER_CORE_TABLE_H
#define TFE_SERVER_CORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* A cluster table and the hosts that its rows point to; room for the job's capacity. */
struct table_copy {
    struct msg_row *rows;            /* by rank */
    char (*hosts)[TFE_HOST_MAX + 1]; /* by seat */
    uint32_t n;                      /* rows; 0: nothing is kept */
    uint64_t digest;
};

/* What of the present table has changed since an older one. */
struct table_changes {
    uint64_t base; /* digest of the older one; 0: there is none, or the changes are too many */
    bool turned;   /* the older one with its ports turned, see TABLE */
    struct msg_row *rows; /* room for the job's capacity */
    uint32_t n;
};

/* Where the present one is not known everywhere yet, some hold the one before. */
#define TABLE_BASES 2
/* Written by table.c. */
struct tables {
    struct table_copy copy[TABLE_BASES + 1];
    size_t present; /* … and the others before it, in turn */
    struct table_changes since[TABLE_BASES];
};

/* The present table. */
static inline const struct table_copy *tables_present(const struct tables *t)
{
    return &t->copy[t->present];
}

/* Room for so many rows and seats in each copy. The present table is told whole from then on.
 * TFE_ENOMEM: the tables are as before. */
int tables_reserve(struct rdzv *r, struct job *job, size_t rows, size_t seats) TFE_MUST_CHECK;
void tables_done(struct rdzv *r, struct job *job);
/* No copy is compared with any more: the sizes are about to change. */
void tables_forget(struct job *job);
/* The rows, from what the members were READY with, and what has changed. Returns their digest. */
uint64_t tables_make(struct job *job);
/* What of it the node does not hold, for a START of that epoch. */
void tables_tell(struct rdzv *r, const struct job *job, const struct node *node, uint64_t epoch);

#endif
