/* server/query/batch.h: limits how many long responses are continued per turn of the event loop,
 * in order, so that renewals are not delayed by tables and listings. */
#ifndef TFE_SERVER_QUERY_BATCH_H
#define TFE_SERVER_QUERY_BATCH_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <sys/queue.h>

struct channel;
struct event_base;
struct gate_pass;

struct gate {
    unsigned left; /* responses that may still continue in this turn of the loop */
    bool armed;
    struct event turn;
    TAILQ_HEAD(, gate_pass) waiting;
};

/* The place of one long response in the batch. The sender writes one piece each time drained() is
 * called for ch. gate and ch outlive the pass. */
struct gate_pass {
    struct gate *gate;
    struct channel *ch;
    bool is_waiting; /* true while the pass is in gate->waiting */
    bool
        is_let_in; /* true if this turn has admitted the pass and drained() is about to be called */
    TAILQ_ENTRY(gate_pass) link;
};

void gate_init(struct gate *gate, struct event_base *base);
/* Precondition: every pass has been removed with gate_leave(). */
void gate_done(struct gate *gate);

static inline struct gate_pass gate_pass_for(struct gate *gate, struct channel *ch)
{
    return (struct gate_pass){.gate = gate, .ch = ch};
}

/* Returns true if the next piece may be sent now; otherwise drained() is called again in a later
 * turn. */
bool gate_go_through(struct gate_pass *pass);

/* Removes the pass from the waiting list, if it is there. */
void gate_leave(struct gate_pass *pass);

#endif
