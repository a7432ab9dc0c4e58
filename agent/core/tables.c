/* agent/core/tables.c: implementation of tables.h. */
#include "agent/core/tables.h"

#include <string.h>

#include "common/message/cluster_table.h"

static int reserve(const struct tables *ts, struct table *t, size_t rows, size_t hosts_n)
{
    void *v[] = {t->rows, t->host_at, t->hosts};
    int rc = mem_reserve(ts->mem, &v[0], &t->cap_rows, rows, sizeof(*t->rows));
    if (rc == 0) {
        rc = mem_reserve(ts->mem, &v[1], &t->cap_host_at, rows, sizeof(*t->host_at));
    }
    if (rc == 0) {
        rc = mem_reserve(ts->mem, &v[2], &t->cap_hosts, hosts_n, 1);
    }
    t->rows = v[0];
    t->host_at = v[1];
    t->hosts = v[2];
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

/* Appends the host to `hosts`; the space of the row's previous host is not reused. */
static void set_row(struct table *t, const struct msg_row *row)
{
    size_t n = strlen(row->host) + 1;
    memcpy(t->hosts + t->n_hosts, row->host, n);
    t->host_at[row->rank] = t->n_hosts;
    t->rows[row->rank] = *row;
    t->rows[row->rank].host = NULL;
    t->n_hosts += n;
}

static void set_rows(struct table *t, const struct msg_table *chunk)
{
    for (size_t i = 0; i < chunk->n_rows; i++) {
        set_row(t, &chunk->rows[i]);
    }
}

static int add_whole(struct tables *ts, const struct msg_table *chunk)
{
    struct table *t = &ts->next;
    /* A chunk with rank 0 starts a new table and discards an incomplete one. */
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
    if (reserve(ts, t, first + chunk->n_rows, (begins ? 0 : t->n_hosts) + hosts_size(chunk))) {
        return TFE_ENOMEM;
    }
    if (begins) {
        t->epoch = chunk->epoch;
        t->world = chunk->world;
        t->base = 0;
        t->n_hosts = 0;
    }
    set_rows(t, chunk);
    t->n = first + chunk->n_rows;
    return 0;
}

/* Copies the base table before changes are applied. If rows are missing afterwards, the digest does
 * not match START and the server sends the whole table. */
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
            row = held->rows[rank];
            row.port = table_port(row.port, chunk->turned);
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

static int add_changes(struct tables *ts, const struct msg_table *chunk)
{
    struct table *t = &ts->next;
    bool continues =
        chunk->epoch == t->epoch && chunk->world == t->world && chunk->base_digest == t->base;
    bool is_repeated =
        chunk->epoch == ts->held.epoch; /* the changes were repeated after a reconnect */
    if ((!continues && !is_repeated && ts->held.digest != chunk->base_digest) ||
        !is_in_order(chunk)) {
        return TFE_EINVAL;
    }
    if (is_repeated) {
        return 0;
    }
    /* A row missing in the base table has an empty host, which takes one byte. */
    size_t before = continues ? t->n_hosts : ts->held.n_hosts + chunk->world;
    if (reserve(ts, t, chunk->world, before + hosts_size(chunk))) {
        return TFE_ENOMEM;
    }
    if (!continues) {
        begin_changes(t, &ts->held, chunk);
    }
    set_rows(t, chunk);
    return 0;
}

int tables_add(struct tables *ts, const struct msg_table *chunk)
{
    if (chunk->world > MSG_NODES_MAX * MSG_NPROC_MAX) {
        return TFE_EINVAL;
    }
    return chunk->base_digest == 0 ? add_whole(ts, chunk) : add_changes(ts, chunk);
}

const struct table *tables_activate(struct tables *ts, uint64_t epoch, uint64_t digest)
{
    struct table *t = &ts->next;
    bool whole = t->epoch == epoch && t->n == t->world && t->n > 0;
    for (size_t i = 0; whole && i < t->n; i++) {
        t->rows[i].host = t->hosts + t->host_at[i]; /* safe now: the hosts buffer no longer grows */
    }
    if (!whole || table_digest(t->rows, t->n) != digest) {
        t->epoch = 0;
        ts->held.digest = 0; /* another set of changes to this table would fail in the same way */
        return NULL;
    }
    struct table old = ts->held;
    ts->held = *t;
    ts->held.digest = digest;
    ts->next = old;
    ts->next.epoch = 0;
    return &ts->held;
}

const struct table *tables_held(const struct tables *ts)
{
    return &ts->held;
}

uint64_t tables_digest(const struct tables *ts)
{
    return ts->held.digest;
}

static void done(const struct tables *ts, struct table *t)
{
    mem_free(ts->mem, t->rows);
    mem_free(ts->mem, t->host_at);
    mem_free(ts->mem, t->hosts);
}

void tables_init(struct tables *ts, const struct tfe_mem *mem)
{
    *ts = (struct tables){.mem = mem};
}

void tables_done(struct tables *ts)
{
    done(ts, &ts->held);
    done(ts, &ts->next);
}
