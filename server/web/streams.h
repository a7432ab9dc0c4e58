/* server/web/streams.h: pages that listen: server-sent events, one connection a page.
 *
 * What a page has not read yet is bounded: behind BEHIND bytes it gets no changes, and all of it
 * anew once it has caught up; one that reads nothing for CUT_MS is cut. */
#ifndef TFE_SERVER_WEB_STREAMS_H
#define TFE_SERVER_WEB_STREAMS_H

#include <stdbool.h>

#include "server/web/views.h"

struct evbuffer;
struct evhttp_request;
struct stream;
struct topic;
struct web;

#define STREAMS_MAX 64
#define STREAM_BEHIND_BYTES (256 * 1024)
#define STREAM_CUT_MS 15000

/* Answers the request for as long as its page is there: the fleet, and (job not NULL) one job.
 * False: no memory, or too many; nothing was answered. */
bool stream_begin(struct web *web, struct view *view, const char *job, struct evhttp_request *req);

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
