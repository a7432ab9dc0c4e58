/* agent/messages.c: implementation of messages.h. */
#include "agent/messages.h"

#include <stdio.h>
#include <string.h>

#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/cli/log.h"

#define AGAIN_FIRST_MS 10000
#define AGAIN_LAST_MS 300000

void waiting_log(struct waiting *w, const char *sentence, uint32_t since_ms, uint32_t up_to_ms)
{
    struct tfe_mono now = clock_mono();
    bool is_news = strcmp(w->sentence_logged, sentence) != 0;
    if (!is_news && tfe_mono_before(now, w->log_at)) {
        return;
    }
    snprintf(w->sentence_logged, sizeof w->sentence_logged, "%s", sentence);
    w->pause_ms = backoff_next(is_news ? 0 : w->pause_ms, AGAIN_FIRST_MS, AGAIN_LAST_MS);
    w->log_at = tfe_mono_add(now, w->pause_ms);
    log_info("waiting", LOG_S("reason", sentence), LOG_U(since_ms ? "since_ms" : NULL, since_ms),
             LOG_U(up_to_ms ? "up_to_ms" : NULL, up_to_ms));
}

void waiting_renew(struct waiting *w, const struct msg_renewed *renewed, bool is_quiet)
{
    struct tfe_mono now = clock_mono();
    if (renewed->waits) {
        snprintf(w->reason, sizeof w->reason, "%s", renewed->waits);
        w->until = tfe_mono_add(now, renewed->waits_ms);
    }
    if (renewed->no_wait) {
        w->reason[0] = '\0';
    }
    if (w->reason[0] != '\0' && !is_quiet) {
        int64_t left_ms = tfe_mono_sub(w->until, now);
        waiting_log(w, w->reason, 0, left_ms > 0 ? (uint32_t)left_ms : 0);
    }
}

void waiting_end(struct waiting *w)
{
    *w = (struct waiting){.pause_ms = 0};
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
    return strncmp(shown, head, sizeof head - 1) == 0 && shown[sizeof head - 1] != ' ';
}

void end_sentence(const char *sentence, const char *shown, char ret[MSG_SENTENCE_MAX])
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

void stop_sentence(const struct msg_stop *stop, char ret[MSG_SENTENCE_MAX])
{
    const char *who = stop->blamed ? stop->blamed : "a node";
    const char *what = NULL;
    if (stop->says) {
        snprintf(ret, MSG_SENTENCE_MAX, "%s", stop->says);
        return;
    }
    switch (stop->cause) {
    case CAUSE_NODE_LOST:
        what = "was lost (killed, crashed or cut off); what trainers print of it is a consequence";
        break;
    case CAUSE_TRAINER_FAILED:
        what = "had a trainer that failed; different errors of other trainers are consequences";
        break;
    case CAUSE_JOINED:
        what = "came, and the job grows";
        break;
    case CAUSE_DRAINED:
        what = "is taken out by an operator";
        break;
    case CAUSE_PREEMPTED:
        what = "is about to go away";
        break;
    case CAUSE_RESIZED:
        snprintf(ret, MSG_SENTENCE_MAX, "an operator has changed the job's size");
        return;
    case CAUSE_SERVER_LOST:
        snprintf(ret, MSG_SENTENCE_MAX, "the server was away, and trainers were ended meanwhile");
        return;
    case CAUSE_INTERRUPTED:
        what = "was ended by somebody at its terminal (Ctrl-C)";
        break;
    case CAUSE_SUSPENDED:
        snprintf(ret, MSG_SENTENCE_MAX, "an operator has suspended the job");
        return;
    case CAUSE_REASSIGNED:
        what = "is given to another job";
        break;
    case CAUSE_START:
        break;
    }
    if (what) {
        snprintf(ret, MSG_SENTENCE_MAX, "%s %s", who, what);
    } else {
        snprintf(ret, MSG_SENTENCE_MAX, "the server says so");
    }
}
