/* server/trace_log.c: what the core tells of itself, as log lines. */
#include "server/trace_log.h"

#include <stddef.h>

#include "common/net/log.h"

/* Under which names a trace's number and text are logged (rdzv.h says what they are); NULL: it has
 * none. Scripts read these lines, so the names are a contract. */
struct trace_words {
    enum log_level level;
    const char *number;
    const char *text;
};

static const struct trace_words words[] = {
    [TRACE_JOB_STATE] = {LOG_INFO_, NULL, "state"},
    [TRACE_NODE_JOINED] = {LOG_INFO_, NULL, "name"},
    [TRACE_NODE_BACK] = {LOG_INFO_, NULL, NULL},
    [TRACE_NODE_READY] = {LOG_INFO_, NULL, "host"},
    [TRACE_NODE_UNVERIFIED] = {LOG_INFO_, NULL, "host"},
    [TRACE_NODE_VERIFIED] = {LOG_INFO_, NULL, "by"},
    [TRACE_NODE_UNREACHED] = {LOG_WARN_, "for_ms", "tried"},
    [TRACE_NODE_DEAD] = {LOG_WARN_, NULL, "by"},
    [TRACE_NODE_SUSPECT] = {LOG_WARN_, NULL, NULL},
    [TRACE_NODE_LOST] = {LOG_WARN_, NULL, "why"},
    [TRACE_NODE_LEFT] = {LOG_INFO_, NULL, NULL},
    [TRACE_NODE_EXITED] = {LOG_INFO_, "code", "tail"},
    [TRACE_NODE_QUARANTINED] = {LOG_WARN_, "ms", "how"},
    [TRACE_NODE_REFUSED] = {LOG_WARN_, NULL, "why"},
    [TRACE_LISTENING] = {LOG_INFO_, "ms", NULL},
    [TRACE_SWITCH] = {LOG_INFO_, NULL, "cause"},
    [TRACE_EPOCH] = {LOG_INFO_, "members", "cause"},
    [TRACE_REBUILT] = {LOG_WARN_, "members", NULL},
    [TRACE_WAIT_FENCE] = {LOG_WARN_, "ms", NULL},
    [TRACE_MASS_LOSS] = {LOG_ERROR_, "held_ms", "why"},
    [TRACE_END] = {LOG_INFO_, "fruitless", "how"},
    [TRACE_RESTARTS] = {LOG_INFO_, "used", "why"},
    [TRACE_WRITE_FAILED] = {LOG_ERROR_, "again_in_ms", NULL},
    [TRACE_JOB_FINISHED] = {LOG_INFO_, NULL, "why"},
    [TRACE_NODE_DRAINING] = {LOG_INFO_, NULL, "name"},
    [TRACE_NODE_EVICTED] = {LOG_WARN_, NULL, "name"},
    [TRACE_JOB_STOPPING] = {LOG_INFO_, NULL, NULL},
    [TRACE_NODE_NOTICED] = {LOG_INFO_, "deadline_ms", "kind"},
    [TRACE_NODE_STAYS] = {LOG_INFO_, NULL, "name"},
    [TRACE_SAVE] = {LOG_INFO_, "number", NULL},
    [TRACE_SAVED] = {LOG_INFO_, "after_ms", NULL},
};

#define TRACE_COUNT(NAME, name) +1
_Static_assert(sizeof(words) / sizeof(words[0]) == 0 RDZV_TRACES(TRACE_COUNT),
               "every kind of trace has its words");

void trace_log(const struct rdzv_trace *trace)
{
    const struct trace_words *w = &words[trace->kind];
    struct log_field fields[6];
    unsigned n = 0;
    fields[n++] = LOG_S("job", trace->job);
    fields[n++] = LOG_S("node", trace->node);
    if (trace->epoch != 0) {
        fields[n++] = LOG_U("epoch", trace->epoch);
    }
    if (w->number != NULL) {
        fields[n++] = LOG_U(w->number, trace->number);
    }
    if (w->text != NULL) {
        fields[n++] = LOG_S(w->text, trace->text);
    }
    if (trace->kind == TRACE_NODE_NOTICED) {
        fields[n++] = LOG_B("uncertain", trace->uncertain);
    }
    log_line(w->level, rdzv_trace_name(trace->kind), fields, n);
}
