/* server/query/batch.c: limits how many long responses are continued per turn of the event loop. */
#include "server/query/batch.h"

#include <event2/event.h>

#include "common/channel/channel.h"

/* Eight pieces of about 80 KB take about 2 ms to seal and send. */
#define PASSES_PER_TURN 8

/* Arms a timer of 0 s. It fires after the sockets of the next turn have been served. */
static void arm(struct gate *gate)
{
    static const struct timeval next = {0};
    if (!gate->armed) {
        gate->armed = evtimer_add(&gate->turn, &next) == 0;
    }
}

static void let_in(struct gate *gate, struct gate_pass *pass)
{
    gate_leave(pass);
    pass->is_let_in = true;
    gate->left--;
    channel_want_drained(pass->ch);
}

static void on_turn(evutil_socket_t fd, short what, void *ctx)
{
    struct gate *gate = ctx;
    struct gate_pass *pass;
    gate->armed = false;
    gate->left = PASSES_PER_TURN;
    while (gate->left > 0 && (pass = TAILQ_FIRST(&gate->waiting)) != NULL) {
        let_in(gate, pass);
        arm(gate);
    }
}

void gate_init(struct gate *gate, struct event_base *base)
{
    gate->left = PASSES_PER_TURN;
    gate->armed = false;
    TAILQ_INIT(&gate->waiting);
    (void)evtimer_assign(&gate->turn, base, on_turn, gate);
}

void gate_done(struct gate *gate)
{
    (void)evtimer_del(&gate->turn);
    gate->armed = false;
}

bool gate_go_through(struct gate_pass *pass)
{
    struct gate *gate = pass->gate;
    if (pass->is_let_in) {
        pass->is_let_in = false;
        return true;
    }
    if (pass->is_waiting) {
        return false;
    }
    arm(gate);
    if (!gate->armed) {
        return true; /* Out of memory for the timer: continue now, because nothing would wake the
                        pass later. */
    }
    if (gate->left > 0 && TAILQ_EMPTY(&gate->waiting)) {
        gate->left--;
        return true;
    }
    TAILQ_INSERT_TAIL(&gate->waiting, pass, link);
    pass->is_waiting = true;
    return false;
}

void gate_leave(struct gate_pass *pass)
{
    if (pass->is_waiting) {
        TAILQ_REMOVE(&pass->gate->waiting, pass, link);
        pass->is_waiting = false;
    }
}
