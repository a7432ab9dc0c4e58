/* server/table_chunks.c: a cluster table cut into messages that fit a frame, encoded once. */
#include "server/table_chunks.h"

#include <stdlib.h>

#include "common/base/mem.h"
#include "common/net/heap.h"
#include "common/wire/codec.h"
#include "common/wire/seal.h"

struct table_chunks {
    struct table_chunks *next;
    uint32_t users;
    const struct msg_row *rows;
    size_t n_rows;
    uint64_t epoch;
    uint64_t base_digest;
    uint8_t *bytes; /* the chunks, one after the other */
    size_t n;
    size_t cap;
    size_t *ends; /* where each ends in bytes */
    size_t n_ends;
    size_t ends_cap;
};

void table_chunks_keep(struct table_chunks *chunks)
{
    chunks->users++;
}

void table_chunks_drop(struct table_chunks *chunks)
{
    if (chunks != NULL && --chunks->users == 0) {
        free(chunks->bytes);
        free(chunks->ends);
        free(chunks);
    }
}

/* Encodes as many of the rows from `from` on as one frame takes; *ret_rows are done then. */
static int encode_one(struct table_chunks *chunks, const struct msg_table *table, size_t from,
                      size_t *ret_rows)
{
    size_t rows = table->n_rows - from;
    if (rows > MSG_ROWS_PER_CHUNK) {
        rows = MSG_ROWS_PER_CHUNK;
    }
    if (mem_reserve(&heap_mem, (void **)&chunks->bytes, &chunks->cap, chunks->n + SEAL_PLAIN_MAX,
                    1) != 0 ||
        mem_reserve(&heap_mem, (void **)&chunks->ends, &chunks->ends_cap, chunks->n_ends + 1,
                    sizeof(size_t)) != 0) {
        return TFE_ENOMEM;
    }
    for (;;) {
        struct tfe_msg msg = {.type = MSG_TABLE, .u.table = *table};
        size_t n = 0;
        msg.u.table.rows = table->n_rows > 0 ? table->rows + from : NULL;
        msg.u.table.n_rows = rows;
        int err = codec_encode(&msg, chunks->bytes + chunks->n, SEAL_PLAIN_MAX, &n);
        if (err == 0) {
            chunks->n += n;
            chunks->ends[chunks->n_ends++] = chunks->n;
            *ret_rows = rows;
            return 0;
        }
        if (err != TFE_ETOOBIG || rows <= 1) {
            return err;
        }
        rows /= 2; /* long host names */
    }
}

int table_cache_get(struct table_cache *cache, const struct msg_table *table,
                    struct table_chunks **ret)
{
    for (struct table_chunks *c = cache->first; c != NULL; c = c->next) {
        if (c->rows == table->rows && c->n_rows == table->n_rows && c->epoch == table->epoch &&
            c->base_digest == table->base_digest) {
            *ret = c;
            return 0;
        }
    }
    struct table_chunks *chunks = calloc(1, sizeof(*chunks));
    if (chunks == NULL) {
        return TFE_ENOMEM;
    }
    chunks->users = 1;
    chunks->rows = table->rows;
    chunks->n_rows = table->n_rows;
    chunks->epoch = table->epoch;
    chunks->base_digest = table->base_digest;
    size_t done = 0;
    /* A table without rows (nothing changed) is one message too. */
    do {
        size_t rows;
        int err = encode_one(chunks, table, done, &rows);
        if (err != 0) {
            table_chunks_drop(chunks);
            return err;
        }
        done += rows;
    } while (done < table->n_rows);
    chunks->next = cache->first;
    cache->first = chunks;
    *ret = chunks;
    return 0;
}

void table_cache_done(struct table_cache *cache)
{
    while (cache->first != NULL) {
        struct table_chunks *next = cache->first->next;
        table_chunks_drop(cache->first);
        cache->first = next;
    }
}

uint64_t table_chunks_epoch(const struct table_chunks *chunks)
{
    return chunks->epoch;
}

size_t table_chunks_count(const struct table_chunks *chunks)
{
    return chunks->n_ends;
}

const uint8_t *table_chunks_get(const struct table_chunks *chunks, size_t i, size_t *ret_n)
{
    size_t begin = i > 0 ? chunks->ends[i - 1] : 0;
    *ret_n = chunks->ends[i] - begin;
    return chunks->bytes + begin;
}
