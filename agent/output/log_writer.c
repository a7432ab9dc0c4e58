/* agent/output/log_writer.c: a queue between the agent's loop and the thread that may wait for
 * disks. */
#include "agent/output/log_writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/output/log_file.h"
#include "agent/output/log_prune.h"
#include "common/net/clock.h"
#include "common/net/log.h"

#define CHUNK_SMALL ((size_t)4 * 1024)
#define CHUNK_LARGE ((size_t)64 * 1024)
#define STACK_BYTES ((size_t)256 * 1024)
/* Files removed before the queue is looked at again, and the time between two such steps. */
#define PRUNE_STEP 64
#define PRUNE_STEP_MS 500
#define PRUNE_EVERY_MS 3600000
/* A disk that cannot be written is no news for so long. */
#define SAY_EVERY_MS 60000

enum chunk_kind { CHUNK_OPEN, CHUNK_WRITE, CHUNK_CLOSE };

/* An order to the thread. */
struct chunk {
    struct chunk *next;
    enum chunk_kind kind;
    struct log_file *file;
    uint64_t lost_before; /* lines that found no room before these bytes */
    size_t n;
    size_t cap;
    char bytes[];
};

struct log_file {
    struct log_writer *writer;
    struct log_file *next; /* the thread's: of those that are open */
    struct log_place place;
    uint64_t lost;        /* the loop's: lines, since the last chunk */
    bool lost_mid;        /* the last loss ended within a line */
    struct log_disk disk; /* the thread's */
    bool failing;         /* likewise: the last write did not succeed */
};

struct log_writer {
    char *root;
    uint64_t max_bytes;
    uint32_t keep_ms;
    pthread_t thread;
    /* The thread's. */
    struct log_file *files;
    struct tfe_mono prune_at;
    unsigned failing;         /* files */
    struct tfe_mono say_next; /* not sooner: a disk that fills again and again */
    /* Both threads', under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct chunk *first, *last;
    size_t queued;
    struct tfe_mono moved; /* when the thread last finished something, or had nothing to do */
    bool ending, ended;
};

/* --- the thread ----------------------------------------------------------------------------------
 */

/* Once, whichever files it hits; and once when it is over. */
static void report(struct log_writer *w, struct log_file *file, bool good, const char *why,
                   uint64_t lost)
{
    struct tfe_mono now = clock_mono();
    if (file->failing == !good) {
        return;
    }
    file->failing = !good;
    if (!good && w->failing++ == 0 && !tfe_mono_before(now, w->say_next)) {
        log_warn("logs_not_written", LOG_S("why", why));
        w->say_next = tfe_mono_add(now, SAY_EVERY_MS);
    } else if (good && --w->failing == 0) {
        log_info("logs_written_again", LOG_U("lost_lines", lost));
    }
}

static void write_chunk(struct log_writer *w, const struct chunk *chunk)
{
    struct log_file *file = chunk->file;
    struct tfe_why why = {.text = ""};
    uint64_t lost = file->disk.lost + chunk->lost_before;
    bool good = log_disk_write(&file->disk, w->root, &file->place, w->max_bytes, chunk->lost_before,
                               chunk->bytes, chunk->n, &why);
    report(w, file, good, why.text, lost);
}

static void close_file(struct log_writer *w, struct log_file *file)
{
    for (struct log_file **at = &w->files; *at; at = &(*at)->next) {
        if (*at == file) {
            *at = file->next;
            break;
        }
    }
    w->failing -= file->failing;
    log_disk_done(&file->disk);
    free(file);
}

static void carry_out(struct log_writer *w, struct chunk *chunk)
{
    switch (chunk->kind) {
    case CHUNK_OPEN:
        chunk->file->next = w->files;
        w->files = chunk->file;
        write_chunk(w, chunk); /* nothing, but the file is there */
        return;
    case CHUNK_WRITE:
        write_chunk(w, chunk);
        return;
    case CHUNK_CLOSE:
        if (chunk->lost_before || chunk->file->disk.lost) {
            write_chunk(w, chunk); /* the last chance to say what is missing */
        }
        close_file(w, chunk->file);
        return;
    }
}

/* A step of removing old logs; files in use look new to others who do the same. */
static void prune(struct log_writer *w)
{
    for (const struct log_file *file = w->files; file; file = file->next) {
        log_disk_touch(&file->disk);
    }
    struct tfe_wall before = {.ms = clock_wall().ms - w->keep_ms};
    bool more = log_prune(w->root, before, PRUNE_STEP);
    uint32_t every = w->keep_ms / 4 < PRUNE_EVERY_MS ? w->keep_ms / 4 : PRUNE_EVERY_MS;
    w->prune_at = tfe_mono_add(clock_mono(), more ? PRUNE_STEP_MS : every);
}

/* Waits for an order or for the time to prune. Holds the lock before and after. */
static void wait_for_work(struct log_writer *w)
{
    w->moved = clock_mono();
    if (tfe_mono_is_never(w->prune_at)) {
        pthread_cond_wait(&w->work, &w->lock);
        return;
    }
    int64_t ms = tfe_mono_sub(w->prune_at, w->moved);
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    if (ms > 0) {
        until.tv_sec += ms / 1000;
        until.tv_nsec += ms % 1000 * 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&w->work, &w->lock, &until);
    }
}

static void *run(void *ctx)
{
    struct log_writer *w = ctx;
    pthread_mutex_lock(&w->lock);
    while (w->first || !w->ending) {
        struct chunk *chunk = w->first;
        if (!chunk && tfe_mono_before(clock_mono(), w->prune_at)) {
            wait_for_work(w);
            continue;
        }
        if (chunk) {
            w->first = chunk->next;
            w->last = w->first ? w->last : NULL;
        }
        pthread_mutex_unlock(&w->lock);
        if (chunk) {
            carry_out(w, chunk);
        } else {
            prune(w);
        }
        pthread_mutex_lock(&w->lock);
        w->queued -= chunk ? chunk->n : 0;
        w->moved = clock_mono();
        free(chunk);
    }
    w->ended = true;
    pthread_cond_signal(&w->done);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* --- the loop's side -----------------------------------------------------------------------------
 */

static struct chunk *chunk_new(enum chunk_kind kind, struct log_file *file, size_t cap)
{
    struct chunk *chunk = malloc(sizeof(*chunk) + cap);
    if (chunk) {
        *chunk = (struct chunk){.kind = kind, .file = file, .cap = cap};
    }
    return chunk;
}

/* Holds the lock. */
static void queue(struct log_writer *w, struct chunk *chunk)
{
    if (w->last) {
        w->last->next = chunk;
    } else {
        w->first = chunk;
        w->moved = clock_mono();
        pthread_cond_signal(&w->work);
    }
    w->last = chunk;
}

struct log_file *log_file_open(struct log_writer *w, const struct log_place *place)
{
    struct log_file *file = calloc(1, sizeof(*file));
    struct chunk *chunk = file ? chunk_new(CHUNK_OPEN, file, 0) : NULL;
    if (!chunk) {
        free(file);
        return NULL;
    }
    file->writer = w;
    file->place = *place;
    log_disk_init(&file->disk);
    pthread_mutex_lock(&w->lock);
    queue(w, chunk);
    pthread_mutex_unlock(&w->lock);
    return file;
}

/* Holds the lock. */
static bool is_waited_for(const struct log_writer *w)
{
    return tfe_mono_sub(clock_mono(), w->moved) < LOG_PATIENCE_MS;
}

bool log_file_has_room(const struct log_file *file)
{
    struct log_writer *w = file->writer;
    pthread_mutex_lock(&w->lock);
    bool room = w->queued < LOG_QUEUE_MAX || !is_waited_for(w);
    pthread_mutex_unlock(&w->lock);
    return room;
}

static void lose(struct log_file *file, const char *bytes, size_t n)
{
    file->lost += log_lines(bytes, n);
    file->lost_mid = bytes[n - 1] != '\n';
}

void log_file_write(struct log_file *file, const char *bytes, size_t n, bool at_end)
{
    struct log_writer *w = file->writer;
    if (n && file->lost_mid) { /* the rest of a line whose beginning was lost */
        const char *end = memchr(bytes, '\n', n);
        size_t skip = end ? (size_t)(end - bytes) + 1 : n;
        file->lost_mid = !end;
        bytes += skip;
        n -= skip;
    }
    if (!n) {
        return;
    }
    pthread_mutex_lock(&w->lock);
    struct chunk *chunk = w->last;
    if (w->queued + n > (at_end ? LOG_QUEUE_HARD_MAX : LOG_QUEUE_MAX + CHUNK_LARGE)) {
        lose(file, bytes, n);
    } else if (chunk && chunk->kind == CHUNK_WRITE && chunk->file == file && !file->lost &&
               chunk->cap - chunk->n >= n) {
        memcpy(chunk->bytes + chunk->n, bytes, n);
        chunk->n += n;
        w->queued += n;
    } else {
        size_t cap = !chunk && n <= CHUNK_SMALL ? CHUNK_SMALL : CHUNK_LARGE;
        chunk = chunk_new(CHUNK_WRITE, file, n > cap ? n : cap);
        if (chunk) {
            memcpy(chunk->bytes, bytes, n);
            chunk->n = n;
            chunk->lost_before = file->lost;
            file->lost = 0;
            w->queued += n;
            queue(w, chunk);
        } else {
            lose(file, bytes, n);
        }
    }
    pthread_mutex_unlock(&w->lock);
}

void log_file_close(struct log_file *file)
{
    if (!file) {
        return;
    }
    struct log_writer *w = file->writer;
    struct chunk *chunk = chunk_new(CHUNK_CLOSE, file, 0);
    if (!chunk) {
        return; /* left to the process's end */
    }
    chunk->lost_before = file->lost;
    pthread_mutex_lock(&w->lock);
    queue(w, chunk);
    pthread_mutex_unlock(&w->lock);
}

/* --- beginning and end ---------------------------------------------------------------------------
 */

/* Also what lies above it. */
static int make_root(char *root, struct tfe_why *why)
{
    for (char *slash = strchr(root + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(root, 0777);
        *slash = '/';
    }
    struct stat st;
    if ((mkdir(root, 0777) && errno != EEXIST) || stat(root, &st)) {
        why_errno(why, "--log-dir: make %s", root);
        return TFE_ESYS;
    }
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
    } else if (access(root, W_OK | X_OK) == 0) {
        return 0;
    }
    why_errno(why, "--log-dir: write in %s", root);
    return TFE_ESYS;
}

static int start_thread(struct log_writer *w)
{
    /* Signals are the loop's. */
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all);
    if (pthread_attr_init(&attributes)) {
        return TFE_ENOMEM;
    }
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    rc = rc ? rc : pthread_create(&w->thread, &attributes, run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return rc ? TFE_ENOMEM : 0;
}

static void free_parts(struct log_writer *w)
{
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->done);
    pthread_mutex_destroy(&w->lock);
    free(w->root);
    free(w);
}

int log_writer_new(const struct log_wish *wish, struct log_writer **ret, struct tfe_why *why)
{
    struct log_writer *w = calloc(1, sizeof(*w));
    if (!w || !(w->root = strdup(wish->root))) {
        free(w);
        why_set(why, "--log-dir: %s", tfe_error_sentence(TFE_ENOMEM));
        return TFE_ENOMEM;
    }
    w->max_bytes = wish->max_bytes;
    w->keep_ms = wish->keep_ms;
    w->prune_at = wish->keep_ms ? clock_mono() : TFE_MONO_NEVER;
    w->moved = clock_mono();
    w->say_next = w->moved;
    pthread_condattr_t steady;
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, &steady);
    pthread_cond_init(&w->done, &steady);
    pthread_condattr_destroy(&steady);
    int rc = make_root(w->root, why);
    if (rc == 0) {
        rc = start_thread(w);
        if (rc) {
            why_set(why, "--log-dir: no thread for it");
        }
    }
    if (rc) {
        free_parts(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void log_writer_free(struct log_writer *w, uint32_t timeout_ms)
{
    if (!w) {
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_cond_signal(&w->work);
    int rc = 0;
    while (!w->ended && rc == 0) {
        rc = pthread_cond_timedwait(&w->done, &w->lock, &until);
    }
    bool ended = w->ended;
    pthread_mutex_unlock(&w->lock);
    if (!ended) {
        pthread_detach(w->thread);
        log_warn("logs_not_finished", LOG_S("why", "the disk hangs"));
        return;
    }
    pthread_join(w->thread, NULL);
    free_parts(w);
}
