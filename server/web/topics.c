/* server/web/topics.c: see topics.h. */
#include "server/web/topics.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/timer.h"
#include "common/records/epoch_summary.h"
#include "common/records/json_text.h"
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
    struct client_request ask;
    struct tfe_msg message;
    struct event *timer;
    struct items items;
    size_t n_rows; /* number of rows, including those beyond TOPIC_ROWS_MAX */
    struct tfe_wall at;
    bool is_known; /* a query has succeeded */
    bool is_asked;
    bool is_nudged;
    unsigned n_streams;
    LIST_ENTRY(topic) link;
};

static const char *const names[] = {
#define TOPIC_NAME(NAME, name, ms) name,
    TOPIC_KINDS(TOPIC_NAME)
#undef TOPIC_NAME
};

static const unsigned least_ms[] = {
#define TOPIC_MS(NAME, name, ms) ms,
    TOPIC_KINDS(TOPIC_MS)
#undef TOPIC_MS
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

/* Removes ages from what is compared: the page counts them by itself. */
static void drop_ages(json_t *object, bool is_over)
{
    static const char *const ages[] = {"waits_since_ms", "waits_until_ms", "retry_in_ms"};
    for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
        (void)json_object_del(object, ages[i]);
    }
    if (!is_over) {
        (void)json_object_del(object, "running_ms");
        (void)json_object_del(object, "standstill_ms");
    }
}

static const char *name_of(const struct record *row)
{
    return row->schema == &schema_job         ? ((const struct msg_status_job *)row->at)->job
           : row->schema == &schema_health    ? ((const struct msg_health *)row->at)->what
           : row->schema == &schema_node      ? ((const struct msg_status_node *)row->at)->node
           : row->schema == &schema_pool_node ? ((const struct msg_pool_row *)row->at)->node
           : row->schema == &schema_condition ? ((const struct msg_condition_row *)row->at)->name
           : row->schema == &schema_point     ? ((const struct msg_series_row *)row->at)->name
                                              : NULL;
}

static void key_of(const struct record *row, char ret[TFE_ID_MAX + 32])
{
    const char *name = name_of(row);
    if (name) {
        const char *folder = row->schema == &schema_job      ? "job/"
                             : row->schema == &schema_health ? "health/"
                                                             : "";
        (void)snprintf(ret, TFE_ID_MAX + 32, "%s%s", folder, name);
    } else {
        uint64_t number = row->schema == &schema_event
                              ? ((const struct msg_event_row *)row->at)->number
                              : ((const struct msg_epoch_row *)row->at)->epoch;
        (void)snprintf(ret, TFE_ID_MAX + 32, "%020llu", (unsigned long long)number);
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
    const bool is_over =
        row->schema == &schema_epoch && ((const struct msg_epoch_row *)row->at)->over;
    key_of(row, key);
    ret->key = strdup(key);
    ret->text = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    if (object && row->schema != &schema_job && row->schema != &schema_pool_node) {
        (void)json_object_del(object, "since_ms"); /* these rows have absolute times */
    }
    if (object) {
        drop_ages(object, is_over);
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
    switch (topic->kind) {
    case TOPIC_FLEET:
        return row->schema == &schema_job || row->schema == &schema_health;
    case TOPIC_NODES:
        return row->schema == &schema_node;
    case TOPIC_EPOCHS:
        return row->schema == &schema_epoch;
    case TOPIC_EVENTS:
        return row->schema == &schema_event;
    case TOPIC_POINTS:
        return row->schema == &schema_point;
    case TOPIC_CONDITIONS:
        return row->schema == &schema_job || row->schema == &schema_condition;
    case TOPIC_QUEUE:
        return row->schema == &schema_job && ((const struct msg_status_job *)row->at)->is_submitted;
    case TOPIC_POOL:
        return row->schema == &schema_pool_node;
    case TOPIC__COUNT:
        break;
    }
    return false;
}

/* Makes items of all rows. Of too many epochs the newest ones are used. */
static int make_items(struct topic *topic, struct items *ret)
{
    const struct record_list *rows = &topic->ask.list;
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

/* --- telling --- */

static void begin(const struct topic *topic, struct evbuffer *out, bool is_whole)
{
    TFE_ASSERT(topic->kind < TOPIC__COUNT);
    (void)evbuffer_add_printf(
        out, "event: %s\ndata: {\"job\":\"%s\",\"at_ms\":%lld,\"rows\":%zu,%s", names[topic->kind],
        topic->job.text, (long long)topic->at.ms, topic->n_rows, is_whole ? "\"whole\":true," : "");
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

static void tell(struct topic *topic, struct evbuffer *out, bool is_whole)
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

/* Queries the topics of a job that has changed soon. key: "job/NAME". */
static void on_changed(struct topic *topic, const char *key)
{
    if (topic->kind == TOPIC_FLEET && strncmp(key, "job/", 4) == 0) {
        topics_refresh(topic->view, key + 4);
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

/* --- asking --- */

static void ask_in(struct topic *topic, int64_t ms)
{
    if (!topic->is_asked) {
        (void)timer_after(topic->timer, ms);
    }
}

static int64_t period_of(const struct topic *topic)
{
    int64_t by_rows = (int64_t)topic->n_rows * MS_PER_ROW;
    return topic->is_nudged                           ? NUDGED_MS
           : by_rows > (int64_t)least_ms[topic->kind] ? by_rows
                                                      : (int64_t)least_ms[topic->kind];
}

/* Appends new events and drops the oldest ones above the limit. Takes more. */
static int append(struct items *items, struct items *more)
{
    size_t n = items->n + more->n;
    size_t skip = n > TOPIC_EVENTS_MAX ? n - TOPIC_EVENTS_MAX : 0;
    struct item *v = calloc(n > 0 ? n : 1, sizeof(*v));
    if (!v) {
        return TFE_ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        struct item *item = i < items->n ? &items->v[i] : &more->v[i - items->n];
        if (i < skip) {
            free(item->key);
            free(item->text);
        } else {
            v[i - skip] = *item;
        }
    }
    free(items->v);
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
        tell(topic, out, is_whole);
    }
    items_done(now);
    if (out) {
        evbuffer_free(out);
    }
}

static void apply_rows(struct topic *topic)
{
    struct items now;
    if (topic->kind == TOPIC_EPOCHS) {
        epochs_compute(&topic->ask.list, clock_wall());
    }
    if (make_items(topic, &now) != 0) {
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
            tell(topic, out, is_first);
        }
        evbuffer_free(out);
    } else {
        items_done(&now);
    }
}

static void on_ended(struct client_request *ask, enum client_end end, enum tfe_refusal code,
                     const char *sentence)
{
    struct topic *topic = (struct topic *)((char *)ask - offsetof(struct topic, ask));
    topic->is_asked = false;
    if (end == CLIENT_UNAUTHORISED) {
        view_reject(topic->view); /* ends the topic */
        return;
    }
    if (end == CLIENT_ANSWERED || (end == CLIENT_REFUSED && code == REFUSAL_NO_SUCH_JOB)) {
        apply_rows(topic);
    }
    record_list_done(&ask->list);
    int64_t ms = period_of(topic);
    topic->is_nudged = false;
    ask_in(topic, ms);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct topic *topic = ctx;
    topic->is_asked = true;
    client_request(topic->view->client, &topic->ask);
}

static void prepare(struct topic *topic)
{
    struct client_request *ask = &topic->ask;
    struct tfe_msg *msg = &topic->message;
    ask->message = msg;
    ask->ended = on_ended;
    switch (topic->kind) {
    case TOPIC_FLEET:
    case TOPIC_QUEUE:
    case TOPIC_NODES:
    case TOPIC_CONDITIONS:
        *msg = (struct tfe_msg){.type = MSG_STATUS};
        msg->u.status.job = topic->job.text[0] != '\0' ? topic->job.text : NULL;
        msg->u.status.jobs_only = topic->kind != TOPIC_NODES;
        msg->u.status.detail = topic->kind == TOPIC_CONDITIONS;
        ask->rows[0] = MSG_STATUS_JOB;
        ask->rows[1] = MSG_STATUS_NODE;
        ask->rows[2] = MSG_HEALTH;
        ask->rows[3] = MSG_SERIES_ROW;
        ask->rows[4] = MSG_CONDITION_ROW;
        ask->rows[5] = MSG_POOL_ROW;
        break;
    case TOPIC_EPOCHS:
        *msg = (struct tfe_msg){.type = MSG_EPOCHS, .u.epochs = {.job = topic->job.text}};
        ask->rows[0] = MSG_EPOCH_ROW;
        ask->rows[1] = MSG_STATUS_JOB;
        break;
    case TOPIC_EVENTS:
        *msg = (struct tfe_msg){
            .type = MSG_EVENTS,
            .u.events = {.job = topic->job.text[0] != '\0' ? topic->job.text : NULL,
                         .last = TOPIC_EVENTS_MAX}};
        ask->rows[0] = MSG_EVENT_ROW;
        break;
    case TOPIC_POINTS:
        *msg = (struct tfe_msg){.type = MSG_SERIES, .u.series = {.job = topic->job.text}};
        ask->rows[0] = MSG_SERIES_ROW;
        break;
    case TOPIC_POOL:
        *msg = (struct tfe_msg){.type = MSG_POOL_NODES};
        ask->rows[0] = MSG_POOL_ROW;
        break;
    case TOPIC__COUNT:
        break;
    }
}

struct topic *topic_join(struct view *view, enum topic_kind kind, const char *job,
                         struct stream *stream)
{
    struct topic *topic;
    LIST_FOREACH(topic, &view->topics, link)
    {
        if (topic->kind == kind && strcmp(topic->job.text, job) == 0) {
            topic->n_streams++;
            return topic;
        }
    }
    topic = calloc(1, sizeof(*topic));
    if (!topic) {
        return NULL;
    }
    topic->view = view;
    topic->kind = kind;
    topic->timer = evtimer_new(views_base(view), on_timer, topic);
    if (!topic->timer || (job[0] != '\0' && id_set(&topic->job, job) != 0)) {
        event_drop(&topic->timer);
        free(topic);
        return NULL;
    }
    prepare(topic);
    LIST_INSERT_HEAD(&view->topics, topic, link);
    topic->n_streams = 1;
    ask_in(topic, 0);
    return topic;
}

void topic_leave(struct topic *topic, struct stream *stream)
{
    if (--topic->n_streams > 0) {
        return;
    }
    client_cancel(topic->view->client, &topic->ask);
    LIST_REMOVE(topic, link);
    event_drop(&topic->timer);
    items_done(&topic->items);
    free(topic);
}

void topics_refresh(struct view *view, const char *job)
{
    struct topic *topic;
    LIST_FOREACH(topic, &view->topics, link)
    {
        if (topic->kind != TOPIC_FLEET && strcmp(topic->job.text, job) == 0) {
            topic->is_nudged = true;
            ask_in(topic, 0);
        }
    }
}
