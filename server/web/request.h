/* server/web/request.h: a routed HTTP request, as handlers get it. */
#ifndef TFE_SERVER_WEB_REQUEST_H
#define TFE_SERVER_WEB_REQUEST_H

#include <event2/keyvalq_struct.h>
#include <jansson.h>

#include "common/base/id.h"
#include "common/records/operations.h"
#include "server/web/http.h"
#include "server/web/shares.h"
#include "server/web/views.h"

struct login;
struct request;

/* Maximum length of a decoded path segment: a job's id, or a node's id or label. */
#define REQUEST_NAME_MAX TFE_LABEL_MAX

enum access {
    ACCESS_PUBLIC,   /* public: the response has no information about the server */
    ACCESS_OBSERVER, /* callers that may see the server's state */
    ACCESS_ADMIN     /* orders: callers with an admin's token */
};

struct route {
    const char *path; /* {} matches one segment */
    enum http_method method;
    enum access access;
    void (*handle)(struct request *r);
    enum operation_id operation; /* of api_operate and the functions that call it */
    struct route_number {
        const char *key; /* in the query of a GET, in the body of a POST */
        uint64_t min, max;
        size_t at;    /* offset in struct tfe_msg; the operation's request has the default */
        bool is_wide; /* uint64_t, otherwise uint32_t */
    } numbers[4];     /* ends with key NULL */
};

struct request {
    struct web *web;
    const struct route *route;
    struct http_request *req;
    struct view *view;   /* view of the caller; NULL without a token, on public paths only */
    struct login *login; /* NULL if the caller has no login cookie */
    bool is_known; /* the caller has shown the token of view, and the server has accepted it */
    char name[REQUEST_NAME_MAX + 1]; /* decoded value of {} in the route's path */
    struct evkeyvalq query;
    json_t *body; /* JSON object of a POST; NULL without a body */
};

/* Returns whom an entry of shares.h counts for if this request causes it. Borrows from r. */
struct share_holder request_holder(const struct request *r);

/* Returns a value of the query, or NULL. */
const char *request_query(const struct request *r, const char *key);
/* Reads a number of the query or, in a POST, of the body. Returns false, after a response with 400,
 * if the value is not a number from min to max. *ret is unchanged if the key is absent. */
bool request_number(struct request *r, const char *key, uint64_t min, uint64_t max, uint64_t *ret);
/* Returns true if the client wants server-sent events: by follow in the query, or by Accept. */
bool request_follows(const struct request *r);

#endif
