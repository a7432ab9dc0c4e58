/* agent/preemption/notice_signal.c: handles a signal that a scheduler such as Slurm sends before
 * it ends the job. SIGTERM and SIGINT end the agent and are handled by the core, as is SIGHUP
 * unless it is selected here. */
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
    /* Each signal is a separate notice with a new deadline. */
    snprintf(tag, sizeof tag, "%d, number %u", (int)signo, (unsigned)++own->n);
    source_set(s, NOTICE_SIGNAL, tag, source_grace(s), false);
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
