/* server/query/batch.c: limits how many long responses are continued per iteration of the event
 * loop. */
#include "server/query/batch.h"

#include <event2/event.h>

#include "common/channel/channel.h"

/* Eight pieces of about 80 KB take about 2 ms to seal and send. */
#define SLOTS_PER_ITERATION 8

/* Arms a timer of 0 s, which fires after the sockets of the next loop iteration have been served.
 */
static void arm(struct batch *batch)
{
    static const struct timeval next = {0};
    if (!batch->armed) {
        batch->armed = evtimer_add(&batch->turn, &next) == 0;
    }
}

static void admit(struct batch *batch, struct batch_slot *pass)
{
    batch_leave(pass);
    pass->is_admitted = true;
    batch->left--;
    channel_want_drained(pass->ch);
}

static void on_iteration(evutil_socket_t fd, short what, void *ctx)
{
    struct batch *batch = ctx;
    struct batch_slot *pass;
    batch->armed = false;
    batch->left = SLOTS_PER_ITERATION;
    while (batch->left > 0 && (pass = TAILQ_FIRST(&batch->waiting)) != NULL) {
        admit(batch, pass);
        arm(batch);
    }
}

void batch_init(struct batch *batch, struct event_base *base)
{
    batch->left = SLOTS_PER_ITERATION;
    batch->armed = false;
    TAILQ_INIT(&batch->waiting);
    (void)evtimer_assign(&batch->turn, base, on_iteration, batch);
}

void batch_done(struct batch *batch)
{
    (void)evtimer_del(&batch->turn);
    batch->armed = false;
}

bool batch_may_continue(struct batch_slot *pass)
{
    struct batch *batch = pass->batch;
    if (pass->is_admitted) {
        pass->is_admitted = false;
        return true;
    }
    if (pass->is_waiting) {
        return false;
    }
    arm(batch);
    if (!batch->armed) {
        return true; /* Out of memory for the timer: continue now, because nothing would wake the
                        pass later. */
    }
    if (batch->left > 0 && TAILQ_EMPTY(&batch->waiting)) {
        batch->left--;
        return true;
    }
    TAILQ_INSERT_TAIL(&batch->waiting, pass, link);
    pass->is_waiting = true;
    return false;
}

void batch_leave(struct batch_slot *pass)
{
    if (pass->is_waiting) {
        TAILQ_REMOVE(&pass->batch->waiting, pass, link);
        pass->is_waiting = false;
    }
}
