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

enum task_kind { TASK_OPEN, TASK_WRITE, TASK_CLOSE, TASK_READ };

/* A task for the thread, which returns it to the event loop. */
struct task {
    TAILQ_ENTRY(task) link;
    enum task_kind kind;
    struct log_target *target;
    struct log_reader *reader;   /* for TASK_READ */
    struct log_loss lost_before; /* because the disk was too slow */
    /* Result of a write. */
    bool has_failed;
    uint64_t lost_lines;
    struct tfe_reason reason;
    size_t n;
    char bytes[];
};
TAILQ_HEAD(tasks, task);

struct log_target {
    LIST_ENTRY(log_target) link; /* thread only: element of the list of open targets */
    struct log_file file;        /* thread only */
    struct log_loss lost;        /* since the last task */
    bool is_failing;             /* the last write failed */
};

struct log_writer {
    struct log_writer_options options;
    char *root;
    struct worker *worker;
    /* State of the event loop. */
    struct output_cursor cursor;
    struct loss_report loss_report;
    unsigned n_failing;    /* number of files whose last write failed */
    unsigned n_tasks;      /* number of tasks that the thread has not returned */
    size_t queued;         /* their size in memory */
    struct tfe_mono moved; /* when a task was last returned or the thread was idle */
    /* State of the thread. */
    LIST_HEAD(, log_target) targets;
    struct tfe_mono prune_at;
    /* Shared state, protected by the worker's lock. */
    struct tasks todo, done;
    bool is_ending;
};

/* --- thread --- */

static void write_to_file(struct task *task)
{
    struct log_file *file = &task->target->file;
    const uint64_t lost = file->failed;
    task->has_failed =
        !log_file_write(file, task->lost_before, task->bytes, task->n, &task->reason);
    task->lost_lines = file->failed - lost;
}

static void execute(struct log_writer *w, struct task *task)
{
    switch (task->kind) {
    case TASK_OPEN:
        LIST_INSERT_HEAD(&w->targets, task->target, link);
        write_to_file(task); /* writes no data, but creates the file */
        return;
    case TASK_WRITE:
        write_to_file(task);
        return;
    case TASK_READ:
        log_reader_step(task->reader, w->root, w->options.job);
        return;
    case TASK_CLOSE:
        if (task->lost_before.lines || task->target->file.lost.lines) {
            write_to_file(task); /* last chance to note the lost lines */
        }
        LIST_REMOVE(task->target, link);
        log_file_done(&task->target->file);
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
    while (!TAILQ_EMPTY(&w->todo) || !w->is_ending) {
        struct task *task = TAILQ_FIRST(&w->todo);
        if (task) {
            TAILQ_REMOVE(&w->todo, task, link);
            worker_unlock(w->worker);
            execute(w, task);
            worker_lock(w->worker);
            TAILQ_INSERT_TAIL(&w->done, task, link);
            worker_notify(w->worker);
        } else if (tfe_mono_before(clock_mono(), w->prune_at)) {
            worker_wait(w->worker, w->prune_at);
        } else {
            worker_unlock(w->worker);
            prune(w);
            worker_lock(w->worker);
        }
    }
    worker_unlock(w->worker);
}

/* --- event loop --- */

/* Returns a task with a copy of n bytes, or NULL if out of memory. */
static struct task *task_new(enum task_kind kind, struct log_target *target, const char *bytes,
                             size_t n)
{
    struct task *task = malloc(sizeof(*task) + n);
    if (task) {
        *task = (struct task){.kind = kind, .target = target, .n = n};
        memcpy(task->bytes, bytes, n);
        if (target) {
            task->lost_before = target->lost;
            target->lost = (struct log_loss){0};
        }
    }
    return task;
}

static void queue(struct log_writer *w, struct task *task)
{
    if (w->n_tasks++ == 0) {
        w->moved = clock_mono();
    }
    w->queued += sizeof(*task) + task->n;
    worker_lock(w->worker);
    TAILQ_INSERT_TAIL(&w->todo, task, link);
    worker_wake(w->worker);
    worker_unlock(w->worker);
}

struct log_target *log_writer_open(struct log_writer *w, uint32_t run,
                                   const struct output_stream *stream)
{
    struct log_target *target = calloc(1, sizeof(*target));
    struct task *task = target ? task_new(TASK_OPEN, target, "", 0) : NULL;
    if (!task) {
        free(target);
        return NULL;
    }
    struct log_place place = {
        .job = *w->options.job, .run = run, .epoch = stream->of.epoch, .stream = stream->of.stream};
    memcpy(place.owner, stream->owner, sizeof(place.owner));
    log_file_init(&target->file, w->root, w->options.max_bytes, &place);
    queue(w, task);
    return target;
}

bool log_writer_is_behind(const struct log_writer *w)
{
    return tfe_mono_sub(clock_mono(), w->moved) < LOG_TIMEOUT_MS &&
           output_cursor_lag(w->options.ring, &w->cursor) > LOG_LAG_MAX;
}

const struct output_record *log_writer_next(const struct log_writer *w)
{
    return w->cursor.next;
}

/* Queues a task for a record of a file. Returns false if out of memory; a file whose end is lost
 * stays open until the process ends. */
static bool pass_record(struct log_writer *w, const struct output_record *record)
{
    const enum task_kind kind = record->kind == RECORD_END ? TASK_CLOSE : TASK_WRITE;
    struct task *task = task_new(kind, record->stream->file, record->bytes + record->n_in_part,
                                 record->n - record->n_in_part);
    if (task) {
        queue(w, task);
    }
    return task;
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
    if (lines == 0) {
        return;
    }
    if (target->lost.mid_line) {
        lines--; /* the record continues a line that is counted */
    }
    target->lost.lines += lines;
    target->lost.mid_line = record->bytes[record->n - 1] != '\n';
    if (lines > 0) {
        loss_add(&w->loss_report, lines, "the disk is slower than the trainers, or hangs");
    }
}

/* Passes records to the thread until limit bytes wait for it. */
static void pass_records(struct log_writer *w, size_t limit)
{
    const struct output_record *record;
    while ((record = w->cursor.next) && w->queued < limit) {
        if (!record->stream->file || !pass_record(w, record)) {
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
    struct task *task = task_new(TASK_READ, NULL, "", 0);
    if (!task) {
        reader->done = true;
        reader->n = 0;
        return;
    }
    task->reader = reader;
    reader->busy = true;
    queue(w, task);
}

/* --- results --- */

/* Reports the result of a write. Failures are reported for all files together. */
static void report(struct log_writer *w, const struct task *task)
{
    struct log_target *target = task->target;
    if (target->is_failing != task->has_failed) {
        target->is_failing = task->has_failed;
        w->n_failing += task->has_failed ? 1U : -1U;
    }
    if (task->has_failed) {
        loss_add(&w->loss_report, task->lost_lines, task->reason.text);
    } else if (w->n_failing == 0) {
        loss_end(&w->loss_report);
    }
    if (task->kind == TASK_CLOSE) {
        w->n_failing -= target->is_failing;
        free(target);
    }
}

static void finish(struct log_writer *w, struct task *task)
{
    struct log_reader *reader = task->reader;
    w->n_tasks--;
    w->queued -= sizeof(*task) + task->n;
    w->moved = clock_mono();
    if (!reader) {
        report(w, task);
    } else if (reader->dropped) {
        log_reader_free(reader);
    } else {
        reader->busy = false;
        reader->on_read(reader->ctx);
    }
    free(task);
}

static void on_notify(void *ctx)
{
    struct log_writer *w = ctx;
    struct tasks done = TAILQ_HEAD_INITIALIZER(done);
    worker_lock(w->worker);
    TAILQ_CONCAT(&done, &w->done, link);
    worker_unlock(w->worker);
    for (struct task *task; (task = TAILQ_FIRST(&done));) {
        TAILQ_REMOVE(&done, task, link);
        finish(w, task);
    }
    pass_records(w, LOG_QUEUE_MAX);
}

/* --- creation and destruction --- */

static int make_root(char *root, struct tfe_reason *reason)
{
    int folder = log_file_folders(root);
    if (folder < 0) {
        reason_errno(reason, "--log-dir: create %s, or open it without following symbolic links",
                     root);
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
    for (struct task *task; (task = TAILQ_FIRST(&w->done));) {
        TAILQ_REMOVE(&w->done, task, link);
        finish(w, task);
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
    TAILQ_INIT(&w->todo);
    TAILQ_INIT(&w->done);
    w->cursor = (struct output_cursor){.on_more = on_more, .on_lost = on_lost, .ctx = w};
    w->options = *options;
    w->prune_at = options->keep_ms ? clock_mono() : TFE_MONO_NEVER;
    w->loss_report =
        (struct loss_report){.event = "logs_not_written", .end_event = "logs_written_again"};
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
            reason_set(reason, "--log-dir: cannot start the writer thread");
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
    w->is_ending = true;
    worker_wake(w->worker);
    worker_unlock(w->worker);
    if (!worker_free(w->worker, timeout_ms)) {
        log_warn("logs_not_finished", LOG_S("reason", "the disk does not respond"));
    }
}
