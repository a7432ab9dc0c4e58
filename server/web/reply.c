/* server/web/reply.c: see reply.h. */
#include "server/web/reply.h"

#include <event2/buffer.h>
#include <event2/http.h>
#include <stdlib.h>
#include <string.h>

#include "common/rows/json.h"

static void set(struct evhttp_request *req, const char *name, const char *value)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(req);
    (void)evhttp_remove_header(headers, name);
    (void)evhttp_add_header(headers, name, value);
}

void reply_guard(struct evhttp_request *req, bool has_tls)
{
    static const char *const headers[][2] = {
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
         "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Permissions-Policy", "camera=(), geolocation=(), microphone=()"},
        {"Cache-Control", "no-store"},
    };
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        set(req, headers[i][0], headers[i][1]);
    }
    if (has_tls) {
        set(req, "Strict-Transport-Security", "max-age=31536000");
    }
}

static const char *phrase(int code)
{
    static const struct {
        int code;
        const char *phrase;
    } phrases[] = {{200, "OK"},
                   {304, "Not Modified"},
                   {400, "Bad Request"},
                   {401, "Unauthorized"},
                   {403, "Forbidden"},
                   {404, "Not Found"},
                   {405, "Method Not Allowed"},
                   {408, "Request Timeout"},
                   {409, "Conflict"},
                   {411, "Length Required"},
                   {413, "Content Too Large"},
                   {421, "Misdirected Request"},
                   {429, "Too Many Requests"},
                   {502, "Bad Gateway"},
                   {503, "Service Unavailable"},
                   {504, "Gateway Timeout"}};
    for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
        if (phrases[i].code == code) {
            return phrases[i].phrase;
        }
    }
    return "Internal Server Error";
}

static void free_text(const void *data, size_t n, void *text)
{
    free(text);
}

static void send_text(struct evhttp_request *req, int code, const char *type, char *text)
{
    struct evbuffer *body = evhttp_request_get_output_buffer(req);
    set(req, "Content-Type", type);
    if (!text || evbuffer_add_reference(body, text, strlen(text), free_text, text) != 0) {
        free(text);
        evhttp_send_reply(req, 503, phrase(503), NULL);
        return;
    }
    evhttp_send_reply(req, code, phrase(code), NULL);
}

void reply_json(struct evhttp_request *req, int code, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(value);
    send_text(req, code, "application/json", text);
}

void reply_problem(struct evhttp_request *req, int code, const char *what, const char *detail)
{
    json_t *problem =
        json_pack("{s:s, s:s, s:i, s:s, s:o}", "type", "about:blank", "title", phrase(code),
                  "status", code, "code", what, "detail", row_json_text(detail));
    char *text = problem ? json_dumps(problem, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(problem);
    if (code == 401) {
        set(req, "WWW-Authenticate", "Bearer realm=\"tfe\"");
    }
    send_text(req, code, "application/problem+json", text);
}

void reply_static(struct evhttp_request *req, const char *type, const void *bytes, size_t n,
                  const char *etag)
{
    const char *has = evhttp_find_header(evhttp_request_get_input_headers(req), "If-None-Match");
    struct evbuffer *body = evhttp_request_get_output_buffer(req);
    set(req, "Cache-Control", "no-cache");
    set(req, "ETag", etag);
    if (has && strcmp(has, etag) == 0) {
        evhttp_send_reply(req, 304, phrase(304), NULL);
        return;
    }
    set(req, "Content-Type", type);
    int rc = evbuffer_add_reference(body, bytes, n, NULL, NULL);
    evhttp_send_reply(req, rc == 0 ? 200 : 503, phrase(rc == 0 ? 200 : 503), NULL);
}

void reply_buffer(struct evhttp_request *req, const char *type, struct evbuffer *buffer)
{
    set(req, "Content-Type", type);
    evhttp_send_reply(req, 200, phrase(200), buffer);
}

int reply_code_of(enum tfe_refusal code)
{
    switch (code) {
    case REFUSAL_NOT_AUTHORISED:
        return 403;
    case REFUSAL_NO_SUCH_JOB:
    case REFUSAL_NO_SUCH_NODE:
    case REFUSAL_NO_SUCH_KEY:
        return 404;
    case REFUSAL_BAD_REQUEST:
    case REFUSAL_SIZE_MISMATCH:
    case REFUSAL_ADDRESS_UNREACHABLE:
    case REFUSAL_VERSION_MISMATCH:
        return 400;
    case REFUSAL_JOB_FINISHED:
    case REFUSAL_NODE_REPLACED:
    case REFUSAL_EVICTED:
    case REFUSAL_CONFLICT:
        return 409;
    case REFUSAL_LIMIT_REACHED:
    case REFUSAL_STORE:
        return 503;
    }
    return 502;
}
