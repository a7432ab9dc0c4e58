/* agent/output/output_drain.h: non-blocking line queue in front of the agent's stdout or stderr. */
#ifndef TFE_AGENT_OUTPUT_OUTPUT_DRAIN_H
#define TFE_AGENT_OUTPUT_OUTPUT_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* Limits of the queue while the stream accepts nothing: for running trainers, whose pipes fill
 * up behind it, and including up to 1 MiB per stream of ended trainers, whose last lines
 * explain their end. */
#define DRAIN_QUEUE_MAX ((size_t)256 * 1024)
#define DRAIN_QUEUE_HARD_MAX ((size_t)2 * 1024 * 1024)

/* After a stream has accepted nothing for this long with a full queue, lines are discarded. */
#define DRAIN_PATIENCE_MS 1000u

struct event_base;
struct drain;

/* Called when a full queue has space again. The callback appends lines but does not flush. */
typedef void drain_space_fn(void *ctx, struct drain *drain);

/* Creates a queue. fd is borrowed and keeps its flags; name identifies the stream in the log.
 * patience_ms is the time that a full queue waits for a stream that accepts nothing before lines
 * are discarded. Precondition: SIGPIPE is ignored. */
struct drain *drain_new(struct event_base *base, int fd, const char *name, uint32_t patience_ms,
                        drain_space_fn *on_space, void *ctx);

/* Frees a queue after trying to write its lines for up to timeout_ms. Accepts NULL. */
void drain_free(struct drain *drain, uint32_t timeout_ms);

/* Appends "[name] line
 * ". Returns false without appending if the queue exceeds limit. If memory or patience has run
 * out, discards the line, counts it and returns true. */
bool drain_line(struct drain *drain, const char *name, const char *line, size_t n, size_t limit);

/* Counts a discarded line; the next line that is appended is preceded by the count. */
void drain_discard_line(struct drain *drain);

/* Writes what the stream accepts now, and the rest when it accepts more. */
void drain_flush(struct drain *drain);

#endif
