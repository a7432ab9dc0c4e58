/* agent/notice/signal.c: a signal that a scheduler sends some time before it ends the job, as Slurm
 * does. SIGTERM and SIGINT are not among them: they end the agent too, and are the core's. */
#include <signal.h>
#include <stdio.h>

#include "agent/notice/source.h"

struct signal_source {
    struct event *event;
    uint32_t n;
};

static void on_signal(evutil_socket_t signo, short what, void *ctx)
{
    (void)what;
    struct source *s = ctx;
    struct signal_source *own = s->own;
    char tag[32];
    /* Each one is a warning of its own, with a new deadline. */
    snprintf(tag, sizeof tag, "%d, number %u", (int)signo, (unsigned)++own->n);
    source_tell(s, NOTICE_SIGNAL, tag, source_grace(s), false);
}

static int start(struct source *s)
{
    struct signal_source *own = s->own;
    own->event = evsignal_new(s->base, s->wish->choice->signo, on_signal, s);
    return own->event && evsignal_add(own->event, NULL) == 0 ? 0 : TFE_ENOMEM;
}

static void stop(struct source *s)
{
    struct signal_source *own = s->own;
    if (own->event) {
        event_free(own->event);
        own->event = NULL;
    }
}

const struct source_ops source_signal = {
    .name = "signal", .size = sizeof(struct signal_source), .start = start, .stop = stop};
