/* server/web/request.h: what a handler is given of a request. */
#ifndef TFE_SERVER_WEB_REQUEST_H
#define TFE_SERVER_WEB_REQUEST_H

#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <jansson.h>

#include "common/base/id.h"
#include "server/web/views.h"

struct login;

/* A part of a path, decoded: a job's id or a node's id or label. */
#define REQUEST_NAME_MAX TFE_LABEL_MAX

struct request {
    struct web *web;
    struct evhttp_request *req;
    struct view *view;               /* who asks; NULL: nobody, where that is allowed */
    struct login *login;             /* NULL: by another way */
    char name[REQUEST_NAME_MAX + 1]; /* the part of the path that stands for {name} */
    struct evkeyvalq query;
    json_t *body; /* of an order: an object; NULL: none */
};

/* NULL: it is not there. */
const char *request_query(const struct request *r, const char *key);

#endif
