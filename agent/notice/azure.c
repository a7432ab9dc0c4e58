/* agent/notice/azure.c: Azure's scheduled events: once the machine's own name, then every second
 * the list of what is planned. An event can be acknowledged, which makes it happen at once; that is
 * done when nothing of ours runs here any more, and lets the cloud have the machine early.
 *
 *   NAME --> EVENTS --> (1 s) --> EVENTS …      while drained: ACKNOWLEDGE, then EVENTS
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "agent/notice/source.h"
#include "common/net/clock.h"
#include "common/net/timer.h"

#define NAME_PATH "/metadata/instance?api-version=2021-02-01"
#define EVENTS_PATH "/metadata/scheduledevents?api-version=2020-07-01"

/* Further ahead than Azure looks; what is later is known again by then. */
#define LEAD_MS 3600000

#define NAME_MAX_LENGTH 255
#define EVENTS_MAX 16

struct azure_event {
    char id[SOURCE_TAG_MAX + 1];
    enum tfe_notice kind;
    bool is_uncertain;
    struct tfe_mono deadline; /* as first seen */
    bool is_listed;           /* in the last list */
    bool is_scheduled;        /* has not begun: can be acknowledged */
    bool is_acknowledged;
};

struct azure {
    struct event *timer;
    struct http *http;
    const char *asked; /* path */
    char name[NAME_MAX_LENGTH + 1];
    bool has_listed; /* the first list takes up to two minutes */
    bool is_drained;
    struct azure_event events[EVENTS_MAX];
    size_t n;
};

static void ask_later(struct source *s)
{
    timer_after(((struct azure *)s->own)->timer, s->wish->pace->azure_ms);
}

static void failed(struct source *s, const char *why)
{
    const struct azure *azure = s->own;
    if (source_failed(s, azure->asked, why)) {
        ask_later(s);
    }
}

/* --- the list --------------------------------------------------------------------------------- */

/* What will happen, to one of our kinds. 0: nothing that matters. */
static enum tfe_notice kind_of(const char *type)
{
    static const struct {
        const char *type;
        enum tfe_notice kind;
    } kinds[] = {{"Preempt", NOTICE_PREEMPT},
                 {"Terminate", NOTICE_PREEMPT},
                 {"Reboot", NOTICE_MAINTENANCE},
                 {"Redeploy", NOTICE_MAINTENANCE},
                 {"Freeze", NOTICE_MAINTENANCE}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(type, kinds[i].type) == 0) {
            return kinds[i].kind;
        }
    }
    return (enum tfe_notice)0;
}

static bool names(const json_t *resources, const char *name)
{
    size_t i;
    const json_t *resource;
    json_array_foreach(resources, i, resource)
    {
        const char *text = json_string_value(resource);
        if (text && strcasecmp(text, name) == 0) {
            return true;
        }
    }
    return false;
}

static struct azure_event *find(struct azure *azure, const char *id)
{
    for (size_t i = 0; i < azure->n; i++) {
        if (strcmp(azure->events[i].id, id) == 0) {
            return &azure->events[i];
        }
    }
    return NULL;
}

/* Adds or keeps one event that names this machine. TFE_EINVAL: wrong types. */
static int take_event(struct azure *azure, const struct http_answer *answer, const json_t *event)
{
    const char *id = json_string_value(json_object_get(event, "EventId"));
    const char *type = json_string_value(json_object_get(event, "EventType"));
    const char *status = json_string_value(json_object_get(event, "EventStatus"));
    const char *time = json_string_value(json_object_get(event, "NotBefore"));
    const json_t *resources = json_object_get(event, "Resources");
    if (!id || !id[0] || strlen(id) > SOURCE_TAG_MAX || !type || !status || !time ||
        !json_is_array(resources)) {
        return TFE_EINVAL;
    }
    const bool is_scheduled = strcmp(status, "Scheduled") == 0;
    const enum tfe_notice kind = kind_of(type);
    if (!names(resources, azure->name) || kind == 0 ||
        (!is_scheduled && strcmp(status, "Started") != 0)) {
        return 0;
    }
    struct azure_event *known = find(azure, id);
    if (!known) {
        struct tfe_mono deadline = clock_mono(); /* without a time it has begun */
        if (time[0] && source_deadline(answer, time, LEAD_MS, &deadline)) {
            return TFE_EINVAL;
        }
        if (azure->n == EVENTS_MAX) {
            return 0; /* nobody plans so much for one machine */
        }
        known = &azure->events[azure->n++];
        *known = (struct azure_event){
            .kind = kind, .deadline = deadline, .is_uncertain = strcmp(type, "Freeze") == 0};
        memcpy(known->id, id, strlen(id) + 1);
    }
    known->is_listed = true;
    known->is_scheduled = is_scheduled;
    return 0;
}

static void forget_unlisted(struct azure *azure)
{
    size_t kept = 0;
    for (size_t i = 0; i < azure->n; i++) {
        if (azure->events[i].is_listed) {
            azure->events[kept++] = azure->events[i];
        }
    }
    azure->n = kept;
}

/* Of several events of one kind the earliest. */
static void say(struct source *s, enum tfe_notice kind)
{
    const struct azure *azure = s->own;
    const struct azure_event *first = NULL;
    for (size_t i = 0; i < azure->n; i++) {
        const struct azure_event *event = &azure->events[i];
        if (event->kind == kind && (!first || tfe_mono_before(event->deadline, first->deadline))) {
            first = event;
        }
    }
    if (first) {
        source_tell(s, kind, first->id, first->deadline, first->is_uncertain);
    } else {
        source_quiet(s, kind);
    }
}

static void take_list(struct source *s, const struct http_answer *answer)
{
    struct azure *azure = s->own;
    json_error_t error;
    json_t *root = json_loadb(answer->body, answer->body_n, 0, &error);
    const json_t *events = json_object_get(root, "Events");
    size_t i;
    const json_t *event;
    int rc = json_is_array(events) ? 0 : TFE_EINVAL;
    for (i = 0; i < azure->n; i++) {
        azure->events[i].is_listed = false;
    }
    json_array_foreach(events, i, event)
    {
        rc = take_event(azure, answer, event) ? TFE_EINVAL : rc;
    }
    json_decref(root);
    if (rc) {
        failed(s, "it is no list of events"); /* what is known stays as it is */
    } else {
        azure->has_listed = true;
        forget_unlisted(azure);
        source_works(s);
        ask_later(s);
    }
    say(s, NOTICE_PREEMPT);
    say(s, NOTICE_MAINTENANCE);
}

/* --- questions -------------------------------------------------------------------------------- */

static void take_name(struct source *s, const struct http_answer *answer)
{
    struct azure *azure = s->own;
    json_error_t error;
    json_t *root = json_loadb(answer->body, answer->body_n, 0, &error);
    const char *name = json_string_value(json_object_get(json_object_get(root, "compute"), "name"));
    if (name && name[0] && strlen(name) <= NAME_MAX_LENGTH) {
        memcpy(azure->name, name, strlen(name) + 1);
        source_works(s);
        timer_after(azure->timer, 0);
    } else {
        failed(s, "it does not tell the machine's name");
    }
    json_decref(root);
}

static void on_answer(void *ctx, const struct http_answer *answer, const char *error)
{
    struct source *s = ctx;
    struct azure *azure = s->own;
    azure->http = NULL;
    if (!answer) {
        failed(s, error);
    } else if (answer->status != 200) {
        failed(s, "not 200");
    } else if (!azure->name[0]) {
        take_name(s, answer);
    } else {
        take_list(s, answer);
    }
}

static void on_acknowledged(void *ctx, const struct http_answer *answer, const char *error)
{
    struct source *s = ctx;
    struct azure *azure = s->own;
    azure->http = NULL;
    if (!answer || answer->status != 200) {
        for (size_t i = 0; i < azure->n; i++) {
            azure->events[i].is_acknowledged = false;
        }
        failed(s, answer ? "the acknowledgement is not 200" : error);
    } else {
        ask_later(s);
    }
}

/* {"StartRequests":[{"EventId":"…"},…]} of all that wait for it. False: none does. */
static bool write_acknowledgement(struct azure *azure, char *ret, size_t cap)
{
    json_t *requests = json_array();
    for (size_t i = 0; i < azure->n; i++) {
        struct azure_event *event = &azure->events[i];
        if (event->is_scheduled && !event->is_acknowledged) {
            event->is_acknowledged = true;
            json_array_append_new(requests, json_pack("{s:s}", "EventId", event->id));
        }
    }
    const bool some = json_array_size(requests) > 0;
    json_t *root = json_pack("{s:o}", "StartRequests", requests);
    const size_t n = root ? json_dumpb(root, ret, cap - 1, JSON_COMPACT) : cap;
    json_decref(root);
    if (n >= cap) {
        return false;
    }
    ret[n] = '\0';
    return some;
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct source *s = ctx;
    struct azure *azure = s->own;
    static const struct http_header headers[] = {{"Metadata", "true"}, {NULL, NULL}};
    static const struct http_header with_json[] = {
        {"Metadata", "true"}, {"Content-Type", "application/json"}, {NULL, NULL}};
    char body[EVENTS_MAX * (SOURCE_TAG_MAX + 16) + 32];
    struct http_question question = {.method = "GET", .headers = headers};
    http_fn *then = on_answer;
    if (!azure->name[0]) {
        question.path = NAME_PATH;
    } else if (azure->is_drained && write_acknowledgement(azure, body, sizeof body)) {
        question.path = EVENTS_PATH;
        question.method = "POST";
        question.headers = with_json;
        question.body = body;
        then = on_acknowledged;
    } else {
        question.path = EVENTS_PATH;
        question.within_ms = azure->has_listed ? 0 : s->wish->pace->azure_first_ms;
    }
    azure->asked = question.path;
    if (!source_ask(s, &question, then, s, &azure->http) && !s->is_over) {
        ask_later(s);
    }
}

static void drained(struct source *s, bool is_drained)
{
    ((struct azure *)s->own)->is_drained = is_drained;
}

static int start(struct source *s)
{
    struct azure *azure = s->own;
    azure->timer = evtimer_new(s->base, on_timer, s);
    if (!azure->timer) {
        return TFE_ENOMEM;
    }
    timer_after(azure->timer, 0);
    return 0;
}

static void stop(struct source *s)
{
    struct azure *azure = s->own;
    http_free(azure->http);
    azure->http = NULL;
    if (azure->timer) {
        event_free(azure->timer);
        azure->timer = NULL;
    }
}

const struct source_ops source_azure = {.name = "azure",
                                        .size = sizeof(struct azure),
                                        .start = start,
                                        .stop = stop,
                                        .drained = drained};
