/* agent/job_log.c: implementation of job_log.h. */
#include "agent/job_log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/cli/log.h"
#include "common/cli/signals.h"
#include "common/cli/stdio.h"

#define AGAIN_FIRST_MS 10000
#define AGAIN_LAST_MS 300000

void job_log_waiting(struct job_log *l, const char *sentence, uint32_t since_ms, uint32_t up_to_ms)
{
    struct tfe_mono now = clock_mono();
    bool is_news = strcmp(l->waiting.logged, sentence) != 0;
    if (!is_news && tfe_mono_before(now, l->waiting.log_at)) {
        return;
    }
    snprintf(l->waiting.logged, sizeof l->waiting.logged, "%s", sentence);
    l->waiting.pause_ms =
        backoff_next(is_news ? 0 : l->waiting.pause_ms, AGAIN_FIRST_MS, AGAIN_LAST_MS);
    l->waiting.log_at = tfe_mono_add(now, l->waiting.pause_ms);
    log_info("waiting", LOG_S("reason", sentence), LOG_U(since_ms ? "since_ms" : NULL, since_ms),
             LOG_U(up_to_ms ? "up_to_ms" : NULL, up_to_ms));
}

/* Applies what RENEWED reports of the node's wait and logs it. */
static void apply_renewed(struct job_log *l, const struct msg_renewed *renewed)
{
    struct tfe_mono now = clock_mono();
    if (renewed->waits) {
        snprintf(l->waiting.reason, sizeof l->waiting.reason, "%s", renewed->waits);
        l->waiting.until = tfe_mono_add(now, renewed->waits_ms);
    }
    if (renewed->no_wait) {
        l->waiting.reason[0] = '\0';
    }
    if (l->waiting.reason[0] != '\0' && !l->is_preparing) {
        int64_t left_ms = tfe_mono_sub(l->waiting.until, now);
        job_log_waiting(l, l->waiting.reason, 0, left_ms > 0 ? (uint32_t)left_ms : 0);
    }
}

/* Returns the last non-empty line of text. */
static const char *last_line(const char *text, size_t *ret_n)
{
    size_t end = strlen(text);
    while (end > 0 && text[end - 1] == '\n') {
        end--;
    }
    size_t start = end;
    while (start > 0 && text[start - 1] != '\n') {
        start--;
    }
    *ret_n = end - start;
    return text + start;
}

/* Returns true if the tail starts with an exception that was printed long before its other lines
 * (see output_tail). */
static bool is_far_up(const char *shown)
{
    static const char head[] = MSG_RAISED_HEAD "\n";
    static const char frame[] = "  File \"";
    if (strncmp(shown, head, sizeof head - 1) != 0) {
        return false;
    }
    const char *next = shown + sizeof head - 1;
    if (strncmp(next, frame, sizeof frame - 1) == 0) { /* without the source line of a traceback */
        next += strcspn(next, "\n");
        next += *next == '\n';
    }
    return *next != ' ';
}

/* Builds the sentence about the end of a job, without a trainer's last lines if they are those that
 * were shown. */
static void end_sentence(const char *sentence, const char *shown, char ret[MSG_SENTENCE_MAX])
{
    const char *lines = strstr(sentence, MSG_TAIL_HEAD);
    size_t n_last;
    size_t n_shown;
    const char *last = last_line(sentence, &n_last);
    const char *line = last_line(shown, &n_shown);
    bool is_same = lines && n_shown > 0 && n_last == n_shown && memcmp(last, line, n_last) == 0 &&
                   !is_far_up(shown);
    snprintf(ret, MSG_SENTENCE_MAX, "%.*s",
             is_same ? (int)(lines - sentence) : (int)strlen(sentence), sentence);
}

/* Builds the log text about why the server stops an epoch and which node caused it. */
static void stop_sentence(const struct msg_stop *stop, char ret[MSG_SENTENCE_MAX])
{
    const char *who = stop->blamed ? stop->blamed : "a node";
    const char *what = NULL;
    if (stop->message) {
        snprintf(ret, MSG_SENTENCE_MAX, "%s", stop->message);
        return;
    }
    switch (stop->cause) {
    case CAUSE_NODE_LOST:
        what = "was lost (killed, crashed or cut off); related errors of trainers are consequences";
        break;
    case CAUSE_TRAINER_FAILED:
        what = "had a trainer that failed; different errors of other trainers are consequences";
        break;
    case CAUSE_JOINED:
        what = "joined, and the job grows";
        break;
    case CAUSE_DRAINED:
        what = "is drained by an operator";
        break;
    case CAUSE_PREEMPTED:
        what = "is about to be preempted";
        break;
    case CAUSE_RESIZED:
        snprintf(ret, MSG_SENTENCE_MAX, "an operator has changed the job's size");
        return;
    case CAUSE_SERVER_LOST:
        snprintf(ret, MSG_SENTENCE_MAX,
                 "the server was unreachable, and trainers were stopped meanwhile");
        return;
    case CAUSE_INTERRUPTED:
        what = "was stopped at its terminal (Ctrl-C)";
        break;
    case CAUSE_SUSPENDED:
        snprintf(ret, MSG_SENTENCE_MAX, "an operator has suspended the job");
        return;
    case CAUSE_REASSIGNED:
        what = "is reassigned to another job";
        break;
    case CAUSE_START:
        break;
    }
    if (what) {
        snprintf(ret, MSG_SENTENCE_MAX, "%s %s", who, what);
    } else {
        snprintf(ret, MSG_SENTENCE_MAX, "requested by the server");
    }
}

/* --- interface --- */

void job_log_trace(struct job_log *l, const struct agent_trace *trace)
{
    _Static_assert((int)AGENT_LEVEL_DEBUG == LOG_DEBUG_ && (int)AGENT_LEVEL_ERROR == LOG_ERROR_,
                   "the core's levels are the log's");
    const struct agent_trace_format *words = agent_trace_format(trace->kind);
    bool is_of_link = trace->kind == AGENT_TRACE_CONNECTING || trace->kind == AGENT_TRACE_JOINED;
    /* A trainer's failure is an error, but not if the agent killed the trainer. */
    bool is_of_trainer = trace->kind == AGENT_TRACE_TRAINER_EXITED;
    bool is_failure = is_of_trainer && trace->number != 0 && !l->is_sweeping;
    bool is_signal = trace->kind == AGENT_TRACE_DRAINING || trace->is_signal;
    l->trainers_ended = l->trainers_ended || trace->kind == AGENT_TRACE_EXITED;
    bool has_reason = trace->kind == AGENT_TRACE_STOPPING && l->stop_reason[0];
    char name[SIGNAL_NAME_MAX];
    LOG_AT(is_failure ? LOG_ERROR_ : (enum log_level)words->level, words->name,
           LOG_S("endpoint", is_of_link ? l->endpoint : NULL),
           LOG_U(trace->epoch ? "epoch" : NULL, trace->epoch), LOG_U(words->rank, trace->rank),
           LOG_U(is_signal ? NULL : words->number, trace->number),
           LOG_S("signal", is_signal ? signal_name((int)trace->number & 127, name) : NULL),
           LOG_S(is_of_trainer && l->is_sweeping ? "by" : NULL, "tfe-agent"),
           LOG_S(words->text, has_reason ? l->stop_reason : trace->text));
}

void job_log_event(struct job_log *l, const struct agent_event *event)
{
    l->stop_reason[0] = '\0';
    if (event->type == AGENT_DISCONNECTED && event->lost.how == AGENT_LINK_UNREACHABLE &&
        !l->server_responded) {
        char sentence[MSG_SENTENCE_MAX];
        snprintf(sentence, sizeof sentence, "cannot reach the server at %s: %s", l->endpoint,
                 event->lost.reason ? event->lost.reason : "no answer");
        job_log_waiting(l, sentence, 0, l->join_timeout_ms);
    } else if (event->type == AGENT_TRAINER_EXITED && !l->is_sweeping && event->end.tail &&
               event->end.end ==
                   ENDING_EXITED && /* without such text, this agent has added its own */
               output_is_shown(l->show, event->end.local_rank, l->rank + event->end.local_rank,
                               STREAM_STDERR)) {
        snprintf(l->shown, sizeof l->shown, "%s", event->end.tail);
    } else if (event->type == AGENT_MESSAGE && event->msg->type == MSG_STOP) {
        stop_sentence(&event->msg->u.stop, l->stop_reason);
        if (l->trainers_ended && event->msg->u.stop.message) {
            log_info("server_message",
                     LOG_S("reason", l->stop_reason)); /* nothing is left to stop */
        }
    } else if (event->type == AGENT_MESSAGE && event->msg->type == MSG_RENEWED) {
        apply_renewed(l, &event->msg->u.renewed);
    } else if (event->type == AGENT_MESSAGE && event->msg->type == MSG_WELCOME) {
        l->waiting.reason[0] = '\0'; /* the server will send the reason again if it still applies */
        if (event->msg->u.welcome.message) {
            log_info("server_message", LOG_S("reason", event->msg->u.welcome.message));
        }
    }
    l->job_was_over = l->job_was_over || (!l->server_responded && event->type == AGENT_MESSAGE &&
                                          event->msg->type == MSG_FINISH);
    l->server_responded = l->server_responded || event->type == AGENT_MESSAGE;
}

void job_log_begin(struct job_log *l, uint32_t rank)
{
    memset(&l->waiting, 0, sizeof l->waiting);
    l->is_sweeping = false;
    l->shown[0] = '\0';
    l->trainers_ended = false;
    l->rank = rank;
}

void job_log_end(const struct job_log *l, int code, const char *sentence, bool has_run_key)
{
    char text[ENDPOINT_TEXT_MAX + 2 + MSG_SENTENCE_MAX];
    const bool unreached = code == AGENT_EXIT_UNREACHED;
    if (sentence) {
        char words[MSG_SENTENCE_MAX];
        end_sentence(sentence, l->shown, words);
        (void)snprintf(text, sizeof text, "%s%s%s", unreached ? l->endpoint : "",
                       unreached ? ": " : "", words);
        stdio_print_message("tfe-agent", text);
    }
    if (l->job_was_over && isatty(STDERR_FILENO)) {
        stdio_print_message(
            "tfe-agent",
            has_run_key ? "nothing ran: this run is over (use another --run KEY for the next run)"
                        : "nothing ran: the job is over (use --new-run to run it again)");
    }
}
