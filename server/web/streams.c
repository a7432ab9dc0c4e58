/* server/web/streams.c: see streams.h. */
#include "server/web/streams.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/records/json_text.h"
#include "server/web/http.h"
#include "server/web/logins.h"
#include "server/web/shares.h"

/* Interval of comments, by which both ends notice that the other one is gone. */
#define HEARTBEAT_MS 5000
#define CHECK_MS 500

#define TOPICS_MAX TOPIC__COUNT

struct stream {
    struct web *web;
    struct view *view;
    struct http_request *req;
    struct share share;
    struct event *timer;
    struct part {
        struct topic *topic;
        bool is_missed; /* the topic has changed while the client was behind */
    } parts[TOPICS_MAX];
    size_t n_parts;
    size_t waiting;              /* unread bytes at the last check */
    struct tfe_mono moved;       /* when the client last read something, or had read all */
    struct tfe_mono complete_at; /* when the client had last missed nothing */
    struct tfe_mono beat;
    uint64_t login; /* number of the login; 0 without login cookie */
    void *own;
    void (*caught_up)(void *own);
    void (*own_free)(void *own);
    LIST_ENTRY(stream) link;
};

/* --- the end --- */

static void stream_free(struct stream *stream)
{
    struct view *view = stream->view;
    for (size_t i = 0; i < stream->n_parts; i++) {
        topic_leave(stream->parts[i].topic);
    }
    if (stream->own_free) {
        stream->own_free(stream->own);
    }
    LIST_REMOVE(stream, link);
    event_drop(&stream->timer);
    share_release(&stream->share);
    free(stream);
    view_leave(view);
}

static void on_closed(void *ctx)
{
    stream_free(ctx);
}

static void cut(struct stream *stream)
{
    stream->web->n_cut++;
    http_abort(stream->req); /* calls on_closed */
}

/* --- writing --- */

void stream_write(struct stream *stream, struct evbuffer *event)
{
    http_chunk(stream->req, event);
    stream->beat = clock_mono();
}

bool stream_is_behind(const struct stream *stream)
{
    return http_unsent(stream->req) > STREAM_BEHIND_BYTES;
}

void stream_write_change(struct stream *stream, struct topic *topic, struct evbuffer *event,
                         bool is_whole)
{
    for (size_t i = 0; i < stream->n_parts; i++) {
        struct part *part = &stream->parts[i];
        if (part->topic == topic) {
            part->is_missed = stream_is_behind(stream) || (part->is_missed && !is_whole);
            if (!part->is_missed) {
                stream_write(stream, event);
            }
        }
    }
}

void stream_send(struct stream *stream, const char *event, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    struct evbuffer *out = text ? evbuffer_new() : NULL;
    if (out) {
        (void)evbuffer_add_printf(out, "event: %s\ndata: %s\n\n", event, text);
        stream_write(stream, out);
        evbuffer_free(out);
    }
    free(text);
    json_decref(value);
}

static void send_state(struct stream *stream)
{
    const struct view *view = stream->view;
    stream_send(stream, "state",
                json_pack("{s:b, s:o}", "up", !view->is_down, "why",
                          view->is_down ? json_from_text(view->reason) : json_null()));
}

static void on_check(evutil_socket_t fd, short what, void *ctx)
{
    struct stream *stream = ctx;
    struct tfe_mono now = clock_mono();
    size_t waiting = http_unsent(stream->req);
    if (waiting == 0 || waiting < stream->waiting) {
        stream->moved = now;
    }
    stream->waiting = waiting;
    bool is_late = false;
    for (size_t i = 0; i < stream->n_parts; i++) {
        is_late = is_late || stream->parts[i].is_missed;
    }
    if (!is_late) {
        stream->complete_at = now;
    }
    if (stream->login != 0 && !logins_has(stream->web->logins, stream->login)) {
        http_abort(stream->req); /* calls on_closed */
        return;
    }
    if (tfe_mono_sub(now, stream->moved) > STREAM_CUT_MS ||
        tfe_mono_sub(now, stream->complete_at) > STREAM_LATE_MS) {
        log_info("page_cut", LOG_S("reason", "the client does not read"), LOG_U("bytes", waiting));
        cut(stream);
        return;
    }
    for (size_t i = 0; waiting == 0 && i < stream->n_parts; i++) {
        if (stream->parts[i].is_missed) {
            stream->parts[i].is_missed = false;
            topic_send_all(stream->parts[i].topic, stream);
        }
    }
    if (waiting == 0 && stream->caught_up) {
        stream->caught_up(stream->own);
    }
    if (tfe_mono_sub(now, stream->beat) > HEARTBEAT_MS) {
        struct evbuffer *out = evbuffer_new();
        if (out) {
            (void)evbuffer_add(out, ":\n\n", 3);
            stream_write(stream, out);
            evbuffer_free(out);
        }
    }
    (void)timer_after(stream->timer, CHECK_MS);
}

/* --- the beginning --- */

void stream_join(struct stream *stream, enum topic_kind kind, const char *job)
{
    struct topic *topic = topic_join(stream->view, kind, job, http_source(stream->req));
    if (topic) {
        stream->parts[stream->n_parts++].topic = topic;
        topic_send_all(topic, stream);
    }
}

void stream_attach(struct stream *stream, void *own, void (*caught_up)(void *own),
                   void (*own_free)(void *own))
{
    stream->own = own;
    stream->caught_up = caught_up;
    stream->own_free = own_free;
}

/* Closes this stream in favour of another caller's. The page opens it again. */
static void evict(void *owner)
{
    struct stream *stream = owner;
    log_info("page_cut", LOG_S("why", "another client needs the slot"));
    cut(stream);
}

struct stream *stream_new(struct request *r)
{
    struct web *web = r->web;
    const struct share_holder holder = request_holder(r);
    struct stream *stream = calloc(1, sizeof(*stream));
    if (!stream) {
        return NULL;
    }
    *stream = (struct stream){.web = web,
                              .view = r->view,
                              .req = r->req,
                              .moved = clock_mono(),
                              .complete_at = clock_mono(),
                              .beat = clock_mono(),
                              .login = r->login ? login_number(r->login) : 0};
    stream->timer = evtimer_new(web->base, on_check, stream);
    if (!stream->timer || timer_after(stream->timer, CHECK_MS) != 0 ||
        !share_enter(web->shares, SHARE_STREAMS, &holder, stream, evict, &stream->share)) {
        event_drop(&stream->timer);
        free(stream);
        return NULL;
    }
    view_use(r->view);
    LIST_INSERT_HEAD(&r->view->streams, stream, link);
    http_on_closed(r->req, on_closed, stream);
    http_set_header(r->req, "Content-Type", "text/event-stream");
    http_set_header(r->req, "X-Accel-Buffering", "no"); /* tells nginx not to buffer the stream */
    http_begin(r->req, 200);
    send_state(stream);
    return stream;
}

void stream_end(struct stream *stream)
{
    struct http_request *req = stream->req;
    http_on_closed(req, NULL, NULL);
    stream_free(stream);
    http_end(req);
}

struct stream *stream_next(struct stream *stream)
{
    return LIST_NEXT(stream, link);
}

bool stream_has(const struct stream *stream, const struct topic *topic)
{
    for (size_t i = 0; i < stream->n_parts; i++) {
        if (stream->parts[i].topic == topic) {
            return true;
        }
    }
    return false;
}

void streams_send_state(struct view *view)
{
    struct stream *stream;
    LIST_FOREACH(stream, &view->streams, link)
    {
        send_state(stream);
    }
}

void streams_end_view(struct view *view)
{
    while (!LIST_EMPTY(&view->streams)) {
        http_abort(LIST_FIRST(&view->streams)->req);
    }
}
