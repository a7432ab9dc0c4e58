/* server/trace_log.h: what the core tells of itself, as log lines. */
#ifndef TFE_SERVER_TRACE_LOG_H
#define TFE_SERVER_TRACE_LOG_H

#include "server/core/rdzv.h"

/* One line; its event is the trace's name. */
void trace_log(const struct rdzv_trace *trace);

#endif
