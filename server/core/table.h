/* server/core/table.h: cluster tables: that of the current epoch, and the two before it as bases
 * for sending changes only. */
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

/* A cluster table with the host names of its rows. Has the job's capacity. */
struct table_copy {
    struct msg_row *rows;            /* rows by rank */
    char (*hosts)[TFE_HOST_MAX + 1]; /* host names by slot */
    uint32_t n;                      /* number of rows; 0 if the copy is unused */
    uint64_t digest;
};

/* Differences of the present table from an older one. */
struct table_changes {
    uint64_t base; /* digest of the older table; 0 if there is none or the changes are too many */
    bool turned;   /* the older table with its ports swapped to the other set (see TABLE) */
    struct msg_row *rows; /* changed rows; has the job's capacity */
    uint32_t n;
};

/* Number of older tables. While the present table has not reached all nodes, some hold the one
 * before. */
#define TABLE_BASES 2
/* Tables of a job. Written by table.c. */
struct tables {
    struct table_copy copy[TABLE_BASES + 1];
    size_t present; /* index in copy of the present table; the older ones follow */
    struct table_changes since[TABLE_BASES];
};

/* Returns the present table. */
static inline const struct table_copy *tables_present(const struct tables *t)
{
    return &t->copy[t->present];
}

/* Reserves memory for this many rows and slots in each copy. The present table is sent whole from
 * then on. Returns 0, or TFE_ENOMEM; the tables are unchanged then. */
int tables_reserve(struct rdzv *r, struct job *job, size_t rows, size_t slots) TFE_MUST_CHECK;
void tables_done(struct rdzv *r, struct job *job);
/* Discards the older copies, because the sizes are about to change. */
void tables_forget(struct job *job);
/* Makes the present table from the members' READY and computes the changes. Returns its digest. */
uint64_t tables_make(struct job *job);
/* Sends the rows of the table that the node does not hold, for a START of that epoch. */
void tables_send(struct rdzv *r, const struct job *job, const struct node *node, uint64_t epoch);

#endif
