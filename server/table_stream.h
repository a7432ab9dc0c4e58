/* server/table_stream.h: a table on its way to one agent, chunk by chunk as the socket drains, and the
 * START behind it. */
#ifndef TFE_SERVER_TABLE_STREAM_H
#define TFE_SERVER_TABLE_STREAM_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/base/msg.h"
#include "server/table_chunks.h"

struct channel;
struct table_stream;

/* Keeps chunks. TFE_ENOMEM. */
int table_stream_new(struct table_chunks *chunks, struct table_stream **ret) TFE_MUST_CHECK;
/* NULL is allowed. */
void table_stream_free(struct table_stream *t);

uint64_t table_stream_epoch(const struct table_stream *t);

/* The START to be said behind the last chunk. A later one replaces it. */
void table_stream_start(struct table_stream *t, const struct msg_start *start);

/* Says what the socket takes now, from drained(). 0: all has been said, or the channel is ending by
 * itself. TFE_EMORE: drained() will come again. TFE_ENOMEM. */
int table_stream_go_on(struct table_stream *t, struct channel *ch) TFE_MUST_CHECK;

#endif
