/* common/channel/channel_budget.c: limits the handshakes per loop iteration, so that a burst of
 * them does not delay renewals. Further channels wait for later iterations, in order, with their
 * first message already read. */
#include "common/base/limits.h"
#include "common/channel/channel_private.h"

static void on_iteration(evutil_socket_t fd, short what, void *arg);

static void budget_arm(struct channel_budget *budget, struct event_base *base)
{
    /* Due at once, but libevent runs timers after the sockets of the next iteration. */
    static const struct timeval next = {0};
    if (!budget->armed) {
        budget->base = base;
        (void)evtimer_assign(&budget->turn, base, on_iteration, budget);
        budget->armed = evtimer_add(&budget->turn, &next) == 0;
    }
}

static void on_iteration(evutil_socket_t fd, short what, void *arg)
{
    struct channel_budget *budget = arg;
    budget->left = LIMIT_HANDSHAKES_PER_ITERATION;
    budget->armed = false;
    struct channel *ch;
    /* Running the last waiting channel may free the scratch memory, which contains the budget. */
    while (budget->left > 0 && (ch = TAILQ_FIRST(&budget->waiting)) != NULL) {
        const bool last = !TAILQ_NEXT(ch, budget_link);
        channel_budget_leave(ch);
        budget->left--;
        if (!last || budget->left == 0) {
            budget_arm(budget, ch->base);
        }
        budget->run(ch);
        if (last) {
            return;
        }
    }
}

void channel_budget_init(struct channel_budget *budget, void (*run)(struct channel *ch))
{
    *budget = (struct channel_budget){.left = LIMIT_HANDSHAKES_PER_ITERATION, .run = run};
    TAILQ_INIT(&budget->waiting);
}

void channel_budget_done(struct channel_budget *budget)
{
    if (budget->armed) {
        (void)evtimer_del(&budget->turn);
        budget->armed = false;
    }
}

bool channel_budget_use(struct channel *ch)
{
    struct channel_budget *budget = &ch->scratch->budget;
    if (budget->armed && budget->base != ch->base) {
        return true; /* the thread has two loops; only one of them is limited */
    }
    budget_arm(budget, ch->base);
    if (!budget->armed) {
        return true;
    }
    if (budget->left > 0) {
        budget->left--;
        return true;
    }
    return !channel_budget_wait(ch);
}

bool channel_budget_wait(struct channel *ch)
{
    struct channel_budget *budget = &ch->scratch->budget;
    budget_arm(budget, ch->base);
    if (!budget->armed) {
        return false;
    }
    (void)event_del(&ch->read_ev);
    ch->waits_for_budget = true;
    TAILQ_INSERT_TAIL(&budget->waiting, ch, budget_link);
    return true;
}

void channel_budget_leave(struct channel *ch)
{
    if (ch->waits_for_budget) {
        ch->waits_for_budget = false;
        TAILQ_REMOVE(&ch->scratch->budget.waiting, ch, budget_link);
    }
}
