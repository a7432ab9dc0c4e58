/* server/web/calls.h: an HTTP request that needs one query or order to the server. */
#ifndef TFE_SERVER_WEB_CALLS_H
#define TFE_SERVER_WEB_CALLS_H

#include <stddef.h>

#include "common/records/operations.h"
#include "server/web/request.h"
#include "server/web/shares.h"

/* Time limit for the server's response, connecting included. */
#define CALL_MS 8000

struct call {
    struct web *web;
    struct view *view;
    struct http_request *req;
    struct share share;
    struct client *client; /* own connection for long queries; NULL to use the view's */
    struct client_request request;
    struct tfe_msg message;
    enum operation_id operation; /* of the message; valid if api.c made the call */
    /* Sends the response from the rows of ask.list and ends the call. */
    void (*answer)(struct call *call);
    /* Sends the response if the query failed as end says, and ends the call. If NULL, the response
     * is a problem document. */
    void (*failed)(struct call *call);
    /* Returns true if it has repeated a query that the server refused. If NULL, a refused query is
     * never repeated. */
    bool (*again)(struct call *call, enum tfe_refusal code);
    enum client_end end; /* how the query ended; valid in failed */
    bool is_late;        /* the time limit has passed; no further query is allowed */
    void *own;           /* data of the handler, freed by own_free with the call */
    void (*own_free)(void *own);
    char name[TFE_LABEL_MAX + 1]; /* name of a job or node that message points to */
    char other[TFE_LABEL_MAX + 1];
    struct event *deadline;
};

/* Returns the call of this query. */
static inline struct call *call_of(struct client_request *request)
{
    return (struct call *)((char *)request - offsetof(struct call, request));
}

/* Makes a call, counts it for the caller's share, and counts one more user of the view. Returns
 * NULL after a response with 503 if the share is used up or without memory. */
struct call *call_new(const struct request *r, struct view *view);
/* Sends the query. The call ends by itself. */
void call_send(struct call *call);
/* Ends the call and frees its rows. Returns the request, to which the caller has to respond. */
struct http_request *call_end(struct call *call);

#endif
