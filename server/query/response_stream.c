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
    struct response *response = ctx;
    response->waits = false;
    channel_want_drained(response->pass.ch);
}

int response_begin(struct rows *rows, struct batch *batch, struct channel *ch,
                   struct response **ret)
{
    struct response *response = calloc(1, sizeof(*response));
    if (!response) {
        rows_free(rows);
        return TFE_ENOMEM;
    }
    *response = (struct response){.rows = rows, .pass = batch_slot_for(batch, ch)};
    rows_on_wake(rows, on_wake, response);
    *ret = response;
    return response_continue(ret);
}

int response_continue(struct response **at)
{
    struct response *response = *at;
    if (!batch_may_continue(&response->pass)) {
        return 0;
    }
    while (channel_queued(response->pass.ch) < BATCH_BYTES) {
        struct tfe_msg msg;
        int rc = rows_next(response->rows, &msg);
        if (rc == TFE_EMORE) {
            response->waits = true;
            return 0;
        }
        if (rc == 0) {
            rc = channel_send(response->pass.ch, &msg);
        }
        if (rc == 0 && rows_is_end(msg.type) && response->rows->ended) {
            response->rows->ended(response->rows->ended_ctx, &msg);
        }
        if (rc != 0 || rows_is_end(msg.type)) {
            response_done(at);
            return rc == 0 || channel_ends_itself(rc) ? 0 : TFE_ENOMEM;
        }
    }
    channel_want_drained(response->pass.ch);
    return 0;
}

void response_done(struct response **at)
{
    if (*at) {
        batch_leave(&(*at)->pass);
        rows_free((*at)->rows);
        free(*at);
        *at = NULL;
    }
}
