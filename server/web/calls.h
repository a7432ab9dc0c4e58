/* server/web/calls.h: a request that is one question, or order, to the server: asked, and answered
 * with what came of it. */
#ifndef TFE_SERVER_WEB_CALLS_H
#define TFE_SERVER_WEB_CALLS_H

#include <stddef.h>

#include "server/web/request.h"
#include "server/web/shares.h"

/* A server that is not there is waited for so long. */
#define CALL_MS 8000

struct call {
    struct web *web;
    struct view *view;
    struct http_request *req;
    struct share share;
    struct client *client; /* its own, for what takes long; NULL: the view's */
    struct client_ask ask;
    struct tfe_msg message;
    /* Answers the request with the rows of ask.list; the call is gone behind it. */
    void (*answer)(struct call *call);
    /* … or says that there are none, as end tells; NULL: as a problem. */
    void (*failed)(struct call *call);
    /* Whether it asks anew, though the server has refused that; NULL: never. */
    bool (*again)(struct call *call, enum tfe_refusal code);
    enum client_end end; /* of the question */
    bool is_late;        /* its time is up: it asks no more */
    void *own;           /* the asker's; freed with the call by: */
    void (*own_free)(void *own);
    char name[TFE_LABEL_MAX + 1]; /* of job or node, which message may point to */
    char other[TFE_LABEL_MAX + 1];
    struct event *deadline;
};

/* Whose question it is. */
static inline struct call *call_of(struct client_ask *ask)
{
    return (struct call *)((char *)ask - offsetof(struct call, ask));
}

/* A call without its question; uses the view. NULL: too many, or no memory: it has answered. */
struct call *call_new(const struct request *r, struct view *view);
/* Asks; the call ends by itself. */
void call_ask(struct call *call);
/* Ends it; the request is the caller's to answer. Rows are gone behind it. */
struct http_request *call_end(struct call *call);

#endif
