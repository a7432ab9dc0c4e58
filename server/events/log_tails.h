/* server/events/log_tails.h: the last lines of trainers that failed, for when their machine is
 * gone. In memory, so many. Where there are more, one goes of the job that has the most, of its
 * node that has the most, the oldest: who fails again and again pushes out what it has said itself.
 */
#ifndef TFE_SERVER_EVENTS_LOG_TAILS_H
#define TFE_SERVER_EVENTS_LOG_TAILS_H

#include "common/base/id.h"
#include "common/base/limits.h"
#include "common/message/msg.h"

struct log_tail {
    struct tfe_id job, node;
    char name[TFE_LABEL_MAX + 1]; /* label */
    uint64_t epoch;
    uint32_t rank;
    struct tfe_wall at;
    char *text;
    unsigned of_job, of_node; /* how many are kept of its job and of its node; counted here */
};

/* Zeroed: none. */
struct log_tails {
    struct log_tail *v[LIMIT_LOG_TAILS + 1]; /* the oldest first; one more while one is added */
    unsigned n;
};

/* Takes tail, and its text; both are the heap's. */
void log_tails_add(struct log_tails *tails, struct log_tail *tail);

/* The i-th of those that are kept, the oldest first; NULL: there are not so many. */
const struct log_tail *log_tails_get(const struct log_tails *tails, unsigned i);

void log_tails_done(struct log_tails *tails);

#endif
