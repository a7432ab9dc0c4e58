/* agent/output/log_writer.h: log files of trainers, written by a thread of their own, so that a
 * slow disk never holds the agent's loop. */
#ifndef TFE_AGENT_OUTPUT_LOG_WRITER_H
#define TFE_AGENT_OUTPUT_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/output/log_place.h"
#include "common/base/error.h"
#include "common/base/reason.h"

/* What waits for the disk, and with the last words of ended trainers. Half a second of a talkative
 * trainer is in its pipe besides. */
#define LOG_QUEUE_MAX ((size_t)2 * 1024 * 1024)
#define LOG_QUEUE_HARD_MAX ((size_t)3 * 1024 * 1024)
/* A disk that takes nothing for so long is no longer waited for: lines are lost then, and counted.
 */
#define LOG_PATIENCE_MS 1000

struct event_base;
struct log_reader;
struct log_writer;
struct log_target;

/* root is copied; durations in ms. */
struct log_wish {
    const char *root;        /* --log-dir */
    uint64_t max_bytes;      /* of a file; 0: any number */
    uint32_t keep_ms;        /* older files are removed; 0: none */
    struct event_base *base; /* for log_writer_read; NULL: that reads nothing */
};

/* Makes root and its thread. TFE_ESYS with why: root cannot be written to. TFE_ENOMEM. */
int log_writer_new(const struct log_wish *wish, struct log_writer **ret,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* Waits for what is queued, for up to timeout_ms; a disk that hangs is left to the process's end.
 * Every file must be closed. NULL is allowed. */
void log_writer_free(struct log_writer *w, uint32_t timeout_ms);

/* A file to write to. It appears on disk soon. NULL: no memory. The functions below never wait. */
struct log_target *log_writer_open(struct log_writer *w, const struct log_place *place);

/* Whether a write should come now; else ask again later. */
bool log_writer_has_room(const struct log_target *file);

/* Queues bytes (copied). at_end: these are the last ones, up to a higher limit. What finds no room
 * is counted, and the file will say so. */
void log_writer_write(struct log_target *file, const char *bytes, size_t n, bool at_end);

/* Lets the reader make a step, behind all that has been queued so far; then on_read comes, from the
 * loop. A reader that is dropped meanwhile is freed. */
void log_writer_read(struct log_writer *w, struct log_reader *reader);

/* Once all is written. NULL is allowed. */
void log_writer_close(struct log_target *file);

#endif
