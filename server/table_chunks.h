/* server/table_chunks.h: a cluster table cut into messages that fit a frame, encoded once. */
#ifndef TFE_SERVER_TABLE_CHUNKS_H
#define TFE_SERVER_TABLE_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/msg.h"

struct table_chunks;

/* The tables of one step: a thousand members of an epoch get the same bytes. Zeroed, it is empty.
 */
struct table_cache {
    struct table_chunks *first;
};

/* The chunks of table, encoded now or before: the same rows pointer, epoch and base digest mean the
 * same table (rdzv.h). They live until table_cache_done, or longer for who keeps them. TFE_ENOMEM.
 * TFE_EINVAL, TFE_ETOOBIG: the table cannot be said (a bug of the caller). */
int table_cache_get(struct table_cache *cache, const struct msg_table *table,
                    struct table_chunks **ret) TFE_MUST_CHECK;
void table_cache_done(struct table_cache *cache);

/* Each table_chunks_keep wants one table_chunks_drop; NULL may be dropped. */
void table_chunks_keep(struct table_chunks *chunks);
void table_chunks_drop(struct table_chunks *chunks);

uint64_t table_chunks_epoch(const struct table_chunks *chunks);
size_t table_chunks_count(const struct table_chunks *chunks);
/* codec_encode's bytes of one chunk. */
const uint8_t *table_chunks_get(const struct table_chunks *chunks, size_t i, size_t *ret_n);

#endif
