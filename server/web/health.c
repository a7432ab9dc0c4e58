/* server/web/health.c: see health.h. */
#include "server/web/health.h"

#include <event2/event.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/timer.h"
#include "server/web/views.h"

#define PROBE_MS 1000

/* The server is not ready if a probe takes longer. */
#define LATE_MS 3000

struct probe {
    struct web *web;
    struct view *view; /* the view of the probe that is running; NULL if none is */
    struct client_request request;
    struct tfe_msg message;
    struct event *timer;
    struct tfe_mono sent_at;
    bool is_ready; /* result of the last probe */
    char reason[128];
};

static void on_ended(struct client_request *request, enum client_end end, enum tfe_refusal code,
                     const char *sentence)
{
    struct probe *p = (struct probe *)((char *)request - offsetof(struct probe, request));
    struct view *view = p->view;
    p->view = NULL;
    record_list_done(&request->list);
    p->is_ready = end == CLIENT_ANSWERED || end == CLIENT_REFUSED;
    (void)snprintf(p->reason, sizeof(p->reason), "%s",
                   end == CLIENT_UNAUTHORISED ? "it rejects the token of tfe-web" : sentence);
    if (end == CLIENT_UNAUTHORISED) {
        view_reject(view);
    }
    view_leave(view);
    (void)timer_after(p->timer, PROBE_MS);
}

/* Queries events after the largest possible number: a response without rows, the cheapest one. */
static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct probe *p = ctx;
    p->view = p->web->own;
    view_use(p->view);
    p->sent_at = clock_mono();
    p->message =
        (struct tfe_msg){.type = MSG_EVENTS, .u.events = {.after = MSG_NUMBER_MAX, .last = 1}};
    p->request = (struct client_request){.message = &p->message, .ended = on_ended};
    client_request(p->view->client, &p->request);
}

int probe_new(struct web *web, struct probe **ret)
{
    struct probe *p = calloc(1, sizeof(*p));
    if (!p) {
        return TFE_ENOMEM;
    }
    *p = (struct probe){.web = web, .reason = "no probe has completed yet"};
    p->timer = evtimer_new(web->base, on_timer, p);
    if (!p->timer || timer_after(p->timer, 0) != 0) {
        probe_free(p);
        return TFE_ENOMEM;
    }
    *ret = p;
    return 0;
}

void probe_free(struct probe *p)
{
    if (!p) {
        return;
    }
    if (p->view) {
        client_cancel(p->view->client, &p->request);
        record_list_done(&p->request.list);
        view_leave(p->view);
    }
    event_drop(&p->timer);
    free(p);
}

bool probe_is_ready(const struct probe *p, char reason[PROBE_REASON_MAX])
{
    const struct view *view = p->view;
    const char *detail = p->reason;
    if (view && view->is_down) {
        detail = view->reason;
    } else if (view && tfe_mono_sub(clock_mono(), p->sent_at) > LATE_MS) {
        detail = "it does not respond";
    } else if (p->is_ready) {
        return true;
    }
    (void)snprintf(reason, PROBE_REASON_MAX, "the server is not ready: %s", detail);
    return false;
}
