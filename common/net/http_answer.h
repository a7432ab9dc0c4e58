/* common/net/http_answer.h: an HTTP/1.1 answer, put together from whatever portions its bytes come
 * in. No sockets. */
#ifndef TFE_COMMON_NET_HTTP_ANSWER_H
#define TFE_COMMON_NET_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/net/why.h"

/* Status line and headers together; a metadata service sends half a kilobyte. */
#define HTTP_HEAD_MAX 8192

/* The body; the longest that is asked for, a list of scheduled events, has some kilobytes. */
#define HTTP_BODY_MAX 65536

enum http_state {
    HTTP_STATUS,
    HTTP_HEADER,
    HTTP_BODY,       /* `left` more bytes */
    HTTP_BODY_ALL,   /* up to the end of the connection */
    HTTP_CHUNK_SIZE, /* the line that says how long the next one is */
    HTTP_CHUNK,
    HTTP_CHUNK_END,
    HTTP_TRAILER,
    HTTP_DONE,
    HTTP__COUNT
};

/* Fields are private but for status, body and body_n, which count once it is done. body always ends
 * in a NUL that is not counted. */
struct http_answer {
    enum http_state state;
    int status;
    char *body;
    size_t body_n;
    size_t body_cap;
    uint64_t left;  /* of the body or the chunk */
    size_t line_at; /* where the unfinished line begins in head */
    size_t head_n;  /* lines so far, each ended by a NUL */
    char head[HTTP_HEAD_MAX];
};

void http_answer_init(struct http_answer *answer);
void http_answer_done(struct http_answer *answer);

/* Takes bytes in; what comes after the answer is ignored. 0: the answer is complete. TFE_EMORE.
 * TFE_EPROTO, TFE_ETOOBIG, TFE_ENOMEM: it is of no use; why says what is wrong. */
int http_answer_feed(struct http_answer *answer, const char *bytes, size_t n,
                     struct tfe_why *why) TFE_MUST_CHECK;

/* The connection has ended. 0: the answer is complete. TFE_EPROTO: it was cut; why says where. */
int http_answer_end(struct http_answer *answer, struct tfe_why *why) TFE_MUST_CHECK;

/* Value of a header, without blanks around it; NULL if there is none. Of several the first. */
const char *http_answer_header(const struct http_answer *answer, const char *name);

#endif
