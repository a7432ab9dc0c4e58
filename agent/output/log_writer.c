/* agent/output/log_writer.c: passes the records of the ring to the thread that writes to disk. */
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
    struct log_reader *reader;   /* for CHUNK_READ */
    struct log_loss lost_before; /* because the disk was too slow */
    size_t n;
    char bytes[];
};

struct log_target {
    LIST_ENTRY(log_target) link; /* element of the thread's list of open targets */
    struct log_loss lost;        /* event loop only: since the last chunk */
    struct log_file file;        /* thread only */
    bool failing;                /* thread only: the last write failed */
};

struct log_writer {
    struct log_writer_options options;
    char *root;
    struct worker *worker;
    /* State of the thread. */
    LIST_HEAD(, log_target) targets;
    struct tfe_mono prune_at;
    unsigned failing;          /* number of files whose last write failed */
    struct loss_report failed; /* lines that could not be written */
    /* State of the event loop. */
    struct output_cursor cursor;
    struct loss_report overflow; /* lines lost because the disk was too slow */
    /* Shared state, protected by the worker's lock. */
    TAILQ_HEAD(chunks, chunk) chunks;
    size_t queued;
    bool is_waiting;       /* the event loop waits for space in the queue */
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
    bool good = log_file_write(&target->file, chunk->lost_before, chunk->bytes, chunk->n, &reason);
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
        if (chunk->lost_before.lines || chunk->target->file.lost.lines) {
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
    struct tfe_wall before = {.ms = clock_wall().ms - w->options.keep_ms};
    bool more = log_prune(w->root, before, PRUNE_STEP);
    uint32_t every =
        w->options.keep_ms / 4 < PRUNE_EVERY_MS ? w->options.keep_ms / 4 : PRUNE_EVERY_MS;
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
        }
        if ((chunk && chunk->reader) || (w->is_waiting && w->queued <= LOG_QUEUE_MAX / 2)) {
            w->is_waiting = false;
            worker_notify(w->worker);
        }
        free(chunk);
    }
    worker_unlock(w->worker);
}

/* --- event loop --- */

/* Returns a chunk with a copy of n bytes, or NULL if out of memory. */
static struct chunk *chunk_new(enum chunk_kind kind, struct log_target *target, const char *bytes,
                               size_t n)
{
    struct chunk *chunk = malloc(sizeof(*chunk) + n);
    if (chunk) {
        *chunk = (struct chunk){.kind = kind, .target = target, .n = n};
        memcpy(chunk->bytes, bytes, n);
        if (target) {
            chunk->lost_before = target->lost;
            target->lost = (struct log_loss){0};
        }
    }
    return chunk;
}

static void queue(struct log_writer *w, struct chunk *chunk)
{
    worker_lock(w->worker);
    if (TAILQ_EMPTY(&w->chunks)) {
        w->moved = clock_mono();
        worker_wake(w->worker);
    }
    TAILQ_INSERT_TAIL(&w->chunks, chunk, link);
    w->queued += chunk->n;
    worker_unlock(w->worker);
}

struct log_target *log_writer_open(struct log_writer *w, uint32_t run,
                                   const struct output_stream *stream)
{
    struct log_target *target = calloc(1, sizeof(*target));
    struct chunk *chunk = target ? chunk_new(CHUNK_OPEN, target, "", 0) : NULL;
    if (!chunk) {
        free(target);
        return NULL;
    }
    struct log_place place = {
        .job = *w->options.job, .run = run, .epoch = stream->of.epoch, .stream = stream->of.stream};
    memcpy(place.owner, stream->owner, sizeof(place.owner));
    log_file_init(&target->file, w->root, w->options.max_bytes, &place);
    queue(w, chunk);
    return target;
}

bool log_writer_is_behind(const struct log_writer *w)
{
    worker_lock(w->worker);
    bool has_progressed = tfe_mono_sub(clock_mono(), w->moved) < LOG_PATIENCE_MS;
    worker_unlock(w->worker);
    return has_progressed && output_cursor_lag(w->options.ring, &w->cursor) > LOG_LAG_MAX;
}

const struct output_record *log_writer_next(const struct log_writer *w)
{
    return w->cursor.next;
}

/* Queues a chunk for a record of a file. Returns false if out of memory; a file whose end is lost
 * stays open until the process ends. */
static bool pass_record(struct log_writer *w, const struct output_record *record)
{
    bool is_end = record->kind == RECORD_END;
    struct chunk *chunk =
        chunk_new(is_end ? CHUNK_CLOSE : CHUNK_WRITE, record->stream->file,
                  record->bytes + record->n_in_part, record->n - record->n_in_part);
    if (chunk) {
        queue(w, chunk);
    }
    return chunk;
}

/* Counts the lines of a record that the thread will not receive, or closes the file. */
static void on_lost(void *ctx, const struct output_record *record, size_t offset)
{
    struct log_writer *w = ctx;
    struct log_target *target = record->stream->file;
    (void)offset; /* always 0: records are passed as a whole */
    if (!target || (record->kind == RECORD_END && pass_record(w, record))) {
        return;
    }
    uint32_t lines =
        output_count_lines(record->bytes + record->n_in_part, record->n - record->n_in_part);
    target->lost.lines += lines;
    target->lost.mid_line = lines && record->bytes[record->n - 1] != '\n';
    if (lines && loss_add(&w->overflow, lines)) {
        log_lost(&w->overflow, "the disk is slower than the trainers, or hangs");
    }
}

static bool has_space(struct log_writer *w, size_t limit)
{
    worker_lock(w->worker);
    w->is_waiting = w->queued >= limit;
    bool has_space = !w->is_waiting;
    worker_unlock(w->worker);
    return has_space;
}

/* Passes records to the thread until limit bytes wait for it. */
static void pass_records(struct log_writer *w, size_t limit)
{
    const struct output_record *record;
    while ((record = w->cursor.next) && has_space(w, limit)) {
        if (record->stream->file && pass_record(w, record)) {
            log_recovered(&w->overflow);
        } else {
            on_lost(w, record, 0);
        }
        output_cursor_advance(&w->cursor);
    }
}

static void on_more(void *ctx)
{
    pass_records(ctx, LOG_QUEUE_MAX);
}

/* --- reading --- */

void log_writer_read(struct log_writer *w, struct log_reader *reader)
{
    struct chunk *chunk = chunk_new(CHUNK_READ, NULL, "", 0);
    if (!chunk) {
        reader->done = true;
        reader->n = 0;
        return;
    }
    chunk->reader = reader;
    reader->busy = true;
    queue(w, chunk);
}

static void on_notify(void *ctx)
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
    pass_records(w, LOG_QUEUE_MAX);
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
    w->cursor = (struct output_cursor){.on_more = on_more, .on_lost = on_lost, .ctx = w};
    w->options = *options;
    w->prune_at = options->keep_ms ? clock_mono() : TFE_MONO_NEVER;
    w->moved = clock_mono();
    int rc = make_root(w->root, reason);
    if (rc == 0) {
        const struct worker_config config = {.stack = STACK_BYTES,
                                             .work = run,
                                             .base = options->base,
                                             .on_notify = on_notify,
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
    output_cursor_add(w->options.ring, &w->cursor, NULL);
    *ret = w;
    return 0;
}

void log_writer_free(struct log_writer *w, uint32_t timeout_ms)
{
    if (!w) {
        return;
    }
    pass_records(w, SIZE_MAX);
    output_cursor_remove(&w->cursor);
    worker_lock(w->worker);
    w->ending = true;
    worker_wake(w->worker);
    worker_unlock(w->worker);
    if (!worker_free(w->worker, timeout_ms)) {
        log_warn("logs_not_finished", LOG_S("reason", "the disk hangs"));
    }
}
