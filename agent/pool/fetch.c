/* agent/pool/fetch.c: implementation of fetch.h. States:
 *
 *   fetch_new --> ASKING --all bytes received, digest matches--> ENDED
 *                  ^  '--error--> RETRYING
 *                  '--after a delay, FETCH with the error--'
 *
 * Received bytes are kept across attempts; only the complete bundle can be checked. */
#include "agent/pool/fetch.h"

#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/credentials/state_dir.h"

/* Delays between attempts. */
#define RETRY_FIRST_MS 1000
#define RETRY_LAST_MS 60000
/* Maximum number of cached bundles, each of at most MSG_BUNDLE_MAX bytes. */
#define CACHED_MAX 8

#define PART "part-"
/* Age at which a partial file of a killed agent is removed. */
#define PART_OLD_S 3600

struct fetch {
    struct fetch_options options;
    enum { ASKING, RETRYING, ENDED } state;
    char path[PATH_MAX]; /* path of the partial file, or "" if it has no name */
    char
        cached[PATH_MAX]; /* path in the cache for the complete bundle, or "" if it is not cached */
    int fd;               /* -1 if not open yet */
    uint32_t total;       /* 0 if not known yet */
    uint32_t received;    /* bytes received */
    uint32_t requested;   /* end of the requested range */
    crypto_generichash_state hash;
    struct event *timer; /* starts the next attempt, or reports the end */
    uint32_t retry_ms;
    struct tfe_reason error; /* error of the last attempt, or "" */
};

static void restart_download(struct fetch *f)
{
    f->received = f->requested = f->total = 0;
    (void)crypto_generichash_init(&f->hash, NULL, 0, MSG_BUNDLE_HEX / 2);
}

static bool is_expected_hash(struct fetch *f)
{
    uint8_t sum[MSG_BUNDLE_HEX / 2];
    char hex[MSG_BUNDLE_HEX + 1];
    (void)crypto_generichash_final(&f->hash, sum, sizeof sum);
    (void)sodium_bin2hex(hex, sizeof hex, sum, sizeof sum);
    return strcmp(hex, f->options.digest) == 0;
}

/* --- bundle cache --- */

struct cached_bundle {
    char name[MSG_BUNDLE_HEX + 1];
    struct timespec used;
};

static bool is_newer(const struct cached_bundle *a, const struct cached_bundle *b)
{
    return a->used.tv_sec != b->used.tv_sec ? a->used.tv_sec > b->used.tv_sec
                                            : a->used.tv_nsec > b->used.tv_nsec;
}

/* Removes the least recently used bundles, leaving space for one more. */
static void prune(const char *directory)
{
    struct cached_bundle newest[CACHED_MAX];
    size_t n = 0;
    struct stat st;
    DIR *entries = opendir(directory);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        const bool is_part = strncmp(entry->d_name, PART, sizeof PART - 1) == 0;
        if (fstatat(dirfd(entries), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !(is_part || submission_is_digest(entry->d_name))) {
            continue;
        }
        if (is_part && clock_wall().ms / 1000 - st.st_mtim.tv_sec > PART_OLD_S) {
            (void)unlinkat(dirfd(entries), entry->d_name, 0);
        }
        if (is_part) {
            continue;
        }
        struct cached_bundle one = {.used = st.st_mtim};
        memcpy(one.name, entry->d_name, sizeof one.name); /* a digest has the same length */
        for (size_t i = 0; i < n; i++) {
            if (is_newer(&one, &newest[i])) {
                const struct cached_bundle older = newest[i];
                newest[i] = one;
                one = older;
            }
        }
        if (n < CACHED_MAX - 1) {
            newest[n++] = one;
        } else {
            (void)unlinkat(dirfd(entries), one.name, 0);
        }
    }
    if (entries) {
        closedir(entries);
    }
}

/* Reads the whole file and compares its digest. */
static bool is_intact(struct fetch *f, int fd)
{
    uint8_t bytes[65536];
    off_t received = 0;
    ssize_t n = 1;
    restart_download(f);
    while (received <= (off_t)MSG_BUNDLE_MAX && n > 0) {
        n = pread(fd, bytes, sizeof bytes, received);
        if (n > 0) {
            (void)crypto_generichash_update(&f->hash, bytes, (size_t)n);
            received += n;
        }
    }
    const bool is_whole = n == 0 && is_expected_hash(f);
    restart_download(f);
    return is_whole;
}

/* Opens the bundle of an earlier job. Returns -1 if there is none that is intact. */
static int open_cached(struct fetch *f)
{
    int fd = open(f->cached, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && is_intact(f, fd)) {
        (void)futimens(fd, NULL); /* marks it as used */
        return fd;
    }
    if (fd >= 0) {
        log_warn("bundle_damaged", LOG_S("path", f->cached));
        (void)unlink(f->cached);
        (void)close(fd);
    }
    return -1;
}

/* Chooses the paths of the download. Returns a cached bundle, or -1. Without a cache
 * both paths are "". */
static int find_cached(struct fetch *f)
{
    char directory[PATH_MAX];
    struct tfe_reason reason;
    bool is_new;
    bool is_kept = state_dir_find(f->options.state_dir, f->path, &reason) == 0 &&
                   state_dir_path(directory, f->path, "agent-" STATE_DIR_BUNDLES, &reason) == 0 &&
                   state_dir_make(directory, &is_new, &reason) == 0 &&
                   state_dir_path(f->cached, directory, f->options.digest, &reason) == 0 &&
                   state_dir_path(f->path, directory, PART "XXXXXX", &reason) == 0;
    int fd = is_kept ? open_cached(f) : -1;
    if (is_kept && fd < 0) {
        prune(directory);
        f->fd = mkostemp(f->path, O_CLOEXEC);
        if (f->fd < 0) {
            reason_errno(&reason, "make a file in %.300s", directory);
            is_kept = false;
        }
    }
    if (!is_kept) {
        log_warn("bundle_not_stored", LOG_S("reason", reason.text));
    }
    if (!is_kept || fd >= 0) {
        f->path[0] = f->cached[0] = '\0';
    }
    return fd;
}

/* --- requests --- */

static void request_range(struct fetch *f, uint32_t length, const char *error)
{
    f->options.send(f->options.send_ctx, &(struct tfe_msg){.type = MSG_FETCH,
                                                           .u.fetch = {.digest = f->options.digest,
                                                                       .offset = f->requested,
                                                                       .length = length,
                                                                       .error = error}});
    f->requested += length;
}

/* Requests the next piece while the previous one is in transit. */
static void request_more(struct fetch *f)
{
    while (f->requested < f->total && f->requested - f->received <= MSG_FETCH_MAX) {
        const uint32_t left = f->total - f->requested;
        request_range(f, left < MSG_FETCH_MAX ? left : MSG_FETCH_MAX, NULL);
    }
}

static void request_first(struct fetch *f)
{
    f->state = ASKING;
    f->requested = f->received;
    request_range(f, MSG_FETCH_MAX, f->error.text[0] ? f->error.text : NULL);
}

static void end(struct fetch *f)
{
    f->state = ENDED;
    f->options.ended(f->options.ctx, f->fd);
}

/* Handles an error of the server or of this machine, which ends the attempt
 * but not the download. */
static void retry_later(struct fetch *f, const char *reason)
{
    f->state = RETRYING;
    f->retry_ms = backoff_next(f->retry_ms, RETRY_FIRST_MS, RETRY_LAST_MS);
    reason_set(&f->error, "%s", reason);
    log_warn("bundle_fetch_failed", LOG_S("reason", reason), LOG_U("retry_ms", f->retry_ms));
    timer_after(f->timer, f->retry_ms);
}

/* Uses a file in memory if bundles cannot be cached. */
static void begin(struct fetch *f)
{
    if (f->fd < 0) {
        f->fd = memfd_create("bundle", MFD_CLOEXEC);
    }
    if (f->fd < 0) {
        struct tfe_reason reason;
        reason_errno(&reason, "make a file for the bundle");
        retry_later(f, reason.text);
    } else {
        request_first(f);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct fetch *f = ctx;
    if (f->state == RETRYING) {
        begin(f);
    } else {
        end(f);
    }
}

/* --- responses --- */

static void finish(struct fetch *f)
{
    if (!is_expected_hash(f)) {
        restart_download(f);
        retry_later(f, "the received bytes do not match the digest");
        return;
    }
    if (f->path[0] && rename(f->path, f->cached) == 0) {
        f->path[0] = '\0';
    }
    log_info("bundle_fetched", LOG_U("bytes", f->total));
    end(f);
}

static void store_chunk(struct fetch *f, const struct msg_chunk *chunk)
{
    if (f->total && chunk->total != f->total) {
        restart_download(f);
        retry_later(f, "the bundle's length changed during the download");
        return;
    }
    if (chunk->offset != f->received) {
        return; /* belongs to an earlier attempt */
    }
    for (size_t n = 0; n < chunk->n_data;) {
        const ssize_t some =
            pwrite(f->fd, chunk->data + n, chunk->n_data - n, (off_t)(f->received + n));
        if (some < 0 && errno != EINTR) {
            retry_later(f, strerror(errno));
            return;
        }
        n += some > 0 ? (size_t)some : 0;
    }
    (void)crypto_generichash_update(&f->hash, chunk->data, chunk->n_data);
    f->error.text[0] = '\0';
    f->total = chunk->total;
    f->received += (uint32_t)chunk->n_data;
    f->requested = f->requested < f->total ? f->requested : f->total;
    if (f->received == f->total) {
        finish(f);
    } else {
        request_more(f);
    }
}

void fetch_handle_chunk(struct fetch *f, const struct msg_chunk *chunk)
{
    if (f->state != ASKING || strcmp(chunk->digest, f->options.digest) != 0) {
        return;
    }
    if (chunk->n_data > 0) {
        store_chunk(f, chunk);
    } else {
        retry_later(f, chunk->message);
    }
}

/* --- lifetime --- */

struct fetch *fetch_new(const struct fetch_options *options)
{
    struct fetch *f = must_alloc(sizeof *f);
    *f = (struct fetch){
        .options = *options, .fd = -1, .timer = evtimer_new(options->base, on_timer, f)};
    must_succeed(f->timer);
    restart_download(f);
    int cached = f->options.state_dir ? find_cached(f) : -1;
    if (cached >= 0) {
        f->fd = cached;
        f->state = ENDED;
        timer_after(f->timer, 0);
    } else {
        begin(f);
    }
    return f;
}

void fetch_free(struct fetch *f)
{
    if (f) {
        event_drop(&f->timer);
        fd_close(&f->fd);
        if (f->path[0]) {
            (void)unlink(f->path);
        }
        free(f);
    }
}

void fetch_welcome(struct fetch *f)
{
    if (f->state == ASKING) {
        request_first(f);
    }
}
