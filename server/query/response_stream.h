/* server/query/response_stream.h: sends a long response on a channel, as fast as the peer reads
 * it. */
#ifndef TFE_SERVER_QUERY_RESPONSE_STREAM_H
#define TFE_SERVER_QUERY_RESPONSE_STREAM_H

#include <stdbool.h>

#include "server/query/batch.h"
#include "server/query/record_source.h"

/* The response in progress on a channel. The owner's pointer is NULL while there is none. */
struct response {
    struct rows *rows; /* the record source; owned */
    struct batch_slot pass;
    bool waits; /* true while the source has no message ready, so that no timeout applies to the
                   peer */
};

/* Starts sending rows on ch, at the pace of batch; takes ownership of rows. batch and ch outlive
 * the response. *ret becomes NULL as soon as all is sent. Returns as response_continue(). */
int response_begin(struct rows *rows, struct batch *batch, struct channel *ch,
                   struct response **ret) TFE_MUST_CHECK;

/* Sends as much as the peer has room for. Called from drained() while the response is not
 * complete. Returns 0, or TFE_ENOMEM if it cannot be completed and the session must end. */
int response_continue(struct response **at) TFE_MUST_CHECK;

/* Frees the response, complete or not; *at becomes NULL. */
void response_done(struct response **at);

#endif
