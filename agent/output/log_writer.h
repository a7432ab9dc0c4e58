/* agent/output/log_writer.h: writes trainers' log files on a separate thread, so that a slow
 * disk never blocks the agent's event loop. */
#ifndef TFE_AGENT_OUTPUT_LOG_WRITER_H
#define TFE_AGENT_OUTPUT_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/output/log_place.h"
#include "common/base/error.h"
#include "common/text/reason.h"

/* Limits of the queue for running trainers, and including the remaining output of ended ones. A
 * trainer's pipe holds about half a second of output in addition. */
#define LOG_QUEUE_MAX ((size_t)2 * 1024 * 1024)
#define LOG_QUEUE_HARD_MAX ((size_t)3 * 1024 * 1024)
/* After the disk has made no progress for this long, lines are discarded and counted. */
#define LOG_PATIENCE_MS 1000

struct event_base;
struct log_reader;
struct log_writer;
struct log_target;

/* Options of a log writer. root is copied. */
struct log_writer_options {
    const char *root;        /* value of --log-dir */
    uint64_t max_bytes;      /* size limit of a file; 0 for no limit */
    uint32_t keep_ms;        /* age at which files are removed; 0 to keep them */
    struct event_base *base; /* event loop for log_writer_read; NULL if it is not used */
};

/* Creates the directory root and the thread. Returns TFE_ESYS with reason if root is not
 * writable, or TFE_ENOMEM. */
int log_writer_new(const struct log_writer_options *options, struct log_writer **ret,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* Waits up to timeout_ms for queued data, then abandons the thread if the disk hangs.
 * Precondition: every file is closed. Accepts NULL. */
void log_writer_free(struct log_writer *w, uint32_t timeout_ms);

/* Opens a log file, which appears on disk soon afterwards. Returns NULL if out of memory. This
 * and the functions below never block. */
struct log_target *log_writer_open(struct log_writer *w, const struct log_place *place);

/* Returns true if the queue accepts data; otherwise call it again later. */
bool log_writer_accepts(const struct log_target *file);

/* Queues a copy of bytes. at_end marks the last output of an ended trainer, for which the limit
 * is higher. Data beyond the limit is discarded, and the file notes how many lines were lost. */
void log_writer_write(struct log_target *file, const char *bytes, size_t n, bool at_end);

/* Queues one step of the reader behind all data queued so far; on_read is called from the event
 * loop afterwards. A reader dropped in the meantime is freed. */
void log_writer_read(struct log_writer *w, struct log_reader *reader);

/* Closes the file after its queued data is written. Accepts NULL. */
void log_writer_close(struct log_target *file);

#endif
