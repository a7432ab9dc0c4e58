/* agent/preemption/azure.c: polls Azure's scheduled events every second, after reading the
 * machine's name. Acknowledging an event makes it happen at once. The source does that when no
 * trainer runs, so that the cloud gets the machine early, but never for an event that affects other
 * machines too.
 *
 *   NAME --> EVENTS --> (1 s) --> EVENTS ...      while drained: ACKNOWLEDGE, then EVENTS */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/preemption/source.h"
#include "common/base/clock.h"

#define NAME_PATH "/metadata/instance?api-version=2021-02-01"
#define EVENTS_PATH "/metadata/scheduledevents?api-version=2020-07-01"

/* Upper bound of a deadline, longer than Azure's notice; later events are seen again. */
#define LEAD_MS 3600000

#define NAME_MAX_LENGTH 255
#define EVENTS_MAX 16

struct azure_event {
    char id[SOURCE_TAG_MAX + 1];
    enum tfe_notice kind;
    bool is_uncertain;
    struct tfe_mono deadline; /* as first seen */
    bool is_listed;           /* contained in the last list */
    bool is_scheduled;        /* not started yet, so it can be acknowledged */
    bool is_shared;           /* affects other machines too */
    bool is_acknowledged;
};

struct azure {
    char name[NAME_MAX_LENGTH + 1];
    bool has_listed; /* the first list has arrived, which takes up to two minutes */
    bool is_drained;
    struct azure_event events[EVENTS_MAX];
    size_t n;
};

/* --- list of events --- */

/* Maps an event type to a kind of notice, or to 0 if it does not matter. */
static enum tfe_notice kind_of(const char *type)
{
    static const struct {
        const char *type;
        enum tfe_notice kind;
    } kinds[] = {{"Preempt", NOTICE_PREEMPT},
                 {"Terminate", NOTICE_PREEMPT},
                 {"Reboot", NOTICE_MAINTENANCE},
                 {"Redeploy", NOTICE_MAINTENANCE},
                 /* The machine pauses for some seconds and continues, so this is only a hint. */
                 {"Freeze", NOTICE_REBALANCE}};
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

/* Adds or updates an event that affects this machine. Returns TFE_EINVAL for malformed JSON. */
static int read_event(struct azure *azure, const struct http_response *response, json_t *event)
{
    const char *id;
    const char *type;
    const char *status;
    const json_t *resources;
    if (json_unpack(event, "{s:s,s:s,s:s,s:o}", "EventId", &id, "EventType", &type, "EventStatus",
                    &status, "Resources", &resources) ||
        !id[0] || strlen(id) > SOURCE_TAG_MAX || !json_is_array(resources)) {
        return TFE_EINVAL;
    }
    const json_t *not_before = json_object_get(event, "NotBefore");
    if (not_before && !json_is_null(not_before) && !json_is_string(not_before)) {
        return TFE_EINVAL;
    }
    const char *time = json_string_value(not_before); /* NULL or "" if the event has started */
    const bool is_scheduled = strcmp(status, "Scheduled") == 0;
    const enum tfe_notice kind = kind_of(type);
    if (!names(resources, azure->name) || kind == 0 ||
        (!is_scheduled && strcmp(status, "Started") != 0)) {
        return 0;
    }
    struct azure_event *known = find(azure, id);
    if (!known) {
        struct tfe_mono deadline = clock_mono(); /* without a time the event has started */
        if (time && time[0] && source_deadline(response, time, LEAD_MS, &deadline)) {
            return TFE_EINVAL;
        }
        deadline = kind == NOTICE_REBALANCE ? TFE_MONO_NEVER : deadline;
        if (azure->n == EVENTS_MAX) {
            return 0; /* Azure never schedules that many events for one machine */
        }
        known = &azure->events[azure->n++];
        *known = (struct azure_event){
            .kind = kind, .deadline = deadline, .is_uncertain = kind == NOTICE_REBALANCE};
        memcpy(known->id, id, strlen(id) + 1);
    }
    known->is_listed = true;
    known->is_scheduled = is_scheduled;
    known->is_shared = json_array_size(resources) != 1;
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

/* Reports the earliest event of a kind. */
static void report_earliest(struct source *s, enum tfe_notice kind)
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
        source_set(s, kind, first->id, first->deadline, first->is_uncertain);
    } else {
        source_withdraw(s, kind);
    }
}

static const char *read_list(struct source_poll *poll, const struct http_response *response)
{
    struct source *s = poll->source;
    struct azure *azure = s->own;
    static const char mark[] = "\xef\xbb\xbf"; /* UTF-8 byte order mark */
    const bool has_mark = strncmp(response->body, mark, 3) == 0;
    json_t *root = json_loadb(response->body + (has_mark ? 3 : 0),
                              response->body_n - (has_mark ? 3 : 0), 0, NULL);
    const json_t *events = json_object_get(root, "Events");
    /* A missing or null list is empty. */
    const bool is_none = (!events || json_is_null(events)) &&
                         json_is_integer(json_object_get(root, "DocumentIncarnation"));
    size_t i;
    json_t *event;
    bool is_valid = json_is_array(events) || is_none;
    for (i = 0; i < azure->n; i++) {
        azure->events[i].is_listed = false;
    }
    json_array_foreach(events, i, event)
    {
        is_valid = read_event(azure, response, event) == 0 && is_valid;
    }
    json_decref(root);
    if (is_valid) { /* otherwise the known events stay as they are */
        azure->has_listed = true;
        forget_unlisted(azure);
        source_works(s);
    }
    report_earliest(s, NOTICE_PREEMPT);
    report_earliest(s, NOTICE_MAINTENANCE);
    report_earliest(s, NOTICE_REBALANCE);
    return is_valid ? NULL : "the response is not a list of events";
}

/* --- requests --- */

static const char *read_name(struct source_poll *poll, const struct http_response *response)
{
    struct source *s = poll->source;
    struct azure *azure = s->own;
    json_t *root = json_loadb(response->body, response->body_n, 0, NULL);
    const char *name;
    const bool is_valid = json_unpack(root, "{s:{s:s}}", "compute", "name", &name) == 0 &&
                          name[0] && strlen(name) <= NAME_MAX_LENGTH;
    if (is_valid) {
        memcpy(azure->name, name, strlen(name) + 1);
        source_works(s);
        source_poll_after(poll, 0);
    }
    json_decref(root);
    return is_valid ? NULL : "the response does not name the machine";
}

static const char *handle(struct source_poll *poll, const struct http_response *response)
{
    const struct azure *azure = poll->source->own;
    if (response->status != 200) {
        return "not 200";
    }
    return azure->name[0] ? read_list(poll, response) : read_name(poll, response);
}

/* Returns true if the event is acknowledged once no trainer runs. */
static bool is_acknowledgeable(const struct azure_event *event)
{
    return event->is_scheduled && !event->is_shared && !event->is_acknowledged;
}

static const char *on_acknowledged(struct source_poll *poll, const struct http_response *response)
{
    struct azure *azure = poll->source->own;
    for (size_t i = 0; i < azure->n && response->status == 200; i++) {
        if (is_acknowledgeable(&azure->events[i])) {
            azure->events[i].is_acknowledged = true;
        }
    }
    return response->status == 200 ? NULL : "the status of the acknowledgement is not 200";
}

/* Returns {"StartRequests":[{"EventId":"..."},...]} for all events to acknowledge; the caller
 * frees it. Returns NULL if there is none. */
static char *write_acknowledgement(const struct azure *azure)
{
    json_t *requests = json_array();
    for (size_t i = 0; i < azure->n; i++) {
        const struct azure_event *event = &azure->events[i];
        if (is_acknowledgeable(event)) {
            json_array_append_new(requests, json_pack("{s:s}", "EventId", event->id));
        }
    }
    const bool is_empty = json_array_size(requests) == 0;
    json_t *root = json_pack("{s:o}", "StartRequests", requests);
    char *text = is_empty ? NULL : json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

static void turn(struct source_poll *poll)
{
    const struct source *s = poll->source;
    const struct azure *azure = s->own;
    struct http_request question = {.method = "GET"};
    char *body = azure->name[0] && azure->is_drained ? write_acknowledgement(azure) : NULL;
    if (body) {
        question.method = "POST";
        question.type = "application/json";
        question.body = body;
        question.body_n = strlen(body);
    } else if (azure->name[0] && !azure->has_listed) {
        question.within_ms = s->options->intervals->azure_first_ms;
    }
    poll->interval_ms = s->options->intervals->azure_ms;
    source_request(poll, azure->name[0] ? EVENTS_PATH : NAME_PATH, &question,
                   body ? on_acknowledged : handle);
    free(body);
}

static void drained(struct source *s, bool is_drained)
{
    ((struct azure *)s->own)->is_drained = is_drained;
}

/* --- machine info --- */

static void header(const struct source *s, char ret[SOURCE_HEADER_MAX + 1])
{
    snprintf(ret, SOURCE_HEADER_MAX + 1, "Metadata: true");
}

/* Reads the zone as Kubernetes names it: region and zone number ("westeurope-2"), or the region
 * alone, because most machines have no zone. */
static bool read_compute(struct cloud_info *info, const struct http_response *response)
{
    json_t *root = json_loadb(response->body, response->body_n, 0, NULL);
    const char *region;
    const char *type;
    const char *zone = "";
    const char *priority = NULL; /* "Spot", "Low", "Regular" or empty */
    bool is_valid = json_unpack(root, "{s:{s:s,s:s,s?s,s?s}}", "compute", "location", &region,
                                "vmSize", &type, "zone", &zone, "priority", &priority) == 0;
    if (is_valid) {
        char both[CLOUD_TEXT_MAX + 1];
        const int n = snprintf(both, sizeof both, "%s%s%s", region, zone[0] ? "-" : "", zone);
        is_valid = source_text(info->zone, both, n > 0 ? (size_t)n : 0) &&
                   source_text(info->instance, type, strlen(type));
        info->has_spot = is_valid && priority;
        info->is_spot = info->has_spot &&
                        (strcasecmp(priority, "Spot") == 0 || strcasecmp(priority, "Low") == 0);
    }
    json_decref(root);
    return is_valid;
}

static const struct source_query queries[] = {{NAME_PATH, read_compute}, {NULL, NULL}};

const struct source_ops source_azure = {.name = "azure",
                                        .size = sizeof(struct azure),
                                        .turn = turn,
                                        .drained = drained,
                                        .queries = queries,
                                        .header = header};
