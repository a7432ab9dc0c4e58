/* agent/core/tables.h: receives cluster tables in chunks, either whole or as changes to the table
 * of the last START. The base table is retained until the next START, because a switch may be
 * cancelled half way. */
#ifndef TFE_AGENT_CORE_TABLES_H
#define TFE_AGENT_CORE_TABLES_H

#include "common/base/error.h"
#include "common/base/mem.h"
#include "common/message/msg.h"

struct table {
    uint64_t epoch; /* 0 if no chunk has arrived */
    /* digest, once verified against START; 0 if the table cannot be a base for changes */
    uint64_t digest;
    uint64_t base; /* digest of the table that was changed, or 0 if this table came whole */
    uint32_t world;
    size_t n; /* rows received; they arrive in rank order */
    /* each host is NULL until the table is complete, then points into hosts */
    struct msg_row *rows;
    size_t cap_rows;
    size_t *host_at;
    size_t cap_host_at;
    char *hosts;
    size_t n_hosts;
    size_t cap_hosts;
};

struct tables {
    const struct tfe_mem *mem;
    struct table held; /* table of the last epoch that began on this node */
    struct table next; /* table of the next epoch, possibly incomplete */
};

void tables_init(struct tables *ts, const struct tfe_mem *mem);
void tables_done(struct tables *ts);

/* Adds a chunk. Returns TFE_ENOMEM, or TFE_EINVAL if rows are out of order or the base table is
 * missing; then nothing has changed. */
int tables_add(struct tables *ts, const struct msg_table *chunk) TFE_MUST_CHECK;

/* Returns the table of the epoch if it is complete and matches the digest; its rows stay valid
 * until the next successful call. Returns NULL if the server must send the whole table. */
const struct table *tables_activate(struct tables *ts, uint64_t epoch, uint64_t digest);

/* Returns the table of the last epoch that began. */
const struct table *tables_held(const struct tables *ts);
/* Returns the digest that READY reports, or 0 if there is no base table. */
uint64_t tables_digest(const struct tables *ts);

#endif
