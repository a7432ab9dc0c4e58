/* tests/sim/disk.c: the server's simulated disk: writes, syncs, and what a crash leaves. */
#include "tests/sim/disk.h"

#include <stdlib.h>
#include <string.h>

#include "server/store/job_record.h"
#include "tests/sim/check.h"
#include "tests/sim/jobs.h"
#include "tests/sim/names.h"
#include "tests/sim/server.h"

/* Number of records of a job's earlier epochs that an older copy of the disk may contain. */
#define OLDER_MAX 3

struct copy {
    struct copy *next;           /* next write under way */
    struct copy *older;          /* record synced before this one, of another epoch */
    struct copy *last;           /* write before this one, of the same epoch */
    bool is_old;                 /* from an older copy: nothing later is left */
    bool is_torn;                /* the record is unreadable */
    struct store_record *packed; /* the record as the store packs it */
    struct rdzv_record *record;  /* the record as unpacked; borrows from packed */
};

struct disk {
    uint32_t latency_lo, latency_hi;
    int64_t fail_until;
    int64_t stall_until;
    uint64_t n_healed; /* number of stalls that ended early */
    struct copy *head; /* writes under way, in order */
    struct copy **tail;
    uint32_t n_pending;
    uint32_t tag; /* generation of the server process that wrote them */
    int64_t last_at;
    struct copy **synced; /* synced records by job */
    uint32_t n_synced;
    bool was_lost;
    size_t cap_synced;
    struct names names;
};

/* Copies a record to the simulated disk. If the record cannot be read back, reports a violation and
 * copies only its numbers. */
static struct copy *copy_new(struct world *w, const struct rdzv_record *record)
{
    struct copy *copy = sim_alloc(1, sizeof(*copy));
    copy->packed = job_record_pack(record);
    if (!copy->packed) {
        abort();
    }
    const struct store_record *packed = copy->packed;
    /* the store keeps no record of a forgotten job */
    if (!packed->gone &&
        job_record_unpack(packed->job.text, packed->bytes, packed->n, &copy->record) == 0) {
        return copy;
    }
    if (!packed->gone) {
        check_fail(w->check, CHECK_RECORD_ORDER, "record %llu of job %s cannot be read back",
                   (unsigned long long)packed->sequence, packed->job.text);
    }
    copy->record = sim_alloc(1, sizeof(*copy->record));
    *copy->record = (struct rdzv_record){.sequence = packed->sequence,
                                         .job = packed->job.text,
                                         .gone = packed->gone,
                                         .predecessor = packed->predecessor,
                                         .epoch = packed->epoch};
    return copy;
}

static void copy_free(struct copy *copy)
{
    if (copy->last) {
        copy_free(copy->last); /* an earlier copy has no earlier copy of its own */
    }
    free(copy->record);
    free(copy->packed);
    free(copy);
}

static void copies_free(struct copy *copy)
{
    while (copy) {
        struct copy *older = copy->older;
        copy_free(copy);
        copy = older;
    }
}

struct disk *disk_new(struct world *w)
{
    struct disk *d = sim_alloc(1, sizeof(*d));
    d->tail = &d->head;
    w->disk = d;
    return d;
}

static void pending_clear(struct disk *d)
{
    while (d->head) {
        struct copy *copy = d->head;
        d->head = copy->next;
        copy_free(copy);
    }
    d->tail = &d->head;
    d->n_pending = 0;
}

void disk_free(struct world *w)
{
    struct disk *d = w->disk;
    pending_clear(d);
    for (uint32_t i = 0; i < d->n_synced; i++) {
        copies_free(d->synced[i]);
    }
    free(d->synced);
    names_done(&d->names);
    free(d);
    w->disk = NULL;
}

void disk_set_latency(struct world *w, uint32_t lo_ms, uint32_t hi_ms)
{
    w->disk->latency_lo = lo_ms;
    w->disk->latency_hi = hi_ms;
}

bool disk_is_well(const struct world *w)
{
    return w->disk->fail_until <= w->now && w->disk->stall_until <= w->now;
}

uint32_t disk_latency(const struct world *w)
{
    return w->disk->latency_hi;
}

void disk_fail_until(struct world *w, int64_t at)
{
    w->disk->fail_until = at;
}

static void on_synced(struct world *w, const struct sim_event *event);

void disk_stall_until(struct world *w, int64_t at)
{
    struct disk *d = w->disk;
    if (at < d->stall_until) { /* writes that were delayed go on now */
        d->n_healed++;
        for (uint32_t i = 0; i < d->n_pending; i++) {
            world_at(w, at > w->now ? at : w->now, on_synced, 0, d->tag, d->n_healed);
        }
    }
    d->stall_until = at;
}

uint32_t disk_pending(const struct world *w)
{
    return w->disk->n_pending;
}

const struct rdzv_record *disk_record(const struct world *w, uint32_t index)
{
    return index < w->disk->n_synced ? w->disk->synced[index]->record : NULL;
}

/* Replaces the synced copy, which becomes an older one if it is of another epoch. */
static void replace(struct copy **at, struct copy *copy)
{
    struct copy *before = *at;
    const struct rdzv_record *was = before->record;
    const struct rdzv_record *is = copy->record;
    *at = copy;
    if (before->is_torn) {
        copies_free(before);
        return;
    }
    if (was->epoch == is->epoch && was->run == is->run && was->over == is->over) {
        copy->older = before->older;
        if (before->last) {
            copy_free(before->last);
            before->last = NULL;
        }
        copy->last = before;
        return;
    }
    copy->older = before;
    struct copy *last = copy;
    for (int i = 0; i < OLDER_MAX && last->older; i++) {
        last = last->older;
    }
    copies_free(last->older);
    last->older = NULL;
}

static struct copy *sync_head(struct world *w)
{
    struct disk *d = w->disk;
    struct copy *copy = d->head;
    d->head = copy->next;
    if (!d->head) {
        d->tail = &d->head;
    }
    d->n_pending--;
    const char *job = copy->record->job;
    uint32_t index = names_find(&d->names, job, strlen(job));
    bool is_torn = index != NAMES_NONE && d->synced[index]->is_torn;
    uint64_t epoch = index == NAMES_NONE ? 0 : d->synced[index]->record->epoch;
    if ((index == NAMES_NONE && d->was_lost) || is_torn) {
        epoch = copy->record->predecessor; /* of an epoch whose predecessor's record was lost */
    }
    if (copy->record->predecessor != epoch) {
        check_fail(w->check, CHECK_RECORD_ORDER,
                   "a record of job %s follows epoch %llu, but epoch %llu is on disk", job,
                   (unsigned long long)copy->record->predecessor, (unsigned long long)epoch);
    }
    if (index == NAMES_NONE) {
        d->synced = sim_grow(d->synced, d->n_synced, &d->cap_synced, sizeof(struct copy *));
        names_add(&d->names, jobs_get(w, jobs_find(w, job))->name.text, d->n_synced);
        d->synced[d->n_synced++] = copy;
    } else {
        replace(&d->synced[index], copy);
    }
    return copy;
}

static void on_synced(struct world *w, const struct sim_event *event)
{
    struct disk *d = w->disk;
    if (event->tag != d->tag || event->arg != d->n_healed || !d->head) {
        return;
    }
    if (d->stall_until > w->now) {
        world_again(w, event, d->stall_until);
        return;
    }
    if (d->fail_until > w->now) {
        struct copy *copy = d->head;
        d->head = copy->next;
        d->tail = d->head ? d->tail : &d->head;
        d->n_pending--;
        server_written(w, copy->record->job, copy->record->sequence, false);
        copy_free(copy);
        return;
    }
    struct copy *copy = sync_head(w);
    server_written(w, copy->record->job, copy->record->sequence, true);
}

void disk_write(struct world *w, const struct rdzv_record *record)
{
    struct disk *d = w->disk;
    for (const struct copy *under_way = d->head; under_way; under_way = under_way->next) {
        if (under_way->record->sequence == record->sequence &&
            strcmp(under_way->record->job, record->job) == 0) {
            check_fail(w->check, CHECK_SINGLE_WRITE,
                       "record %llu of job %s is written again during its write",
                       (unsigned long long)record->sequence, record->job);
        }
    }
    struct copy *copy = copy_new(w, record);
    *d->tail = copy;
    d->tail = &copy->next;
    d->n_pending++;
    int64_t at = w->now + (d->latency_lo < d->latency_hi
                               ? (int64_t)rng_between(&w->rng, d->latency_lo, d->latency_hi)
                               : d->latency_lo);
    d->last_at = at > d->last_at ? at : d->last_at;
    world_at(w, d->last_at, on_synced, 0, d->tag, d->n_healed);
}

void disk_crash(struct world *w, uint32_t kept)
{
    for (uint32_t i = 0; i < kept && w->disk->head; i++) {
        (void)sync_head(w);
    }
    pending_clear(w->disk);
    w->disk->tag++;
}

void disk_lose(struct world *w)
{
    struct disk *d = w->disk;
    for (uint32_t i = 0; i < d->n_synced; i++) {
        copies_free(d->synced[i]);
    }
    d->n_synced = 0;
    names_done(&d->names);
    d->was_lost = true;
}

void disk_roll_back(struct world *w, uint32_t epochs)
{
    struct disk *d = w->disk;
    for (uint32_t i = 0; i < d->n_synced; i++) {
        struct copy *copy = d->synced[i];
        for (uint32_t back = 0; back < epochs && copy->older; back++) {
            struct copy *older = copy->older;
            copy_free(copy);
            copy = older;
            copy->is_old = true;
        }
        d->synced[i] = copy;
    }
}

void disk_forget_last(struct world *w, uint32_t index)
{
    struct copy *copy = w->disk->synced[index];
    struct copy *last = copy->last ? copy->last : copy->older;
    /* Setting an unreadable record aside is a write too: without that write the record is found
     * again. */
    if (last && !copy->is_torn) {
        last->older = copy->last ? copy->older : last->older;
        last->is_old = true;
        copy->last = NULL;
        copy_free(copy);
        w->disk->synced[index] = last;
    }
}

void disk_tear(struct world *w, uint32_t index)
{
    w->disk->synced[index]->is_torn = true;
}

uint32_t disk_records(const struct world *w)
{
    return w->disk->n_synced;
}

bool disk_is_torn(const struct world *w, uint32_t index)
{
    return w->disk->synced[index]->is_torn;
}

bool disk_has_lost(const struct world *w, const char *job)
{
    const struct disk *d = w->disk;
    uint32_t index = names_find(&d->names, job, strlen(job));
    return index == NAMES_NONE ? d->was_lost
                               : d->synced[index]->is_old || d->synced[index]->is_torn;
}
