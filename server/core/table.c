/* server/core/table.c: cluster tables of a job: the present one, the two before it, and the changes
 * since each of those.
 *
 * An agent keeps the table of the last epoch in which it trained, and names it in its READY. Odd
 * and even epochs use different sets of ports, but the two ports of a pair differ in the last bit
 * only. So the new table resembles the last one with its ports swapped, and the one before that as
 * it is. */
#include "server/core/table.h"

#include <string.h>

#include "common/message/cluster_table.h"
#include "server/core/job.h"
#include "server/core/layout.h"

/* Sets the rows' host pointers, after the copy's host array may have moved. */
static void point_to_hosts(struct table_copy *copy, uint32_t nproc)
{
    uint32_t slot = 0;
    for (uint32_t i = 0; i < copy->n; i++) {
        struct msg_row *row = &copy->rows[i];
        bool begins = row->role != TASK_WORKER || (row->rank - row->first) % nproc == 0;
        slot += i > 0 && begins;
        row->host = copy->hosts[slot];
    }
}

/* Makes the present table be sent whole. */
static void forget_changes(struct tables *t)
{
    for (size_t i = 0; i < TABLE_BASES; i++) {
        t->since[i].base = 0;
    }
}

int tables_reserve(struct rdzv *r, struct job *job, size_t rows, size_t slots)
{
    struct tables *t = &job->tables;
    forget_changes(t); /* the changed rows point into blocks that may move */
    /* If a later array cannot grow, those that have grown stay larger than needed. */
    for (size_t i = 0; i <= TABLE_BASES; i++) {
        struct table_copy *copy = &t->copy[i];
        if (mem_resize(r->mem, &copy->rows, rows, sizeof(*copy->rows)) ||
            mem_resize(r->mem, &copy->hosts, slots, sizeof(*copy->hosts))) {
            return TFE_ENOMEM;
        }
        point_to_hosts(copy, job->spec.nproc);
    }
    for (size_t i = 0; i < TABLE_BASES; i++) {
        if (mem_resize(r->mem, &t->since[i].rows, rows, sizeof(*t->since[i].rows))) {
            return TFE_ENOMEM;
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
           strcmp(row->host, old->rows[row->rank].host) == 0 &&
           row->role == old->rows[row->rank].role && row->first == old->rows[row->rank].first;
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
    /* If more than half of the rows changed, sending the whole table costs little more and does not
     * depend on an agent's copy. */
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

uint64_t tables_make(struct job *job)
{
    struct tables *t = &job->tables;
    const struct epoch *epoch = &job->epoch;
    size_t present = (t->present + 1) % (TABLE_BASES + 1);
    struct table_copy *new = &t->copy[present];
    new->n = layout_world(job);
    for (uint32_t slot = 0; slot < epoch->n_slots; slot++) {
        const struct ready *ready = &epoch->slots[slot]->ready;
        memcpy(new->hosts[slot], ready->host, strlen(ready->host) + 1);
        for (uint32_t local = 0; local < layout_trainers(job, slot); local++) {
            uint32_t rank = layout_rank(job, slot) + local;
            new->rows[rank] = (struct msg_row){
                .rank = rank, .host = new->hosts[slot], .port = ready->ports[local]};
            layout_set_role(job, rank, &new->rows[rank]);
        }
    }
    new->digest = table_digest(new->rows, new->n);
    for (size_t i = 0; i < TABLE_BASES; i++) {
        compare(&t->since[i], &t->copy[(present + 1 + i) % (TABLE_BASES + 1)], new);
    }
    t->present = present;
    return new->digest;
}

void tables_send(struct rdzv *r, const struct job *job, const struct node *node, uint64_t epoch)
{
    const struct tables *t = &job->tables;
    const struct table_copy *present = tables_present(t);
    struct msg_table *table = &send_node(r, node, MSG_TABLE)->u.table;
    *table = (struct msg_table){
        .epoch = epoch, .world = present->n, .rows = present->rows, .n_rows = present->n};
    for (size_t i = 0; i < TABLE_BASES; i++) {
        const struct table_changes *c = &t->since[i];
        /* the node's table may match both bases; use the one with fewer changes */
        if (c->base != 0 && node->ready.table_digest == c->base && c->n < table->n_rows) {
            table->base_digest = c->base;
            table->turned = c->turned;
            table->rows = c->rows;
            table->n_rows = c->n;
        }
    }
}
