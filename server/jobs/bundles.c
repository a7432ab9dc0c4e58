/* server/jobs/bundles.c: uploads of bundles; stored bundles are in bundles_stored.c. */
#include "server/jobs/bundles.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/limits.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/message/principal.h"
#include "server/jobs/bundles_private.h"
#include "server/query/record_source.h"

/* An upload has this time plus the time of its bytes at the minimum rate, not counting time in
 * which the server writes. An upload of MSG_BUNDLE_MAX bytes thus ends within 17 minutes. */
#define SLACK_MS 20000
#define MIN_BYTES_PER_MS 64
#define CHECK_MS 5000
/* The search for unnamed bundles runs after this many checks. */
#define CHECKS_PER_DROP 12
/* Bytes of one upload that may be in transit or on their way to the disk. */
#define WINDOW (192u * 1024)
#define WINDOW_STEP (48u * 1024)

/* An upload. The worker thread uses hash and fd, the event loop the other fields. */
struct upload {
    struct rows rows;
    LIST_ENTRY(upload) link;
    struct bundles *all;
    const struct principal *by; /* NULL once the source is freed */
    char digest[MSG_BUNDLE_HEX + 1];
    char name[BUNDLE_NAME_MAX + 1];
    char part[32];
    int fd;
    crypto_generichash_state hash;
    uint32_t total;     /* size of the bundle; until the last byte has arrived, its maximum size */
    uint32_t at;        /* bytes received */
    uint32_t written;   /* bytes passed to the disk worker */
    uint32_t permitted; /* bytes that the client may send */
    uint32_t n_tasks;   /* tasks pending at the disk worker */
    struct bundle_places places;
    struct admission_slot slot;
    struct tfe_mono idle_since; /* time since which the disk worker has no task of this upload */
    int64_t waited_ms;          /* time waited for bytes before idle_since */
    bool is_open;               /* the worker thread has opened fd */
    bool is_ended;              /* the upload was refused or stored */
    bool is_stored;
    enum tfe_refusal refusal;
    char sentence[MSG_SENTENCE_MAX];
};

struct upload_task {
    struct disk_task task;
    struct upload *upload;
    int error; /* errno, or -1 if the digest does not match */
    int step;  /* step of opening that failed */
    uint32_t offset, n;
    uint8_t bytes[];
};

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

/* Frees the upload if neither the client nor the disk worker uses it. */
static void upload_release(struct upload *u)
{
    struct bundles *b = u->all;
    if (u->by || u->n_tasks > 0) {
        return;
    }
    if (u->fd >= 0) {
        bundle_release(b, u->fd, u->is_stored ? NULL : u->part);
    }
    bundle_leave(b, &u->places);
    admission_leave(b->slots, &u->slot);
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
    fd_close(&fd);
    return is_synced;
}

/* Verifies the digest, syncs the file, then renames it. */
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
    bundle_path(u->all, u->part, from);
    bundle_path(u->all, u->name, to);
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
        refuse(u, REFUSAL_BAD_REQUEST, "bundle rejected: its content does not match its digest");
    } else if (t->error > 0) {
        refuse(u, REFUSAL_STORE, "cannot write the bundle to the server's disk: %s",
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
        bundle_leave(b, &u->places);
        if (!bundle_add(b, u->name, u->total, clock_wall())) {
            refuse(u, REFUSAL_LIMIT_REACHED, "the server is out of memory (try again later)");
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
        t->error = EIO; /* of a task that is not done any more */
        t->step = 0;
        u->n_tasks++;
    } else {
        refuse(u, REFUSAL_LIMIT_REACHED, "the server is out of memory (try again later)");
    }
    return t;
}

static void written(struct disk_task *task)
{
    struct upload_task *t = (struct upload_task *)task;
    struct upload *u = t->upload;
    u->written += t->n;
    settle(t);
    u->idle_since = clock_mono();
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
        return u != NULL; /* bytes that were in transit when the upload was refused */
    }
    if (put->offset != u->at || put->n_data > u->permitted - u->at ||
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
            u->total = u->permitted = u->at; /* the client may send no more */
        }
        if (u->n_tasks == 1) {
            u->waited_ms += tfe_mono_sub(clock_mono(), u->idle_since);
        }
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
    const uint32_t max = u->total - u->written;
    const uint32_t until = u->written + (max < WINDOW ? max : WINDOW);
    if (!u->is_open || until == u->permitted ||
        (until - u->permitted < WINDOW_STEP && until < u->total)) {
        return TFE_EMORE;
    }
    *ret = (struct tfe_msg){.type = MSG_BUNDLE_WANT,
                            .u.bundle_want = {u->digest, u->permitted, until}};
    u->permitted = until;
    return 0;
}

static void upload_free(struct rows *rows)
{
    struct upload *u = (struct upload *)rows;
    u->by = NULL;
    u->is_ended = true;
    upload_release(u);
}

/* Counts the upload, which may end other uploads or remove bundles that no job names. */
static void admit(struct upload *u)
{
    struct bundles *b = u->all;
    struct admission_claim claim = admission_claim_of(u->by, 1);
    struct admission_slot *place;
    if (admission_enter(b->slots, &claim, u, &u->slot) != 0 ||
        bundle_enter(b, u->name, u->total, NULL, &u->places) != 0) {
        refuse(u, REFUSAL_LIMIT_REACHED, "the server is out of memory (try again later)");
        return;
    }
    while ((place = admission_next_eviction(b->slots, &u->slot, NULL))) {
        struct upload *other = place->owner;
        admission_leave(b->slots, place);
        refuse(other, REFUSAL_LIMIT_REACHED,
               "too many concurrent bundle uploads, of this token or in total (try again)");
        if (other == u) {
            return;
        }
    }
    if (!bundle_free_space(b, &u->places)) {
        bundle_leave(b, &u->places);
        refuse(u, REFUSAL_LIMIT_REACHED,
               "bundle store is full or this token's quota is used up: the store holds %u bundles "
               "and %u MiB (forget finished jobs)",
               (unsigned)admission_count(b->by_count),
               (unsigned)(admission_used(b->by_bytes) >> 20));
    }
}

/* The step at which an upload file could not be created. */
enum { OPEN_DIRECTORY = 1, OPEN_SPACE, OPEN_FILE };

static void do_open(struct disk_task *task)
{
    struct upload_task *t = (struct upload_task *)task;
    struct upload *u = t->upload;
    const char *directory = u->all->config.directory;
    char path[PATH_MAX];
    struct statvfs space;
    bundle_path(u->all, u->part, path);
    t->error = 0;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        t->error = errno;
        t->step = OPEN_DIRECTORY;
    } else if (statvfs(directory, &space) == 0 &&
               (uint64_t)space.f_bavail * space.f_frsize < u->total + LIMIT_DISK_LEFT_BYTES) {
        t->error = ENOSPC;
        t->step = OPEN_SPACE;
    } else {
        u->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        t->error = u->fd < 0 ? errno : 0;
        t->step = OPEN_FILE;
    }
}

/* The file is open: the client may send. */
static void opened(struct disk_task *task)
{
    struct upload_task *t = (struct upload_task *)task;
    struct upload *u = t->upload;
    u->n_tasks--;
    u->is_open = t->error == 0;
    u->idle_since = clock_mono();
    if (t->error != 0 && t->step == OPEN_SPACE) {
        refuse(u, REFUSAL_STORE,
               "the server's disk is full: less than %u MiB would be free after the upload",
               (unsigned)(LIMIT_DISK_LEFT_BYTES >> 20));
    } else if (t->error != 0) {
        refuse(u, REFUSAL_STORE, "the server cannot create %s: %s",
               t->step == OPEN_DIRECTORY ? "the bundle directory" : "the bundle file",
               strerror(t->error));
    }
    free(t);
    wake(u);
    upload_release(u);
}

static void open_part(struct upload *u)
{
    struct upload_task *t = task_new(u, 0, do_open, opened);
    (void)snprintf(u->part, sizeof(u->part), BUNDLE_PART "%u", (unsigned)++u->all->last_part);
    if (t) {
        disk_put(u->all->disk, &t->task);
    }
}

int rows_bundle(struct bundles *b, const struct principal *by, const struct msg_bundle_have *have,
                struct rows **ret)
{
    static const struct rows_ops ops = {.next = upload_next, .free = upload_free};
    struct stored *there = bundle_find(b, have->digest, by);
    struct upload *u = calloc(1, sizeof(*u));
    if (!u) {
        return TFE_ENOMEM;
    }
    u->rows.ops = &ops;
    u->all = b;
    u->by = by;
    u->fd = -1;
    u->total = have->total;
    (void)snprintf(u->digest, sizeof(u->digest), "%s",
                   have->digest); /* the codec has validated the digest */
    bundle_name(have->digest, by, u->name);
    (void)crypto_generichash_init(&u->hash, NULL, 0, MSG_BUNDLE_HEX / 2);
    LIST_INSERT_HEAD(&b->uploads, u, link);
    if (there) {
        bundle_touch(there);
        u->is_ended = u->is_stored = true;
    } else {
        admit(u);
    }
    if (!u->is_ended) {
        open_part(u);
    }
    *ret = &u->rows;
    return 0;
}

static void check_uploads(struct bundles *b)
{
    struct upload *u;
    LIST_FOREACH(u, &b->uploads, link)
    {
        const int64_t waits_ms =
            u->waited_ms + (u->n_tasks == 0 ? tfe_mono_sub(clock_mono(), u->idle_since) : 0);
        if (u->is_open && !u->is_ended && waits_ms > SLACK_MS + u->at / MIN_BYTES_PER_MS) {
            refuse(u, REFUSAL_BAD_REQUEST, "the bundle upload is too slow");
            admission_leave(b->slots, &u->slot);
        }
    }
}

/* --- creation and end --- */

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct bundles *b = ctx;
    if (++b->n_checks % CHECKS_PER_DROP == 0) {
        bundles_drop_old(b);
    }
    check_uploads(b);
    (void)timer_after(&b->timer, CHECK_MS);
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
    /* Bundles that no job names are removed when space is needed, the oldest first. So a quota is
     * a fixed part of the capacity, not of the free space. */
    struct admission_config by_count = {
        .capacity = LIMIT_BUNDLES, .reserve = LIMIT_BUNDLES / 16, .evicts_oldest = true};
    struct admission_config by_bytes = {.capacity = LIMIT_BUNDLES_BYTES,
                                        .reserve = LIMIT_BUNDLES_BYTES / 16,
                                        .evicts_oldest = true};
    by_count.quota_max = admission_quota(by_count.capacity, by_count.reserve, 0);
    by_bytes.quota_max = admission_quota(by_bytes.capacity, by_bytes.reserve, 0);
    const struct admission_config slots = {.capacity = LIMIT_UPLOADS,
                                           .reserve = LIMIT_ADMIN_UPLOADS};
    if (admission_new(&by_count, &b->by_count) != 0 ||
        admission_new(&by_bytes, &b->by_bytes) != 0 || admission_new(&slots, &b->slots) != 0) {
        bundles_free(b);
        return TFE_ENOMEM;
    }
    int rc = evtimer_assign(&b->timer, config->base, on_timer, b) == 0 &&
                     timer_after(&b->timer, CHECK_MS) == 0
                 ? disk_new(config->base, &b->disk)
                 : TFE_ENOMEM;
    rc = rc != 0 ? rc : bundles_find_stored(b);
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
    bundles_forget_all(b);
    admission_free(b->by_count);
    admission_free(b->by_bytes);
    admission_free(b->slots);
    free(b);
}
