/* server/core/table.c: the cluster tables of a job: of the present epoch, of the two before it, and
 * what changed since either of those.
 *
 * An agent keeps the table of the last epoch that it trained in, and names it in its READY. Ports
 * are used in turn, odd and even epochs, but the two of a pair differ in the last bit only: with
 * its ports turned the last table resembles the new one, as it is the last but one does. */
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

/* The present one is told whole. */
static void forget_changes(struct tables *t)
{
    for (size_t i = 0; i < TABLE_BASES; i++) {
        t->since[i].base = 0;
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
    forget_changes(t); /* their rows point into blocks that may move */
    /* Whatever of it succeeds stands: each array is larger than it has to be then. */
    for (size_t i = 0; i <= TABLE_BASES; i++) {
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
    for (size_t i = 0; i < TABLE_BASES; i++) {
        void *v = t->since[i].rows;
        int err = grow(r, &v, rows, sizeof(*t->since[i].rows));
        t->since[i].rows = v;
        if (err) {
            return err;
        }
    }
    return 0;
}

void tables_done(struct rdzv *r, struct job *job)
{
    for (size_t i = 0; i <= TABLE_BASES; i++) {
        mem_free(r->mem, job->tables.copy[i].rows);
        mem_free(r->mem, job->tables.copy[i].hosts);
    }
    for (size_t i = 0; i < TABLE_BASES; i++) {
        mem_free(r->mem, job->tables.since[i].rows);
    }
}

void tables_forget(struct job *job)
{
    for (size_t i = 0; i <= TABLE_BASES; i++) {
        job->tables.copy[i].n = 0;
        job->tables.copy[i].digest = 0;
    }
    forget_changes(&job->tables);
}

static bool is_same(const struct table_copy *old, const struct msg_row *row, bool turned)
{
    return row->rank < old->n && row->port == table_port(old->rows[row->rank].port, turned) &&
           strcmp(row->host, old->rows[row->rank].host) == 0;
}

static void compare(struct table_changes *c, const struct table_copy *old,
                    const struct table_copy *new)
{
    c->base = 0;
    c->n = 0;
    if (old->digest == 0) {
        return;
    }
    uint32_t same[2] = {0, 0};
    for (uint32_t i = 0; i < new->n; i++) {
        same[0] += is_same(old, &new->rows[i], false);
        same[1] += is_same(old, &new->rows[i], true);
    }
    c->turned = same[1] > same[0];
    /* Above half of it the whole table costs hardly more, and asks nothing of anybody's memory. */
    if (new->n - same[c->turned] > new->n / 2) {
        return;
    }
    c->base = old->digest;
    for (uint32_t i = 0; i < new->n; i++) {
        if (!is_same(old, &new->rows[i], c->turned)) {
            c->rows[c->n++] = new->rows[i];
        }
    }
}

void epoch_make_table(struct job *job)
{
    struct tables *t = &job->tables;
    struct epoch *epoch = &job->epoch;
    size_t present = (t->present + 1) % (TABLE_BASES + 1);
    struct table_copy *new = &t->copy[present];
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
    for (size_t i = 0; i < TABLE_BASES; i++) {
        compare(&t->since[i], &t->copy[(present + 1 + i) % (TABLE_BASES + 1)], new);
    }
    t->present = present;
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
    table->rows = epoch->rows;
    table->n_rows = table->world;
    for (size_t i = 0; i < TABLE_BASES; i++) {
        const struct table_changes *c = &t->since[i];
        /* One may be like the other, turned or not: the fewer changes. */
        if (c->base != 0 && node->table_digest == c->base && c->n < table->n_rows) {
            table->base_digest = c->base;
            table->turned = c->turned;
            table->rows = c->rows;
            table->n_rows = c->n;
        }
    }
}
