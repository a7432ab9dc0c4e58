/* server/table_stream.h: sends cluster tables to agents, chunk by chunk as each socket drains,
 * followed by START; only some chunks per iteration of the loop, so that renewals are not delayed.
 */
#ifndef TFE_SERVER_TABLE_STREAM_H
#define TFE_SERVER_TABLE_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/msg.h"
#include "server/query/batch.h"

struct channel;
struct table_stream;

/* A table split into messages that fit one frame each, encoded once. */
struct table_chunks;

/* Tables of one step of the core, so that a thousand members share the same encoded bytes. A
 * zeroed cache is empty. */
struct table_cache {
    struct table_chunks *first;
};

/* Returns the chunks of a table, encoding them on first use. A table is identified by its rows
 * pointer, epoch and base digest (rdzv.h). Chunks are valid until table_cache_done(), or longer
 * while a stream uses them. Returns 0; TFE_ENOMEM; TFE_EINVAL or TFE_ETOOBIG if the table cannot
 * be encoded (a bug of the caller). */
int table_cache_get(struct table_cache *cache, const struct msg_table *table,
                    struct table_chunks **ret) TFE_MUST_CHECK;
void table_cache_done(struct table_cache *cache);

size_t table_chunks_count(const struct table_chunks *chunks);
/* Returns the encoded bytes of one chunk, as codec_encode() makes them. */
const uint8_t *table_chunks_get(const struct table_chunks *chunks, size_t i, size_t *ret_n);

/* --- streams --- */

/* Starts sending chunks on ch and requests drained(). batch and ch outlive the stream. Returns 0 or
 * TFE_ENOMEM. */
int table_stream_new(struct batch *batch, struct channel *ch, struct table_chunks *chunks,
                     struct table_stream **ret) TFE_MUST_CHECK;
/* Frees the stream. NULL is allowed. */
void table_stream_free(struct table_stream *t);

uint64_t table_stream_epoch(const struct table_stream *t);

/* Sets the START to send after the last chunk. A later call replaces it. */
void table_stream_start(struct table_stream *t, const struct msg_start *start);

/* Sends what the socket accepts now; called from drained(). Returns 0 if all is sent or the
 * channel is closing; TFE_EMORE if drained() will be called again; TFE_ENOMEM. */
int table_stream_go_on(struct table_stream *t) TFE_MUST_CHECK;

#endif
