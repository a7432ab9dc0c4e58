/* server/jobs/bundles_stored.c: stored bundles: the list, reading, and removal. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/limits.h"
#include "common/cli/log.h"
#include "common/message/principal.h"
#include "server/jobs/bundles_private.h"

/* A bundle that no job has named for this long is removed; submit names its bundle at once. */
#define GRACE_MS (INT64_C(3600) * 1000)
/* A bundle is kept this long in any case, because its submit may be in transit. */
#define GRACE_MIN_MS 60000

struct bundle_reading {
    struct disk_task task;
    bundle_read_fn *done; /* NULL once the reading is released */
    void *ctx;
    bool is_read;
    uint32_t offset, asked, n, total;
    char path[PATH_MAX];
    uint8_t bytes[MSG_FETCH_MAX];
};

struct removal {
    struct disk_task task;
    int fd;              /* -1 if none */
    char path[PATH_MAX]; /* "" if none */
};

/* --- the list --- */

void bundle_name(const char *digest, const struct principal *by, char ret[BUNDLE_NAME_MAX + 1])
{
    uint8_t tag[BUNDLE_TAG_HEX / 2];
    char hex[BUNDLE_TAG_HEX + 1];
    uint8_t sum[crypto_generichash_BYTES_MIN];
    (void)crypto_generichash(sum, sizeof(sum), (const uint8_t *)by->scope, strlen(by->scope), NULL,
                             0);
    memcpy(tag, sum, sizeof(tag));
    (void)sodium_bin2hex(hex, sizeof(hex), tag, sizeof(tag));
    (void)snprintf(ret, BUNDLE_NAME_MAX + 1, "%.*s-%s", (int)MSG_BUNDLE_HEX, digest, hex);
}

struct stored *bundle_find(const struct bundles *b, const char *digest, const struct principal *by)
{
    const bool is_any = !by || strcmp(by->scope, PRINCIPAL_EVERY_JOB) == 0;
    char name[BUNDLE_NAME_MAX + 1];
    struct stored *s;
    if (!is_any) {
        bundle_name(digest, by, name);
    }
    LIST_FOREACH(s, &b->stored, link)
    {
        if (is_any ? strncmp(s->name, digest, MSG_BUNDLE_HEX) == 0 : strcmp(s->name, name) == 0) {
            return s;
        }
    }
    return NULL;
}

bool bundles_has(const struct bundles *b, const char *digest, const struct principal *by)
{
    return bundle_find(b, digest, by) != NULL;
}

void bundle_path(const struct bundles *b, const char *name, char ret[PATH_MAX])
{
    (void)snprintf(ret, PATH_MAX, "%s/%s", b->config.directory, name);
}

static void do_let_go(struct disk_task *task)
{
    struct removal *r = (struct removal *)task;
    fd_close(&r->fd);
    if (r->path[0] != '\0') {
        (void)unlink(r->path);
    }
}

static void have_let_go(struct disk_task *task)
{
    struct removal *r = (struct removal *)task;
    fd_close(&r->fd); /* the reading was released before it was done */
    free(r);
}

/* If memory runs out, the next server finds and removes the file. */
void bundle_release(struct bundles *b, int fd, const char *name)
{
    struct removal *r = calloc(1, sizeof(*r));
    if (!r) {
        fd_close(&fd);
        return;
    }
    r->task = (struct disk_task){.work = do_let_go, .done = have_let_go};
    r->fd = fd;
    if (name) {
        bundle_path(b, name, r->path);
    }
    disk_put(b->disk, &r->task);
}

int bundle_enter(struct bundles *b, const char *name, uint32_t size, struct stored *owner,
                 struct bundle_places *ret)
{
    static const struct principal anybody = {.scope = PRINCIPAL_EVERY_JOB};
    char unscoped[BUNDLE_NAME_MAX + 1];
    const char *tag = name + MSG_BUNDLE_HEX + 1;
    struct admission_claim claim = {.by = {[ADMISSION_SCOPE] = {tag, BUNDLE_TAG_HEX}}, .cost = 1};
    bundle_name(name, &anybody, unscoped);
    claim.is_privileged = strcmp(unscoped + MSG_BUNDLE_HEX + 1, tag) == 0;
    if (admission_enter(b->by_count, &claim, owner, &ret->by_count) != 0) {
        return TFE_ENOMEM;
    }
    claim.cost = size;
    if (admission_enter(b->by_bytes, &claim, owner, &ret->by_bytes) != 0) {
        admission_leave(b->by_count, &ret->by_count);
        return TFE_ENOMEM;
    }
    return 0;
}

void bundle_leave(struct bundles *b, struct bundle_places *places)
{
    admission_leave(b->by_count, &places->by_count);
    admission_leave(b->by_bytes, &places->by_bytes);
}

void bundle_touch(struct stored *s)
{
    s->used = clock_wall();
    admission_touch(&s->places.by_count);
    admission_touch(&s->places.by_bytes);
}

bool bundle_add(struct bundles *b, const char *name, uint32_t size, struct tfe_wall used)
{
    struct stored *s;
    LIST_FOREACH(s, &b->stored, link)
    {
        if (strcmp(s->name, name) == 0) {
            return true;
        }
    }
    s = calloc(1, sizeof(*s));
    if (!s || bundle_enter(b, name, size, s, &s->places) != 0) {
        free(s);
        return false;
    }
    (void)snprintf(s->name, sizeof(s->name), "%s", name);
    s->size = size;
    s->used = used;
    LIST_INSERT_HEAD(&b->stored, s, link);
    return true;
}

static void forget(struct bundles *b, struct stored *s)
{
    bundle_leave(b, &s->places);
    LIST_REMOVE(s, link);
    free(s);
}

void bundles_see_named(struct bundles *b)
{
    char digest[MSG_BUNDLE_HEX + 1];
    struct stored *s;
    LIST_FOREACH(s, &b->stored, link)
    {
        (void)snprintf(digest, sizeof(digest), "%.*s", (int)MSG_BUNDLE_HEX, s->name);
        if (b->config.is_named(b->config.ctx, digest)) {
            bundle_touch(s);
        }
    }
}

/* Returns true if the bundle may be removed: not during its upload, nor while its submit may be in
 * transit. */
static bool may_go(const void *owner)
{
    const struct stored *s = owner;
    return s && clock_wall().ms - s->used.ms > GRACE_MIN_MS;
}

static void drop(struct bundles *b, struct stored *s)
{
    log_info("bundle_removed", LOG_S("digest", s->name), LOG_U("bytes", s->size));
    bundle_release(b, -1, s->name);
    forget(b, s);
}

bool bundle_free_space(struct bundles *b, struct bundle_places *newest)
{
    bool has_checked = false;
    for (;;) {
        struct admission_slot *place =
            admission_next_eviction(b->by_count, &newest->by_count, may_go);
        place = place ? place : admission_next_eviction(b->by_bytes, &newest->by_bytes, may_go);
        if (!place) {
            return true;
        }
        if (!has_checked) {
            bundles_see_named(b); /* updates the bundles that jobs name */
            has_checked = true;
        } else if (!place->owner) {
            return false;
        } else {
            drop(b, place->owner);
        }
    }
}

/* --- reading --- */

static void do_read(struct disk_task *task)
{
    struct bundle_reading *r = (struct bundle_reading *)task;
    struct stat st;
    int fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    uint32_t n = 0;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size <= (off_t)MSG_BUNDLE_MAX) {
        r->total = (uint32_t)st.st_size;
        while (n < r->asked) {
            const ssize_t some = pread(fd, r->bytes + n, r->asked - n, (off_t)(r->offset + n));
            if (some == 0 || (some < 0 && errno != EINTR)) {
                break;
            }
            n += some > 0 ? (uint32_t)some : 0;
        }
    }
    fd_close(&fd);
    r->n = n;
}

static void have_read(struct disk_task *task)
{
    struct bundle_reading *r = (struct bundle_reading *)task;
    r->is_read = true;
    if (r->done) {
        r->done(r->ctx, r);
    } else {
        free(r);
    }
}

struct bundle_reading *bundles_read(struct bundles *b, const char *digest, uint32_t offset,
                                    uint32_t length, bundle_read_fn *done, void *ctx)
{
    const struct stored *s = bundle_find(b, digest, NULL);
    struct bundle_reading *r = s && length <= MSG_FETCH_MAX ? malloc(sizeof(*r)) : NULL;
    if (r) {
        r->task = (struct disk_task){.work = do_read, .done = have_read};
        r->done = done;
        r->ctx = ctx;
        r->offset = offset;
        r->asked = length;
        r->n = r->total = 0;
        r->is_read = false;
        bundle_path(b, s->name, r->path);
        disk_put(b->disk, &r->task);
    }
    return r;
}

const uint8_t *bundles_bytes(const struct bundle_reading *reading, uint32_t *ret_n,
                             uint32_t *ret_total)
{
    *ret_n = reading->n;
    *ret_total = reading->total;
    return reading->bytes;
}

void bundles_release(struct bundle_reading *reading)
{
    if (reading && reading->is_read) {
        free(reading);
    } else if (reading) {
        reading->done = NULL;
    }
}

/* --- removal --- */

void bundles_drop_old(struct bundles *b)
{
    const struct tfe_wall now = clock_wall();
    bundles_see_named(b);
    for (struct stored *s = LIST_FIRST(&b->stored), *next; s; s = next) {
        next = LIST_NEXT(s, link);
        if (now.ms - s->used.ms > GRACE_MS) {
            drop(b, s);
        }
    }
}

void bundles_forget_all(struct bundles *b)
{
    while (!LIST_EMPTY(&b->stored)) {
        forget(b, LIST_FIRST(&b->stored)); // NOLINT(clang-analyzer-unix.Malloc)
    }
}

static int compare_uses(const void *a, const void *b)
{
    const struct stored *const *x = a;
    const struct stored *const *y = b;
    return ((*x)->used.ms > (*y)->used.ms) - ((*x)->used.ms < (*y)->used.ms);
}

/* Sorts the bundles so that admission releases the least recently used first. Returns false if out
 * of memory. */
static bool sort_by_use(struct bundles *b)
{
    const uint32_t n = admission_count(b->by_count);
    struct stored **all = calloc(n + 1, sizeof(struct stored *));
    struct stored *s;
    uint32_t i = 0;
    if (!all) {
        return false;
    }
    LIST_FOREACH(s, &b->stored, link)
    {
        all[i++] = s;
    }
    qsort(all, i, sizeof(struct stored *), compare_uses);
    for (uint32_t k = 0; k < i; k++) {
        admission_touch(&all[k]->places.by_count);
        admission_touch(&all[k]->places.by_bytes);
    }
    free(all);
    return true;
}

/* Adds the bundles of an earlier server and removes its unfinished uploads. */
int bundles_find_stored(struct bundles *b)
{
    DIR *entries = opendir(b->config.directory);
    bool has_memory = true;
    for (const struct dirent *entry; entries && has_memory && (entry = readdir(entries));) {
        const char *name = entry->d_name;
        struct stat st;
        if (strncmp(name, BUNDLE_PART, sizeof(BUNDLE_PART) - 1) == 0) {
            (void)unlinkat(dirfd(entries), name, 0);
        } else if (strlen(name) == BUNDLE_NAME_MAX && name[MSG_BUNDLE_HEX] == '-' &&
                   fstatat(dirfd(entries), name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                   S_ISREG(st.st_mode) && st.st_size <= (off_t)MSG_BUNDLE_MAX) {
            has_memory = bundle_add(b, name, (uint32_t)st.st_size,
                                    (struct tfe_wall){st.st_mtim.tv_sec * INT64_C(1000)});
        }
    }
    if (entries) {
        (void)closedir(entries);
    }
    return has_memory && sort_by_use(b) ? 0 : TFE_ENOMEM;
}
