/* server/events/trace_log.h: writes traces of the core as log lines. */
#ifndef TFE_SERVER_EVENTS_TRACE_LOG_H
#define TFE_SERVER_EVENTS_TRACE_LOG_H

#include "server/core/rdzv.h"

/* Burst of lines per job, sufficient for every fleet. */
#define TRACE_LOG_JOB_LINES 200000

/* Makes a trace log with this burst of lines per job. Returns NULL if out of memory. */
struct trace_log *trace_log_new(uint32_t job_lines_at_once);

/* Frees the trace log. NULL is allowed. */
void trace_log_free(struct trace_log *log);

/* Writes one log line whose event is the trace's name. */
void trace_log(struct trace_log *log, const struct rdzv_trace *trace);

#endif
