/* agent/core/table.c: the cluster tables as they come in, chunk by chunk, whole or as changes. One for odd and
 * one for even epochs: ports are used in turn, so a table resembles the last but one. */
#include "common/base/table.h"

#include <string.h>

#include "agent/core/core.h"

static int reserve(struct agent *a, struct table *t, size_t rows, size_t hosts_n)
{
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

static size_t hosts_size(const struct msg_table *chunk)
{
    size_t n = 0;
    for (size_t i = 0; i < chunk->n_rows; i++) {
        n += strlen(chunk->rows[i].host) + 1;
    }
    return n;
}

/* Behind what is there already; what a row pointed to before is wasted. */
static void set_row(struct table *t, const struct msg_row *row)
{
    size_t n = strlen(row->host) + 1;
    memcpy(t->hosts + t->n_hosts, row->host, n);
    t->host_at[row->rank] = t->n_hosts;
    t->rows[row->rank] = (struct msg_row){.rank = row->rank, .host = NULL, .port = row->port};
    t->n_hosts += n;
}

static int take_whole(struct agent *a, struct table *t, const struct msg_table *chunk)
{
    /* A chunk with rank 0 begins a table, whatever was there before. */
    bool begins = chunk->n_rows > 0 && chunk->rows[0].rank == 0;
    if (!begins && (chunk->epoch != t->epoch || chunk->world != t->world || t->base != 0)) {
        return TFE_EINVAL;
    }
    size_t first = begins ? 0 : t->n;
    if (first + chunk->n_rows > chunk->world) {
        return TFE_EINVAL;
    }
    for (size_t i = 0; i < chunk->n_rows; i++) {
        if (chunk->rows[i].rank != first + i) {
            return TFE_EINVAL;
        }
    }
    if (reserve(a, t, first + chunk->n_rows, (begins ? 0 : t->n_hosts) + hosts_size(chunk))) {
        return TFE_ENOMEM;
    }
    if (begins) {
        t->epoch = chunk->epoch;
        t->world = chunk->world;
        t->base = 0;
        t->n_hosts = 0;
    }
    t->digest = 0;
    for (size_t i = 0; i < chunk->n_rows; i++) {
        set_row(t, &chunk->rows[i]);
    }
    t->n = first + chunk->n_rows;
    return 0;
}

/* Changes of the table that is here. Rows that the old one had not, and that no chunk brings, make a digest
 * that its START does not name; the whole table comes then. */
static int take_changes(struct agent *a, struct table *t, const struct msg_table *chunk)
{
    bool goes_on = chunk->epoch == t->epoch && chunk->base_digest == t->base;
    if (!goes_on && (t->digest == 0 || t->digest != chunk->base_digest)) {
        return TFE_EINVAL;
    }
    for (size_t i = 0; i < chunk->n_rows; i++) {
        if (chunk->rows[i].rank >= chunk->world ||
            (i > 0 && chunk->rows[i].rank <= chunk->rows[i - 1].rank)) {
            return TFE_EINVAL;
        }
    }
    if (reserve(a, t, chunk->world, t->n_hosts + hosts_size(chunk))) {
        return TFE_ENOMEM;
    }
    for (size_t rank = t->n; rank < chunk->world; rank++) {
        t->rows[rank] = (struct msg_row){.rank = (uint32_t)rank};
        t->host_at[rank] = 0;
    }
    t->epoch = chunk->epoch;
    t->world = chunk->world;
    t->n = chunk->world;
    t->base = chunk->base_digest;
    t->digest = 0;
    for (size_t i = 0; i < chunk->n_rows; i++) {
        set_row(t, &chunk->rows[i]);
    }
    return 0;
}

int table_take(struct agent *a, const struct msg_table *chunk)
{
    struct table *t = &a->tables[chunk->epoch & 1];
    if (chunk->world > MSG_NODES_MAX * MSG_NPROC_MAX) {
        return TFE_EINVAL;
    }
    return chunk->base_digest == 0 ? take_whole(a, t, chunk) : take_changes(a, t, chunk);
}

bool table_is(struct agent *a, uint64_t epoch, uint64_t digest)
{
    struct table *t = &a->tables[epoch & 1];
    if (t->epoch != epoch || t->n != t->world || t->n == 0) {
        t->digest = 0;
        return false;
    }
    for (size_t i = 0; i < t->n; i++) {
        t->rows[i].host = t->hosts + t->host_at[i]; /* hosts no longer moves */
    }
    t->digest = table_digest(t->rows, t->n) == digest ? digest : 0;
    return t->digest != 0;
}

uint64_t table_held(const struct agent *a, uint64_t epoch)
{
    const struct table *t = &a->tables[epoch & 1];
    /* What changes leave behind is not collected: once it is as much as a table with names of some
     * length, the next one comes whole. */
    return t->n_hosts > (size_t)64 * t->n + 1024 ? 0 : t->digest;
}

void table_done(struct agent *a)
{
    for (size_t i = 0; i < 2; i++) {
        mem_free(a->mem, a->tables[i].rows);
        mem_free(a->mem, a->tables[i].host_at);
        mem_free(a->mem, a->tables[i].hosts);
    }
}
