/* tests/sim/disk.c: the server's disk: what is written, what is synced, what a crash leaves. */
#include "tests/sim/disk.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/jobs.h"
#include "tests/sim/names.h"
#include "tests/sim/server.h"

/* One record in a block of its own. */
struct copy {
    struct copy *next; /* under way */
    int64_t at;
    struct rdzv_record record;
};

struct disk {
    uint32_t latency_lo, latency_hi;
    int64_t fail_until;
    int64_t stall_until;
    struct copy *head; /* under way, in their order */
    struct copy **tail;
    uint32_t n_pending;
    uint32_t tag; /* of the server process that wrote them */
    int64_t last_at;
    struct copy **synced; /* by job */
    uint32_t n_synced;
    bool was_lost;
    size_t cap_synced;
    struct names names;
};

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
        free(copy);
    }
    d->tail = &d->head;
    d->n_pending = 0;
}

void disk_free(struct world *w)
{
    struct disk *d = w->disk;
    pending_clear(d);
    for (uint32_t i = 0; i < d->n_synced; i++) {
        free(d->synced[i]);
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

void disk_fail_until(struct world *w, int64_t at)
{
    w->disk->fail_until = at;
}

void disk_stall_until(struct world *w, int64_t at)
{
    w->disk->stall_until = at;
}

uint32_t disk_pending(const struct world *w)
{
    return w->disk->n_pending;
}

const struct rdzv_record *disk_record(const struct world *w, uint32_t index)
{
    return index < w->disk->n_synced ? &w->disk->synced[index]->record : NULL;
}

/* --- copying -------------------------------------------------------------------------------------
 */

static size_t text_size(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static const char *keep(char **at, const char *text)
{
    if (!text) {
        return NULL;
    }
    size_t n = strlen(text) + 1;
    char *kept = *at;
    memcpy(kept, text, n);
    *at += n;
    return kept;
}

static struct copy *copy_new(const struct rdzv_record *r)
{
    size_t members = r->n_members * sizeof(struct rdzv_member);
    size_t known_to = 0;
    size_t ports = (size_t)r->n_members * r->nproc * sizeof(uint16_t);
    size_t text =
        text_size(r->job) + text_size(r->sentence) + text_size(r->run_key) + text_size(r->past);
    for (uint32_t i = 0; i < r->n_members; i++) {
        text += text_size(r->members[i].node) + text_size(r->members[i].name) +
                text_size(r->members[i].host);
        known_to += r->members[i].n_known_to * sizeof(struct tfe_id);
    }
    struct copy *copy = sim_alloc(1, sizeof(*copy) + members + ports + known_to + text);
    struct rdzv_member *to = (void *)(copy + 1);
    uint16_t *port = (void *)((char *)to + members);
    struct tfe_id *known = (void *)((char *)port + ports);
    char *at = (char *)known + known_to;
    copy->record = *r;
    copy->record.job = keep(&at, r->job);
    copy->record.sentence = keep(&at, r->sentence);
    copy->record.run_key = keep(&at, r->run_key);
    copy->record.past = keep(&at, r->past);
    copy->record.members = to;
    for (uint32_t i = 0; i < r->n_members; i++) {
        to[i] = r->members[i];
        to[i].node = keep(&at, r->members[i].node);
        to[i].name = keep(&at, r->members[i].name);
        to[i].host = keep(&at, r->members[i].host);
        memcpy(port, r->members[i].ports, r->nproc * sizeof(*port));
        to[i].ports = port;
        port += r->nproc;
        for (uint32_t k = 0; k < to[i].n_known_to; k++) {
            known[k] = to[i].known_to[k];
        }
        to[i].known_to = known;
        known += to[i].n_known_to;
    }
    return copy;
}

/* --- writing -------------------------------------------------------------------------------------
 */

/* The head of the queue is durable from here on, and replaces what was there of its job. */
static struct copy *sync_head(struct world *w)
{
    struct disk *d = w->disk;
    struct copy *copy = d->head;
    d->head = copy->next;
    if (!d->head) {
        d->tail = &d->head;
    }
    d->n_pending--;
    const char *job = copy->record.job;
    uint32_t index = names_find(&d->names, job, strlen(job));
    uint64_t epoch = index == NAMES_NONE ? 0 : d->synced[index]->record.epoch;
    if (index == NAMES_NONE && d->was_lost) {
        epoch = copy->record.predecessor; /* of an epoch that the record of was lost */
    }
    check_record(w->check, job, copy->record.predecessor, epoch);
    if (index == NAMES_NONE) {
        d->synced = sim_grow(d->synced, d->n_synced, &d->cap_synced, sizeof(struct copy *));
        names_add(&d->names, jobs_get(w, jobs_find(w, job))->name.text, d->n_synced);
        d->synced[d->n_synced++] = copy;
    } else {
        free(d->synced[index]);
        d->synced[index] = copy;
    }
    return copy;
}

static void on_synced(struct world *w, const struct sim_event *event)
{
    struct disk *d = w->disk;
    if (event->tag != d->tag || !d->head) {
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
        server_written(w, copy->record.job, copy->record.sequence, false);
        free(copy);
        return;
    }
    struct copy *copy = sync_head(w);
    server_written(w, copy->record.job, copy->record.sequence, true);
}

void disk_write(struct world *w, const struct rdzv_record *record)
{
    struct disk *d = w->disk;
    struct copy *copy = copy_new(record);
    *d->tail = copy;
    d->tail = &copy->next;
    d->n_pending++;
    int64_t at = w->now + (d->latency_lo < d->latency_hi
                               ? (int64_t)rng_between(&w->rng, d->latency_lo, d->latency_hi)
                               : d->latency_lo);
    d->last_at = at > d->last_at ? at : d->last_at;
    world_at(w, d->last_at, on_synced, 0, d->tag, 0);
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
        free(d->synced[i]);
    }
    d->n_synced = 0;
    names_done(&d->names);
    d->was_lost = true;
}

bool disk_has_lost(const struct world *w, const char *job)
{
    const struct disk *d = w->disk;
    return d->was_lost && names_find(&d->names, job, strlen(job)) == NAMES_NONE;
}
