/* server/bundles.c: which bundles there are, how they come, and when they go. */
#include "server/bundles.h"

#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/principal.h"
#include "common/net/clock.h"
#include "common/net/fd.h"
#include "common/net/limits.h"
#include "common/net/log.h"
#include "common/net/timer.h"
#include "server/disk.h"
#include "server/rows.h"

/* Nobody has named it for so long: submit names it at once. */
#define GRACE_MS (INT64_C(3600) * 1000)
/* … and so long it is kept whatever room others need: its submit may be on the way. */
#define GRACE_LEAST_MS 60000
#define LOOK_MS 60000
/* Who brings one and says nothing for so long is let go. */
#define SILENCE_MS 20000
/* Bytes of one on the way from its bringer, and to the disk. */
#define WINDOW (192u * 1024)
#define WINDOW_STEP (48u * 1024)

#define TAG_HEX 16
#define NAME_MAX_ (MSG_BUNDLE_HEX + 1 + TAG_HEX)
#define PART "part-"

struct stored {
    LIST_ENTRY(stored) link;
    char name[NAME_MAX_ + 1]; /* DIGEST-SCOPE */
    uint32_t size;
    struct tfe_wall used; /* brought, or seen to be named */
};

/* One that comes. The thread has hash and fd, the loop the rest. */
struct upload {
    struct rows rows;
    LIST_ENTRY(upload) link;
    struct bundles *all;
    const struct principal *by; /* NULL: its rows are gone */
    char digest[MSG_BUNDLE_HEX + 1];
    char name[NAME_MAX_ + 1];
    char part[32];
    int fd;
    crypto_generichash_state hash;
    uint32_t total;   /* its bytes, or, until the last have come, as many as it may have */
    uint32_t at;      /* bytes that have come */
    uint32_t written; /* … and are on the disk's way */
    uint32_t told;    /* may come */
    uint32_t n_tasks; /* that the disk has */
    struct tfe_mono heard;
    bool is_ended; /* refused, or stored */
    bool is_stored;
    enum tfe_refusal refusal;
    char sentence[MSG_SENTENCE_MAX];
};

struct bundles {
    struct bundles_config config;
    struct disk *disk;
    struct event timer;
    LIST_HEAD(, stored) stored;
    LIST_HEAD(, upload) uploads;
    uint64_t size; /* of all that are stored */
    uint32_t n_uploads, last_part;
};

struct upload_task {
    struct disk_task task;
    struct upload *upload;
    int error; /* errno; -1: these are not its bytes */
    uint32_t offset, n;
    uint8_t bytes[];
};

struct bundle_reading {
    struct disk_task task;
    bundle_read_fn *done; /* NULL: nobody waits */
    void *ctx;
    uint32_t offset, asked, n, total;
    char path[PATH_MAX];
    uint8_t bytes[MSG_FETCH_MAX];
};

struct removal {
    struct disk_task task;
    char path[PATH_MAX];
};

/* --- which there are -------------------------------------------------------------------------- */

static void name_of(const char *digest, const struct principal *by, char ret[NAME_MAX_ + 1])
{
    uint8_t tag[TAG_HEX / 2];
    char hex[TAG_HEX + 1];
    uint8_t sum[crypto_generichash_BYTES_MIN];
    (void)crypto_generichash(sum, sizeof(sum), (const uint8_t *)by->scope, strlen(by->scope), NULL,
                             0);
    memcpy(tag, sum, sizeof(tag));
    (void)sodium_bin2hex(hex, sizeof(hex), tag, sizeof(tag));
    (void)snprintf(ret, NAME_MAX_ + 1, "%.*s-%s", (int)MSG_BUNDLE_HEX, digest, hex);
}

static struct stored *find(const struct bundles *b, const char *digest, const struct principal *by)
{
    const bool is_any = !by || strcmp(by->scope, PRINCIPAL_EVERY_JOB) == 0;
    char name[NAME_MAX_ + 1];
    struct stored *s;
    if (!is_any) {
        name_of(digest, by, name);
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
    return find(b, digest, by) != NULL;
}

static void path_of(const struct bundles *b, const char *name, char ret[PATH_MAX])
{
    (void)snprintf(ret, PATH_MAX, "%s/%s", b->config.directory, name);
}

static void do_remove(struct disk_task *task)
{
    (void)unlink(((struct removal *)task)->path);
}

static void removed(struct disk_task *task)
{
    free(task);
}

/* Without memory it is found again by the next server. */
static void remove_file(struct bundles *b, const char *name)
{
    struct removal *r = calloc(1, sizeof(*r));
    if (r) {
        r->task = (struct disk_task){.work = do_remove, .done = removed};
        path_of(b, name, r->path);
        disk_put(b->disk, &r->task);
    }
}

static bool add(struct bundles *b, const char *name, uint32_t size, struct tfe_wall used)
{
    struct stored *s = calloc(1, sizeof(*s));
    if (s) {
        (void)snprintf(s->name, sizeof(s->name), "%s", name);
        s->size = size;
        s->used = used;
        b->size += size;
        LIST_INSERT_HEAD(&b->stored, s, link);
    }
    return s != NULL;
}

static void forget(struct bundles *b, struct stored *s)
{
    b->size -= s->size;
    LIST_REMOVE(s, link);
    free(s);
}

/* That no job names, for longer than that. */
static bool is_old(const struct bundles *b, struct stored *s, struct tfe_wall now, int64_t than_ms)
{
    char digest[MSG_BUNDLE_HEX + 1];
    (void)snprintf(digest, sizeof(digest), "%.*s", (int)MSG_BUNDLE_HEX, s->name);
    if (b->config.is_named(b->config.ctx, digest)) {
        s->used = now;
    }
    return now.ms - s->used.ms > than_ms;
}

/* The oldest of those that may go. NULL: there is none. */
static struct stored *find_oldest(const struct bundles *b)
{
    const struct tfe_wall now = clock_wall();
    struct stored *oldest = NULL;
    struct stored *s;
    LIST_FOREACH(s, &b->stored, link)
    {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what was dropped is in the list no more */
        bool may_go = is_old(b, s, now, GRACE_LEAST_MS);
        if (may_go && (!oldest || s->used.ms < oldest->used.ms)) {
            oldest = s;
        }
    }
    return oldest;
}

static void drop(struct bundles *b, struct stored *s)
{
    log_info("bundle_removed", LOG_S("digest", s->name), LOG_U("bytes", s->size));
    remove_file(b, s->name);
    forget(b, s);
}

/* --- how they come ---------------------------------------------------------------------------- */

static void wake(struct upload *u)
{
    if (u->by && u->rows.wake) {
        u->rows.wake(u->rows.wake_ctx);
    }
}

static void __attribute__((format(printf, 3, 4)))
refuse(struct upload *u, enum tfe_refusal code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!u->is_ended) {
        (void)vsnprintf(u->sentence, sizeof(u->sentence), format, args);
        u->refusal = code;
        u->is_ended = true;
    }
    va_end(args);
    wake(u);
}

/* Nobody has it any more. */
static void upload_release(struct upload *u)
{
    struct bundles *b = u->all;
    if (u->by || u->n_tasks > 0) {
        return;
    }
    if (u->fd >= 0 && !u->is_stored) {
        remove_file(b, u->part);
    }
    fd_drop(&u->fd);
    b->n_uploads--;
    LIST_REMOVE(u, link);
    free(u);
}

static bool write_all(int fd, const uint8_t *bytes, size_t n, off_t at)
{
    while (n > 0) {
        const ssize_t some = pwrite(fd, bytes, n, at);
        if (some < 0 && errno != EINTR) {
            return false;
        }
        const size_t got = some > 0 ? (size_t)some : 0;
        bytes += got;
        at += (off_t)got;
        n -= got;
    }
    return true;
}

static void do_write(struct disk_task *task)
{
    struct upload_task *t = (struct upload_task *)task;
    struct upload *u = t->upload;
    (void)crypto_generichash_update(&u->hash, t->bytes, t->n);
    t->error = write_all(u->fd, t->bytes, t->n, t->offset) ? 0 : errno;
}

static bool sync_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool is_synced = fd >= 0 && fsync(fd) == 0;
    fd_drop(&fd);
    return is_synced;
}

/* Verified, then durable, then by its name. */
static void do_finish(struct disk_task *task)
{
    struct upload_task *t = (struct upload_task *)task;
    struct upload *u = t->upload;
    uint8_t sum[MSG_BUNDLE_HEX / 2];
    char hex[MSG_BUNDLE_HEX + 1];
    char from[PATH_MAX];
    char to[PATH_MAX];
    (void)crypto_generichash_final(&u->hash, sum, sizeof(sum));
    (void)sodium_bin2hex(hex, sizeof(hex), sum, sizeof(sum));
    path_of(u->all, u->part, from);
    path_of(u->all, u->name, to);
    if (strcmp(hex, u->digest) != 0) {
        t->error = -1;
    } else {
        const bool is_kept =
            fsync(u->fd) == 0 && rename(from, to) == 0 && sync_directory(u->all->config.directory);
        t->error = is_kept ? 0 : errno;
    }
}

static void settle(struct upload_task *t)
{
    struct upload *u = t->upload;
    u->n_tasks--;
    if (t->error < 0) {
        refuse(u, REFUSAL_BAD_REQUEST,
               "the bytes of the bundle are not those that its digest says");
    } else if (t->error > 0) {
        refuse(u, REFUSAL_STORE, "the server's disk did not take the bundle: %s",
               strerror(t->error));
    }
    free(t);
}

static void finished(struct disk_task *task)
{
    struct upload_task *t = (struct upload_task *)task;
    struct upload *u = t->upload;
    struct bundles *b = u->all;
    u->is_stored = t->error == 0;
    settle(t);
    if (u->is_stored) {
        struct stored *same;
        LIST_FOREACH(same, &b->stored, link)
        {
            if (strcmp(same->name, u->name) == 0) {
                break;
            }
        }
        if (!same && !add(b, u->name, u->total, clock_wall())) {
            refuse(u, REFUSAL_LIMIT_REACHED, "the server is out of memory; try again later");
        }
        log_info("bundle_stored", LOG_S("digest", u->name), LOG_U("bytes", u->total));
    }
    u->is_ended = true;
    wake(u);
    upload_release(u);
}

static struct upload_task *task_new(struct upload *u, size_t n_bytes,
                                    void (*work)(struct disk_task *task),
                                    void (*done)(struct disk_task *task))
{
    struct upload_task *t = malloc(sizeof(*t) + n_bytes);
    if (t) {
        t->task = (struct disk_task){.work = work, .done = done};
        t->upload = u;
        t->error = EIO; /* of what is not done any more */
        u->n_tasks++;
    } else {
        refuse(u, REFUSAL_LIMIT_REACHED, "the server is out of memory; try again later");
    }
    return t;
}

static void written(struct disk_task *task)
{
    struct upload_task *t = (struct upload_task *)task;
    struct upload *u = t->upload;
    u->written += t->n;
    settle(t);
    if (!u->is_ended && u->written == u->total) {
        struct upload_task *last = task_new(u, 0, do_finish, finished);
        if (last) {
            disk_put(u->all->disk, &last->task);
        }
    }
    wake(u);
    upload_release(u);
}

bool bundles_put(struct bundles *b, const struct principal *by, const struct msg_bundle_put *put)
{
    struct upload *u;
    LIST_FOREACH(u, &b->uploads, link)
    {
        if (u->by == by) {
            break;
        }
    }
    if (!u || u->is_ended) {
        return u != NULL; /* what was on its way when it was refused */
    }
    if (put->offset != u->at || put->n_data > u->told - u->at ||
        strcmp(put->digest, u->digest) != 0) {
        return false;
    }
    struct upload_task *t = task_new(u, put->n_data, do_write, written);
    if (t) {
        t->offset = u->at;
        t->n = (uint32_t)put->n_data;
        memcpy(t->bytes, put->data, put->n_data);
        u->at += t->n;
        if (put->is_last) {
            u->total = u->told = u->at; /* nobody may say more */
        }
        u->heard = clock_mono();
        disk_put(b->disk, &t->task);
    }
    return true;
}

static int upload_next(struct rows *rows, struct tfe_msg *ret)
{
    struct upload *u = (struct upload *)rows;
    if (u->is_ended) {
        *ret = u->refusal
                   ? (struct tfe_msg){.type = MSG_REFUSED, .u.refused = {u->refusal, u->sentence}}
                   : (struct tfe_msg){.type = MSG_DONE};
        return 0;
    }
    const uint32_t most = u->total - u->written;
    const uint32_t until = u->written + (most < WINDOW ? most : WINDOW);
    if (until <= u->told || (until - u->told < WINDOW_STEP && until < u->total)) {
        return TFE_EMORE;
    }
    *ret = (struct tfe_msg){.type = MSG_BUNDLE_WANT, .u.bundle_want = {u->digest, u->told, until}};
    u->told = until;
    return 0;
}

static void upload_free(struct rows *rows)
{
    struct upload *u = (struct upload *)rows;
    u->by = NULL;
    u->is_ended = true;
    upload_release(u);
}

/* Room for it, at the cost of what nobody names. */
static void make_room(struct upload *u)
{
    struct bundles *b = u->all;
    uint64_t coming = 0;
    struct upload *other;
    struct stored *oldest;
    LIST_FOREACH(other, &b->uploads, link)
    {
        coming += other->total;
    }
    while (b->size + coming > LIMIT_BUNDLES_BYTES && (oldest = find_oldest(b))) {
        drop(b, oldest);
    }
    if (b->size + coming > LIMIT_BUNDLES_BYTES) {
        refuse(u, REFUSAL_LIMIT_REACHED,
               "the server keeps %u MiB of bundles, as many as it takes: forget jobs that are over",
               (unsigned)(LIMIT_BUNDLES_BYTES >> 20));
    } else if (b->n_uploads > LIMIT_UPLOADS) {
        refuse(u, REFUSAL_LIMIT_REACHED, "%u bundles are being brought: try again at once",
               LIMIT_UPLOADS);
    }
}

static void open_part(struct upload *u)
{
    char path[PATH_MAX];
    (void)snprintf(u->part, sizeof(u->part), PART "%u", (unsigned)++u->all->last_part);
    path_of(u->all, u->part, path);
    struct statvfs space;
    if (mkdir(u->all->config.directory, 0700) != 0 && errno != EEXIST) {
        refuse(u, REFUSAL_STORE, "the server cannot make its directory of bundles: %s",
               strerror(errno));
        return;
    }
    if (statvfs(u->all->config.directory, &space) == 0 &&
        (uint64_t)space.f_bavail * space.f_frsize < u->total + LIMIT_DISK_LEFT_BYTES) {
        refuse(u, REFUSAL_STORE, "the server's disk is full: the bundle would not leave it %u MiB",
               (unsigned)(LIMIT_DISK_LEFT_BYTES >> 20));
        return;
    }
    u->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (u->fd < 0) {
        refuse(u, REFUSAL_STORE, "the server cannot make a file for the bundle: %s",
               strerror(errno));
    }
}

int rows_bundle(struct bundles *b, const struct principal *by, const struct msg_bundle_have *have,
                struct rows **ret)
{
    static const struct rows_ops ops = {.next = upload_next, .free = upload_free};
    struct stored *there = find(b, have->digest, by);
    struct upload *u = calloc(1, sizeof(*u));
    if (!u) {
        return TFE_ENOMEM;
    }
    u->rows.ops = &ops;
    u->all = b;
    u->by = by;
    u->fd = -1;
    u->total = have->total;
    u->heard = clock_mono();
    (void)snprintf(u->digest, sizeof(u->digest), "%s", have->digest); /* the codec has checked it */
    name_of(have->digest, by, u->name);
    (void)crypto_generichash_init(&u->hash, NULL, 0, MSG_BUNDLE_HEX / 2);
    LIST_INSERT_HEAD(&b->uploads, u, link);
    b->n_uploads++;
    if (there) {
        there->used = clock_wall();
        u->is_ended = u->is_stored = true;
    } else {
        make_room(u);
    }
    if (!u->is_ended) {
        open_part(u);
    }
    *ret = &u->rows;
    return 0;
}

/* --- how they are read ------------------------------------------------------------------------ */

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
    fd_drop(&fd);
    r->n = n;
}

static void have_read(struct disk_task *task)
{
    struct bundle_reading *r = (struct bundle_reading *)task;
    if (r->done) {
        r->done(r->ctx, r, r->offset, r->bytes, r->n, r->total);
    }
    free(r);
}

struct bundle_reading *bundles_read(struct bundles *b, const char *digest, uint32_t offset,
                                    uint32_t length, bundle_read_fn *done, void *ctx)
{
    const struct stored *s = find(b, digest, NULL);
    struct bundle_reading *r = s && length <= MSG_FETCH_MAX ? malloc(sizeof(*r)) : NULL;
    if (r) {
        r->task = (struct disk_task){.work = do_read, .done = have_read};
        r->done = done;
        r->ctx = ctx;
        r->offset = offset;
        r->asked = length;
        r->n = r->total = 0;
        path_of(b, s->name, r->path);
        disk_put(b->disk, &r->task);
    }
    return r;
}

void bundles_let_go(struct bundle_reading *reading)
{
    reading->done = NULL;
}

/* --- from start to end ------------------------------------------------------------------------ */

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct bundles *b = ctx;
    const struct tfe_wall now = clock_wall();
    struct upload *u;
    (void)fd;
    (void)what;
    for (struct stored *s = LIST_FIRST(&b->stored), *next; s; s = next) {
        next = LIST_NEXT(s, link);
        if (is_old(b, s, now, GRACE_MS)) {
            drop(b, s);
        }
    }
    LIST_FOREACH(u, &b->uploads, link)
    {
        if (u->n_tasks == 0 && tfe_mono_sub(clock_mono(), u->heard) > SILENCE_MS) {
            refuse(u, REFUSAL_BAD_REQUEST, "the bundle has not come");
        }
    }
    (void)timer_after(&b->timer, LOOK_MS);
}

/* What a server before this one has kept, and what it did not finish. */
static int look(struct bundles *b)
{
    DIR *entries = opendir(b->config.directory);
    bool has_memory = true;
    for (const struct dirent *entry; entries && has_memory && (entry = readdir(entries));) {
        const char *name = entry->d_name;
        struct stat st;
        if (strncmp(name, PART, sizeof(PART) - 1) == 0) {
            (void)unlinkat(dirfd(entries), name, 0);
        } else if (strlen(name) == NAME_MAX_ && name[MSG_BUNDLE_HEX] == '-' &&
                   fstatat(dirfd(entries), name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                   S_ISREG(st.st_mode) && st.st_size <= (off_t)MSG_BUNDLE_MAX) {
            has_memory = add(b, name, (uint32_t)st.st_size,
                             (struct tfe_wall){st.st_mtim.tv_sec * INT64_C(1000)});
        }
    }
    if (entries) {
        (void)closedir(entries);
    }
    return has_memory ? 0 : TFE_ENOMEM;
}

int bundles_new(const struct bundles_config *config, struct bundles **ret)
{
    struct bundles *b = calloc(1, sizeof(*b));
    if (!b) {
        return TFE_ENOMEM;
    }
    b->config = *config;
    LIST_INIT(&b->stored);
    LIST_INIT(&b->uploads);
    int rc = evtimer_assign(&b->timer, config->base, on_timer, b) == 0 &&
                     timer_after(&b->timer, LOOK_MS) == 0
                 ? disk_new(config->base, &b->disk)
                 : TFE_ENOMEM;
    rc = rc != 0 ? rc : look(b);
    if (rc != 0) {
        bundles_free(b);
        return rc;
    }
    *ret = b;
    return 0;
}

void bundles_free(struct bundles *b)
{
    if (!b) {
        return;
    }
    if (event_initialized(&b->timer)) {
        (void)event_del(&b->timer);
    }
    disk_free(b->disk);
    while (!LIST_EMPTY(&b->stored)) {
        forget(b, LIST_FIRST(&b->stored)); // NOLINT(clang-analyzer-unix.Malloc)
    }
    free(b);
}
