/* server/table_stream.c: sends cluster tables as sockets drain. A stream keeps a position, not
 * bytes: sealed frames of a 200 KB table for ten thousand agents would take 2 GB. Sealing them in
 * one iteration of the loop would take seconds, so a batch limits each turn. */
#include "server/table_stream.h"

#include <stdlib.h>

#include "common/base/heap.h"
#include "common/base/mem.h"
#include "common/channel/channel.h"
#include "common/handshake/seal.h"
#include "common/message/codec.h"

struct table_chunks {
    struct table_chunks *next;
    uint32_t users;
    const struct msg_row *rows;
    size_t n_rows;
    uint64_t epoch;
    uint64_t base_digest;
    uint8_t *bytes; /* the encoded chunks, one after the other */
    size_t n;
    size_t cap;
    size_t *ends; /* offset of the end of each chunk */
    size_t n_ends;
    size_t ends_cap;
};

static void drop(struct table_chunks *chunks)
{
    if (chunks && --chunks->users == 0) {
        free(chunks->bytes);
        free(chunks->ends);
        free(chunks);
    }
}

/* Encodes as many rows from `from` on as fit one frame; *ret_rows is their number. */
static int encode_one(struct table_chunks *chunks, const struct msg_table *table, size_t from,
                      size_t *ret_rows)
{
    if (mem_reserve(&heap_mem, &chunks->bytes, &chunks->cap, chunks->n + SEAL_PLAIN_MAX, 1) != 0 ||
        mem_reserve(&heap_mem, &chunks->ends, &chunks->ends_cap, chunks->n_ends + 1,
                    sizeof(size_t)) != 0) {
        return TFE_ENOMEM;
    }
    size_t n = 0;
    int rc = codec_encode_table_chunk(table, from, chunks->bytes + chunks->n, SEAL_PLAIN_MAX, &n,
                                      ret_rows);
    if (rc == 0) {
        chunks->n += n;
        chunks->ends[chunks->n_ends++] = chunks->n;
    }
    return rc;
}

int table_cache_get(struct table_cache *cache, const struct msg_table *table,
                    struct table_chunks **ret)
{
    for (struct table_chunks *c = cache->first; c; c = c->next) {
        if (c->rows == table->rows && c->n_rows == table->n_rows && c->epoch == table->epoch &&
            c->base_digest == table->base_digest) {
            *ret = c;
            return 0;
        }
    }
    struct table_chunks *chunks = calloc(1, sizeof(*chunks));
    if (!chunks) {
        return TFE_ENOMEM;
    }
    chunks->users = 1;
    chunks->rows = table->rows;
    chunks->n_rows = table->n_rows;
    chunks->epoch = table->epoch;
    chunks->base_digest = table->base_digest;
    size_t done = 0;
    /* A table without rows (no change) is one message, too. */
    do {
        size_t rows;
        int rc = encode_one(chunks, table, done, &rows);
        if (rc != 0) {
            drop(chunks);
            return rc;
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
    while (cache->first) {
        struct table_chunks *next = cache->first->next;
        drop(cache->first);
        cache->first = next;
    }
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

/* --- streams --- */

/* Chunks sent to one agent per iteration: 80 KB, sealed in less than a millisecond. */
#define CHUNKS_PER_ITERATION 8
struct table_stream {
    struct batch_slot pass;
    struct table_chunks *chunks;
    size_t next;
    bool has_start;
    struct msg_start start;
};

int table_stream_new(struct batch *batch, struct channel *ch, struct table_chunks *chunks,
                     struct table_stream **ret)
{
    struct table_stream *t = calloc(1, sizeof(*t));
    if (!t) {
        return TFE_ENOMEM;
    }
    chunks->users++;
    t->chunks = chunks;
    t->pass = batch_slot_for(batch, ch);
    channel_want_drained(ch);
    *ret = t;
    return 0;
}

void table_stream_free(struct table_stream *t)
{
    if (t) {
        batch_leave(&t->pass);
        drop(t->chunks);
        free(t);
    }
}

uint64_t table_stream_epoch(const struct table_stream *t)
{
    return t->chunks->epoch;
}

void table_stream_start(struct table_stream *t, const struct msg_start *start)
{
    t->has_start = true;
    t->start = *start;
}

int table_stream_go_on(struct table_stream *t)
{
    struct channel *ch = t->pass.ch;
    size_t count = t->chunks->n_ends;
    if (!batch_may_continue(&t->pass)) {
        return TFE_EMORE;
    }
    for (int turn = 0; turn < CHUNKS_PER_ITERATION && t->next < count; turn++) {
        size_t n;
        const uint8_t *plain = table_chunks_get(t->chunks, t->next, &n);
        int rc = channel_send_encoded(ch, plain, n);
        if (rc != 0) {
            return channel_ends_itself(rc) ? 0 : TFE_ENOMEM;
        }
        t->next++;
        /* Push now; otherwise frames of all agents accumulate until the end of this iteration
         * of the loop. */
        if (!channel_push(ch)) {
            break;
        }
    }
    if (t->next < count) {
        channel_want_drained(ch);
        return TFE_EMORE;
    }
    if (!t->has_start) {
        return 0;
    }
    struct tfe_msg msg = {.type = MSG_START, .u.start = t->start};
    int rc = channel_send(ch, &msg);
    return rc == 0 || channel_ends_itself(rc) ? 0 : TFE_ENOMEM;
}
