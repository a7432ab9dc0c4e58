/* tests/unit/web/web_bench.h: tfe-web from a browser's socket to the handler of a path. Time is the
 * story's; there is no server to ask, and what a few paths answer is the story's, too. */
#ifndef TFE_TESTS_UNIT_WEB_WEB_BENCH_H
#define TFE_TESTS_UNIT_WEB_WEB_BENCH_H

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

extern struct web_bench {
    struct web_settings settings;
    struct web web;
    struct client_config client; /* of the view that came last */
    struct token own, admin, observer, agent, foreign;
    const struct token *found; /* where our own came from, by now; NULL: nothing */
    unsigned orders;
    char body[128];          /* of the last order */
    struct stream *stream;   /* the last one */
    unsigned told_all;       /* how often its topic was told whole */
    unsigned quits;          /* how often it was left */
    char answer[ANSWER_MAX]; /* the last one */
    size_t n_answer;
    struct http_request *waiting; /* asked, and not answered: the server has the question */
} bench;

/* Streams of all callers. */
uint32_t web_streams(void);

/* That all streams have. */
extern struct topic *const web_topic;

int web_begin(void **state);
/* Nobody uses a view any more. */
int web_end(void **state);

/* What the loop has to do now; time passes. */
void web_turn(void);
void web_pass(int64_t ms);

/* A connection, which is not taken yet; one that is. */
int web_dial(void);
int web_dialled(void);
void web_say(int fd, const char *text);
/* Reads on, into the answer; false: it is over. */
bool web_hear(int fd);
bool web_is_shut(int fd);
/* The answer begins anew. */
void web_hear_nothing(void);
/* Its code; 0: none came. */
int web_code(void);
bool web_has(const char *text);

/* The code of the answer to what is asked on a connection of its own. */
int web_ask(const char *text);
int web_get_as(const char *method, const char *path, const char *headers);
int web_get(const char *path);
/* An order: to drain the node n. type: with its line's end; NULL: not said. */
int web_order_as(const char *headers, const char *type, const char *body);

/* Of whoever is here, and asks for localhost; … with this token. */
#define LOCAL "Host: localhost:80\r\n"
const char *web_bearer(const struct token *token);

#endif
