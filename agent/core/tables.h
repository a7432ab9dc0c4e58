/* agent/core/tables.h: the cluster tables as they come in, chunk by chunk, whole or as changes of
 * the one that the last START named. That one stays until the next START names another: a switch
 * may be given up half way. */
#ifndef TFE_AGENT_CORE_TABLES_H
#define TFE_AGENT_CORE_TABLES_H

#include "common/base/error.h"
#include "common/base/mem.h"
#include "common/message/msg.h"

struct table {
    uint64_t epoch;  /* 0: no chunk of it is here */
    uint64_t digest; /* once it has proven to be what a START named; 0: nothing may be told as
                        changes of it */
    uint64_t base;   /* the rows that came changed the table of this digest; 0: it came whole */
    uint32_t world;
    size_t n;             /* rows filled: they come in order */
    struct msg_row *rows; /* host NULL until complete, then into hosts */
    size_t cap_rows;
    size_t *host_at;
    size_t cap_host_at;
    char *hosts;
    size_t n_hosts;
    size_t cap_hosts;
};

struct tables {
    const struct tfe_mem *mem;
    struct table held;   /* of the last epoch that began here */
    struct table coming; /* of the next one */
};

void tables_init(struct tables *ts, const struct tfe_mem *mem);
void tables_drop(struct tables *ts);

/* TFE_ENOMEM, TFE_EINVAL (rows not in order, changes of a table that is not here): nothing changed.
 */
int tables_take(struct tables *ts, const struct msg_table *chunk) TFE_MUST_CHECK;

/* The table of the epoch if it is here whole and has this digest: its rows are usable until the
 * next one is. NULL: it has to come whole. */
const struct table *tables_begin(struct tables *ts, uint64_t epoch, uint64_t digest);

/* The last one that was. */
const struct table *tables_held(const struct tables *ts);
/* Of the table that READY names; 0: none. */
uint64_t tables_digest(const struct tables *ts);

#endif
