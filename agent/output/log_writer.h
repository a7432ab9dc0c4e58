/* agent/output/log_writer.h: writes trainers' log files on a separate thread, so that a slow
 * disk never blocks the agent's event loop. */
#ifndef TFE_AGENT_OUTPUT_LOG_WRITER_H
#define TFE_AGENT_OUTPUT_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/output/log_place.h"
#include "agent/output/output_ring.h"
#include "common/base/error.h"
#include "common/text/reason.h"

/* Size of the records that wait for the thread. */
#define LOG_QUEUE_MAX ((size_t)256 * 1024)
/* Number of bytes by which the files may be behind before trainers wait for the disk, unless it has
 * made no progress for LOG_TIMEOUT_MS. */
#define LOG_LAG_MAX (OUTPUT_RING_BYTES / 2)
#define LOG_TIMEOUT_MS 1000

struct event_base;
struct log_reader;
struct log_writer;
struct log_target;

/* Options of a log writer. root is copied; the other pointers are borrowed. */
struct log_writer_options {
    const char *root;   /* value of --log-dir */
    uint64_t max_bytes; /* size limit of a file; 0 for no limit */
    uint32_t keep_ms;   /* age at which files are removed; 0 to keep them */
    struct event_base *base;
    struct output_ring *ring; /* the output to write */
    const struct tfe_id *job;
};

/* Creates the directory root and the thread. Returns TFE_ESYS with reason if root is not
 * writable, or TFE_ENOMEM. */
int log_writer_new(const struct log_writer_options *options, struct log_writer **ret,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* Waits up to timeout_ms until the output in the ring is written, then abandons the thread if the
 * disk hangs. Precondition: every stream is closed. Accepts NULL. */
void log_writer_free(struct log_writer *w, uint32_t timeout_ms);

/* Opens a log file, which appears on disk soon afterwards, for a stream of the ring; the end of the
 * stream closes it. Returns NULL if out of memory. This and the functions below never block. */
struct log_target *log_writer_open(struct log_writer *w, uint32_t run,
                                   const struct output_stream *stream);

/* Returns true if the files are behind, but the disk has recently made progress. */
bool log_writer_is_behind(const struct log_writer *w);

/* Queues one step of the reader, which sees all records before log_writer_next; on_read is called
 * from the event loop afterwards. A reader dropped in the meantime is freed. */
void log_writer_read(struct log_writer *w, struct log_reader *reader);

/* Returns the first record that the thread has not received, or NULL if it has received all. */
const struct output_record *log_writer_next(const struct log_writer *w);

#endif
