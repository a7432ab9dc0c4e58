/* server/web/calls.c: see calls.h. */
#include "server/web/calls.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/timer.h"
#include "server/web/http.h"
#include "server/web/reply.h"

#define TOO_MANY "too many concurrent requests, of this token or in total (try again later)"

static struct client *client_of(const struct call *call)
{
    return call->client ? call->client : call->view->client;
}

static void call_free(struct call *call)
{
    struct view *view = call->view;
    client_cancel(client_of(call), &call->request);
    client_free(call->client);
    event_drop(&call->deadline);
    share_release(&call->share);
    if (call->own_free) {
        call->own_free(call->own);
    }
    free(call);
    view_leave(view);
}

static void on_closed(void *ctx)
{
    call_free(ctx);
}

struct http_request *call_end(struct call *call)
{
    struct http_request *req = call->req;
    http_on_closed(req, NULL, NULL);
    call_free(call);
    return req;
}

static void on_ended(struct client_request *request, enum client_end how, enum tfe_refusal code,
                     const char *sentence)
{
    struct call *call = call_of(request);
    struct view *view = call->view;
    call->end = how;
    if (call->failed && how != CLIENT_ANSWERED && how != CLIENT_UNAUTHORISED) {
        call->failed(call);
        return;
    }
    switch (how) {
    case CLIENT_ANSWERED:
        call->answer(call);
        return;
    case CLIENT_REFUSED: {
        if (call->again && request->n_sent == 1 && call->again(call, code)) {
            return;
        }
        char copy[MSG_SENTENCE_MAX];
        (void)snprintf(copy, sizeof(copy), "%s", sentence);
        reply_problem(call_end(call), reply_code_of(code), msg_refusal_name(code), copy);
        return;
    }
    case CLIENT_UNAUTHORISED:
        view_use(view);
        reply_problem(call_end(call), 401, "not_authorised",
                      "the server does not accept this token; it may have expired");
        view_reject(view);
        view_leave(view);
        return;
    case CLIENT_UNEXPECTED:
    case CLIENT_FAILED:
        reply_problem(call_end(call), 502, "failed", sentence);
        return;
    }
}

static void on_deadline(evutil_socket_t fd, short what, void *ctx)
{
    struct call *call = ctx;
    char sentence[256];
    client_cancel(client_of(call), &call->request);
    call->end = CLIENT_FAILED;
    call->is_late = true;
    if (call->failed) {
        call->failed(call);
        return;
    }
    (void)snprintf(sentence, sizeof(sentence), "the server does not respond%s%s",
                   call->view->is_down ? ": " : "", call->view->is_down ? call->view->reason : "");
    reply_problem(call_end(call), 504, "no_answer", sentence);
}

/* Ends this call in favour of another caller's. */
static void evict(void *owner)
{
    reply_problem(call_end(owner), 503, "limit_reached", TOO_MANY);
}

struct call *call_new(const struct request *r, struct view *view)
{
    struct web *web = r->web;
    const struct share_holder holder = request_holder(r);
    struct call *call = calloc(1, sizeof(*call));
    if (call) {
        call->deadline = evtimer_new(web->base, on_deadline, call);
    }
    if (!call || !call->deadline || timer_after(call->deadline, CALL_MS) != 0 ||
        !share_enter(web->shares, SHARE_CALLS, &holder, call, evict, &call->share)) {
        if (call) {
            event_drop(&call->deadline);
        }
        free(call);
        reply_problem(r->req, 503, "limit_reached", TOO_MANY);
        return NULL;
    }
    call->web = web;
    call->view = view;
    call->req = r->req;
    call->request.message = &call->message;
    call->request.ended = on_ended;
    view_set_owner(&call->request, VIEW_CALL, http_source(r->req));
    view_use(view);
    http_on_closed(r->req, on_closed, call);
    return call;
}

void call_send(struct call *call)
{
    call->share.is_fixed =
        client_is_order(call->message.type); /* the server may have executed the order already */
    client_request(client_of(call), &call->request);
}
