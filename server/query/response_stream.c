/* server/query/response_stream.c: sends a long response on a channel, as fast as the peer reads
 * it. */
#include "server/query/response_stream.h"

#include <stdlib.h>

#include "common/base/limits.h"
#include "common/channel/channel.h"

/* Size of one batch: what the kernel buffers for a peer, so that the next batch is made while this
 * one is in transit. */
#define BATCH_BYTES LIMIT_UNSENT_BYTES

static void on_wake(void *ctx)
{
    struct answer *answer = ctx;
    answer->waits = false;
    channel_want_drained(answer->pass.ch);
}

int response_begin(struct rows *rows, struct batch *batch, struct channel *ch, struct answer **ret)
{
    struct answer *answer = calloc(1, sizeof(*answer));
    if (!answer) {
        rows_free(rows);
        return TFE_ENOMEM;
    }
    *answer = (struct answer){.rows = rows, .pass = batch_slot_for(batch, ch)};
    rows_on_wake(rows, on_wake, answer);
    *ret = answer;
    return response_continue(ret);
}

int response_continue(struct answer **at)
{
    struct answer *answer = *at;
    if (!batch_may_continue(&answer->pass)) {
        return 0;
    }
    while (channel_queued(answer->pass.ch) < BATCH_BYTES) {
        struct tfe_msg msg;
        int rc = rows_next(answer->rows, &msg);
        if (rc == TFE_EMORE) {
            answer->waits = true;
            return 0;
        }
        if (rc == 0) {
            rc = channel_send(answer->pass.ch, &msg);
        }
        if (rc == 0 && rows_is_end(msg.type) && answer->rows->ended) {
            answer->rows->ended(answer->rows->ended_ctx, &msg);
        }
        if (rc != 0 || rows_is_end(msg.type)) {
            response_done(at);
            return rc == 0 || channel_ends_itself(rc) ? 0 : TFE_ENOMEM;
        }
    }
    channel_want_drained(answer->pass.ch);
    return 0;
}

void response_done(struct answer **at)
{
    if (*at) {
        batch_leave(&(*at)->pass);
        rows_free((*at)->rows);
        free(*at);
        *at = NULL;
    }
}
