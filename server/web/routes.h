/* server/web/routes.h: which path is what, and who may ask for it. */
#ifndef TFE_SERVER_WEB_ROUTES_H
#define TFE_SERVER_WEB_ROUTES_H

#include "server/web/http.h"

struct web;

/* What http_new is given to answer for this web. */
struct http_handler routes_handler(struct web *web);

#endif
