/* agent/preemption/pool_notices.c: implementation of pool_notices.h. */
#include "agent/preemption/pool_notices.h"

#include <event2/event.h>
#include <stdlib.h>

#include "agent/core/active_notices.h"
#include "agent/preemption/preemption.h"
#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/timer.h"

/* Longer interval, because Azure answers only five requests per second from all processes of a
 * machine, and each job's agent polls every second. */
#define AZURE_MS 5000

struct pool_notices {
    struct pool_notices_options options;
    struct notice_selection choice;
    struct notice_intervals intervals;
    struct notice_watch *notices;
    struct active_notices all;
    struct event *expiry_timer; /* timer for the next expiry of a notice */
    bool is_up;
};

static void send_strongest(struct pool_notices *w, bool again)
{
    struct msg_notice notice;
    const struct tfe_mono now = clock_mono();
    const struct tfe_mono when = active_notices_next_expiry(&w->all);
    if (!tfe_mono_is_never(when)) {
        timer_after(w->expiry_timer, tfe_mono_sub(when, now));
    }
    if (w->is_up && active_notices_next_message(&w->all, now, again, &notice)) {
        w->options.send(w->options.ctx, &notice);
    }
}

static void on_expiry(evutil_socket_t fd, short what, void *ctx)
{
    struct pool_notices *w = ctx;
    active_notices_expire(&w->all, clock_mono());
    send_strongest(w, false);
}

static void on_notice(void *ctx, const struct agent_notice *notice, const char *from)
{
    struct pool_notices *w = ctx;
    (void)active_notices_apply(&w->all, clock_mono(), notice);
    send_strongest(w, false);
}

static void on_cloud(void *ctx, const struct cloud_info *info)
{
    const struct pool_notices *w = ctx;
    w->options.on_cloud(w->options.ctx, info);
}

struct pool_notices *pool_notices_new(const struct pool_notices_options *options)
{
    struct pool_notices *w = must_alloc(sizeof *w);
    *w = (struct pool_notices){
        .options = *options, .choice = *options->choice, .intervals = notice_intervals_default};
    w->intervals.azure_ms = AZURE_MS;
    w->expiry_timer = evtimer_new(options->base, on_expiry, w);
    must_succeed(w->expiry_timer);
    notice_selection_complete(&w->choice, "/sys");
    w->choice.modes[FROM_COMMAND] = SOURCE_OFF;
    w->choice.modes[FROM_SIGNAL] = SOURCE_OFF;
    const struct notice_watch_options notice = {.choice = &w->choice,
                                                .intervals = &w->intervals,
                                                .grace_ms = options->grace_ms,
                                                .on_cloud = on_cloud};
    w->notices = notice_watch_new(options->base, &notice, on_notice, w);
    notice_watch_set_running(w->notices, true); /* prevents acknowledgements to the cloud */
    return w;
}

void pool_notices_free(struct pool_notices *w)
{
    if (w) {
        notice_watch_free(w->notices);
        event_drop(&w->expiry_timer);
        free(w);
    }
}

void pool_notices_up(struct pool_notices *w)
{
    w->is_up = true;
    send_strongest(w, true);
}

void pool_notices_down(struct pool_notices *w)
{
    w->is_up = false;
}
