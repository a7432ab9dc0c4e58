/* server/status.h: answers the question of STATUS, at the pace at which the asker reads. */
#ifndef TFE_SERVER_STATUS_H
#define TFE_SERVER_STATUS_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/msg.h"

struct channel;
struct event_base;
struct rdzv;
struct status_stream;

/* Sends STATUS_JOB, its STATUS_NODEs, …, STATUS_END, or REFUSED no_such_job. What does not fit the
 * channel's queue now follows by itself, by *ret_stream, which the caller frees before the channel;
 * NULL: all has been queued. Such a long answer is no snapshot: a node that joins meanwhile may or
 * may not be in it. TFE_ENOMEM: the answer is incomplete, end the session. */
int status_answer(struct event_base *base, const struct rdzv *core, struct channel *ch,
                  const struct msg_status *question,
                  struct status_stream **ret_stream) TFE_MUST_CHECK;

/* Whether the answer is complete (or cannot be completed any more). */
bool status_stream_is_over(const struct status_stream *stream);

/* Whether anything was sent since this was asked last. */
bool status_stream_has_moved(struct status_stream *stream);

/* NULL is allowed. */
void status_stream_free(struct status_stream *stream);

#endif
