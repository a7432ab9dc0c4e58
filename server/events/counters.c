/* server/events/counters.c: counters of the server for metrics. */
#include "server/events/counters.h"

#include <event2/event.h>

#include "common/base/clock.h"
#include "common/base/timer.h"

/* Interval of the measurement of the loop's lateness. */
#define CHECK_MS 1000

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct counters *g = ctx;
    struct tfe_mono now = clock_mono();
    int64_t late = tfe_mono_sub(now, g->due);
    histogram_add(&g->loop, late < 0 ? 0 : late);
    g->due = tfe_mono_add(now, CHECK_MS);
    (void)timer_after(g->timer, CHECK_MS);
}

int counters_start(struct counters *g, struct event_base *base)
{
    g->timer = evtimer_new(base, on_timer, g);
    g->due = tfe_mono_add(clock_mono(), CHECK_MS);
    return g->timer && timer_after(g->timer, CHECK_MS) == 0 ? 0 : TFE_ENOMEM;
}

void counters_done(struct counters *g)
{
    event_drop(&g->timer);
}

static int64_t between(const struct msg_epoch_row *row, enum tfe_epoch_time from,
                       enum tfe_epoch_time to)
{
    bool is_known = row->at[from].ms > 0 && row->at[to].ms > 0;
    return is_known ? row->at[to].ms - row->at[from].ms : -1;
}

void counters_add_epoch(struct counters *g, const struct msg_epoch_row *row,
                        enum rdzv_ledger_change change)
{
    if (change == LEDGER_STARTED) {
        g->epochs[row->cause]++;
    } else if (change == LEDGER_CLOSED) {
#define COUNTERS_PHASE_ADD(from, to, name)                                                         \
    histogram_add(&g->phases[PHASE_##from##_##to], between(row, EPOCH_##from, EPOCH_##to));
        COUNTERS_PHASES(COUNTERS_PHASE_ADD)
#undef COUNTERS_PHASE_ADD
    }
}
