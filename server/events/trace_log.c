/* server/events/trace_log.c: writes traces of the core as log lines. */
#include "server/events/trace_log.h"

#include <stdlib.h>
#include <string.h>

#include "common/cli/log.h"
#include "common/cli/log_throttle.h"
#include "common/text/text.h"

/* Rate limit per kind of trace and node (or job): every line of a real incident is logged, but
 * peers that provoke traces cannot fill the disk. */
#define LINE_BURST 60
#define LINE_INTERVAL_MS 1000
#define LINE_ENTRIES 8192

/* Rate limit per job, because peers can invent node names; jobs without an epoch share one limit.
 * The burst suffices for 50,000 nodes that connect at once. */
#define JOB_LINE_INTERVAL_MS 20
#define JOB_ENTRIES 1024

struct trace_log {
    struct throttle *of_job, *each;
};

/* Level and field names of each trace. Scripts parse these lines, so the names are a contract. */
static const struct trace_words {
    enum log_level level;
    const char *number;
    const char *text;
} words[] = {
#define TRACE_WORDS(NAME, name, level, number, text, sentence) {LOG_##level##_, number, text},
    RDZV_TRACES(TRACE_WORDS)
#undef TRACE_WORDS
};

struct trace_log *trace_log_new(uint32_t job_lines_at_once)
{
    struct trace_log *log = calloc(1, sizeof(*log));
    if (log) {
        log->of_job = throttle_new(JOB_ENTRIES, job_lines_at_once, JOB_LINE_INTERVAL_MS);
        log->each = throttle_new(LINE_ENTRIES, LINE_BURST, LINE_INTERVAL_MS);
    }
    if (log && (!log->of_job || !log->each)) {
        trace_log_free(log);
        return NULL;
    }
    return log;
}

void trace_log_free(struct trace_log *log)
{
    if (log) {
        free(log->of_job);
        free(log->each);
        free(log);
    }
}

/* True if the trace is to be logged within the rate limits. */
static bool passes(struct trace_log *log, const struct rdzv_trace *trace, uint64_t *ret_hidden)
{
    char cause[2 * TFE_ID_MAX + 32];
    const char *job = trace->job ? trace->job : "";
    uint64_t hidden = 0;
    text_setf(cause, sizeof(cause), "%u %s %s", (unsigned)trace->kind, job,
              trace->node ? trace->node : "");
    if (!throttle_pass(log->each, cause, strlen(cause), &hidden)) {
        return false;
    }
    if (trace->epoch == 0) {
        job = "";
    }
    if (!throttle_pass(log->of_job, job, strlen(job), ret_hidden)) {
        log->of_job->hidden += hidden;
        return false;
    }
    *ret_hidden += hidden;
    return true;
}

void trace_log(struct trace_log *log, const struct rdzv_trace *trace)
{
    const struct trace_words *w = &words[trace->kind];
    struct log_field fields[8];
    unsigned n = 0;
    uint64_t hidden;
    if (!passes(log, trace, &hidden)) {
        return;
    }
    fields[n++] = LOG_S("job", trace->job);
    fields[n++] = LOG_S("node", trace->node);
    if (!w->text || strcmp(w->text, "name") != 0) {
        fields[n++] = LOG_S("name", trace->name);
    }
    if (trace->epoch != 0) {
        fields[n++] = LOG_U("epoch", trace->epoch);
    }
    if (w->number) {
        fields[n++] = LOG_U(w->number, trace->number);
    }
    if (w->text) {
        fields[n++] = LOG_S(w->text, trace->text);
    }
    if (trace->kind == TRACE_NODE_NOTICED) {
        fields[n++] = LOG_B("uncertain", trace->uncertain);
    }
    if (hidden > 0) {
        fields[n++] = LOG_U("not_logged", hidden);
    }
    log_line(w->level, rdzv_trace_name(trace->kind), fields, n);
}
