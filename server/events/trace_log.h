/* server/events/trace_log.h: what the core tells of itself, as log lines. */
#ifndef TFE_SERVER_EVENTS_TRACE_LOG_H
#define TFE_SERVER_EVENTS_TRACE_LOG_H

#include "server/core/rdzv.h"

/* What is enough for every fleet. */
#define TRACE_LOG_JOB_LINES 200000

/* What trace_log wants: how many lines a node may cause, and a job. NULL: no memory. */
struct trace_log *trace_log_new(uint32_t job_lines_at_once);

/* NULL is allowed. */
void trace_log_free(struct trace_log *log);

/* One line; its event is the trace's name. A trace_fn; ctx is a struct trace_log. */
void trace_log(void *ctx, const struct rdzv_trace *trace);

#endif
