/* server/core/first_start.h: a script that cannot start: the first epoch of a run whose ranks all
 * die alike, at once, before any of them listens. To start it again would only say it again
 * (design 4.11). */
#ifndef TFE_SERVER_CORE_FIRST_START_H
#define TFE_SERVER_CORE_FIRST_START_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"
#include "server/core/verdict.h"

/* The name of an exception; of a longer one the beginning. */
#define FIRST_START_WORDS_MAX 64

/* Of the epoch that is running. Written by first_start.c. */
struct first_start {
    uint64_t epoch;  /* whose first exit might be one of a script that cannot start */
    uint32_t n_dead; /* its members that have ended so; 0: one has ended otherwise */
    uint32_t code;   /* … with this status … */
    char words[FIRST_START_WORDS_MAX]; /* … by this exception, "" none */
    struct tfe_mono until;             /* the others have so long */
};

/* A member's trainers have ended, with that verdict. */
void first_start_take(const struct rdzv *r, const struct node *node,
                      const struct msg_exited *exited, enum verdict verdict);
/* Until when the epoch is left as it is, for its other ranks to say how they end; the past if it
 * has not to be. No longer than the back-off that such an end costs in any case. */
struct tfe_mono first_start_until(const struct job *job);
/* One of its members is lost or leaves, which may explain the others' ends. */
void first_start_excuse(struct job *job);
/* Whether all have ended alike. */
bool first_start_has_failed(const struct job *job);

#endif
