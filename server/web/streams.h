/* server/web/streams.h: server-sent events, one connection for each page.
 *
 * Unread data is bounded. Beyond STREAM_BEHIND_BYTES a stream gets no changes; it gets whole topics
 * after its client has caught up. A stream whose client reads nothing for STREAM_CUT_MS is closed.
 */
#ifndef TFE_SERVER_WEB_STREAMS_H
#define TFE_SERVER_WEB_STREAMS_H

#include <stdbool.h>

#include "server/web/request.h"
#include "server/web/topics.h"
#include "server/web/views.h"

struct evbuffer;
struct stream;
struct topic;
struct web;

#define STREAM_BEHIND_BYTES (256 * 1024)
#define STREAM_CUT_MS 15000
/* A stream whose client reads too slowly is closed after this time. */
#define STREAM_LATE_MS 60000

/* Starts an event stream as the response; it ends with the client's connection or login. Returns
 * NULL, without a response, if the caller's quota is used up or memory is out. */
struct stream *stream_new(struct request *r);
/* Sends the changes of a topic. job is "" for all jobs. */
void stream_join(struct stream *stream, enum topic_kind kind, const char *job);
/* Sets callbacks of a source other than topics. own_free(own) runs when the stream ends; caught_up
 * after the client has read everything. */
void stream_attach(struct stream *stream, void *own, void (*caught_up)(void *own),
                   void (*own_free)(void *own));
/* Sends one event. Takes ownership of value. */
void stream_send(struct stream *stream, const char *event, json_t *value);
/* Returns true if the client has so much unread data that further events must be dropped for now.
 */
bool stream_is_behind(const struct stream *stream);
/* Ends the response and frees the stream with its own data. */
void stream_end(struct stream *stream);

struct stream *stream_next(struct stream *stream);
bool stream_has(const struct stream *stream, const struct topic *topic);

/* Sends a copy of the buffer. */
void stream_write(struct stream *stream, struct evbuffer *event);
/* Sends a change of a topic, unless the client is behind: it gets the whole topic later. */
void stream_write_change(struct stream *stream, struct topic *topic, struct evbuffer *event,
                         bool is_whole);

/* Sends whether the server is reachable to all streams of a view; closes all streams of a view. */
void streams_send_state(struct view *view);
void streams_end_view(struct view *view);

#endif
