/* server/query/batch.h: who may go on with something long in this turn of the loop: a few, in
 * order, so that nobody's renewals wait for tables and answers. */
#ifndef TFE_SERVER_QUERY_BATCH_H
#define TFE_SERVER_QUERY_BATCH_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <sys/queue.h>

struct channel;
struct event_base;
struct gate_pass;

struct gate {
    unsigned left; /* that this turn still lets through */
    bool armed;
    struct event turn;
    TAILQ_HEAD(, gate_pass) waiting;
};

/* Of somebody who says something long on ch, a piece each time that drained() comes. gate and ch
 * outlive it. */
struct gate_pass {
    struct gate *gate;
    struct channel *ch;
    bool is_waiting; /* in the gate's list */
    bool is_let_in;  /* counted in this turn, drained() is under way */
    TAILQ_ENTRY(gate_pass) link;
};

void gate_init(struct gate *gate, struct event_base *base);
/* All passes are gone. */
void gate_done(struct gate *gate);

static inline struct gate_pass gate_pass_for(struct gate *gate, struct channel *ch)
{
    return (struct gate_pass){.gate = gate, .ch = ch};
}

/* Whether the next piece may be said now; else drained() comes again, in a later turn. */
bool gate_go_through(struct gate_pass *pass);

/* It waits no more. */
void gate_leave(struct gate_pass *pass);

#endif
