/* server/web/routes.h: the table of paths, and the rights that each one needs. */
#ifndef TFE_SERVER_WEB_ROUTES_H
#define TFE_SERVER_WEB_ROUTES_H

#include "server/web/http.h"

struct web;

/* Returns the handler for http_new. */
struct http_handler routes_handler(struct web *web);

#endif
