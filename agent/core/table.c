/* agent/core/table.c: the cluster table as it comes in, chunk by chunk. */
#include "common/base/table.h"

#include <string.h>

#include "agent/core/core.h"

static int reserve(struct agent *a, const struct msg_table *chunk, size_t first, size_t hosts_n)
{
    struct table *t = &a->table;
    size_t rows = first + chunk->n_rows;
    void *v = t->rows;
    int rc = mem_reserve(a->mem, &v, &t->cap_rows, rows, sizeof(*t->rows));
    t->rows = v;
    if (rc) {
        return rc;
    }
    v = t->host_at;
    rc = mem_reserve(a->mem, &v, &t->cap_host_at, rows, sizeof(*t->host_at));
    t->host_at = v;
    if (rc) {
        return rc;
    }
    v = t->hosts;
    rc = mem_reserve(a->mem, &v, &t->cap_hosts, hosts_n, 1);
    t->hosts = v;
    return rc;
}

int table_take(struct agent *a, const struct msg_table *chunk)
{
    struct table *t = &a->table;
    /* A chunk with rank 0 begins a table, whatever was there before. */
    bool begins = chunk->n_rows > 0 && chunk->rows[0].rank == 0;
    if (chunk->base_digest != 0 || chunk->world > MSG_NODES_MAX * MSG_NPROC_MAX ||
        (!begins && (chunk->epoch != t->epoch || chunk->world != t->world))) {
        return TFE_EINVAL;
    }
    size_t first = begins ? 0 : t->n;
    size_t hosts_n = begins ? 0 : t->n_hosts;
    if (first + chunk->n_rows > chunk->world) {
        return TFE_EINVAL;
    }
    for (size_t i = 0; i < chunk->n_rows; i++) {
        if (chunk->rows[i].rank != first + i) {
            return TFE_EINVAL;
        }
        hosts_n += strlen(chunk->rows[i].host) + 1;
    }
    if (reserve(a, chunk, first, hosts_n)) {
        return TFE_ENOMEM;
    }
    if (begins) {
        t->epoch = chunk->epoch;
        t->world = chunk->world;
        t->n_hosts = 0;
    }
    for (size_t i = 0; i < chunk->n_rows; i++) {
        size_t n = strlen(chunk->rows[i].host) + 1;
        memcpy(t->hosts + t->n_hosts, chunk->rows[i].host, n);
        t->host_at[first + i] = t->n_hosts;
        t->rows[first + i] = (struct msg_row){
            .rank = chunk->rows[i].rank, .host = NULL, .port = chunk->rows[i].port};
        t->n_hosts += n;
    }
    t->n = first + chunk->n_rows;
    return 0;
}

bool table_is(struct agent *a, uint64_t epoch, uint64_t digest)
{
    struct table *t = &a->table;
    if (t->epoch != epoch || t->n != t->world || t->n == 0) {
        return false;
    }
    for (size_t i = 0; i < t->n; i++) {
        t->rows[i].host = t->hosts + t->host_at[i]; /* hosts no longer moves */
    }
    return table_digest(t->rows, t->n) == digest;
}

void table_done(struct agent *a)
{
    mem_free(a->mem, a->table.rows);
    mem_free(a->mem, a->table.host_at);
    mem_free(a->mem, a->table.hosts);
}
