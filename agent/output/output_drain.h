/* agent/output/output_drain.h: the agent's stdout or stderr, as a queue of lines that never blocks.
 */
#ifndef TFE_AGENT_OUTPUT_OUTPUT_DRAIN_H
#define TFE_AGENT_OUTPUT_OUTPUT_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* What waits while the stream takes nothing: from running trainers, whose pipes fill up behind it;
 * and with what ended trainers left in theirs (1 MiB each), because the last lines say why they
 * ended. */
#define DRAIN_QUEUE_MAX ((size_t)256 * 1024)
#define DRAIN_QUEUE_HARD_MAX ((size_t)2 * 1024 * 1024)

/* A stream that takes nothing at all for so long, with a full queue before it, is no longer waited
 * for. */
#define DRAIN_PATIENCE_MS 1000u

struct event_base;
struct drain;

/* There is room again in a queue that was full. Appends, does not flush. */
typedef void drain_room_fn(void *ctx, struct drain *drain);

/* fd is borrowed and its flags stay as they are; name is what the log calls it. patience_ms: how
 * long a full queue waits for a stream that takes nothing; then lines are lost. SIGPIPE must be
 * ignored in the process. */
struct drain *drain_new(struct event_base *base, int fd, const char *name, uint32_t patience_ms,
                        drain_room_fn *on_room, void *ctx);

/* Tries to write what is queued for up to timeout_ms. NULL is allowed. */
void drain_free(struct drain *drain, uint32_t timeout_ms);

/* Appends "[name] line\n". False: no room within limit, nothing appended. A line is lost and
 * counted where there is no memory, or no room and the patience is at its end. */
bool drain_line(struct drain *drain, const char *name, const char *line, size_t n, size_t limit);

/* Counts a line that was given up; the next one that finds room is preceded by their number. */
void drain_lose_line(struct drain *drain);

/* Writes what the stream takes now, and the rest when it takes more. */
void drain_flush(struct drain *drain);

#endif
