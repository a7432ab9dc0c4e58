/* server/web/reply.h: how a request is answered: JSON, problems (RFC 9457), bytes. */
#ifndef TFE_SERVER_WEB_REPLY_H
#define TFE_SERVER_WEB_REPLY_H

#include <jansson.h>
#include <stddef.h>

#include "common/message/msg.h"

struct evbuffer;
struct http_request;

/* The headers that every answer of ours has. */
void reply_guard(struct http_request *req, bool has_tls);

/* Each ends the request. Takes value, NULL: there was no memory for it. */
void reply_json(struct http_request *req, int code, json_t *value);
/* detail is a sentence; what: a word of ours ("no_such_job"). */
void reply_problem(struct http_request *req, int code, const char *what, const char *detail);
/* Bytes that live for ever. */
void reply_static(struct http_request *req, const char *type, const void *bytes, size_t n,
                  const char *etag);
/* Takes what is in the buffer. */
void reply_buffer(struct http_request *req, const char *type, struct evbuffer *buffer);

/* HTTP's number for a refusal of the server's. */
int reply_code_of(enum tfe_refusal code);

#endif
