/* common/channel/channel_budget.c: limits the handshakes per loop iteration, so that a burst of
 * them does not delay renewals. Further channels wait for later iterations, in order, with their
 * first message already read. */
#include "common/base/limits.h"
#include "common/channel/channel_private.h"

static void on_turn(evutil_socket_t fd, short what, void *arg);

static void gate_arm(struct channel_gate *gate, struct event_base *base)
{
    /* Due at once, but libevent runs timers after the sockets of the next iteration. */
    static const struct timeval next = {0};
    if (!gate->armed) {
        gate->base = base;
        (void)evtimer_assign(&gate->turn, base, on_turn, gate);
        gate->armed = evtimer_add(&gate->turn, &next) == 0;
    }
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct channel_gate *gate = arg;
    gate->left = LIMIT_HANDSHAKES_PER_TURN;
    gate->armed = false;
    struct channel *ch;
    /* Running the last waiting channel may free the scratch memory, which contains the budget. */
    while (gate->left > 0 && (ch = TAILQ_FIRST(&gate->waiting)) != NULL) {
        const bool last = !TAILQ_NEXT(ch, gated);
        channel_gate_leave(ch);
        gate->left--;
        if (!last || gate->left == 0) {
            gate_arm(gate, ch->base);
        }
        gate->run(ch);
        if (last) {
            return;
        }
    }
}

void channel_gate_init(struct channel_gate *gate, void (*run)(struct channel *ch))
{
    *gate = (struct channel_gate){.left = LIMIT_HANDSHAKES_PER_TURN, .run = run};
    TAILQ_INIT(&gate->waiting);
}

void channel_gate_done(struct channel_gate *gate)
{
    if (gate->armed) {
        (void)evtimer_del(&gate->turn);
        gate->armed = false;
    }
}

bool channel_gate_pass(struct channel *ch)
{
    struct channel_gate *gate = &ch->scratch->gate;
    if (gate->armed && gate->base != ch->base) {
        return true; /* the thread has two loops; only one of them is limited */
    }
    gate_arm(gate, ch->base);
    if (!gate->armed) {
        return true;
    }
    if (gate->left > 0) {
        gate->left--;
        return true;
    }
    return !channel_gate_wait(ch);
}

bool channel_gate_wait(struct channel *ch)
{
    struct channel_gate *gate = &ch->scratch->gate;
    gate_arm(gate, ch->base);
    if (!gate->armed) {
        return false;
    }
    (void)event_del(&ch->read_ev);
    ch->is_gated = true;
    TAILQ_INSERT_TAIL(&gate->waiting, ch, gated);
    return true;
}

void channel_gate_leave(struct channel *ch)
{
    if (ch->is_gated) {
        ch->is_gated = false;
        TAILQ_REMOVE(&ch->scratch->gate.waiting, ch, gated);
    }
}
