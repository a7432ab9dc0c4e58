/* server/half_open.h: connections that have shown no token yet, by where they come from; where room
 * is needed, the oldest one of the busiest source goes. */
#ifndef TFE_SERVER_HALF_OPEN_H
#define TFE_SERVER_HALF_OPEN_H

#include <stdint.h>
#include <sys/queue.h>

#include "common/base/error.h"
#include "server/peer.h"

struct half_open;
struct session;

/* A part of what it stands for. */
struct half_open_place {
    struct session *session;
    struct half_open_source *source; /* NULL: it has none */
    TAILQ_ENTRY(half_open_place) link;
};

/* TFE_ENOMEM. */
int half_open_new(uint32_t per_source, struct half_open **ret) TFE_MUST_CHECK;

/* Every place has been left. NULL is allowed. */
void half_open_free(struct half_open *h);

/* place is the newest of its source from here on. TFE_ENOMEM. */
int half_open_enter(struct half_open *h, const struct peer *peer,
                    struct half_open_place *place) TFE_MUST_CHECK;

/* Nothing, if it has left already. */
void half_open_leave(struct half_open *h, struct half_open_place *place);

/* Who has to leave for newest's sake, one after the other: the oldest of its source, if that has
 * more than its share, or if there are more than `room` of all, of the busiest one. NULL: nobody.
 */
struct session *half_open_surplus(struct half_open *h, const struct half_open_place *newest,
                                  uint32_t room);

uint32_t half_open_count(const struct half_open *h);

#endif
