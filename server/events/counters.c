/* server/events/counters.c: counters of the server for metrics. */
#include "server/events/counters.h"

#include <event2/event.h>
#include <string.h>

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

/* Returns the FNV-1a hash of job and epoch, never 0. */
static uint64_t mark_of(const char *job, uint64_t epoch)
{
    uint64_t mark = UINT64_C(0xcbf29ce484222325) ^ epoch;
    for (const char *c = job; *c != '\0'; c++) {
        mark = (mark ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    return mark | 1;
}

static int64_t between(const struct msg_epoch_row *row, enum tfe_epoch_time from,
                       enum tfe_epoch_time to)
{
    bool is_known = row->at[from].ms > 0 && row->at[to].ms > 0;
    return is_known ? row->at[to].ms - row->at[from].ms : -1;
}

void counters_add_epoch(struct counters *g, const char *job, const struct msg_epoch_row *row)
{
    const uint64_t mark = mark_of(job, row->epoch);
    uint64_t *seen = &g->seen[(mark >> 1) % COUNTERS_SEEN];
    if (!row->over || *seen == mark) {
        return;
    }
    *seen = mark;
#define COUNTERS_PHASE_ADD(from, to, name)                                                         \
    histogram_add(&g->phases[PHASE_##from##_##to], between(row, EPOCH_##from, EPOCH_##to));
    COUNTERS_PHASES(COUNTERS_PHASE_ADD)
#undef COUNTERS_PHASE_ADD
}

void counters_trace(void *ctx, const struct rdzv_trace *trace)
{
    struct counters *g = ctx;
    for (unsigned i = 0; trace->kind == TRACE_EPOCH && trace->text && i < COUNTERS_CAUSES; i++) {
        if (strcmp(msg_cause_name((enum tfe_cause)i), trace->text) == 0) {
            g->epochs[i]++;
            return;
        }
    }
}
