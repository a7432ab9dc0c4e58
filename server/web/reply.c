/* server/web/reply.c: see reply.h. */
#include "server/web/reply.h"

#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

#include "common/records/json_text.h"
#include "server/web/http.h"

void reply_guard(struct http_request *req, bool has_tls)
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
        http_set_header(req, headers[i][0], headers[i][1]);
    }
    if (has_tls) {
        http_set_header(req, "Strict-Transport-Security", "max-age=31536000");
    }
}

static void free_text(const void *data, size_t n, void *text)
{
    free(text);
}

/* Sends text and frees it. text NULL: allocation failed; responds with 503. */
static void send_text(struct http_request *req, int status, const char *type, char *text)
{
    struct evbuffer *body = evbuffer_new();
    http_set_header(req, "Content-Type", type);
    if (!text || !body || evbuffer_add_reference(body, text, strlen(text), free_text, text) != 0) {
        free(text);
        status = 503;
    }
    http_respond(req, status, body);
    if (body) {
        evbuffer_free(body);
    }
}

void reply_json(struct http_request *req, int code, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(value);
    send_text(req, code, "application/json", text);
}

void reply_problem(struct http_request *req, int code, const char *what, const char *detail)
{
    json_t *problem =
        json_pack("{s:s, s:s, s:i, s:s, s:o}", "type", "about:blank", "title", http_phrase(code),
                  "status", code, "code", what, "detail", json_from_text(detail));
    char *text = problem ? json_dumps(problem, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(problem);
    if (code == 401) {
        http_set_header(req, "WWW-Authenticate", "Bearer realm=\"tfe\"");
    }
    send_text(req, code, "application/problem+json", text);
}

void reply_static(struct http_request *req, const char *type, const void *bytes, size_t n,
                  const char *etag)
{
    const char *known = http_header(req, "If-None-Match");
    http_set_header(req, "Cache-Control", "no-cache");
    http_set_header(req, "ETag", etag);
    if (known && strcmp(known, etag) == 0) {
        http_respond(req, 304, NULL);
        return;
    }
    struct evbuffer *body = evbuffer_new();
    const bool is_whole = body && evbuffer_add_reference(body, bytes, n, NULL, NULL) == 0;
    http_set_header(req, "Content-Type", type);
    http_respond(req, is_whole ? 200 : 503, body);
    if (body) {
        evbuffer_free(body);
    }
}

void reply_buffer(struct http_request *req, const char *type, struct evbuffer *buffer)
{
    http_set_header(req, "Content-Type", type);
    http_respond(req, 200, buffer);
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
    case REFUSAL_COMMIT_MISMATCH:
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
