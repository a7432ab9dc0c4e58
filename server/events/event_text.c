/* server/events/event_text.c: converts traces, ledger rows and orders to events. */
#include "server/events/event_text.h"

#include <stdio.h>
#include <string.h>

#include "common/records/text_table.h"
#include "common/text/text.h"
#include "server/core/stderr_tail.h"

/* Kind, level and sentence for each trace: %N node, %T text, %n number, %d number as a duration, %E
 * epoch. Traces without a row are no events, or are handled below. */
static const struct words {
    const char *kind;
    enum tfe_event_level level;
    const char *says;
} words[] = {
    [TRACE_NODE_JOINED] = {"joined", EVENT_INFO, "%N has joined"},
    [TRACE_NODE_BACK] = {"back", EVENT_INFO, "%N is connected again"},
    [TRACE_NODE_READY] = {"ready", EVENT_INFO, "%N is ready, its trainers are reached at %T"},
    [TRACE_NODE_UNREACHED] = {"unreached", EVENT_WARN, "%N is not reached at %T so far"},
    [TRACE_NODE_DEAD] = {"dead", EVENT_WARN, "all that %N ran is proven dead, by %T"},
    [TRACE_NODE_SUSPECT] = {"suspect", EVENT_WARN,
                            "%N has lost its connection without a goodbye: its lease runs"},
    [TRACE_NODE_LOST] = {"lost", EVENT_WARN, "%N is lost: %T"},
    [TRACE_NODE_LEFT] = {"left", EVENT_INFO, "%N has left"},
    [TRACE_NODE_QUARANTINED] = {"quarantine", EVENT_WARN,
                                "%N is kept out for %d, its trainers fail while others' do not "
                                "(%T)"},
    [TRACE_NODE_REFUSED] = {"refused", EVENT_WARN, "%N was refused: %T"},
    [TRACE_WORKER_RESTART] = {"worker_restart", EVENT_INFO,
                              "the trainer of %N is started again, time %n in epoch %E, which goes "
                              "on"},
    [TRACE_EVALUATOR] = {"evaluator", EVENT_INFO, "the evaluator, at %N, %T"},
    [TRACE_SWITCH] = {"switch", EVENT_INFO, "epoch %E ends (%T)"},
    [TRACE_EPOCH] = {"epoch", EVENT_INFO, "epoch %E begins with %n nodes (%T)"},
    [TRACE_REBUILT] = {"rebuilt", EVENT_WARN,
                       "epoch %E was put together again, from the word of %n nodes"},
    [TRACE_WAIT_FENCE] = {"fence", EVENT_WARN,
                          "the next epoch waits up to %d, until the trainers of a lost node must "
                          "have ended"},
    [TRACE_MASS_LOSS] = {"mass_loss", EVENT_ERROR, "nothing is decided for %d: %T"},
    [TRACE_LINGERS] = {"lingers", EVENT_INFO,
                       "the job has succeeded, and what still runs goes on until it ends"},
    [TRACE_WRITE_FAILED] = {"store", EVENT_ERROR,
                            "what the next epoch needs could not be written; again in %d"},
    [TRACE_NODE_ALONE] = {"node_alone", EVENT_WARN,
                          "%N, rank %n, does not use the cluster that TF_CONFIG gives it: it "
                          "neither listens at its address nor is connected to rank 0, and trains "
                          "alone"},
    [TRACE_NODE_STAYS] = {"stays", EVENT_INFO, "%N does not go away after all"},
    [TRACE_SAVE] = {"save", EVENT_INFO, "the scripts are asked for a checkpoint"},
    [TRACE_SAVED] = {"save", EVENT_INFO, "the scripts have saved one, %d after they were asked"},
    [TRACE_GROWTH_WAITS] = {"growth_waits", EVENT_INFO, "growth %T"},
};

#define N_WORDS (sizeof(words) / sizeof(words[0]))

static const char *name_of(const struct rdzv_trace *trace)
{
    return trace->name && trace->name[0] != '\0' ? trace->name
           : trace->node                         ? trace->node
                                                 : "an agent";
}

static struct msg_event_row row_of(const struct rdzv_trace *trace, const char *kind,
                                   enum tfe_event_level level)
{
    return (struct msg_event_row){.kind = kind,
                                  .level = level,
                                  .job = trace->job,
                                  .epoch = trace->epoch,
                                  .node = trace->node,
                                  .name = trace->name};
}

static void say(struct text *text, const char *form, const struct rdzv_trace *trace)
{
    char room[RECORD_TEXT_MAX];
    for (; *form != '\0'; form++) {
        if (*form != '%') {
            text_add(text, (const char[]){*form, '\0'});
            continue;
        }
        switch (*++form) {
        case 'N':
            text_add(text, name_of(trace));
            break;
        case 'T':
            text_add(text, trace->text);
            break;
        case 'n':
            text_addf(text, "%llu", (unsigned long long)trace->number);
            break;
        case 'd':
            text_add(text, text_table_duration((int64_t)trace->number, room));
            break;
        case 'E':
            text_addf(text, "%llu", (unsigned long long)trace->epoch);
            break;
        }
    }
}

static void by_table(struct events *e, const struct rdzv_trace *trace)
{
    const struct words *w = &words[trace->kind];
    char says[MSG_SENTENCE_MAX];
    struct text text;
    text_init(&text, says, sizeof(says));
    say(&text, w->says, trace);
    struct msg_event_row row = row_of(trace, w->kind, w->level);
    row.says = says;
    events_add(e, &row);
}

/* --- events that need more than one trace ----------------------------------------------------- */

/* Copies the exception that ended the trainer and where it was raised, or its last line, to room.
 */
static const char *error_line(const char *tail, char room[512])
{
    char source[80];
    struct text text;
    stderr_tail_error(tail, room, 400);
    if (room[0] == '\0') {
        stderr_tail_line(tail, room, 400);
        return room;
    }
    stderr_tail_source(tail, source, sizeof(source));
    text = (struct text){.p = room, .n = strlen(room), .cap = 512};
    if (source[0] != '\0') {
        text_addf(&text, " (%s)", source);
    }
    return room;
}

/* Reports each failed trainer. The verdict about it is a separate event. */
static void exited(struct events *e, const struct rdzv_trace *trace)
{
    char room[512];
    const char *line = error_line(trace->text ? trace->text : "", room);
    const struct msg_event_row row = row_of(trace, "exited", EVENT_WARN);
    if (trace->stopped) {
        return;
    }
    if (trace->number > 128) {
        events_addf(e, &row, "a trainer of %s was ended by signal %u%s%s", name_of(trace),
                    (unsigned)trace->number - 128, line[0] != '\0' ? ": " : "", line);
    } else if (trace->number > 0) {
        events_addf(e, &row, "a trainer of %s has failed with code %u%s%s", name_of(trace),
                    (unsigned)trace->number, line[0] != '\0' ? ": " : "", line);
    }
}

static void verdict(struct events *e, const struct rdzv_trace *trace)
{
    static const struct {
        const char *how, *says;
    } hows[] = {
        {"finished", "has come to its end"},
        {"stopped", "was stopped by its agent: nobody's fault"},
        {"coordinator", "ended because of the server's absence: nobody's fault"},
        {"lost_node", "ended because a node was lost: not its fault"},
        {"preempted", "was preempted: not its fault"},
        {"peer_caused", "ended because a peer did: not its fault"},
        {"own_fault", "is at fault itself"},
        {"out_of_memory", "was out of memory"},
        {"start_timeout", "did not start up in time"},
        {"progress_timeout", "made no progress for too long"},
    };
    const char *how = trace->text ? trace->text : "";
    const char *says = how;
    for (size_t i = 0; i < sizeof(hows) / sizeof(hows[0]); i++) {
        says = strcmp(hows[i].how, how) == 0 ? hows[i].says : says;
    }
    const struct msg_event_row row = row_of(trace, "verdict", EVENT_INFO);
    events_addf(e, &row, "verdict: the trainer of %s %s", name_of(trace), says);
}

static void restarts(struct events *e, const struct rdzv_trace *trace)
{
    const struct msg_event_row row = row_of(trace, "restarts", EVENT_INFO);
    struct msg_status_job job;
    const bool is_known = rdzv_find_job(events_core(e), trace->job, &job) == 0;
    if (!trace->text && is_known && trace->number > job.restarts + job.restarts_left) {
        events_addf(e, &row, "all %u restarts of the budget were used before",
                    (unsigned)(job.restarts + job.restarts_left));
    } else if (trace->text) {
        events_addf(e, &row, "%u restarts of the budget are used now, fewer than before: %s",
                    (unsigned)trace->number, trace->text);
    } else {
        events_addf(e, &row, "restart %u of the budget is used", (unsigned)trace->number);
    }
}

static void noticed(struct events *e, const struct rdzv_trace *trace)
{
    char room[RECORD_TEXT_MAX];
    const struct msg_event_row row = row_of(trace, "notice", EVENT_WARN);
    const bool has_deadline = trace->number > 0;
    events_addf(e, &row, "%s %s go away%s%s (%s)", name_of(trace),
                trace->uncertain ? "may" : "will", has_deadline ? " in " : "",
                has_deadline ? text_table_duration((int64_t)trace->number, room) : "", trace->text);
}

/* Reports what a waiting job waits for. */
static void waiting(struct events *e, const struct rdzv_trace *trace)
{
    struct msg_status_job job;
    char waits[MSG_SENTENCE_MAX];
    if (strcmp(trace->text, "waiting") != 0 ||
        rdzv_find_job(events_core(e), trace->job, &job) != 0) {
        return;
    }
    job.waits = NULL;
    rdzv_view_waits(events_core(e), &job, waits);
    struct msg_event_row row = row_of(trace, "waiting", EVENT_INFO);
    row.says = job.waits;
    if (row.says) {
        events_add(e, &row);
    }
}

/* Formats ": 1 of 2 workers" if the job's epoch has worker slots served by ps, else "". */
static const char *workers_left(const struct events *e, const struct rdzv_trace *trace,
                                char ret[64])
{
    struct msg_status_job job;
    ret[0] = '\0';
    if (rdzv_find_job(events_core(e), trace->job, &job) == 0 && job.workers > 0) {
        (void)snprintf(ret, 64, ": %u of %u workers", (unsigned)trace->number,
                       (unsigned)job.workers);
    }
    return ret;
}

static void worker_done(struct events *e, const struct rdzv_trace *trace)
{
    char left[64];
    const struct msg_event_row row = row_of(trace, "worker_done", EVENT_INFO);
    events_addf(e, &row, "the worker on %s has ended with exit status 0%s", name_of(trace),
                workers_left(e, trace, left));
}

static void worker_lost(struct events *e, const struct rdzv_trace *trace)
{
    char left[64];
    const struct msg_event_row row = row_of(trace, "worker_missing", EVENT_WARN);
    events_addf(e, &row, "epoch %llu goes on without the worker on %s (%s)%s",
                (unsigned long long)trace->epoch, name_of(trace), trace->text,
                workers_left(e, trace, left));
}

static void finished(struct events *e, const struct rdzv_trace *trace)
{
    struct msg_status_job job = {.state = STATE_SUCCEEDED};
    const bool is_known = rdzv_find_job(events_core(e), trace->job, &job) == 0;
    const bool is_failed = is_known && job.state == STATE_FAILED;
    const struct msg_event_row row =
        row_of(trace, "finished", is_failed ? EVENT_ERROR : EVENT_INFO);
    char reason[MSG_SENTENCE_MAX];
    job.reason = NULL;
    if (is_known) {
        rdzv_view_reason(events_core(e), &job, reason);
    }
    if (is_known && job.state == STATE_CANCELLED) {
        events_addf(e, &row, "the job %s", job.reason ? job.reason : "was cancelled");
    } else {
        events_addf(e, &row, "the job has %s%s%s",
                    is_known ? msg_job_state_name(job.state) : "ended", job.reason ? ": " : "",
                    job.reason ? job.reason : "");
    }
}

void event_of_trace(void *ctx, const struct rdzv_trace *trace)
{
    struct events *e = ctx;
    switch (trace->kind) {
    case TRACE_NODE_EXITED:
        exited(e, trace);
        return;
    case TRACE_END:
        verdict(e, trace);
        return;
    case TRACE_WORKER_DONE:
        worker_done(e, trace);
        return;
    case TRACE_WORKER_MISSING:
        worker_lost(e, trace);
        return;
    case TRACE_RESTARTS:
        restarts(e, trace);
        return;
    case TRACE_NODE_NOTICED:
        noticed(e, trace);
        return;
    case TRACE_JOB_STATE:
        waiting(e, trace);
        return;
    case TRACE_JOB_FINISHED:
        finished(e, trace);
        return;
    case TRACE_NODE_READY:
        if (rdzv_is_member(events_core(e), trace->job, trace->node)) {
            return; /* repeated in each switch */
        }
        break;
    default: /* handled by the table, if at all */
        break;
    }
    if (trace->kind < N_WORDS && words[trace->kind].says) {
        by_table(e, trace);
    }
}

/* --- events without a trace ------------------------------------------------------------------- */

/* Appends the duration between two times; nothing if one is unknown. */
static void phase(struct text *text, const struct msg_epoch_row *row, enum tfe_epoch_time from,
                  enum tfe_epoch_time to, const char *what)
{
    char room[RECORD_TEXT_MAX];
    int64_t ms = row->at[to].ms - row->at[from].ms;
    if (row->at[from].ms > 0 && row->at[to].ms > 0 && ms >= 0) {
        const char *took = ms < 1000 ? room : text_table_duration(ms, room);
        if (ms < 1000) {
            (void)snprintf(room, sizeof(room), "%u ms", (unsigned)ms);
        }
        text_addf(text, ", %s %s", took, what);
    }
}

void event_of_ledger(struct events *e, const char *job, const struct msg_epoch_row *row)
{
    char phases[512];
    struct text text;
    int64_t first = row->at[EPOCH_PROGRESSED].ms;
    /* Report only the row that sets this time: later rows repeat it. */
    if (first == 0 || row->over || row->at[EPOCH_ENDED].ms > 0 ||
        row->at[EPOCH_LISTENING].ms > first) {
        return;
    }
    text_init(&text, phases, sizeof(phases));
    phase(&text, row, EPOCH_DETECTED, EPOCH_STOPPED, "until STOP");
    phase(&text, row, EPOCH_STOPPED, EPOCH_GATHERED, "until all were ready");
    phase(&text, row, EPOCH_GATHERED, EPOCH_COMMITTED, "on disk");
    phase(&text, row, EPOCH_COMMITTED, EPOCH_PROGRESSED, "to the first step");
    const struct msg_event_row event = {
        .kind = "first_step", .job = job, .run = row->run, .epoch = row->epoch};
    events_addf(e, &event, "epoch %llu trains%s%s", (unsigned long long)row->epoch,
                phases[0] != '\0' ? ":" : "", phases[0] != '\0' ? phases + 1 : "");
}

void event_of_store(struct events *e, int rc, const char *reason)
{
    const struct msg_event_row row = {.kind = "store", .level = rc == 0 ? EVENT_INFO : EVENT_ERROR};
    if (rc == 0) {
        events_addf(e, &row, "the database takes what is written again");
    } else {
        events_addf(e, &row,
                    "the database takes nothing (%.600s): what runs goes on, no new epoch begins",
                    reason);
    }
}

void event_of_order(struct events *e, const char *who, const char *order, const char *job,
                    const char *about, const char *result)
{
    const struct msg_event_row row = {.kind = "order", .job = job};
    events_addf(e, &row, "%s has ordered %s of %s: %s", who, order, about, result);
}
