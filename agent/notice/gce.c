/* agent/notice/gce.c: Google's metadata server: two questions that it answers when something
 * changes, or after five minutes. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "agent/notice/source.h"
#include "common/net/clock.h"
#include "common/net/timer.h"

/* How long a machine lives on: a preempted one 30 s or less, one whose host is maintained and that
 * cannot move a minute (with an accelerator an hour, but that is said nowhere in the answer). */
#define PREEMPTED_MS 30000
#define TERMINATED_MS 60000
/* Of a preemption that was there when we looked nobody knows how much of its time is over. */
#define PREEMPTED_LATE_MS 15000

/* More than the service waits by itself. */
#define PATIENCE_MS 15000

#define ETAG_MAX 63
#define PATH "/computeMetadata/v1/instance/"

struct gce_question {
    struct source *source;
    const char *name;
    void (*take)(struct source *s, const char *value, bool is_change);
    struct event *timer;
    struct http *http;
    bool waits; /* for a change: the value now is known */
    char etag[ETAG_MAX + 1];
    char path[256];
};

struct gce {
    struct gce_question questions[2];
};

static void take_preempted(struct source *s, const char *value, bool is_change)
{
    const uint32_t within_ms = is_change ? PREEMPTED_MS : PREEMPTED_LATE_MS;
    if (strcasecmp(value, "TRUE") == 0) {
        source_tell(s, NOTICE_PREEMPT, "preempted", tfe_mono_add(clock_mono(), within_ms),
                    !is_change);
    } else {
        source_quiet(s, NOTICE_PREEMPT);
    }
}

/* A machine that is moved while it runs stands still for less than a second: a hint, no more. */
static void take_maintenance(struct source *s, const char *value, bool is_change)
{
    (void)is_change; /* a minute is a guess as it is */
    if (strncmp(value, "TERMINATE", 9) == 0) {
        source_tell(s, NOTICE_MAINTENANCE, value, tfe_mono_add(clock_mono(), TERMINATED_MS), false);
    } else {
        source_quiet(s, NOTICE_MAINTENANCE);
    }
    if (strncmp(value, "MIGRATE", 7) == 0) {
        source_tell(s, NOTICE_REBALANCE, value, TFE_MONO_NEVER, true);
    } else {
        source_quiet(s, NOTICE_REBALANCE);
    }
}

static bool is_value(const struct gce_question *q, const char *body)
{
    if (q->take == take_preempted) {
        return strcasecmp(body, "TRUE") == 0 || strcasecmp(body, "FALSE") == 0;
    }
    return strcmp(body, "NONE") == 0 || strncmp(body, "MIGRATE", 7) == 0 ||
           strncmp(body, "TERMINATE", 9) == 0;
}

static void failed(struct gce_question *q, const char *why)
{
    q->waits = false; /* what changed meanwhile was not heard */
    if (source_failed(q->source, q->path, why)) {
        timer_after(q->timer, q->source->wish->pace->gce_ms);
    }
}

static void on_answer(void *ctx, const struct http_answer *answer, const char *error)
{
    struct gce_question *q = ctx;
    struct source *s = q->source;
    char value[64];
    q->http = NULL;
    if (!answer) {
        failed(q, error);
        return;
    }
    const char *flavor = http_answer_header(answer, "Metadata-Flavor");
    if (!s->is_found && (!flavor || strcasecmp(flavor, "Google") != 0)) {
        failed(q, "it is not Google's");
        return;
    }
    snprintf(value, sizeof value, "%.*s", (int)strcspn(answer->body, " \r\n"), answer->body);
    if (answer->status != 200 || !is_value(q, value)) {
        failed(q, answer->status == 200 ? "a value that it does not have" : "not 200");
        return;
    }
    const char *etag = http_answer_header(answer, "ETag");
    snprintf(q->etag, sizeof q->etag, "%s", etag && strlen(etag) <= ETAG_MAX ? etag : "");
    const bool is_change = q->waits;
    q->waits = true;
    source_works(s);
    q->take(s, value, is_change);
    timer_after(q->timer, s->wish->pace->gce_ms); /* a server that does not wait is not stormed */
}

/* The value now; then, from its etag on, the next change, so that none falls between two questions.
 */
static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct gce_question *q = ctx;
    static const struct http_header headers[] = {{"Metadata-Flavor", "Google"}, {NULL, NULL}};
    const uint32_t wait_s = q->source->wish->pace->gce_wait_s;
    if (q->waits) {
        snprintf(q->path, sizeof q->path, PATH "%s?wait_for_change=true&timeout_sec=%u%s%s",
                 q->name, (unsigned)wait_s, q->etag[0] ? "&last_etag=" : "", q->etag);
    } else {
        snprintf(q->path, sizeof q->path, PATH "%s", q->name);
    }
    const struct http_question question = {
        .method = "GET",
        .path = q->path,
        .headers = headers,
        .within_ms = q->waits ? wait_s * 1000 + PATIENCE_MS : 0,
    };
    if (!source_ask(q->source, &question, on_answer, q, &q->http) && !q->source->is_over) {
        q->waits = false; /* an etag that no path may have, perhaps */
        timer_after(q->timer, q->source->wish->pace->gce_ms);
    }
}

static int start(struct source *s)
{
    struct gce *gce = s->own;
    gce->questions[0] = (struct gce_question){.name = "preempted", .take = take_preempted};
    gce->questions[1] =
        (struct gce_question){.name = "maintenance-event", .take = take_maintenance};
    for (size_t i = 0; i < 2; i++) {
        gce->questions[i].source = s;
        gce->questions[i].timer = evtimer_new(s->base, on_timer, &gce->questions[i]);
        if (!gce->questions[i].timer) {
            return TFE_ENOMEM;
        }
        timer_after(gce->questions[i].timer, 0);
    }
    return 0;
}

static void stop(struct source *s)
{
    struct gce *gce = s->own;
    for (size_t i = 0; i < 2; i++) {
        http_free(gce->questions[i].http);
        gce->questions[i].http = NULL;
        if (gce->questions[i].timer) {
            event_free(gce->questions[i].timer);
            gce->questions[i].timer = NULL;
        }
    }
}

const struct source_ops source_gce = {
    .name = "gce", .size = sizeof(struct gce), .start = start, .stop = stop};
