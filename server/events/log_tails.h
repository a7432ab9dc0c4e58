/* server/events/log_tails.h: the last lines of failed trainers, in memory, for the case that their
 * machine is gone. Beyond the limit the oldest tail is dropped of the node with most tails in the
 * job with most tails, so that a node that fails repeatedly displaces its own tails. */
#ifndef TFE_SERVER_EVENTS_LOG_TAILS_H
#define TFE_SERVER_EVENTS_LOG_TAILS_H

#include "common/base/id.h"
#include "common/base/limits.h"
#include "common/message/msg.h"

struct log_tail {
    struct tfe_id job, node;
    char name[TFE_LABEL_MAX + 1]; /* label of the node */
    uint64_t epoch;
    uint32_t rank;
    struct tfe_wall at;
    char *text;
    unsigned of_job, of_node; /* number of stored tails of the same job, and of the same node;
                                 maintained by this module */
};

/* A set of tails. Zeroed: empty. */
struct log_tails {
    struct log_tail *v[LIMIT_LOG_TAILS +
                       1]; /* tails, oldest first; one more than the limit while one is added */
    unsigned n;
};

/* Adds a tail. Takes ownership of tail and its text, both from the heap. */
void log_tails_add(struct log_tails *tails, struct log_tail *tail);

/* Removes the tails of a job. */
void log_tails_forget(struct log_tails *tails, const char *job);

/* Returns the i-th tail, oldest first, or NULL if there are fewer. */
const struct log_tail *log_tails_get(const struct log_tails *tails, unsigned i);

void log_tails_done(struct log_tails *tails);

#endif
