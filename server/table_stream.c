/* server/table_stream.c: tables as sockets drain. What waits is a position, not bytes: ten thousand
 * agents that get a table of 200 KB each would be 2 GB of sealed frames else. */
#include "server/table_stream.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/net/channel.h"

/* Chunks for one agent before the next one's turn: 80 KB, less than a millisecond of sealing. */
#define CHUNKS_PER_TURN 8

struct table_stream {
    struct table_chunks *chunks;
    size_t next;
    bool has_start;
    struct msg_start start;
};

int table_stream_new(struct table_chunks *chunks, struct table_stream **ret)
{
    struct table_stream *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return TFE_ENOMEM;
    }
    table_chunks_keep(chunks);
    t->chunks = chunks;
    *ret = t;
    return 0;
}

void table_stream_free(struct table_stream *t)
{
    if (t != NULL) {
        table_chunks_drop(t->chunks);
        free(t);
    }
}

uint64_t table_stream_epoch(const struct table_stream *t)
{
    return table_chunks_epoch(t->chunks);
}

void table_stream_start(struct table_stream *t, const struct msg_start *start)
{
    t->has_start = true;
    t->start = *start;
}

/* The channel ends itself, and says so. */
static bool is_ending(int err)
{
    return err == TFE_EFULL || err == TFE_ESTATE;
}

int table_stream_go_on(struct table_stream *t, struct channel *ch)
{
    size_t count = table_chunks_count(t->chunks);
    for (int turn = 0; turn < CHUNKS_PER_TURN && t->next < count; turn++) {
        size_t n;
        const uint8_t *plain = table_chunks_get(t->chunks, t->next, &n);
        int err = channel_send_encoded(ch, plain, n, true);
        if (err != 0) {
            return is_ending(err) ? 0 : TFE_ENOMEM;
        }
        t->next++;
        /* At once: frames of all agents would pile up until the end of this turn of the loop. */
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
    int err = channel_send(ch, &msg);
    return err == 0 || is_ending(err) ? 0 : TFE_ENOMEM;
}
