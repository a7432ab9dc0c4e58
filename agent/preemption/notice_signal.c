/* agent/preemption/notice_signal.c: a signal that a scheduler sends some time before it ends the
 * job, as Slurm does. SIGTERM and SIGINT are not among them: they end the agent too, and are the
 * core's; so does SIGHUP unless it is the one that was chosen. */
#include <signal.h>
#include <stdio.h>

#include "agent/preemption/source.h"
#include "common/base/heap.h"
#include "common/base/timer.h"

struct signal_source {
    struct event *event;
    uint32_t n;
};

static void on_signal(evutil_socket_t signo, short what, void *ctx)
{
    struct source *s = ctx;
    struct signal_source *own = s->own;
    char tag[32];
    /* Each one is a warning of its own, with a new deadline. */
    snprintf(tag, sizeof tag, "%d, number %u", (int)signo, (unsigned)++own->n);
    source_tell(s, NOTICE_SIGNAL, tag, source_grace(s), false);
}

static void start(struct source *s)
{
    struct signal_source *own = s->own;
    own->event = evsignal_new(s->base, s->wish->choice->signo, on_signal, s);
    part_must(own->event && evsignal_add(own->event, NULL) == 0);
}

static void stop(struct source *s)
{
    event_drop(&((struct signal_source *)s->own)->event);
}

const struct source_ops source_signal = {
    .name = "signal", .size = sizeof(struct signal_source), .start = start, .stop = stop};
