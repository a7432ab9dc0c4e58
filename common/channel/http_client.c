/* common/channel/http_client.c: connects libcurl's multi interface to libevent: libcurl names the
 * sockets and the timeout to wait for, and the loop reports when they are ready. */
#include "common/channel/http_client.h"

#include <curl/curl.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/heap.h"
#include "common/base/timer.h"

struct http {
    struct event_base *base;
    CURLM *multi;
    struct event *timer;
};

struct http_ask {
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    http_fn *on_answer;
    void *ctx;
    char *body;
    size_t body_n;
    size_t body_cap;
    size_t most;
    const char *reason; /* reason why on_body rejected the response; NULL if none */
    char error[CURL_ERROR_SIZE];
};

/* --- responses -------------------------------------------------------------------------------- */

const char *http_answer_header(const struct http_answer *answer, const char *name)
{
    struct curl_header *header;
    return curl_easy_header(answer->handle, name, 0, CURLH_HEADER, -1, &header) ? NULL
                                                                                : header->value;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
    struct http_ask *ask = ctx;
    void *body = ask->body;
    n *= size;
    if (n > ask->most - ask->body_n) {
        ask->reason = "the answer is too long";
        return 0;
    }
    if (mem_reserve(&heap_mem, &body, &ask->body_cap, ask->body_n + n + 1, 1)) {
        ask->reason = "out of memory";
        return 0;
    }
    ask->body = body;
    memcpy(ask->body + ask->body_n, bytes, n);
    ask->body_n += n;
    ask->body[ask->body_n] = '\0';
    return n;
}

static void tell(struct http_ask *ask, CURLcode rc)
{
    long status = 0;
    long os_error = 0;
    curl_easy_getinfo(ask->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(ask->easy, CURLINFO_OS_ERRNO, &os_error);
    const struct http_answer answer = {.status = (int)status,
                                       .body = ask->body ? ask->body : "",
                                       .body_n = ask->body_n,
                                       .handle = ask->easy};
    const char *error = ask->reason                               ? ask->reason
                        : rc == CURLE_COULDNT_CONNECT && os_error ? strerror((int)os_error)
                        : ask->error[0]                           ? ask->error
                                                                  : curl_easy_strerror(rc);
    ask->on_answer(ask->ctx, rc ? NULL : &answer, rc ? error : NULL);
    http_cancel(ask);
}

/* --- event loop ------------------------------------------------------------------------------- */

/* A socket is ready, or the timeout has passed. libevent and libcurl both use fd -1 for a
 * timeout. */
static void on_ready(evutil_socket_t fd, short what, void *ctx)
{
    const struct http *http = ctx;
    const int ready =
        (what & EV_READ ? CURL_CSELECT_IN : 0) | (what & EV_WRITE ? CURL_CSELECT_OUT : 0);
    int n;
    curl_multi_socket_action(http->multi, fd, ready, &n);
    for (const CURLMsg *msg; (msg = curl_multi_info_read(http->multi, &n));) {
        void *ask;
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &ask);
        tell(ask, msg->data.result);
    }
}
_Static_assert(CURL_SOCKET_TIMEOUT == -1, "what libevent gives a timer");

static int wait_moment(CURLM *multi, long ms, void *ctx)
{
    struct http *http = ctx;
    return ms < 0 ? evtimer_del(http->timer) : timer_after(http->timer, ms);
}

/* Watches a socket for libcurl. If there is no memory the socket is not watched and the request
 * ends at its time limit. */
static int wait_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *waits)
{
    const struct http *http = ctx;
    const int events = (what & CURL_POLL_IN ? EV_READ : 0) | (what & CURL_POLL_OUT ? EV_WRITE : 0);
    if (waits) {
        event_free(waits);
        waits = NULL;
    }
    if (what != CURL_POLL_REMOVE) {
        waits = event_new(http->base, fd, (short)(events | EV_PERSIST), on_ready, ctx);
        (void)(waits && event_add(waits, NULL));
    }
    curl_multi_assign(http->multi, fd, waits);
    return 0;
}

struct http *http_new(struct event_base *base)
{
    struct http *http = part_new(sizeof *http);
    part_must(curl_global_init(CURL_GLOBAL_NOTHING) == CURLE_OK);
    http->base = base;
    http->timer = evtimer_new(base, on_ready, http);
    http->multi = curl_multi_init();
    part_must(http->timer && http->multi);
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, wait_socket);
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, wait_moment);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    return http;
}

void http_free(struct http *http)
{
    if (!http) {
        return;
    }
    curl_multi_cleanup(http->multi);
    event_drop(&http->timer);
    free(http);
    curl_global_cleanup();
}

/* --- requests --------------------------------------------------------------------------------- */

/* Opens a socket with close-on-exec, which libcurl's default does not set. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* Appends a header. Rejects control characters: header values can contain text from services, which
 * must not start a new line. */
static int add_header(struct http_ask *ask, const char *line)
{
    for (const char *at = line; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            return TFE_EINVAL;
        }
    }
    struct curl_slist *headers = curl_slist_append(ask->headers, line);
    ask->headers = headers ? headers : ask->headers;
    return headers ? 0 : TFE_ENOMEM;
}

static int write_question(struct http_ask *ask, const struct http_question *q)
{
    int rc = 0;
    char type[128];
    for (const char *const *line = q->headers; line && *line && !rc; line++) {
        rc = add_header(ask, *line);
    }
#define SET(option, value)                                                                         \
    rc = rc ? rc : curl_easy_setopt(ask->easy, option, value) ? TFE_ENOMEM : 0
    if (q->body || strcmp(q->method, "GET") != 0) {
        snprintf(type, sizeof type, q->type ? "Content-Type: %s" : "Content-Type:", q->type);
        rc = rc ? rc : add_header(ask, type);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body_n);
        SET(CURLOPT_COPYPOSTFIELDS, q->body ? q->body : "");
    }
    SET(CURLOPT_URL, q->url);
    SET(CURLOPT_CUSTOMREQUEST, q->method);
    SET(CURLOPT_HTTPHEADER, ask->headers);
    SET(CURLOPT_USERAGENT, "tfe/" TFE_VERSION);
    SET(CURLOPT_TIMEOUT_MS, (long)q->within_ms);
    SET(CURLOPT_FRESH_CONNECT, (long)q->is_alone);
    SET(CURLOPT_FORBID_REUSE, (long)q->is_alone);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_PROXY, ""); /* ignore proxy variables of the environment */
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT,
        1L); /* do not wait at exit for the thread of a name server that does not answer */
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, ask);
    SET(CURLOPT_ERRORBUFFER, ask->error);
    SET(CURLOPT_PRIVATE, ask);
#undef SET
    return rc;
}

int http_ask(struct http *http, const struct http_question *question, http_fn *on_answer, void *ctx,
             struct http_ask **ret)
{
    struct http_ask *ask = calloc(1, sizeof *ask);
    if (!ask) {
        return TFE_ENOMEM;
    }
    ask->easy = curl_easy_init();
    ask->on_answer = on_answer;
    ask->ctx = ctx;
    ask->most = question->most;
    int rc = ask->easy ? write_question(ask, question) : TFE_ENOMEM;
    if (rc == 0) {
        ask->multi = http->multi;
        rc = curl_multi_add_handle(http->multi, ask->easy) ? TFE_ENOMEM : 0;
    }
    if (rc) {
        http_cancel(ask);
        return rc;
    }
    *ret = ask;
    return 0;
}

void http_cancel(struct http_ask *ask)
{
    if (!ask) {
        return;
    }
    if (ask->multi) {
        curl_multi_remove_handle(ask->multi, ask->easy);
    }
    curl_easy_cleanup(ask->easy);
    curl_slist_free_all(ask->headers);
    free(ask->body);
    free(ask);
}
