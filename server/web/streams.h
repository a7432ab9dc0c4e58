/* server/web/streams.h: pages that listen: server-sent events, one connection a page.
 *
 * What a page has not read yet is bounded: behind BEHIND bytes it gets no changes, and all of it
 * anew once it has caught up; one that reads nothing for CUT_MS is cut. */
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
/* One that reads, but is behind for so long, is cut, too. */
#define STREAM_LATE_MS 60000

/* Answers the request for as long as its page is there, and no longer than its login lasts. NULL:
 * no memory, or too many; nothing was answered. */
struct stream *stream_new(struct request *r);
/* … with what changes of this. job: "" all. */
void stream_join(struct stream *stream, enum topic_kind kind, const char *job);
/* … with what somebody else tells it. own is freed with it; caught_up: all was read. */
void stream_own(struct stream *stream, void *own, void (*caught_up)(void *own),
                void (*own_free)(void *own));
/* One event; takes value. */
void stream_tell(struct stream *stream, const char *event, json_t *value);
/* The page has that much unread that it is told nothing more for now. */
bool stream_is_behind(const struct stream *stream);
/* Ends the answer; it is gone, and its own. */
void stream_end(struct stream *stream);

struct stream *stream_next(struct stream *stream);
bool stream_has(const struct stream *stream, const struct topic *topic);

/* Copies what is in the buffer. */
void stream_write(struct stream *stream, struct evbuffer *event);
/* … unless it is behind: it gets the whole topic later. */
void stream_write_change(struct stream *stream, struct topic *topic, struct evbuffer *event,
                         bool is_whole);

/* All of a view: that the server is reached or not, that they are over. */
void streams_tell_state(struct view *view);
void streams_end_view(struct view *view);

#endif
