/* server/web/topics.h: something that pages look at, asked for once for all of them.
 *
 * A topic asks its question at its own pace while a stream has it, compares the rows with those of
 * the last time and tells its streams what is new, changed and gone. Whoever comes later gets all.
 * The period grows with what there is to compare, so that looking costs the server the same. */
#ifndef TFE_SERVER_WEB_TOPICS_H
#define TFE_SERVER_WEB_TOPICS_H

#include <stddef.h>

#include "common/base/id.h"
#include "server/web/views.h"

struct stream;

/* Name of the event, the least time between two questions. */
#define TOPIC_KINDS(X)                                                                             \
    X(FLEET, "fleet", 400)            /* all jobs, and what is not well with the server */         \
    X(NODES, "nodes", 1000)           /* of a job */                                               \
    X(EPOCHS, "epochs", 5000)         /* of a job */                                               \
    X(EVENTS, "events", 400)          /* of a job, or of all */                                    \
    X(POINTS, "points", 1000)         /* of a job: the newest of each of its curves */             \
    X(CONDITIONS, "conditions", 1000) /* of one job, and its row */                                \
    X(QUEUE, "queue", 1000)           /* jobs that were submitted */                               \
    X(POOL, "pool", 2000)             /* nodes of the pool */

enum topic_kind {
#define TOPIC_ENUM(NAME, name, ms) TOPIC_##NAME,
    TOPIC_KINDS(TOPIC_ENUM)
#undef TOPIC_ENUM
        TOPIC__COUNT
};

/* Rows of a topic that pages get; what is more is only counted. */
#define TOPIC_ROWS_MAX 2000

/* Events that are kept for pages that come. */
#define TOPIC_EVENTS_MAX 200

/* The view's topic of this kind and job ("" none), for this stream, which gets all of it soon.
 * NULL: no memory. */
struct topic *topic_join(struct view *view, enum topic_kind kind, const char *job,
                         struct stream *stream);
void topic_quit(struct topic *topic, struct stream *stream);

/* Writes an event with everything that is known to the stream. */
void topic_tell_all(struct topic *topic, struct stream *stream);

/* Asks again soon, if a page looks at it: something has changed that it depends on. */
void topics_nudge(struct view *view, const char *job);

#endif
