/* server/scale.h: --scale-command: when jobs want other machines than the pool has, a command of
 * the operator's is told so, and says what is on its way.
 *
 *     placement's demand and supply -> scale.c -> scale_beside.c (its process) -> the command,
 *     and its answer {"pending": [...]} back by the same way, as JSON.
 *
 * Never two at once; late, failing or talking nonsense it is tried again later, and later still. */
#ifndef TFE_SERVER_SCALE_H
#define TFE_SERVER_SCALE_H

#include "common/base/error.h"
#include "server/events.h"
#include "server/pool.h"
#include "server/scale_beside.h"

struct event_base;
struct scale;

/* All are borrowed; fd: scale_beside_start's, which the caller closes. TFE_ENOMEM. */
int scale_new(struct event_base *base, const struct pool *pool, struct events *events,
              const struct scale_settings *settings, int fd, struct scale **ret) TFE_MUST_CHECK;
/* NULL is allowed. */
void scale_free(struct scale *s);

#endif
