/* agent/core/table.c: the cluster tables as they come in, chunk by chunk, whole or as changes of
 * the one that the last START named. That one stays until the next START names another: a switch
 * may be given up half way. */
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
    for (size_t i = 0; i < chunk->n_rows; i++) {
        set_row(t, &chunk->rows[i]);
    }
    t->n = first + chunk->n_rows;
    return 0;
}

/* The table that the changes are made to. Rows that the old one had not, and that no chunk brings,
 * make a digest that its START does not name; the whole table comes then. */
static void begin_changes(struct table *t, const struct table *held, const struct msg_table *chunk)
{
    t->epoch = chunk->epoch;
    t->world = chunk->world;
    t->n = chunk->world;
    t->base = chunk->base_digest;
    t->n_hosts = 0;
    for (uint32_t rank = 0; rank < chunk->world; rank++) {
        struct msg_row row = {.rank = rank, .host = ""};
        if (rank < held->n) {
            row.host = held->rows[rank].host;
            row.port = table_port(held->rows[rank].port, chunk->turned);
        }
        set_row(t, &row);
    }
}

static bool is_in_order(const struct msg_table *chunk)
{
    for (size_t i = 0; i < chunk->n_rows; i++) {
        if (chunk->rows[i].rank >= chunk->world ||
            (i > 0 && chunk->rows[i].rank <= chunk->rows[i - 1].rank)) {
            return false;
        }
    }
    return true;
}

static int take_changes(struct agent *a, struct table *t, const struct msg_table *chunk)
{
    bool goes_on =
        chunk->epoch == t->epoch && chunk->world == t->world && chunk->base_digest == t->base;
    bool is_here = chunk->epoch == a->table.epoch; /* told twice, over a reconnect */
    if ((!goes_on && !is_here && a->table.digest != chunk->base_digest) || !is_in_order(chunk)) {
        return TFE_EINVAL;
    }
    if (is_here) {
        return 0;
    }
    /* A row that the old one had not takes a byte. */
    size_t before = goes_on ? t->n_hosts : a->table.n_hosts + chunk->world;
    if (reserve(a, t, chunk->world, before + hosts_size(chunk))) {
        return TFE_ENOMEM;
    }
    if (!goes_on) {
        begin_changes(t, &a->table, chunk);
    }
    for (size_t i = 0; i < chunk->n_rows; i++) {
        set_row(t, &chunk->rows[i]);
    }
    return 0;
}

int table_take(struct agent *a, const struct msg_table *chunk)
{
    if (chunk->world > MSG_NODES_MAX * MSG_NPROC_MAX) {
        return TFE_EINVAL;
    }
    return chunk->base_digest == 0 ? take_whole(a, &a->coming, chunk)
                                   : take_changes(a, &a->coming, chunk);
}

bool table_begin(struct agent *a, uint64_t epoch, uint64_t digest)
{
    struct table *t = &a->coming;
    bool whole = t->epoch == epoch && t->n == t->world && t->n > 0;
    for (size_t i = 0; whole && i < t->n; i++) {
        t->rows[i].host = t->hosts + t->host_at[i]; /* hosts no longer moves */
    }
    if (!whole || table_digest(t->rows, t->n) != digest) {
        t->epoch = 0;
        a->table.digest = 0; /* changes of it would come to the same again */
        return false;
    }
    struct table old = a->table;
    a->table = *t;
    a->table.digest = digest;
    a->coming = old;
    a->coming.epoch = 0;
    return true;
}

static void done(struct agent *a, struct table *t)
{
    mem_free(a->mem, t->rows);
    mem_free(a->mem, t->host_at);
    mem_free(a->mem, t->hosts);
}

void table_done(struct agent *a)
{
    done(a, &a->table);
    done(a, &a->coming);
}
