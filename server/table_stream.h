/* server/table_stream.h: tables on their way, each to one agent, chunk by chunk as the socket
 * drains, and the START behind it; so many a turn of the loop that nobody's renewals wait for them.
 */
#ifndef TFE_SERVER_TABLE_STREAM_H
#define TFE_SERVER_TABLE_STREAM_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/base/error.h"
#include "common/base/msg.h"
#include "server/table_chunks.h"

struct channel;
struct event_base;
struct table_stream;

/* How many streams this turn of the loop still lets go on, and who waits for the next ones. */
struct table_gate {
    unsigned left;
    bool armed;
    struct event turn;
    TAILQ_HEAD(, table_stream) waiting;
};

void table_gate_init(struct table_gate *gate, struct event_base *base);
/* All streams are gone. */
void table_gate_done(struct table_gate *gate);

/* Keeps chunks, and asks ch for drained(). gate and ch outlive the stream. TFE_ENOMEM. */
int table_stream_new(struct table_gate *gate, struct channel *ch, struct table_chunks *chunks,
                     struct table_stream **ret) TFE_MUST_CHECK;
/* NULL is allowed. */
void table_stream_free(struct table_stream *t);

uint64_t table_stream_epoch(const struct table_stream *t);

/* The START to be said behind the last chunk. A later one replaces it. */
void table_stream_start(struct table_stream *t, const struct msg_start *start);

/* Says what the socket takes now, from drained(). 0: all has been said, or the channel is ending by
 * itself. TFE_EMORE: drained() will come again. TFE_ENOMEM. */
int table_stream_go_on(struct table_stream *t) TFE_MUST_CHECK;

#endif
