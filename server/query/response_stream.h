/* server/query/response_stream.h: the channel as a sink of rows: a long answer, as fast as it is
 * read. */
#ifndef TFE_SERVER_QUERY_RESPONSE_STREAM_H
#define TFE_SERVER_QUERY_RESPONSE_STREAM_H

#include <stdbool.h>

#include "server/query/batch.h"
#include "server/query/record_source.h"

/* NULL: nothing is being answered. */
struct answer {
    struct rows *rows; /* owned */
    struct gate_pass pass;
    bool waits; /* for the source: the asker owes us nothing */
};

/* Begins to say rows, which it owns from here on, on ch, through the gate; both outlive it. *ret is
 * NULL before, and as soon as all is said. Then as answer_go_on. */
int answer_begin(struct rows *rows, struct gate *gate, struct channel *ch,
                 struct answer **ret) TFE_MUST_CHECK;

/* Says as much as the peer has room for, from drained(), which comes as long as the answer is not
 * complete. 0. TFE_ENOMEM: it cannot be completed, end the session. */
int answer_go_on(struct answer **at) TFE_MUST_CHECK;

/* Ends it, wherever it stands, if there is one. */
void answer_done(struct answer **at);

#endif
