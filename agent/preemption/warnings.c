/* agent/preemption/warnings.c: implementation of warnings.h. */
#include "agent/preemption/warnings.h"

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

struct warnings {
    struct warnings_wish wish;
    struct notice_choice choice;
    struct notice_pace throughput;
    struct notices *notices;
    struct active_notices all;
    struct event *over; /* timer for the next expiry of a notice */
    bool is_up;
};

static void tell(struct warnings *w, bool again)
{
    struct msg_notice notice;
    const struct tfe_mono now = clock_mono();
    const struct tfe_mono when = active_notices_next_expiry(&w->all);
    if (!tfe_mono_is_never(when)) {
        timer_after(w->over, tfe_mono_sub(when, now));
    }
    if (w->is_up && active_notices_next_message(&w->all, now, again, &notice)) {
        w->wish.say(w->wish.ctx, &notice);
    }
}

static void on_over(evutil_socket_t fd, short what, void *ctx)
{
    struct warnings *w = ctx;
    active_notices_expire(&w->all, clock_mono());
    tell(w, false);
}

static void on_notice(void *ctx, const struct agent_notice *notice, const char *from)
{
    struct warnings *w = ctx;
    (void)active_notices_apply(&w->all, clock_mono(), notice);
    tell(w, false);
}

static void on_cloud(void *ctx, const struct cloud_facts *facts)
{
    const struct warnings *w = ctx;
    w->wish.on_cloud(w->wish.ctx, facts);
}

struct warnings *warnings_new(const struct warnings_wish *wish)
{
    struct warnings *w = part_new(sizeof *w);
    *w = (struct warnings){
        .wish = *wish, .choice = *wish->choice, .throughput = notice_pace_default};
    w->throughput.azure_ms = AZURE_MS;
    w->over = evtimer_new(wish->base, on_over, w);
    part_must(w->over);
    notice_choice_settle(&w->choice, "/sys");
    w->choice.wanted[FROM_COMMAND] = WANTED_NEVER;
    w->choice.wanted[FROM_SIGNAL] = WANTED_NEVER;
    const struct notice_wish notice = {.choice = &w->choice,
                                       .throughput = &w->throughput,
                                       .grace_ms = wish->grace_ms,
                                       .on_cloud = on_cloud};
    w->notices = notices_new(wish->base, &notice, on_notice, w);
    notices_set_running(w->notices, true); /* prevents acknowledgements to the cloud */
    return w;
}

void warnings_free(struct warnings *w)
{
    if (w) {
        notices_free(w->notices);
        event_drop(&w->over);
        free(w);
    }
}

void warnings_up(struct warnings *w)
{
    w->is_up = true;
    tell(w, true);
}

void warnings_down(struct warnings *w)
{
    w->is_up = false;
}
