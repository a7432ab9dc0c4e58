/* server/web/topics.h: data that pages show, queried once for all of them.
 *
 * While a topic has streams, it queries the server periodically, compares the rows with the
 * previous ones, and sends new, changed and removed rows to its streams. A new stream gets all
 * rows. The period grows with the number of rows, so that the load is bounded. */
#ifndef TFE_SERVER_WEB_TOPICS_H
#define TFE_SERVER_WEB_TOPICS_H

#include <stddef.h>

#include "common/base/id.h"
#include "server/web/views.h"

struct stream;

enum topic_kind {
    TOPIC_FLEET,      /* all jobs, and health problems of the server */
    TOPIC_NODES,      /* of a job */
    TOPIC_EPOCHS,     /* of a job */
    TOPIC_EVENTS,     /* events of a job, or of all jobs */
    TOPIC_POINTS,     /* the newest point of each metric of a job */
    TOPIC_CONDITIONS, /* conditions of a job, and its row */
    TOPIC_POOL,       /* nodes of the pool */
    TOPIC__COUNT
};

/* Maximum number of rows that pages get. Further rows are counted only. */
#define TOPIC_ROWS_MAX 2000

/* Number of events retained for new streams. */
#define TOPIC_EVENTS_MAX 200

/* Returns the view's topic of this kind and job ("" for none), and counts one more stream, whose
 * client has this source address. The stream gets all rows soon. NULL without memory. */
struct topic *topic_join(struct view *view, enum topic_kind kind, const char *job,
                         const uint8_t *source);
void topic_leave(struct topic *topic);

/* Sends all rows to the stream. */
void topic_send_all(struct topic *topic, struct stream *stream);

#endif
