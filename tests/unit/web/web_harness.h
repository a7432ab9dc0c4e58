/* tests/unit/web/web_harness.h: tfe-web from a client's socket to the handlers. The clock is a
 * fake, there is no server, and the handlers of some paths are fakes. */
#ifndef TFE_TESTS_UNIT_WEB_WEB_HARNESS_H
#define TFE_TESTS_UNIT_WEB_WEB_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/handshake/token.h"
#include "common/records/client.h"
#include "server/web/http.h"
#include "server/web/topics.h"
#include "server/web/views.h"
#include "server/web/web.h"
#include "server/web/web_settings.h"
#include "tests/unit/folder.h"

enum { PLACES = 4, ANSWER_MAX = 1 << 16 };

extern struct web_harness {
    struct web_settings settings;
    struct web web;
    struct client_config client; /* configuration of the last view's client */
    struct token own, admin, observer, agent, foreign;
    const struct token *found; /* token that token_reader_read returns; NULL for none */
    unsigned orders;
    char body[128];          /* body of the last order */
    struct stream *stream;   /* stream opened last */
    unsigned sent_all;       /* number of times that its whole topic was sent */
    unsigned quits;          /* number of topic_leave calls */
    char answer[ANSWER_MAX]; /* last response received */
    size_t n_answer;
    struct http_request *waiting; /* request without a response */
} harness;

/* Returns the number of open streams. */
uint32_t web_streams(void);

/* The topic of all streams. */
extern struct topic *const web_topic;

int web_begin(void **state);
/* Ends tfe-web. Fails if a view is still in use. */
int web_end(void **state);

/* Runs the event loop; lets time pass. */
void web_turn(void);
void web_pass(int64_t ms);

/* Connects; web_dialled also waits until the connection is accepted. */
int web_dial(void);
int web_dialled(void);
void web_send(int fd, const char *text);
/* Appends to the response. Returns false at the end of the connection. */
bool web_receive(int fd);
bool web_is_shut(int fd);
/* Clears the response. */
void web_reset_response(void);
/* Returns the status of the response, or 0 if none has come. */
int web_code(void);
bool web_has(const char *text);

/* Sends a request on a new connection. Returns the status of the response. */
int web_ask(const char *text);
int web_get_as(const char *method, const char *path, const char *headers);
int web_get(const char *path);
/* Sends an order to drain node n. type: value of Content-Type with CRLF, or NULL for no such
 * header. */
int web_order_as(const char *headers, const char *type, const char *body);

/* Headers of a local request, and with this token. */
#define LOCAL "Host: localhost:80\r\n"
const char *web_bearer(const struct token *token);

#endif
