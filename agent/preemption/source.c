/* agent/preemption/source.c: error reports, requests and deadlines of all sources. */
#include "agent/preemption/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"

/* Minimum interval of warnings about an unstable service. */
#define WARN_INTERVAL_MS 600000

/* Maximum size of a response; the longest one, a list of scheduled events, has some kilobytes. */
#define RESPONSE_MAX 65536

/* Maximum number of seconds that a file or command may give: one day. */
#define SECONDS_MAX 86400

void source_works(struct source *s)
{
    if (!s->is_found) {
        s->is_found = true;
        log_info("notice_source", LOG_S("source", s->ops->name));
    }
    if (s->in_trouble) {
        s->in_trouble = false;
        log_info("notice_source_works_again", LOG_S("source", s->ops->name));
    }
    s->found(s->all, s);
}

static void warn_failure(struct source *s, const char *what, const char *reason, const char *then)
{
    const struct tfe_mono now = clock_mono();
    if (!s->in_trouble && !tfe_mono_before(now, s->warn_at)) {
        s->in_trouble = true;
        s->warn_at = tfe_mono_add(now, WARN_INTERVAL_MS);
        log_warn("notice_source_fails", LOG_S("source", s->ops->name), LOG_S("at", what),
                 LOG_S("reason", reason), LOG_S("then", then));
    } else {
        log_debug("notice_source_fails", LOG_S("source", s->ops->name), LOG_S("at", what),
                  LOG_S("reason", reason));
    }
}

void source_failed(struct source *s, const char *what, const char *reason)
{
    if (s->is_found) {
        warn_failure(s, what, reason, "the agent retries");
        return;
    }
    log_debug("notice_source_not_there", LOG_S("source", s->ops->name), LOG_S("reason", reason));
    s->is_over = true;
    source_stop(s);
}

/* Reports a missing response: the service may be slow or unreachable. Logged once, with a hint for
 * containers; the source continues in any case. */
static void report_unanswered(struct source *s, const char *what, const char *reason)
{
    if (!s->is_found) {
        s->is_silent = true;
        if (*s->silence_logged) {
            log_debug("notice_source_fails", LOG_S("source", s->ops->name), LOG_S("at", what),
                      LOG_S("reason", reason));
            return;
        }
        *s->silence_logged = true;
    }
    warn_failure(s, what, reason,
                 "the agent retries (in a container on AWS, the instance needs "
                 "http-put-response-hop-limit 2)");
}

/* --- notices of one source --- */

void source_set(struct source *s, enum tfe_notice kind, const char *tag, struct tfe_mono deadline,
                bool is_uncertain)
{
    struct source_notice *notice = &s->notices[kind];
    char cut[SOURCE_TAG_MAX + 1] = "";
    const size_t n = strlen(tag);
    memcpy(cut, tag, n < SOURCE_TAG_MAX ? n : SOURCE_TAG_MAX);
    if (notice->is_active && strcmp(notice->tag, cut) == 0) {
        return;
    }
    *notice = (struct source_notice){
        .is_active = true, .is_uncertain = is_uncertain, .deadline = deadline};
    memcpy(notice->tag, cut, sizeof cut);
    log_info("notice_received", LOG_S("source", s->ops->name), LOG_S("kind", msg_notice_name(kind)),
             LOG_B("uncertain", is_uncertain), LOG_S("tag", cut[0] ? cut : NULL));
    s->update_kind(s->all, kind);
}

void source_withdraw(struct source *s, enum tfe_notice kind)
{
    struct source_notice *notice = &s->notices[kind];
    if (notice->is_active) {
        notice->is_active = false;
        log_info("notice_withdrawn", LOG_S("source", s->ops->name),
                 LOG_S("kind", msg_notice_name(kind)));
        s->update_kind(s->all, kind);
    }
}

/* --- polls and requests --- */

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct source_poll *poll = ctx;
    poll->turn(poll);
}

void source_poll_start(struct source_poll *poll, struct source *s,
                       void (*turn)(struct source_poll *poll))
{
    *poll = (struct source_poll){.source = s, .turn = turn};
    poll->timer = evtimer_new(s->base, on_timer, poll);
    must_succeed(poll->timer && timer_after(poll->timer, 0) == 0);
}

void source_poll_stop(struct source_poll *poll)
{
    http_cancel(poll->call);
    poll->call = NULL;
    event_drop(&poll->timer);
}

void source_poll_after(struct source_poll *poll, uint32_t ms)
{
    const struct source *s = poll->source;
    timer_after(poll->timer, !s->is_found && s->is_silent ? s->options->intervals->info_ms : ms);
}

void source_start(struct source *s)
{
    if (s->ops->turn) {
        source_poll_start(&s->poll, s, s->ops->turn);
    }
    if (s->ops->start) {
        s->ops->start(s);
    }
}

void source_stop(struct source *s)
{
    source_poll_stop(&s->poll);
    if (s->ops->stop) {
        s->ops->stop(s);
    }
}

static void handle_response(struct source_poll *poll, const struct http_response *response,
                            const char *error)
{
    struct source *s = poll->source;
    const char *reason = response ? poll->handle(poll, response) : error;
    if (reason && poll->failed) {
        poll->failed(poll, reason);
    } else if (reason && response) {
        source_failed(s, poll->path, reason);
    } else if (reason) {
        report_unanswered(s, poll->path, reason);
    }
    if (poll->timer && !evtimer_pending(poll->timer, NULL)) {
        source_poll_after(poll, poll->interval_ms);
    }
}

static void on_response(void *ctx, const struct http_response *response, const char *error)
{
    struct source_poll *poll = ctx;
    poll->call = NULL;
    handle_response(poll, response, error);
}

void source_request(struct source_poll *poll, const char *path, const struct http_request *question,
                    source_response_fn *handle)
{
    const struct source *s = poll->source;
    char url[1024];
    char line[SOURCE_HEADER_MAX + 1];
    const char *const headers[] = {line, NULL};
    snprintf(url, sizeof url, "%s%s", s->place, path);
    struct http_request q = *question;
    q.url = url;
    q.max = RESPONSE_MAX;
    if (!q.headers) {
        s->ops->header(s, line);
        q.headers = headers;
    }
    if (q.within_ms == 0) {
        q.within_ms = s->is_found || s->is_silent ? s->options->intervals->answer_ms
                                                  : s->options->intervals->auto_ms;
    }
    poll->path = path;
    poll->handle = handle;
    int rc = http_call(s->base, &q, on_response, poll, &poll->call);
    if (rc) {
        handle_response(poll, NULL, tfe_error_sentence(rc));
    }
}

/* --- deadlines --- */

struct tfe_mono source_grace(const struct source *s)
{
    return tfe_mono_add(clock_mono(), s->options->grace_ms);
}

static bool read_time(const char *text, struct tfe_wall *ret)
{
    static const char *const formats[] = {"%Y-%m-%dT%H:%M:%S", "%a, %d %b %Y %H:%M:%S"};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct tm parts = {0};
        const char *end = strptime(text, formats[i], &parts);
        /* Skip a fraction; the zone is always UTC: "Z" or " GMT". */
        if (end && *end == '.') {
            end += 1 + strspn(end + 1, "0123456789");
        }
        if (end && (strcmp(end, "Z") == 0 || strcmp(end, " GMT") == 0)) {
            ret->ms = (int64_t)timegm(&parts) * 1000;
            return true;
        }
    }
    return false;
}

int source_deadline(const struct http_response *response, const char *text, uint32_t max_ms,
                    struct tfe_mono *ret)
{
    struct tfe_wall then;
    struct tfe_wall now;
    const char *date = http_response_header(response, "Date");
    if (!read_time(text, &then)) {
        return TFE_EINVAL;
    }
    if (!date || !read_time(date, &now)) {
        now = clock_wall();
    }
    int64_t lead = then.ms - now.ms;
    lead = lead < 0 ? 0 : lead;
    *ret = tfe_mono_add(clock_mono(), lead < max_ms ? lead : max_ms);
    return 0;
}

bool source_text(char ret[CLOUD_TEXT_MAX + 1], const char *text, size_t n)
{
    bool is_valid = n > 0 && n <= CLOUD_TEXT_MAX;
    for (size_t i = 0; is_valid && i < n; i++) {
        is_valid = text[i] > ' ' && text[i] < 0x7f;
    }
    if (is_valid) {
        memcpy(ret, text, n);
        ret[n] = '\0';
    }
    return is_valid;
}

bool source_seconds(const char *text, struct tfe_mono *ret_deadline)
{
    static const char blanks[] = " \t\r\n";
    const char *at = text + strspn(text, blanks);
    const size_t digits = strspn(at, "0123456789");
    if (digits == 0 || at[digits + strspn(at + digits, blanks)] != '\0') {
        return false;
    }
    unsigned long seconds = digits > 9 ? SECONDS_MAX : strtoul(at, NULL, 10);
    seconds = seconds < SECONDS_MAX ? seconds : SECONDS_MAX;
    *ret_deadline = tfe_mono_add(clock_mono(), (int64_t)seconds * 1000);
    return true;
}
