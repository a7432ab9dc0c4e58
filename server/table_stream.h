/* server/table_stream.h: tables on their way, each to one agent, chunk by chunk as the socket
 * drains, and the START behind it; so many a turn of the loop that no renewal waits for them. */
#ifndef TFE_SERVER_TABLE_STREAM_H
#define TFE_SERVER_TABLE_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/msg.h"
#include "server/query/batch.h"

struct channel;
struct table_stream;

/* A table cut into messages that fit a frame, encoded once. */
struct table_chunks;

/* The tables of one step: a thousand members get the same bytes. Zeroed, it is empty. */
struct table_cache {
    struct table_chunks *first;
};

/* The chunks of table, encoded now or before: the same rows pointer, epoch and base digest mean the
 * same table (rdzv.h). They live until table_cache_done, or longer for streams of them. TFE_ENOMEM.
 * TFE_EINVAL, TFE_ETOOBIG: the table cannot be said (a bug of the caller). */
int table_cache_get(struct table_cache *cache, const struct msg_table *table,
                    struct table_chunks **ret) TFE_MUST_CHECK;
void table_cache_done(struct table_cache *cache);

size_t table_chunks_count(const struct table_chunks *chunks);
/* codec_encode's bytes of one chunk. */
const uint8_t *table_chunks_get(const struct table_chunks *chunks, size_t i, size_t *ret_n);

/* --- on their way ---------------------------------------------------------------------------- */

/* Keeps chunks, and asks ch for drained(). gate and ch outlive the stream. TFE_ENOMEM. */
int table_stream_new(struct gate *gate, struct channel *ch, struct table_chunks *chunks,
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
