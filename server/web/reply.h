/* server/web/reply.h: responses: JSON, problem documents (RFC 9457), bytes. */
#ifndef TFE_SERVER_WEB_REPLY_H
#define TFE_SERVER_WEB_REPLY_H

#include <jansson.h>
#include <stddef.h>

#include "common/message/msg.h"

struct evbuffer;
struct http_request;

/* Sets the security headers that every response has. */
void reply_guard(struct http_request *req, bool has_tls);

/* The reply_ functions below end the request. Takes ownership of value; if value is NULL
 * (allocation failed), sends status 503. */
void reply_json(struct http_request *req, int code, json_t *value);
/* Sends a problem document: detail is a sentence, what an error code of the API such as
 * "no_such_job". */
void reply_problem(struct http_request *req, int code, const char *what, const char *detail);
/* Sends bytes of static storage, or 304 if the client has this ETag. */
void reply_static(struct http_request *req, const char *type, const void *bytes, size_t n,
                  const char *etag);
/* Sends and empties the buffer. */
void reply_buffer(struct http_request *req, const char *type, struct evbuffer *buffer);

/* Returns the HTTP status for a refusal by the server. */
int reply_code_of(enum tfe_refusal code);

#endif
