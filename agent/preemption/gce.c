/* agent/preemption/gce.c: long polls of Google's metadata server for preemption and maintenance;
 * it responds when a value changes, or after five minutes. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "agent/preemption/source.h"
#include "common/base/clock.h"

/* Time until a machine stops: at most 30 s after a preemption, 60 s before host
 * maintenance of a machine that cannot migrate. (With an accelerator it is an hour, but
 * the response does not say so.) */
#define PREEMPTED_MS 30000
#define TERMINATED_MS 60000
/* Remaining time assumed for a preemption whose start was not observed. */
#define PREEMPTED_LATE_MS 15000

/* Added to the service's own timeout. */
#define TIMEOUT_MARGIN_MS 15000

#define ETAG_MAX 63
#define PATH "/computeMetadata/v1/instance/"

struct gce_question {
    struct source_poll poll; /* must be first: a poll is cast to its gce_question */
    const char *name;
    void (*read)(struct source *s, const char *value, bool is_change);
    bool is_known; /* the last request has read the value, so the next one waits for a change */
    bool is_long;  /* the request in progress waits for a change */
    char etag[ETAG_MAX + 1];
    char path[256];
};

struct gce {
    struct gce_question questions[2];
};

static void read_preempted(struct source *s, const char *value, bool is_change)
{
    const uint32_t within_ms = is_change ? PREEMPTED_MS : PREEMPTED_LATE_MS;
    if (strcasecmp(value, "TRUE") == 0) {
        source_set(s, NOTICE_PREEMPT, "preempted", tfe_mono_add(clock_mono(), within_ms),
                   !is_change);
    } else {
        source_withdraw(s, NOTICE_PREEMPT);
    }
}

/* Live migration pauses a machine for less than a second, so it is only a hint. */
static void read_maintenance(struct source *s, const char *value, bool is_change)
{
    (void)is_change; /* 60 s is an estimate in either case */
    if (strncmp(value, "TERMINATE", 9) == 0) {
        source_set(s, NOTICE_MAINTENANCE, value, tfe_mono_add(clock_mono(), TERMINATED_MS), false);
    } else {
        source_withdraw(s, NOTICE_MAINTENANCE);
    }
    if (strncmp(value, "MIGRATE", 7) == 0) {
        source_set(s, NOTICE_REBALANCE, value, TFE_MONO_NEVER, true);
    } else {
        source_withdraw(s, NOTICE_REBALANCE);
    }
}

static bool is_value(const struct gce_question *q, const char *body)
{
    if (q->read == read_preempted) {
        return strcasecmp(body, "TRUE") == 0 || strcasecmp(body, "FALSE") == 0;
    }
    return strcmp(body, "NONE") == 0 || strncmp(body, "MIGRATE", 7) == 0 ||
           strncmp(body, "TERMINATE", 9) == 0;
}

static const char *handle(struct source_poll *poll, const struct http_response *response)
{
    struct gce_question *q = (struct gce_question *)poll;
    struct source *s = poll->source;
    char value[64];
    const char *flavor = http_response_header(response, "Metadata-Flavor");
    if (!s->is_found && (!flavor || strcasecmp(flavor, "Google") != 0)) {
        return "the response is not from Google's metadata service";
    }
    snprintf(value, sizeof value, "%.*s", (int)strcspn(response->body, " \r\n"), response->body);
    if (response->status != 200 || !is_value(q, value)) {
        return response->status == 200 ? "unexpected value" : "not 200";
    }
    const char *etag = http_response_header(response, "ETag");
    snprintf(q->etag, sizeof q->etag, "%s", etag && strlen(etag) <= ETAG_MAX ? etag : "");
    q->is_known = true;
    source_works(s);
    q->read(s, value, q->is_long);
    return NULL;
}

/* Requests the current value first, then its next change from the etag on, so that no change is
 * missed in between. After a failure a change may have been missed. */
static void turn(struct source_poll *poll)
{
    struct gce_question *q = (struct gce_question *)poll;
    const uint32_t wait_s = poll->source->options->intervals->gce_wait_s;
    struct http_request question = {.method = "GET"};
    q->is_long = q->is_known;
    q->is_known = false;
    /* A minimum interval protects a server that does not wait. */
    poll->interval_ms = poll->source->options->intervals->gce_ms;
    if (q->is_long) {
        snprintf(q->path, sizeof q->path, PATH "%s?wait_for_change=true&timeout_sec=%u%s%s",
                 q->name, (unsigned)wait_s, q->etag[0] ? "&last_etag=" : "", q->etag);
        question.within_ms = wait_s * 1000 + TIMEOUT_MARGIN_MS;
    } else {
        snprintf(q->path, sizeof q->path, PATH "%s", q->name);
    }
    source_request(poll, q->path, &question, handle);
}

static void start(struct source *s)
{
    struct gce *gce = s->own;
    gce->questions[0] = (struct gce_question){.name = "preempted", .read = read_preempted};
    gce->questions[1] =
        (struct gce_question){.name = "maintenance-event", .read = read_maintenance};
    source_poll_start(&gce->questions[0].poll, s, turn);
    source_poll_start(&gce->questions[1].poll, s, turn);
}

static void stop(struct source *s)
{
    struct gce *gce = s->own;
    source_poll_stop(&gce->questions[0].poll);
    source_poll_stop(&gce->questions[1].poll);
}

/* --- machine info --- */

static void header(const struct source *s, char ret[SOURCE_HEADER_MAX + 1])
{
    snprintf(ret, SOURCE_HEADER_MAX + 1, "Metadata-Flavor: Google");
}

/* Reads the last part of "projects/123/zones/us-central1-a". */
static bool read_name(char ret[CLOUD_TEXT_MAX + 1], const struct http_response *response)
{
    const char *slash = strrchr(response->body, '/');
    const char *name = slash ? slash + 1 : response->body;
    return source_text(ret, name, strcspn(name, " \r\n"));
}

static bool read_zone(struct cloud_info *info, const struct http_response *response)
{
    return read_name(info->zone, response);
}

static bool read_type(struct cloud_info *info, const struct http_response *response)
{
    return read_name(info->instance, response);
}

/* A spot machine is reported as preemptible. */
static bool read_preemptible(struct cloud_info *info, const struct http_response *response)
{
    info->is_spot = strncasecmp(response->body, "TRUE", 4) == 0;
    info->has_spot = info->is_spot || strncasecmp(response->body, "FALSE", 5) == 0;
    return info->has_spot;
}

static const struct source_query queries[] = {{PATH "zone", read_zone},
                                              {PATH "machine-type", read_type},
                                              {PATH "scheduling/preemptible", read_preemptible},
                                              {NULL, NULL}};

const struct source_ops source_gce = {.name = "gce",
                                      .size = sizeof(struct gce),
                                      .start = start,
                                      .stop = stop,
                                      .queries = queries,
                                      .header = header};
