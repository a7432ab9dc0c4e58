/* common/cli/signals.c: watches termination signals. */
#include "common/cli/signals.h"

#include <signal.h>
#include <stdio.h>
#include <string.h> /* declares sigabbrev_np */

#include "common/base/heap.h"
#include "common/base/timer.h"

static bool is_ignored(int signo)
{
    struct sigaction now;
    return sigaction(signo, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

void signals_watch_termination(struct event_base *base, event_callback_fn fn, void *ctx,
                               int not_this, struct event *ret[TERMINATION_SIGNALS])
{
    static const int signals[TERMINATION_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < TERMINATION_SIGNALS; i++) {
        if (signals[i] == not_this || (signals[i] == SIGHUP && is_ignored(SIGHUP))) {
            ret[i] = NULL;
            continue;
        }
        ret[i] = evsignal_new(base, signals[i], fn, ctx);
        must_succeed(ret[i] && evsignal_add(ret[i], NULL) == 0);
    }
}

void signals_unwatch(struct event *watched[TERMINATION_SIGNALS])
{
    for (size_t i = 0; i < TERMINATION_SIGNALS; i++) {
        event_drop(&watched[i]);
    }
}

const char *signal_name(int signo, char ret[SIGNAL_NAME_MAX])
{
    const char *name = sigabbrev_np(signo);
    if (name) {
        snprintf(ret, SIGNAL_NAME_MAX, "SIG%s", name);
    } else {
        snprintf(ret, SIGNAL_NAME_MAX, "signal %d", signo);
    }
    return ret;
}
