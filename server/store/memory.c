/* server/store/memory.c: the store of --ephemeral: jobs live as long as the process.
 *
 * One list of jobs in the order of names. What is put waits in a list of its own until the commit,
 * which then cannot fail. */
#include "server/store/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "server/store/record.h"

struct kept {
    SLIST_ENTRY(kept) link;
    struct rdzv_record *record;
};
SLIST_HEAD(kept_list, kept);

struct memory {
    struct store store;
    struct kept_list jobs;
    struct kept_list put; /* the newest first */
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
    SLIST_FOREACH(kept, list, link) {
        if (strcmp(kept->record->job, job) == 0) {
            return kept;
        }
    }
    return NULL;
}

static int memory_load(struct store *store, store_load_fn fn, void *ctx, struct tfe_why *why)
{
    struct memory *m = (struct memory *)store;
    const struct kept *kept;
    SLIST_FOREACH(kept, &m->jobs, link) {
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
    return 0;
}

static void memory_rollback(struct store *store)
{
    clear(&((struct memory *)store)->put);
}

static void memory_close(struct store *store)
{
    struct memory *m = (struct memory *)store;
    clear(&m->put);
    clear(&m->jobs);
    free(m);
}

static const struct store_ops memory_ops = {.load = memory_load,
                                            .begin = memory_begin,
                                            .put = memory_put,
                                            .commit = memory_commit,
                                            .rollback = memory_rollback,
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
