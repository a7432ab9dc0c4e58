/* server/query/batch.h: limits how many long responses are continued per iteration of the event
 * loop, in order, so that renewals are not delayed by tables and listings. */
#ifndef TFE_SERVER_QUERY_BATCH_H
#define TFE_SERVER_QUERY_BATCH_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <sys/queue.h>

struct channel;
struct event_base;
struct batch_slot;

struct batch {
    unsigned left; /* responses that may still continue in this iteration of the loop */
    bool armed;
    struct event turn;
    TAILQ_HEAD(, batch_slot) waiting;
};

/* The place of one long response in the batch. The sender writes one piece each time drained() is
 * called for ch. batch and ch outlive the pass. */
struct batch_slot {
    struct batch *batch;
    struct channel *ch;
    bool is_waiting;  /* true while the pass is in batch->waiting */
    bool is_admitted; /* true if this iteration has admitted the pass and drained() is about to be
                         called */
    TAILQ_ENTRY(batch_slot) link;
};

void batch_init(struct batch *batch, struct event_base *base);
/* Precondition: every pass has been removed with batch_leave(). */
void batch_done(struct batch *batch);

static inline struct batch_slot batch_slot_for(struct batch *batch, struct channel *ch)
{
    return (struct batch_slot){.batch = batch, .ch = ch};
}

/* Returns true if the next piece may be sent now; otherwise drained() is called again in a later
 * iteration. */
bool batch_may_continue(struct batch_slot *pass);

/* Removes the pass from the waiting list, if it is there. */
void batch_leave(struct batch_slot *pass);

#endif
