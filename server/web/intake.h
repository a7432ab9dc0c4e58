/* server/web/intake.h: what comes of a connection, before evhttp has it.
 *
 * evhttp takes a body whole, and tells of its request behind that. So each head is looked at here
 * first: of an order that may bring a bundle along (POST /api/v1/jobs, a form that says its length)
 * evhttp is told that there is no body, and whoever handles it takes that from here, in pieces.
 * Such a connection ends with its answer: what evhttp finds behind a head is a request to it. */
#ifndef TFE_SERVER_WEB_INTAKE_H
#define TFE_SERVER_WEB_INTAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bufferevent;
struct event;
struct intake;

/* Looks at what bev reads from now on; bev outlives it. NULL: no memory. */
struct intake *intake_new(struct bufferevent *bev);
/* NULL is allowed. */
void intake_free(struct intake *in);

/* An answer is over: what comes now, or has come, is the next request. */
void intake_next(struct intake *in);

/* Bytes of the body that nobody has taken yet, whether they have come or not. */
uint64_t intake_left(const struct intake *in);

/* The body is taken from now on: wake becomes active when some of it has come. One who waits to be
 * told so before he sends it is told. */
void intake_begin(struct intake *in, struct event *wake);
/* … by nobody any more. */
void intake_end(struct intake *in);
bool intake_is_taken(const struct intake *in);

/* Up to n bytes that have come; 0: there are none now. */
size_t intake_take(struct intake *in, uint8_t *ret, size_t n);
/* So many were thrown away by whoever reads the connection. */
void intake_pass(struct intake *in, size_t n);

#endif
