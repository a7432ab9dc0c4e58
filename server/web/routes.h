/* server/web/routes.h: which path is what, and who may ask for it. */
#ifndef TFE_SERVER_WEB_ROUTES_H
#define TFE_SERVER_WEB_ROUTES_H

struct evhttp_request;

/* http_request_fn; ctx is a struct web. */
void routes_request(void *ctx, struct evhttp_request *req);

#endif
