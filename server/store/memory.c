/* server/store/memory.c: the store of --ephemeral: jobs live as long as the process.
 *
 * One list of jobs in the order of names. What is put waits in a list of its own until the commit,
 * which then cannot fail. */
#include "server/store/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/base/id.h"
#include "server/store/ledger.h"
#include "server/store/record.h"

struct kept {
    SLIST_ENTRY(kept) link;
    struct rdzv_record *record;
};
SLIST_HEAD(kept_list, kept);

/* A row of the ledger; blamed is its own. */
struct row {
    SLIST_ENTRY(row) link; /* by job and epoch */
    struct tfe_id job;
    struct tfe_wall touched;
    struct ledger_page page; /* of this one row */
};
SLIST_HEAD(row_list, row);

struct memory {
    struct store store;
    struct kept_list jobs;
    struct kept_list put; /* the newest first */
    struct row_list rows;
    struct row_list put_rows; /* the newest first */
};

static void kept_free(struct kept *kept)
{
    free(kept->record);
    free(kept);
}

static void clear(struct kept_list *list)
{
    while (!SLIST_EMPTY(list)) {
        struct kept *kept = SLIST_FIRST(list);
        SLIST_REMOVE_HEAD(list, link);
        kept_free(kept);
    }
}

/* The one of this job, or NULL. */
static const struct kept *find(const struct kept_list *list, const char *job)
{
    const struct kept *kept;
    SLIST_FOREACH(kept, list, link)
    {
        if (strcmp(kept->record->job, job) == 0) {
            return kept;
        }
    }
    return NULL;
}

static void row_free(struct row *row)
{
    ledger_page_done(&row->page);
    free(row);
}

static void clear_rows(struct row_list *list)
{
    while (!SLIST_EMPTY(list)) {
        struct row *row = SLIST_FIRST(list);
        SLIST_REMOVE_HEAD(list, link);
        row_free(row);
    }
}

static int memory_load(struct store *store, store_load_fn fn, void *ctx, struct tfe_why *why)
{
    struct memory *m = (struct memory *)store;
    const struct kept *kept;
    SLIST_FOREACH(kept, &m->jobs, link)
    {
        int err = fn(ctx, kept->record);
        if (err != 0) {
            why_set(why, "job %s in memory: %s", kept->record->job, tfe_error_sentence(err));
            return err;
        }
    }
    return 0;
}

static int memory_begin(struct store *store, struct tfe_why *why)
{
    (void)store;
    (void)why;
    return 0;
}

static int memory_put(struct store *store, const struct rdzv_record *record, struct tfe_wall now,
                      struct tfe_why *why)
{
    struct memory *m = (struct memory *)store;
    (void)now;
    const struct kept *old = find(&m->put, record->job);
    if (old == NULL) {
        old = find(&m->jobs, record->job);
    }
    if (!record_may_replace(record, old != NULL ? old->record->epoch : 0,
                            old != NULL ? old->record->sequence : 0, old != NULL)) {
        why_set(why, "job %s in memory stands at epoch %llu, not at %llu", record->job,
                old != NULL ? (unsigned long long)old->record->epoch : 0,
                (unsigned long long)record->predecessor);
        return TFE_ECONFLICT;
    }
    struct kept *kept = malloc(sizeof(*kept));
    if (kept != NULL) {
        kept->record = record_copy(record);
    }
    if (kept == NULL || kept->record == NULL) {
        free(kept);
        why_set(why, "keep job %s: out of memory", record->job);
        return TFE_ENOMEM;
    }
    SLIST_INSERT_HEAD(&m->put, kept, link);
    return 0;
}

static uint64_t epoch_of(const struct row *row)
{
    return row->page.rows[0].epoch;
}

static int compare_rows(const struct row *a, const struct row *b)
{
    int order = id_compare(&a->job, &b->job);
    if (order != 0) {
        return order;
    }
    return epoch_of(a) < epoch_of(b) ? -1 : epoch_of(a) > epoch_of(b);
}

/* The first that is not below `row`; *ret_before is the one before it, or NULL. */
static struct row *seek(const struct row_list *list, const struct row *row, struct row **ret_before)
{
    struct row *at = SLIST_FIRST(list);
    *ret_before = NULL;
    while (at != NULL && compare_rows(at, row) < 0) {
        *ret_before = at;
        at = SLIST_NEXT(at, link);
    }
    return at;
}

static int memory_put_row(struct store *store, const char *job, const struct msg_epoch_row *row,
                          struct tfe_wall now, struct tfe_why *why)
{
    struct memory *m = (struct memory *)store;
    struct msg_epoch_row merged = *row;
    struct row *fresh = calloc(1, sizeof(*fresh));
    const struct row *kept;
    if (fresh != NULL) {
        (void)id_set(&fresh->job, job);
        fresh->touched = now;
        SLIST_FOREACH(kept, &m->rows, link)
        {
            if (strcmp(kept->job.text, job) == 0 && epoch_of(kept) == row->epoch) {
                ledger_merge(&merged, &kept->page.rows[0]);
            }
        }
        SLIST_FOREACH(kept, &m->put_rows, link)
        {
            if (strcmp(kept->job.text, job) == 0 && epoch_of(kept) == row->epoch) {
                ledger_merge(&merged, &kept->page.rows[0]);
                break; /* the newest knows what the older ones did */
            }
        }
    }
    if (fresh == NULL || ledger_page_add(&fresh->page, &merged) != 0) {
        if (fresh != NULL) {
            row_free(fresh);
        }
        why_set(why, "keep the ledger of job %s: out of memory", job);
        return TFE_ENOMEM;
    }
    SLIST_INSERT_HEAD(&m->put_rows, fresh, link);
    return 0;
}

static void settle_row(struct memory *m, struct row *row)
{
    struct row *before;
    struct row *at = seek(&m->rows, row, &before);
    if (at != NULL && compare_rows(at, row) == 0) {
        SLIST_REMOVE(&m->rows, at, row, link);
        row_free(at);
    }
    if (before == NULL) {
        SLIST_INSERT_HEAD(&m->rows, row, link);
    } else {
        SLIST_INSERT_AFTER(before, row, link);
    }
}

static void settle_rows(struct memory *m)
{
    struct row_list in_order = SLIST_HEAD_INITIALIZER(in_order);
    while (!SLIST_EMPTY(&m->put_rows)) {
        struct row *row = SLIST_FIRST(&m->put_rows);
        SLIST_REMOVE_HEAD(&m->put_rows, link);
        SLIST_INSERT_HEAD(&in_order, row, link);
    }
    while (!SLIST_EMPTY(&in_order)) {
        struct row *row = SLIST_FIRST(&in_order);
        SLIST_REMOVE_HEAD(&in_order, link);
        settle_row(m, row);
    }
}

/* Into its place, instead of the one of the same job. */
static void settle(struct memory *m, struct kept *kept)
{
    struct kept *before = NULL;
    struct kept *at = SLIST_FIRST(&m->jobs);
    while (at != NULL && strcmp(at->record->job, kept->record->job) < 0) {
        before = at;
        at = SLIST_NEXT(at, link);
    }
    if (at != NULL && strcmp(at->record->job, kept->record->job) == 0) {
        struct rdzv_record *old = at->record;
        at->record = kept->record;
        kept->record = old;
        kept_free(kept);
    } else if (before == NULL) {
        SLIST_INSERT_HEAD(&m->jobs, kept, link);
    } else {
        SLIST_INSERT_AFTER(before, kept, link);
    }
}

static int memory_commit(struct store *store, struct tfe_why *why)
{
    struct memory *m = (struct memory *)store;
    struct kept_list in_order = SLIST_HEAD_INITIALIZER(in_order);
    (void)why;
    while (!SLIST_EMPTY(&m->put)) {
        struct kept *kept = SLIST_FIRST(&m->put);
        SLIST_REMOVE_HEAD(&m->put, link);
        SLIST_INSERT_HEAD(&in_order, kept, link);
    }
    while (!SLIST_EMPTY(&in_order)) {
        struct kept *kept = SLIST_FIRST(&in_order);
        SLIST_REMOVE_HEAD(&in_order, link);
        settle(m, kept);
    }
    settle_rows(m);
    return 0;
}

static int memory_read_rows(struct store *store, const char *job, uint64_t after, uint32_t max,
                            store_row_fn fn, void *ctx, struct tfe_why *why)
{
    struct memory *m = (struct memory *)store;
    const struct row *row;
    uint32_t n = 0;
    SLIST_FOREACH(row, &m->rows, link)
    {
        if (n < max && strcmp(row->job.text, job) == 0 && epoch_of(row) > after) {
            int err = fn(ctx, &row->page.rows[0]);
            if (err != 0) {
                why_set(why, "read the ledger of job %s: %s", job, tfe_error_sentence(err));
                return err;
            }
            n++;
        }
    }
    return 0;
}

static bool is_current(const struct memory *m, const struct row *row)
{
    const struct kept *kept = find(&m->jobs, row->job.text);
    return kept != NULL && !kept->record->over && kept->record->epoch == epoch_of(row);
}

static int memory_prune(struct store *store, struct tfe_wall before, uint32_t max, uint32_t *ret_n,
                        struct tfe_why *why)
{
    struct memory *m = (struct memory *)store;
    struct row *row = SLIST_FIRST(&m->rows);
    (void)why;
    *ret_n = 0;
    while (row != NULL && *ret_n < max) {
        struct row *next = SLIST_NEXT(row, link);
        if (row->touched.ms < before.ms && !is_current(m, row)) {
            SLIST_REMOVE(&m->rows, row, row, link);
            row_free(row);
            (*ret_n)++;
        }
        row = next;
    }
    return 0;
}

static int memory_backup_begin(struct store *store, const char *path, struct tfe_why *why)
{
    (void)store;
    why_set(why, "%s: a server with --ephemeral keeps nothing that could be copied", path);
    return TFE_EINVAL;
}

static int memory_backup_step(struct store *store, int pages, bool *ret_done, struct tfe_why *why)
{
    (void)store;
    (void)pages;
    *ret_done = false;
    why_set(why, "there is nothing to copy");
    return TFE_EINVAL; /* memory_backup_begin let nobody come here */
}

static void memory_rollback(struct store *store)
{
    struct memory *m = (struct memory *)store;
    clear(&m->put);
    clear_rows(&m->put_rows);
}

static void memory_close(struct store *store)
{
    struct memory *m = (struct memory *)store;
    clear(&m->put);
    clear(&m->jobs);
    clear_rows(&m->put_rows);
    clear_rows(&m->rows);
    free(m);
}

static const struct store_ops memory_ops = {.load = memory_load,
                                            .begin = memory_begin,
                                            .put = memory_put,
                                            .put_row = memory_put_row,
                                            .commit = memory_commit,
                                            .rollback = memory_rollback,
                                            .read_rows = memory_read_rows,
                                            .prune = memory_prune,
                                            .backup_begin = memory_backup_begin,
                                            .backup_step = memory_backup_step,
                                            .close = memory_close};

int memory_store_open(struct store **ret, struct tfe_why *why)
{
    struct memory *m = calloc(1, sizeof(*m));
    if (m == NULL) {
        why_set(why, "keep jobs in memory: out of memory");
        return TFE_ENOMEM;
    }
    m->store.ops = &memory_ops;
    *ret = &m->store;
    return 0;
}
