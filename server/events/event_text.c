/* server/events/event_text.c: converts traces and ledger rows to events. */
#include "server/events/event_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/records/text_table.h"
#include "common/text/text.h"
#include "server/core/stderr_tail.h"

static const struct format {
    enum tfe_event_level level;
    const char *sentence; /* template, see traces.h */
} formats[] = {
#define LEVEL_DEBUG EVENT_INFO
#define LEVEL_INFO EVENT_INFO
#define LEVEL_WARN EVENT_WARN
#define LEVEL_ERROR EVENT_ERROR
#define FORMAT(NAME, name, level, number, text, sentence) {LEVEL_##level, sentence},
    RDZV_TRACES(FORMAT)
#undef FORMAT
};

static const char *name_of(const struct rdzv_trace *trace)
{
    return trace->name && trace->name[0] != '\0' ? trace->name
           : trace->node                         ? trace->node
                                                 : "an agent";
}

/* Adds an event with the trace's name and subject. */
static void add(struct events *e, const struct rdzv_trace *trace, enum tfe_event_level level,
                const char *sentence)
{
    events_add(e, &(struct msg_event_row){.kind = rdzv_trace_name(trace->kind),
                                          .level = level,
                                          .job = trace->job,
                                          .epoch = trace->epoch,
                                          .node = trace->node,
                                          .name = trace->name,
                                          .message = sentence});
}

static void addf(struct events *e, const struct rdzv_trace *trace, enum tfe_event_level level,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

static void addf(struct events *e, const struct rdzv_trace *trace, enum tfe_event_level level,
                 const char *format, ...)
{
    char sentence[MSG_SENTENCE_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    add(e, trace, level, sentence);
}

/* --- events generated from the table --- */

static const char *verdict_text(const char *verdict)
{
    static const struct {
        const char *name, *text;
    } verdicts[] = {
        {"finished", "has succeeded"},
        {"stopped", "was stopped by its agent, through no fault of its own"},
        {"coordinator", "ended because the server was unreachable, through no fault of its own"},
        {"lost_node", "ended because a node was lost"},
        {"preempted", "was preempted"},
        {"peer_caused", "ended because another trainer failed"},
        {"own_fault", "failed by its own fault"},
        {"out_of_memory", "was out of memory"},
        {"start_timeout", "did not start up in time"},
        {"progress_timeout", "made no progress for too long"},
    };
    for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
        if (strcmp(verdicts[i].name, verdict) == 0) {
            return verdicts[i].text;
        }
    }
    return verdict;
}

/* Appends ": 1 of 2 workers" if the job's epoch has worker slots served by ps. */
static void add_workers(struct text *text, const struct events *e, const struct rdzv_trace *trace)
{
    struct msg_status_job job;
    if (rdzv_find_job(events_core(e), trace->job, &job) == 0 && job.workers > 0) {
        text_addf(text, ": %u of %u workers", (unsigned)trace->number, (unsigned)job.workers);
    }
}

static void add_value(struct text *text, char directive, const struct events *e,
                      const struct rdzv_trace *trace)
{
    char duration[RECORD_TEXT_MAX];
    switch (directive) {
    case 'N':
        text_add(text, name_of(trace));
        break;
    case 'T':
        text_add(text, trace->text);
        break;
    case 'V':
        text_add(text, verdict_text(trace->text));
        break;
    case 'n':
        text_addf(text, "%llu", (unsigned long long)trace->number);
        break;
    case 'm':
        text_addf(text, "%llu %s", (unsigned long long)trace->number,
                  trace->number == 1 ? "node" : "nodes");
        break;
    case 'd':
        text_add(text, text_table_duration((int64_t)trace->number, duration));
        break;
    case 'E':
        text_addf(text, "%llu", (unsigned long long)trace->epoch);
        break;
    case 'w':
        add_workers(text, e, trace);
        break;
    }
}

static void add_by_table(struct events *e, const struct rdzv_trace *trace)
{
    const struct format *format = &formats[trace->kind];
    char sentence[MSG_SENTENCE_MAX];
    struct text text;
    text_init(&text, sentence, sizeof(sentence));
    for (const char *c = format->sentence; *c != '\0'; c++) {
        if (*c == '%') {
            add_value(&text, *++c, e, trace);
        } else {
            text_addf(&text, "%c", *c);
        }
    }
    add(e, trace, format->level, sentence);
}

/* --- events with a computed sentence --- */

/* Copies the exception that ended the trainer and where it was raised, or its last line, to ret. */
static const char *error_line(const char *tail, char ret[512])
{
    char source[80];
    struct text text;
    stderr_tail_error(tail, ret, 400);
    if (ret[0] == '\0') {
        stderr_tail_line(tail, ret, 400);
        return ret;
    }
    stderr_tail_source(tail, source, sizeof(source));
    text = (struct text){.p = ret, .n = strlen(ret), .cap = 512};
    if (source[0] != '\0') {
        text_addf(&text, " (%s)", source);
    }
    return ret;
}

/* Reports each failed trainer. The verdict about it is a separate event. */
static void add_exited(struct events *e, const struct rdzv_trace *trace)
{
    char buf[512];
    const char *line = error_line(trace->text ? trace->text : "", buf);
    if (trace->stopped) {
        return;
    }
    if (trace->is_signal) {
        addf(e, trace, EVENT_WARN, "a trainer of %s was ended by signal %u%s%s", name_of(trace),
             (unsigned)trace->number - 128, line[0] != '\0' ? ": " : "", line);
    } else if (trace->number > 0) {
        addf(e, trace, EVENT_WARN, "a trainer of %s has failed with code %u%s%s", name_of(trace),
             (unsigned)trace->number, line[0] != '\0' ? ": " : "", line);
    }
}

static void add_restarts(struct events *e, const struct rdzv_trace *trace)
{
    struct msg_status_job job;
    const bool is_known = rdzv_find_job(events_core(e), trace->job, &job) == 0;
    if (!trace->text && is_known && trace->number > job.restarts + job.restarts_left) {
        addf(e, trace, EVENT_INFO, "all %u restarts of the budget were used before",
             (unsigned)(job.restarts + job.restarts_left));
    } else if (trace->text) {
        addf(e, trace, EVENT_INFO, "the number of used restarts was lowered to %u: %s",
             (unsigned)trace->number, trace->text);
    } else {
        addf(e, trace, EVENT_INFO, "restart %u of the budget is used", (unsigned)trace->number);
    }
}

static void add_noticed(struct events *e, const struct rdzv_trace *trace)
{
    char buf[RECORD_TEXT_MAX];
    const bool has_deadline = trace->number > 0;
    addf(e, trace, EVENT_WARN, "%s %s terminate%s%s (%s)", name_of(trace),
         trace->uncertain ? "may" : "will", has_deadline ? " in " : "",
         has_deadline ? text_table_duration((int64_t)trace->number, buf) : "", trace->text);
}

/* Reports what a waiting job waits for. */
static void add_waiting(struct events *e, const struct rdzv_trace *trace)
{
    struct msg_status_job job;
    char waits[MSG_SENTENCE_MAX];
    if (strcmp(trace->text, "waiting") != 0 ||
        rdzv_find_job(events_core(e), trace->job, &job) != 0) {
        return;
    }
    job.waits = NULL;
    rdzv_view_waits(events_core(e), &job, waits);
    if (job.waits) {
        events_add(e, &(struct msg_event_row){.kind = "waiting",
                                              .job = trace->job,
                                              .epoch = trace->epoch,
                                              .message = job.waits});
    }
}

static void add_finished(struct events *e, const struct rdzv_trace *trace)
{
    struct msg_status_job job = {.state = STATE_SUCCEEDED};
    const bool is_known = rdzv_find_job(events_core(e), trace->job, &job) == 0;
    const bool is_failed = is_known && job.state == STATE_FAILED;
    char reason[MSG_SENTENCE_MAX];
    job.reason = NULL;
    if (is_known) {
        rdzv_view_reason(events_core(e), &job, reason);
    }
    if (is_known && job.state == STATE_CANCELLED) {
        add(e, trace, EVENT_INFO, "the job " RDZV_CANCELLED);
    } else {
        addf(e, trace, is_failed ? EVENT_ERROR : EVENT_INFO, "the job has %s%s%s",
             is_known ? msg_job_state_name(job.state) : "ended", job.reason ? ": " : "",
             job.reason ? job.reason : "");
    }
}

void event_of_trace(struct events *e, const struct rdzv_trace *trace)
{
    struct rdzv_node node;
    switch (trace->kind) {
    case TRACE_NODE_EXITED:
        add_exited(e, trace);
        return;
    case TRACE_RESTARTS:
        add_restarts(e, trace);
        return;
    case TRACE_NODE_NOTICED:
        add_noticed(e, trace);
        return;
    case TRACE_JOB_STATE:
        add_waiting(e, trace);
        return;
    case TRACE_JOB_FINISHED:
        add_finished(e, trace);
        return;
    case TRACE_NODE_READY:
        if (rdzv_get_node(events_core(e), trace->job, trace->node, &node) == 0 && node.is_member) {
            return; /* repeated in each switch */
        }
        break;
    default: /* follows from the table */
        break;
    }
    if (formats[trace->kind].sentence) {
        add_by_table(e, trace);
    }
}

/* --- events without a trace ------------------------------------------------------------------- */

/* Appends the duration between two times; nothing if one is unknown. */
static void phase(struct text *text, const struct msg_epoch_row *row, enum tfe_epoch_time from,
                  enum tfe_epoch_time to, const char *what)
{
    char buf[RECORD_TEXT_MAX];
    int64_t ms = row->at[to].ms - row->at[from].ms;
    if (row->at[from].ms > 0 && row->at[to].ms > 0 && ms >= 0) {
        const char *took = ms < 1000 ? buf : text_table_duration(ms, buf);
        if (ms < 1000) {
            (void)snprintf(buf, sizeof(buf), "%u ms", (unsigned)ms);
        }
        text_addf(text, ", %s %s", took, what);
    }
}

void event_of_first_step(struct events *e, const char *job, const struct msg_epoch_row *row)
{
    char phases[512];
    struct text text;
    text_init(&text, phases, sizeof(phases));
    phase(&text, row, EPOCH_DETECTED, EPOCH_STOPPED, "until STOP");
    phase(&text, row, EPOCH_STOPPED, EPOCH_GATHERED, "until all were ready");
    phase(&text, row, EPOCH_GATHERED, EPOCH_COMMITTED, "on disk");
    phase(&text, row, EPOCH_COMMITTED, EPOCH_PROGRESSED, "to the first step");
    const struct msg_event_row event = {
        .kind = "first_step", .job = job, .run = row->run, .epoch = row->epoch};
    events_report(e, &event, "epoch %llu trains%s%s", (unsigned long long)row->epoch,
                  phases[0] != '\0' ? ":" : "", phases[0] != '\0' ? phases + 1 : "");
}
