/* server/core/first_start.h: detects a script that cannot start: all ranks of a run's first epoch
 * fail alike, at once, before any of them listens. A restart would only fail again (design
 * 4.11). */
#ifndef TFE_SERVER_CORE_FIRST_START_H
#define TFE_SERVER_CORE_FIRST_START_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"
#include "server/core/verdict.h"

/* Maximum length of an exception's name; longer ones are truncated. */
#define FIRST_START_WORDS_MAX 64

/* First exits of the running epoch. Written by first_start.c. */
struct first_start {
    /* number of the epoch whose first exit may be that of a script that cannot start */
    uint64_t epoch;
    uint32_t n_dead; /* number of members that have ended alike; 0 once one has ended otherwise */
    uint32_t code;   /* exit status of these members */
    char words[FIRST_START_WORDS_MAX]; /* name of the exception that ended these members, or "" */
    struct tfe_mono until;             /* time limit for the remaining members to end alike */
};

/* Notes that a member's trainers have ended, with that verdict. */
void first_start_take(const struct rdzv *r, const struct node *node,
                      const struct msg_exited *exited, enum verdict verdict);
/* Returns until when the epoch is left as it is while its other ranks may end alike; a time in the
 * past if it need not be. That is at most the back-off that such an end costs anyway. */
struct tfe_mono first_start_until(const struct job *job);
/* A member is lost or leaves, which may explain the other members' exits: clears the state. */
void first_start_excuse(struct job *job);
/* Returns true if all members have ended alike. */
bool first_start_has_failed(const struct job *job);

#endif
