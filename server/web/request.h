/* server/web/request.h: what a handler is given of a request. */
#ifndef TFE_SERVER_WEB_REQUEST_H
#define TFE_SERVER_WEB_REQUEST_H

#include <event2/keyvalq_struct.h>
#include <jansson.h>

#include "common/base/id.h"
#include "server/web/http.h"
#include "server/web/shares.h"
#include "server/web/views.h"

struct login;

/* A part of a path, decoded: a job's id or a node's id or label. */
#define REQUEST_NAME_MAX TFE_LABEL_MAX

struct request {
    struct web *web;
    struct http_request *req;
    struct view *view;   /* who asks; NULL: nobody, where that is allowed */
    struct login *login; /* NULL: by another way */
    bool is_known; /* the server has accepted the token of view, and the caller has shown it */
    char name[REQUEST_NAME_MAX + 1]; /* the part of the path that stands for {name} */
    struct evkeyvalq query;
    json_t *body; /* of an order: an object; NULL without one */
};

/* NULL: it is not there. */
/* Who an entry of shares.h counts for if this request causes it. Borrows from r. */
struct share_holder request_holder(const struct request *r);

const char *request_query(const struct request *r, const char *key);
/* A number of the query. False: it is none from least to most; answered. It stays as it is if
 * absent. */
bool request_number(struct request *r, const char *key, uint64_t least, uint64_t most,
                    uint64_t *ret);
/* It asks for server-sent events: by follow in its query, or by its Accept. */
bool request_follows(const struct request *r);

#endif
