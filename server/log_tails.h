/* server/log_tails.h: the last lines of trainers that failed, for when their machine is gone. In
 * memory, so many, the oldest go first. */
#ifndef TFE_SERVER_LOG_TAILS_H
#define TFE_SERVER_LOG_TAILS_H

#include "common/base/id.h"
#include "common/base/msg.h"
#include "common/net/limits.h"

struct log_tail {
    struct tfe_id job, node;
    char name[TFE_LABEL_MAX + 1]; /* label */
    uint64_t epoch;
    uint32_t rank;
    struct tfe_wall at;
    char *text;
};

/* Zeroed: none. */
struct log_tails {
    struct log_tail *v[LIMIT_LOG_TAILS]; /* a ring */
    unsigned next;
};

/* Takes tail, and its text; both are the heap's. */
void log_tails_add(struct log_tails *tails, struct log_tail *tail);

/* The i-th of those that are kept, the oldest first; NULL: there are not so many. */
const struct log_tail *log_tails_get(const struct log_tails *tails, unsigned i);

void log_tails_done(struct log_tails *tails);

#endif
