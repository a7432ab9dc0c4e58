/* server/web/topics.c: see topics.h. */
#include "server/web/topics.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/timer.h"
#include "common/records/json_text.h"
#include "common/records/operations.h"
#include "common/records/schemas.h"
#include "server/web/streams.h"

/* Minimum interval of queries that a change elsewhere triggers. */
#define NUDGED_MS 50

/* Interval for each row: a thousand rows are compared once a second, ten thousand rows every ten
 * seconds. */
#define MS_PER_ROW 1

struct item {
    char *key;
    char *text;    /* JSON text */
    uint64_t mark; /* hash without the values that change by themselves */
};

struct items {
    struct item *v;
    size_t n;
};

struct topic {
    struct view *view;
    enum topic_kind kind;
    struct tfe_id job;
    uint8_t source[HTTP_SOURCE_BYTES]; /* address of the client whose stream joined last */
    struct client_request request;
    struct tfe_msg message;
    struct event *timer;
    struct items items;
    size_t n_rows; /* number of rows, including those beyond TOPIC_ROWS_MAX */
    struct tfe_wall at;
    bool is_known; /* a query has succeeded */
    bool is_requested;
    bool is_nudged;
    unsigned n_streams;
    LIST_ENTRY(topic) link;
};

static const struct {
    const char *event;                      /* name of the event */
    unsigned min_ms;                        /* minimum time between two queries */
    enum operation_id operation;            /* the query */
    const struct record_schema *schemas[2]; /* of the records that are sent */
} kinds[TOPIC__COUNT] = {
    [TOPIC_FLEET] = {"fleet", 400, OPERATION_JOBS, {&schema_job, &schema_health}},
    [TOPIC_NODES] = {"nodes", 1000, OPERATION_STATUS, {&schema_node}},
    [TOPIC_EPOCHS] = {"epochs", 5000, OPERATION_EPOCHS, {&schema_epoch}},
    [TOPIC_EVENTS] = {"events", 400, OPERATION_EVENTS, {&schema_event}},
    [TOPIC_POINTS] = {"points", 1000, OPERATION_SERIES, {&schema_point}},
    [TOPIC_CONDITIONS] = {"conditions",
                          1000,
                          OPERATION_CONDITIONS,
                          {&schema_job, &schema_condition}},
    [TOPIC_POOL] = {"pool", 2000, OPERATION_POOL, {&schema_pool_node}},
};

/* --- rows to items --- */

static void items_done(struct items *items)
{
    for (size_t i = 0; i < items->n; i++) {
        free(items->v[i].key);
        free(items->v[i].text);
    }
    free(items->v);
    *items = (struct items){.v = NULL};
}

static uint64_t mark_of(const char *text)
{
    uint64_t mark = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++) {
        mark = (mark ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return mark;
}

/* Removes values that change with the time, such as ages, before rows are compared: the page
 * computes them itself. */
static void drop_counting(const struct record *row, json_t *object)
{
    const bool is_over = json_is_true(json_object_get(object, "over"));
    const void *at = row->at;
    const struct record_field *field;
    for (size_t i = 0; (field = record_field(row->schema, i, &at)); i++, at = row->at) {
        if (field->key &&
            (field->type == RECORD_AGE || (field->type == RECORD_DURATION && !is_over))) {
            (void)json_object_del(object, field->key);
        }
    }
}

/* Makes the key of a row, which sorts in the order of numbers: "job/train", "00000000000000000012".
 */
static void key_of(const struct record *row, char ret[TFE_ID_MAX + 32])
{
    char text[RECORD_TEXT_MAX];
    const void *at = row->at;
    const struct record_field *field = record_find_field(row->schema, row->schema->id, NULL, &at);
    const struct record_value value = record_value(field, at, text);
    if (value.form == RECORD_IS_TEXT) {
        const char *folder = row->schema == &schema_job      ? "job/"
                             : row->schema == &schema_health ? "health/"
                                                             : "";
        (void)snprintf(ret, TFE_ID_MAX + 32, "%s%s", folder, value.text);
    } else {
        (void)snprintf(ret, TFE_ID_MAX + 32, "%020lld", (long long)value.number);
    }
}

/* Makes the item of a row. For a job the rows after it, the newest points of its metrics, are
 * included. TFE_ENOMEM. */
static int make_item(const struct record *row, const struct record *end, struct item *ret)
{
    char key[TFE_ID_MAX + 32];
    json_t *object = record_json(row->schema, row->at);
    json_t *metrics = row->schema == &schema_job ? json_object() : NULL;
    for (const struct record *next = row + 1;
         metrics && next < end && next->schema == &schema_point; next++) {
        const struct msg_series_row *point = next->at;
        (void)json_object_set_new(metrics, point->name, json_real(point->value));
    }
    if (metrics) {
        (void)json_object_set_new(object, "metrics", metrics);
    }
    key_of(row, key);
    ret->key = strdup(key);
    ret->text = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    if (object) {
        drop_counting(row, object);
    }
    char *same = object ? json_dumps(object, JSON_COMPACT) : NULL;
    ret->mark = same ? mark_of(same) : 0;
    json_decref(object);
    if (!ret->key || !ret->text || !same) {
        free(ret->key);
        free(ret->text);
        free(same);
        return TFE_ENOMEM;
    }
    free(same);
    return 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->key, ((const struct item *)b)->key);
}

static bool is_shown(const struct topic *topic, const struct record *row)
{
    return row->schema == kinds[topic->kind].schemas[0] ||
           row->schema == kinds[topic->kind].schemas[1];
}

/* Makes items of all rows. Of too many epochs the newest ones are used. */
static int make_items(struct topic *topic, struct items *ret)
{
    const struct record_list *rows = &topic->request.list;
    size_t skip = 0;
    *ret = (struct items){.v = calloc(rows->n > 0 ? rows->n : 1, sizeof(*ret->v))};
    if (!ret->v) {
        return TFE_ENOMEM;
    }
    topic->n_rows = 0;
    for (size_t i = 0; i < rows->n; i++) {
        topic->n_rows += is_shown(topic, &rows->v[i]);
    }
    if (topic->kind == TOPIC_EPOCHS && topic->n_rows > TOPIC_ROWS_MAX) {
        skip = topic->n_rows - TOPIC_ROWS_MAX;
    }
    for (size_t i = 0; i < rows->n && ret->n < TOPIC_ROWS_MAX; i++) {
        if (!is_shown(topic, &rows->v[i]) || skip > 0) {
            skip -= is_shown(topic, &rows->v[i]) && skip > 0;
            continue;
        }
        if (make_item(&rows->v[i], rows->v + rows->n, &ret->v[ret->n]) != 0) {
            items_done(ret);
            return TFE_ENOMEM;
        }
        ret->n++;
    }
    qsort(ret->v, ret->n, sizeof(*ret->v), by_key);
    return 0;
}

/* --- sending --- */

static void begin(const struct topic *topic, struct evbuffer *out, bool is_whole)
{
    (void)evbuffer_add_printf(out,
                              "event: %s\ndata: {\"job\":\"%s\",\"at_ms\":%lld,\"rows\":%zu,%s",
                              kinds[topic->kind].event, topic->job.text, (long long)topic->at.ms,
                              topic->n_rows, is_whole ? "\"whole\":true," : "");
    (void)evbuffer_add_printf(out, "\"set\":{");
}

static void add_set(struct evbuffer *out, const struct item *item, size_t nth)
{
    (void)evbuffer_add_printf(out, "%s\"%s\":", nth > 0 ? "," : "", item->key);
    (void)evbuffer_add(out, item->text, strlen(item->text));
}

void topic_send_all(struct topic *topic, struct stream *stream)
{
    struct evbuffer *out = topic->is_known ? evbuffer_new() : NULL;
    if (!out) {
        return; /* the first response sends everything */
    }
    begin(topic, out, true);
    for (size_t i = 0; i < topic->items.n; i++) {
        add_set(out, &topic->items.v[i], i);
    }
    (void)evbuffer_add_printf(out, "}}\n\n");
    stream_write(stream, out);
    evbuffer_free(out);
}

static void send_change(struct topic *topic, struct evbuffer *out, bool is_whole)
{
    struct stream *stream;
    struct stream *next;
    for (stream = LIST_FIRST(&topic->view->streams); stream; stream = next) {
        next = stream_next(stream);
        if (stream_has(stream, topic)) {
            stream_write_change(stream, topic, out, is_whole);
        }
    }
}

static void request_in(struct topic *topic, int64_t ms)
{
    if (!topic->is_requested) {
        (void)timer_after(topic->timer, ms);
    }
}

/* Queries soon again the topics of this job that have streams, because something has changed. */
static void refresh(struct view *view, const char *job)
{
    struct topic *topic;
    LIST_FOREACH(topic, &view->topics, link)
    {
        if (topic->kind != TOPIC_FLEET && strcmp(topic->job.text, job) == 0) {
            topic->is_nudged = true;
            request_in(topic, 0);
        }
    }
}

/* Queries the topics of a job that has changed soon. key: "job/NAME". */
static void on_changed(struct topic *topic, const char *key)
{
    if (topic->kind == TOPIC_FLEET && strncmp(key, "job/", 4) == 0) {
        refresh(topic->view, key + 4);
    }
}

/* Writes the differences of two lists in order of keys as an event. Returns their number. */
static size_t compare(struct topic *topic, const struct items *now, struct evbuffer *out)
{
    const struct items *was = &topic->items;
    struct evbuffer *gone = evbuffer_new();
    size_t n_set = 0;
    size_t n_gone = 0;
    size_t i = 0;
    size_t k = 0;
    while (gone && (i < was->n || k < now->n)) {
        int order = i >= was->n ? 1 : k >= now->n ? -1 : strcmp(was->v[i].key, now->v[k].key);
        if (order < 0) {
            (void)evbuffer_add_printf(gone, "%s\"%s\"", n_gone > 0 ? "," : "", was->v[i].key);
            on_changed(topic, was->v[i].key);
            n_gone++;
            i++;
            continue;
        }
        if (order > 0 || was->v[i].mark != now->v[k].mark) {
            add_set(out, &now->v[k], n_set++);
            on_changed(topic, now->v[k].key);
        }
        i += order == 0;
        k++;
    }
    (void)evbuffer_add_printf(out, "}");
    if (n_gone > 0) {
        (void)evbuffer_add_printf(out, ",\"gone\":[");
        (void)evbuffer_add_buffer(out, gone);
        (void)evbuffer_add_printf(out, "]");
    }
    (void)evbuffer_add_printf(out, "}\n\n");
    if (gone) {
        evbuffer_free(gone);
    }
    return n_set + n_gone;
}

/* --- queries --- */

static int64_t period_of(const struct topic *topic)
{
    const int64_t by_rows = (int64_t)topic->n_rows * MS_PER_ROW;
    const int64_t min_ms = kinds[topic->kind].min_ms;
    if (topic->is_nudged) {
        return NUDGED_MS;
    }
    return by_rows > min_ms ? by_rows : min_ms;
}

/* Appends new events and drops the oldest ones above the limit. Takes more. */
static int append(struct items *items, struct items *more)
{
    const size_t n = items->n + more->n;
    const size_t skip = n > TOPIC_EVENTS_MAX ? n - TOPIC_EVENTS_MAX : 0;
    struct item *v = realloc(items->v, (n > 0 ? n : 1) * sizeof(*v));
    if (!v) {
        return TFE_ENOMEM;
    }
    memcpy(v + items->n, more->v, more->n * sizeof(*v));
    for (size_t i = 0; i < skip; i++) {
        free(v[i].key);
        free(v[i].text);
    }
    memmove(v, v + skip, (n - skip) * sizeof(*v));
    free(more->v);
    *items = (struct items){.v = v, .n = n - skip};
    *more = (struct items){.v = NULL};
    return 0;
}

/* Handles events, of which only new ones were queried. A server without its history sends all
 * events that it has. */
static void apply_events(struct topic *topic, struct items *now)
{
    struct items *has = &topic->items;
    const bool is_first = !topic->is_known;
    const bool is_whole =
        is_first || (now->n > 0 && has->n > 0 && by_key(&now->v[0], &has->v[has->n - 1]) <= 0);
    struct evbuffer *out = now->n > 0 || is_first ? evbuffer_new() : NULL;
    if (out) {
        begin(topic, out, is_whole);
        for (size_t i = 0; i < now->n; i++) {
            add_set(out, &now->v[i], i);
        }
        (void)evbuffer_add_printf(out, "}}\n\n");
        if (is_whole) {
            items_done(has);
        }
    }
    const char *newest = now->n > 0 ? now->v[now->n - 1].key : "0";
    uint64_t number = strtoull(newest, NULL, 10);
    if (out && append(has, now) == 0) {
        topic->is_known = true;
        topic->message.u.events.after = number > 0 ? number : topic->message.u.events.after;
        send_change(topic, out, is_whole);
    }
    items_done(now);
    if (out) {
        evbuffer_free(out);
    }
}

static void apply_rows(struct topic *topic)
{
    struct items now;
    if (operation_arrange(kinds[topic->kind].operation, &topic->request.list) != 0 ||
        make_items(topic, &now) != 0) {
        return; /* keeps the old state; the next response may find memory */
    }
    topic->at = clock_wall();
    if (topic->kind == TOPIC_EVENTS) {
        apply_events(topic, &now);
        return;
    }
    const bool is_first = !topic->is_known;
    struct evbuffer *out = evbuffer_new();
    topic->is_known = true;
    if (out) {
        begin(topic, out, is_first);
        size_t n = compare(topic, &now, out);
        items_done(&topic->items);
        topic->items = now;
        if (n > 0 || is_first) {
            send_change(topic, out, is_first);
        }
        evbuffer_free(out);
    } else {
        items_done(&now);
    }
}

static void on_ended(struct client_request *request, enum client_end end, enum tfe_refusal code,
                     const char *sentence)
{
    struct topic *topic = (struct topic *)((char *)request - offsetof(struct topic, request));
    topic->is_requested = false;
    if (end == CLIENT_UNAUTHORISED) {
        view_reject(topic->view); /* ends the topic */
        return;
    }
    if (end == CLIENT_ANSWERED || (end == CLIENT_REFUSED && code == REFUSAL_NO_SUCH_JOB)) {
        apply_rows(topic);
    }
    record_list_done(&request->list);
    int64_t ms = period_of(topic);
    topic->is_nudged = false;
    request_in(topic, ms);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct topic *topic = ctx;
    topic->is_requested = true;
    if (topic->job.text[0] != '\0') {
        view_set_owner(&topic->request, VIEW_TOPIC, topic->source);
    }
    client_request(topic->view->client, &topic->request);
}

struct topic *topic_join(struct view *view, enum topic_kind kind, const char *job,
                         const uint8_t *source)
{
    struct topic *topic;
    LIST_FOREACH(topic, &view->topics, link)
    {
        if (topic->kind == kind && strcmp(topic->job.text, job) == 0) {
            topic->n_streams++;
            memcpy(topic->source, source, sizeof(topic->source));
            return topic;
        }
    }
    topic = calloc(1, sizeof(*topic));
    if (!topic) {
        return NULL;
    }
    topic->view = view;
    topic->kind = kind;
    memcpy(topic->source, source, sizeof(topic->source));
    topic->timer = evtimer_new(views_base(view), on_timer, topic);
    if (!topic->timer || (job[0] != '\0' && id_set(&topic->job, job) != 0)) {
        event_drop(&topic->timer);
        free(topic);
        return NULL;
    }
    topic->message =
        operation_request(kinds[kind].operation, job[0] != '\0' ? topic->job.text : NULL);
    if (kind == TOPIC_EVENTS) {
        topic->message.u.events.last = TOPIC_EVENTS_MAX;
    }
    topic->request.message = &topic->message;
    topic->request.ended = on_ended;
    LIST_INSERT_HEAD(&view->topics, topic, link);
    topic->n_streams = 1;
    request_in(topic, 0);
    return topic;
}

void topic_leave(struct topic *topic)
{
    if (--topic->n_streams > 0) {
        return;
    }
    client_cancel(topic->view->client, &topic->request);
    LIST_REMOVE(topic, link);
    event_drop(&topic->timer);
    items_done(&topic->items);
    free(topic);
}
