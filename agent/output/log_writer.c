/* agent/output/log_writer.c: queue between the agent's event loop and the thread
 * that writes to disk. */
#include "agent/output/log_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/output/log_file.h"
#include "agent/output/log_prune.h"
#include "agent/output/log_read.h"
#include "agent/output/loss_report.h"
#include "common/base/clock.h"
#include "common/base/worker.h"
#include "common/cli/log.h"

#define CHUNK_SMALL ((size_t)4 * 1024)
#define CHUNK_LARGE ((size_t)64 * 1024)
#define STACK_BYTES ((size_t)256 * 1024)
/* Number of files removed before the queue is checked again, and intervals
 * between pruning steps. */
#define PRUNE_STEP 64
#define PRUNE_STEP_MS 500
#define PRUNE_EVERY_MS 3600000

enum chunk_kind { CHUNK_OPEN, CHUNK_WRITE, CHUNK_CLOSE, CHUNK_READ };

/* A job for the thread. */
struct chunk {
    TAILQ_ENTRY(chunk) link;
    enum chunk_kind kind;
    struct log_target *target;
    struct log_reader *reader; /* for CHUNK_READ */
    uint64_t lost_before;      /* lines discarded before these bytes because the queue was full */
    size_t n;
    size_t cap;
    char bytes[];
};

struct log_target {
    struct log_writer *writer;
    LIST_ENTRY(log_target) link; /* element of the thread's list of open targets */
    struct log_place place;
    uint64_t lost;        /* event loop only: lines lost since the last chunk */
    bool lost_mid;        /* event loop only: the last loss ended within a line */
    struct log_file file; /* thread only */
    bool failing;         /* thread only: the last write failed */
};

struct log_writer {
    char *root;
    uint64_t max_bytes;
    uint32_t keep_ms;
    bool reads; /* log_writer_read is available */
    struct worker *worker;
    /* State of the thread. */
    LIST_HEAD(, log_target) targets;
    struct tfe_mono prune_at;
    unsigned failing;          /* number of files whose last write failed */
    struct loss_report failed; /* lines that could not be written */
    /* State of the event loop. */
    struct loss_report overflow; /* lines discarded because the queue was full */
    /* Shared state, protected by the worker's lock. */
    TAILQ_HEAD(chunks, chunk) chunks;
    size_t queued;
    struct tfe_mono moved; /* when the thread last finished a chunk or was idle */
    bool ending;
    TAILQ_HEAD(, log_reader) read; /* readers whose step is complete */
};

/* --- thread --- */

static void log_lost(const struct loss_report *loss_report, const char *reason)
{
    log_warn("logs_not_written", LOG_U("lost_lines", loss_report->lines), LOG_S("reason", reason));
}

static void log_recovered(struct loss_report *loss_report)
{
    uint64_t lines;
    if (loss_end(loss_report, &lines)) {
        log_info("logs_written_again", LOG_U("lost_lines", lines));
    }
}

/* Records the result of a write. Failures are reported for all files together. */
static void report(struct log_writer *w, struct log_target *target, bool good, const char *reason,
                   uint64_t lost)
{
    if (target->failing == good) {
        target->failing = !good;
        w->failing += good ? -1U : 1U;
    }
    if (!good && loss_add(&w->failed, lost)) {
        log_lost(&w->failed, reason);
    } else if (w->failing == 0) {
        log_recovered(&w->failed);
    }
}

static void write_chunk(struct log_writer *w, const struct chunk *chunk)
{
    struct log_target *target = chunk->target;
    struct tfe_reason reason = {.text = ""};
    uint64_t failed = target->file.failed;
    bool good = log_file_write(&target->file, w->root, &target->place, w->max_bytes,
                               chunk->lost_before, chunk->bytes, chunk->n, &reason);
    report(w, target, good, reason.text, target->file.failed - failed);
}

static void close_target(struct log_writer *w, struct log_target *target)
{
    LIST_REMOVE(target, link);
    w->failing -= target->failing;
    log_file_done(&target->file);
    free(target);
}

static void chunk_execute(struct log_writer *w, struct chunk *chunk)
{
    switch (chunk->kind) {
    case CHUNK_OPEN:
        LIST_INSERT_HEAD(&w->targets, chunk->target, link);
        write_chunk(w, chunk); /* writes no data, but creates the file */
        return;
    case CHUNK_WRITE:
        write_chunk(w, chunk);
        return;
    case CHUNK_READ:
        log_reader_step(chunk->reader, w->root);
        return;
    case CHUNK_CLOSE:
        if (chunk->lost_before || chunk->target->file.lost) {
            write_chunk(w, chunk); /* last chance to note the lost lines */
        }
        close_target(w, chunk->target);
        return;
    }
}

/* Removes some old logs. Files in use are touched first, so that other agents'
 * pruning spares them. */
static void prune(struct log_writer *w)
{
    const struct log_target *target;
    LIST_FOREACH(target, &w->targets, link)
    {
        log_file_touch(&target->file);
    }
    struct tfe_wall before = {.ms = clock_wall().ms - w->keep_ms};
    bool more = log_prune(w->root, before, PRUNE_STEP);
    uint32_t every = w->keep_ms / 4 < PRUNE_EVERY_MS ? w->keep_ms / 4 : PRUNE_EVERY_MS;
    w->prune_at = tfe_mono_add(clock_mono(), more ? PRUNE_STEP_MS : every);
}

static void run(void *ctx)
{
    struct log_writer *w = ctx;
    worker_lock(w->worker);
    while (!TAILQ_EMPTY(&w->chunks) || !w->ending) {
        struct chunk *chunk = TAILQ_FIRST(&w->chunks);
        if (!chunk && tfe_mono_before(clock_mono(), w->prune_at)) {
            w->moved = clock_mono();
            worker_wait(w->worker, w->prune_at);
            continue;
        }
        if (chunk) {
            TAILQ_REMOVE(&w->chunks, chunk, link);
        }
        worker_unlock(w->worker);
        if (chunk) {
            chunk_execute(w, chunk);
        } else {
            prune(w);
        }
        worker_lock(w->worker);
        w->queued -= chunk ? chunk->n : 0;
        w->moved = clock_mono();
        if (chunk && chunk->reader) {
            TAILQ_INSERT_TAIL(&w->read, chunk->reader, link);
            worker_notify(w->worker);
        }
        free(chunk);
    }
    worker_unlock(w->worker);
}

/* --- event loop --- */

static struct chunk *chunk_new(enum chunk_kind kind, struct log_target *target, size_t cap)
{
    struct chunk *chunk = malloc(sizeof(*chunk) + cap);
    if (chunk) {
        *chunk = (struct chunk){.kind = kind, .target = target, .cap = cap};
    }
    return chunk;
}

/* Appends a chunk. Precondition: the lock is held. */
static void queue(struct log_writer *w, struct chunk *chunk)
{
    if (TAILQ_EMPTY(&w->chunks)) {
        w->moved = clock_mono();
        worker_wake(w->worker);
    }
    TAILQ_INSERT_TAIL(&w->chunks, chunk, link);
}

struct log_target *log_writer_open(struct log_writer *w, const struct log_place *place)
{
    struct log_target *target = calloc(1, sizeof(*target));
    struct chunk *chunk = target ? chunk_new(CHUNK_OPEN, target, 0) : NULL;
    if (!chunk) {
        free(target);
        return NULL;
    }
    target->writer = w;
    target->place = *place;
    log_file_init(&target->file);
    worker_lock(w->worker);
    queue(w, chunk);
    worker_unlock(w->worker);
    return target;
}

/* Returns true if the disk has recently made progress. Precondition: the lock is held. */
static bool has_progressed(const struct log_writer *w)
{
    return tfe_mono_sub(clock_mono(), w->moved) < LOG_PATIENCE_MS;
}

bool log_writer_accepts(const struct log_target *target)
{
    struct log_writer *w = target->writer;
    worker_lock(w->worker);
    bool room = w->queued < LOG_QUEUE_MAX || !has_progressed(w);
    worker_unlock(w->worker);
    return room;
}

static void count_lost(struct log_target *target, const char *bytes, size_t n)
{
    target->lost += log_file_lines(bytes, n);
    target->lost_mid = bytes[n - 1] != '\n';
}

void log_writer_write(struct log_target *target, const char *bytes, size_t n, bool at_end)
{
    struct log_writer *w = target->writer;
    if (n && target->lost_mid) { /* discard the rest of a line whose beginning was lost */
        const char *end = memchr(bytes, '\n', n);
        size_t skip = end ? (size_t)(end - bytes) + 1 : n;
        target->lost_mid = !end;
        bytes += skip;
        n -= skip;
    }
    if (!n) {
        return;
    }
    uint64_t lost = target->lost;
    bool is_lost = false;
    worker_lock(w->worker);
    struct chunk *chunk = TAILQ_LAST(&w->chunks, chunks);
    if (w->queued + n > (at_end ? LOG_QUEUE_HARD_MAX : LOG_QUEUE_MAX + CHUNK_LARGE)) {
        is_lost = true;
    } else if (chunk && chunk->kind == CHUNK_WRITE && chunk->target == target && !target->lost &&
               chunk->cap - chunk->n >= n) {
        memcpy(chunk->bytes + chunk->n, bytes, n);
        chunk->n += n;
        w->queued += n;
    } else {
        size_t cap = !chunk && n <= CHUNK_SMALL ? CHUNK_SMALL : CHUNK_LARGE;
        chunk = chunk_new(CHUNK_WRITE, target, n > cap ? n : cap);
        if (chunk) {
            memcpy(chunk->bytes, bytes, n);
            chunk->n = n;
            chunk->lost_before = target->lost;
            target->lost = 0;
            w->queued += n;
            queue(w, chunk);
        } else {
            is_lost = true;
        }
    }
    worker_unlock(w->worker);
    if (is_lost) {
        count_lost(target, bytes, n);
    }
    if (is_lost && loss_add(&w->overflow, target->lost - lost)) {
        log_lost(&w->overflow, "the disk is slower than the trainers, or hangs");
    } else if (!is_lost) {
        log_recovered(&w->overflow);
    }
}

void log_writer_close(struct log_target *target)
{
    if (!target) {
        return;
    }
    struct log_writer *w = target->writer;
    struct chunk *chunk = chunk_new(CHUNK_CLOSE, target, 0);
    if (!chunk) {
        return; /* out of memory: the file is closed when the process ends */
    }
    chunk->lost_before = target->lost;
    worker_lock(w->worker);
    queue(w, chunk);
    worker_unlock(w->worker);
}

/* --- reading --- */

void log_writer_read(struct log_writer *w, struct log_reader *reader)
{
    struct chunk *chunk = w->reads ? chunk_new(CHUNK_READ, NULL, 0) : NULL;
    if (!chunk) {
        reader->done = true;
        reader->n = 0;
        return;
    }
    chunk->reader = reader;
    reader->busy = true;
    worker_lock(w->worker);
    queue(w, chunk);
    worker_unlock(w->worker);
}

static void on_steps_done(void *ctx)
{
    struct log_writer *w = ctx;
    struct log_reader *reader;
    worker_lock(w->worker);
    while ((reader = TAILQ_FIRST(&w->read))) {
        TAILQ_REMOVE(&w->read, reader, link);
        worker_unlock(w->worker);
        reader->busy = false;
        if (reader->dropped) {
            log_reader_free(reader);
        } else {
            reader->on_read(reader->ctx);
        }
        worker_lock(w->worker);
    }
    worker_unlock(w->worker);
}

/* --- creation and destruction --- */

static int make_root(char *root, struct tfe_reason *reason)
{
    int folder = log_file_folders(root);
    if (folder < 0) {
        reason_errno(reason, "--log-dir: make %s, or open it without following a link", root);
        return TFE_ESYS;
    }
    int rc = faccessat(folder, ".", W_OK | X_OK, 0);
    if (rc) {
        reason_errno(reason, "--log-dir: write in %s", root);
    }
    close(folder);
    return rc ? TFE_ESYS : 0;
}

/* Frees the writer once neither thread uses it. */
static void destroy(void *ctx)
{
    struct log_writer *w = ctx;
    struct log_reader *reader;
    while ((reader = TAILQ_FIRST(&w->read))) {
        TAILQ_REMOVE(&w->read, reader, link);
        log_reader_free(reader);
    }
    free(w->root);
    free(w);
}

int log_writer_new(const struct log_writer_options *options, struct log_writer **ret,
                   struct tfe_reason *reason)
{
    struct log_writer *w = calloc(1, sizeof(*w));
    if (!w || !(w->root = strdup(options->root))) {
        free(w);
        reason_set(reason, "--log-dir: %s", tfe_error_sentence(TFE_ENOMEM));
        return TFE_ENOMEM;
    }
    LIST_INIT(&w->targets);
    TAILQ_INIT(&w->chunks);
    TAILQ_INIT(&w->read);
    w->reads = options->base != NULL;
    w->max_bytes = options->max_bytes;
    w->keep_ms = options->keep_ms;
    w->prune_at = options->keep_ms ? clock_mono() : TFE_MONO_NEVER;
    w->moved = clock_mono();
    int rc = make_root(w->root, reason);
    if (rc == 0) {
        const struct worker_config config = {.stack = STACK_BYTES,
                                             .work = run,
                                             .base = options->base,
                                             .on_notify = options->base ? on_steps_done : NULL,
                                             .done = destroy,
                                             .ctx = w};
        rc = worker_start(&config, &w->worker);
        if (rc) {
            rc = TFE_ENOMEM;
            reason_set(reason, "--log-dir: no thread for it");
        }
    }
    if (rc) {
        destroy(w);
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
    worker_lock(w->worker);
    w->ending = true;
    worker_wake(w->worker);
    worker_unlock(w->worker);
    if (!worker_free(w->worker, timeout_ms)) {
        log_warn("logs_not_finished", LOG_S("reason", "the disk hangs"));
    }
}
