/* agent/notice/source.c: complaints, questions and deadlines of all sources. */
#include "agent/notice/source.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/net/clock.h"
#include "common/net/log.h"

/* A service that comes and goes is complained about this often. */
#define SAY_EVERY_MS 600000

/* Seconds that a file or command may name: a day. */
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
}

bool source_failed(struct source *s, const char *what, const char *why)
{
    if (!s->is_found) {
        log_debug("notice_source_not_there", LOG_S("source", s->ops->name), LOG_S("why", why));
        s->is_over = true;
        s->ops->stop(s);
        return false;
    }
    const struct tfe_mono now = clock_mono();
    if (!s->in_trouble && !tfe_mono_before(now, s->say_next)) {
        s->in_trouble = true;
        s->say_next = tfe_mono_add(now, SAY_EVERY_MS);
        log_warn("notice_source_fails", LOG_S("source", s->ops->name), LOG_S("at", what),
                 LOG_S("why", why), LOG_S("then", "it is asked again and again"));
    } else {
        log_debug("notice_source_fails", LOG_S("source", s->ops->name), LOG_S("at", what),
                  LOG_S("why", why));
    }
    return true;
}

uint32_t source_patience(const struct source *s)
{
    return s->is_found ? s->wish->pace->answer_ms : s->wish->pace->auto_ms;
}

bool source_ask(struct source *s, const struct http_question *question, http_fn *on_answer,
                void *ctx, struct http **ret)
{
    struct http_question q = *question;
    q.place = s->place;
    q.within_ms = q.within_ms ? q.within_ms : source_patience(s);
    int rc = http_ask(s->base, &q, on_answer, ctx, ret);
    if (rc) {
        source_failed(s, q.path, tfe_error_sentence(rc));
    }
    return rc == 0;
}

/* --- deadlines -------------------------------------------------------------------------------- */

struct tfe_mono source_grace(const struct source *s)
{
    return tfe_mono_add(clock_mono(), s->wish->grace_ms);
}

static bool read_time(const char *text, struct tfe_wall *ret)
{
    static const char *const formats[] = {"%Y-%m-%dT%H:%M:%S", "%a, %d %b %Y %H:%M:%S"};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct tm parts = {0};
        const char *end = strptime(text, formats[i], &parts);
        /* A fraction, then the zone, which is always UTC: "Z" or " GMT". */
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

int source_deadline(const struct http_answer *answer, const char *text, uint32_t most_ms,
                    struct tfe_mono *ret)
{
    struct tfe_wall then;
    struct tfe_wall now;
    const char *date = http_answer_header(answer, "Date");
    if (!read_time(text, &then)) {
        return TFE_EINVAL;
    }
    if (!date || !read_time(date, &now)) {
        now = clock_wall();
    }
    int64_t lead = then.ms - now.ms;
    lead = lead < 0 ? 0 : lead;
    *ret = tfe_mono_add(clock_mono(), lead < most_ms ? lead : most_ms);
    return 0;
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
