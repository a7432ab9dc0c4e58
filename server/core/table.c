/* server/core/table.c: the cluster tables of a job: of the present epoch, of the one before it, and what
 * changed since the last one of the same parity.
 *
 * Ports are used in turn, odd and even epochs, so a table resembles the last but one: that is the one
 * an agent keeps, and names in its READY. Three copies take turns, because the new one is compared
 * with the one it replaces. */
#include "server/core/table.h"

#include <string.h>

#include "common/base/table.h"
#include "server/core/core.h"

static int grow(struct rdzv *r, void **v, size_t n, size_t size)
{
    size_t cap = 0;
    return mem_reserve(r->mem, v, &cap, n, size);
}

/* Rows point into the copy's own hosts, which may just have moved. */
static void point_to_hosts(struct table_copy *copy, uint32_t nproc)
{
    for (uint32_t i = 0; i < copy->n; i++) {
        copy->rows[i].host = copy->hosts[i / nproc];
    }
}

static void show(struct job *job)
{
    struct table_copy *copy = &job->tables.copy[job->tables.present];
    job->epoch.rows = copy->rows;
    job->epoch.hosts = copy->hosts;
}

int tables_reserve(struct rdzv *r, struct job *job, size_t rows, size_t seats)
{
    struct tables *t = &job->tables;
    /* Whatever of it succeeds stands: each array is larger than it has to be then. */
    for (size_t i = 0; i < TABLE_COPIES; i++) {
        struct table_copy *copy = &t->copy[i];
        void *v = copy->rows;
        int err = grow(r, &v, rows, sizeof(*copy->rows));
        copy->rows = v;
        v = copy->hosts;
        if (!err) {
            err = grow(r, &v, seats, sizeof(*copy->hosts));
        }
        copy->hosts = v;
        point_to_hosts(copy, job->nproc);
        show(job);
        if (err) {
            return err;
        }
    }
    void *v = t->changes;
    int err = grow(r, &v, rows, sizeof(*t->changes));
    t->changes = v;
    t->base = 0; /* its rows pointed into the old blocks */
    return err;
}

void tables_done(struct rdzv *r, struct job *job)
{
    for (size_t i = 0; i < TABLE_COPIES; i++) {
        mem_free(r->mem, job->tables.copy[i].rows);
        mem_free(r->mem, job->tables.copy[i].hosts);
    }
    mem_free(r->mem, job->tables.changes);
}

void tables_forget(struct job *job)
{
    for (size_t i = 0; i < TABLE_COPIES; i++) {
        job->tables.copy[i].n = 0;
        job->tables.copy[i].digest = 0;
    }
    job->tables.base = 0;
}

static bool is_same(const struct msg_row *a, const struct msg_row *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static void compare(struct tables *t, const struct table_copy *old, const struct table_copy *new)
{
    t->base = 0;
    t->n_changes = 0;
    if (old->digest == 0) {
        return;
    }
    for (uint32_t i = 0; i < new->n; i++) {
        if (i >= old->n || !is_same(&old->rows[i], &new->rows[i])) {
            t->changes[t->n_changes++] = new->rows[i];
        }
    }
    /* Above half of it the whole table costs hardly more, and asks nothing of anybody's memory. */
    t->base = t->n_changes <= new->n / 2 ? old->digest : 0;
}

void epoch_make_table(struct job *job)
{
    struct tables *t = &job->tables;
    struct epoch *epoch = &job->epoch;
    uint8_t parity = epoch->number & 1;
    struct table_copy *old = &t->copy[t->of[parity]];
    struct table_copy *new = &t->copy[t->spare];
    new->n = epoch->n_seats * job->nproc;
    for (uint32_t seat = 0; seat < epoch->n_seats; seat++) {
        const struct node *node = epoch->seats[seat];
        memcpy(new->hosts[seat], node->host, sizeof(node->host));
        for (uint32_t local = 0; local < job->nproc; local++) {
            uint32_t rank = seat * job->nproc + local;
            new->rows[rank] = (struct msg_row){
                .rank = rank, .host = new->hosts[seat], .port = node->ports[local]};
        }
    }
    new->digest = table_digest(new->rows, new->n);
    compare(t, old, new);
    uint8_t spare = t->of[parity];
    t->of[parity] = t->spare;
    t->present = t->spare;
    t->spare = spare;
    epoch->digest = new->digest;
    show(job);
}

void table_tell(struct rdzv *r, const struct job *job, const struct node *node)
{
    const struct epoch *epoch = &job->epoch;
    const struct tables *t = &job->tables;
    struct msg_table *table = &send_to(r, node->session, MSG_TABLE)->u.table;
    table->epoch = epoch->number;
    table->world = epoch->n_seats * job->nproc;
    if (t->base != 0 && node->table_digest == t->base) {
        table->base_digest = t->base;
        table->rows = t->changes;
        table->n_rows = t->n_changes;
        return;
    }
    table->rows = epoch->rows;
    table->n_rows = table->world;
}
