/* server/web/routes.c: see routes.h. */
#include "server/web/routes.h"

#include <ctype.h>
#include <event2/buffer.h>
#include <event2/http.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/handshake/token.h"
#include "server/web/api.h"
#include "server/web/assets.h"
#include "server/web/http.h"
#include "server/web/logins.h"
#include "server/web/logs.h"
#include "server/web/metrics.h"
#include "server/web/reply.h"
#include "server/web/web_settings.h"

/* Path of uploads, whose bodies the handler reads in pieces. */
#define BUNDLES "/api/v1/bundles/"

#define ROUTE(METHOD, path_, ACCESS, function)                                                     \
    .path = (path_), .method = HTTP_##METHOD, .access = ACCESS_##ACCESS, .handle = (function)
#define QUERY(path, ID) ROUTE(GET, path, OBSERVER, api_operate), .operation = OPERATION_##ID
#define ORDER(path, ID) ROUTE(POST, path, ADMIN, api_operate), .operation = OPERATION_##ID
#define NUMBER(key, min, max, member)                                                              \
    {                                                                                              \
        (key), (min), (max), offsetof(struct tfe_msg, u.member),                                   \
            sizeof(((struct tfe_msg *)NULL)->u.member) == sizeof(uint64_t)                         \
    }

static const struct route routes[] = {
    {ROUTE(GET, "/healthz", PUBLIC, api_healthz)},
    {ROUTE(GET, "/readyz", PUBLIC, api_readyz)},
    {ROUTE(GET, "/metrics", OBSERVER, metrics_show)},
    {ROUTE(GET, "/api/v1/session", PUBLIC, api_session)},
    {ROUTE(POST, "/api/v1/login", PUBLIC, api_login)},
    {ROUTE(POST, "/api/v1/logout", PUBLIC, api_logout)},
    {QUERY("/api/v1/status", STATUS)},
    {QUERY("/api/v1/jobs", JOBS)},
    {QUERY("/api/v1/jobs/{}", JOB)},
    {QUERY("/api/v1/jobs/{}/epochs", EPOCHS)},
    {QUERY("/api/v1/pool", POOL)},
    {QUERY("/api/v1/demand", DEMAND)},
    {QUERY("/api/v1/nodes", NODES)},
    {QUERY("/api/v1/gauges", GAUGES)},
    {QUERY("/api/v1/audit", AUDIT)},
    {ROUTE(GET, "/api/v1/stream", OBSERVER, api_stream)},
    {ROUTE(GET, "/api/v1/events", OBSERVER, api_events), .operation = OPERATION_EVENTS,
     .numbers = {NUMBER("after", 0, MSG_NUMBER_MAX, events.after),
                 NUMBER("last", 1, MSG_EVENTS_MAX, events.last)}},
    {ROUTE(GET, "/api/v1/jobs/{}/series", OBSERVER, api_series), .operation = OPERATION_SERIES,
     .numbers = {NUMBER("after", 0, MSG_NUMBER_MAX, series.after),
                 NUMBER("run", 1, MSG_RUN_MAX, series.run)}},
    {ROUTE(GET, "/api/v1/jobs/{}/logs", OBSERVER, api_logs)},
    {ROUTE(POST, "/api/v1/jobs", ADMIN, api_submit)},
    {ROUTE(DELETE, "/api/v1/jobs/{}", ADMIN, api_operate), .operation = OPERATION_CANCEL},
    {ROUTE(PUT, BUNDLES "{}", ADMIN, api_put_bundle)},
    {ROUTE(POST, "/api/v1/jobs/{}/scale", ADMIN, api_scale), .operation = OPERATION_SCALE,
     .numbers = {NUMBER("min", 1, MSG_NODES_MAX, scale.min_nodes),
                 NUMBER("max", 1, MSG_NODES_MAX, scale.max_nodes),
                 NUMBER("ps", 1, MSG_NODES_MAX, scale.n_ps)}},
    {ORDER("/api/v1/jobs/{}/suspend", SUSPEND)},
    {ORDER("/api/v1/jobs/{}/resume", RESUME)},
    {ORDER("/api/v1/jobs/{}/cancel", CANCEL)},
    {ORDER("/api/v1/jobs/{}/restart", RESTART)},
    {ORDER("/api/v1/jobs/{}/grow", GROW)},
    {ORDER("/api/v1/nodes/{}/drain", DRAIN),
     .numbers = {NUMBER("within_ms", 0, MSG_DURATION_MAX_MS, drain.within_ms)}},
    {ORDER("/api/v1/nodes/{}/evict", EVICT),
     .numbers = {NUMBER("for_ms", 0, MSG_DURATION_MAX_MS, evict.for_ms)}},
};

/* Values of the Allow header. A path with GET allows HEAD as well. */
static const char *const method_names[] = {
    [HTTP_GET] = "GET, HEAD", [HTTP_POST] = "POST", [HTTP_PUT] = "PUT", [HTTP_DELETE] = "DELETE"};
#define ALLOW_MAX 64

const char *request_query(const struct request *r, const char *key)
{
    return evhttp_find_header(&r->query, key);
}

struct share_holder request_holder(const struct request *r)
{
    return (struct share_holder){.token = r->is_known ? r->view->join.token : NULL,
                                 .source = http_source(r->req)};
}

bool request_number(struct request *r, const char *key, uint64_t min, uint64_t max, uint64_t *ret)
{
    const json_t *value = json_object_get(r->body, key);
    const char *text = r->route->method == HTTP_POST ? NULL : request_query(r, key);
    const char *at = text;
    uint64_t number = 0;
    char sentence[128];
    if (!text && (!value || json_is_null(value))) {
        return true;
    }
    bool is_valid = text ? options_digits(&at, max, &number) && *at == '\0'
                         : json_is_integer(value) && json_integer_value(value) >= 0;
    if (!text && is_valid) {
        number = (uint64_t)json_integer_value(value);
    }
    if (!is_valid || number < min || number > max) {
        (void)snprintf(sentence, sizeof(sentence), "%s must be a number from %llu to %llu", key,
                       (unsigned long long)min, (unsigned long long)max);
        reply_problem(r->req, 400, "bad_request", sentence);
        return false;
    }
    *ret = number;
    return true;
}

bool request_follows(const struct request *r)
{
    const char *accept = http_header(r->req, "Accept");
    const char *follow = request_query(r, "follow");
    return (follow && strcmp(follow, "0") != 0) || (accept && strstr(accept, "text/event-stream"));
}

/* --- the caller --- */

/* Returns true for "" and for a port as ":8080". */
static bool is_port(const char *text)
{
    return text[0] == '\0' || (text[0] == ':' && text[1 + strspn(text + 1, "0123456789")] == '\0');
}

/* Returns true if the Host header is acceptable. Without login, only names of this machine are:
 * this prevents DNS rebinding, by which a page of another site would read this server's responses.
 */
static bool is_host_valid(const struct web *web, struct http_request *req)
{
    static const char *const names[] = {"localhost", "[::1]"};
    const char *host = http_header(req, "Host");
    size_t n;
    if (web->requires_login) {
        return true;
    }
    if (!host) {
        return false;
    }
    n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (n > strlen(host) || !is_port(host + n)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (n == strlen(names[i]) && evutil_ascii_strncasecmp(host, names[i], n) == 0) {
            return true;
        }
    }
    return n >= 7 && strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == n;
}

/* Finds the view of a bearer token. Returns false after a response with an error. */
static bool find_bearer(struct request *r, const char *text)
{
    struct token token;
    int rc = token_parse(&token, text) == 0
                 ? views_use(r->web->views, &token, http_source(r->req), &r->view)
                 : TFE_EAUTH;
    token_done(&token);
    if (rc == 0) {
        r->is_known = r->view->is_accepted;
        return true;
    }
    if (rc == TFE_EAUTH) {
        reply_problem(r->req, 401, "not_authorised",
                      "the token is not an observer's or admin's token of this server");
    } else {
        reply_problem(r->req, 429, "limit_reached", "too many tokens are in use (try again later)");
    }
    return false;
}

/* Sets view and login of r, and counts one more user of the view. Returns false after a response
 * with 401. */
static bool find_caller(struct request *r, enum access access)
{
    const char *bearer = http_header(r->req, "Authorization");
    if (bearer && evutil_ascii_strncasecmp(bearer, "Bearer ", 7) == 0) {
        return find_bearer(r, bearer + 7);
    }
    r->login = logins_find(r->web->logins, http_header(r->req, "Cookie"));
    if (r->login) {
        r->view = login_view(r->login);
        r->is_known = true;
    } else if (!r->web->requires_login && access != ACCESS_ADMIN) {
        r->view = r->web->own;
    }
    if (r->view) {
        view_use(r->view);
    } else if (access != ACCESS_PUBLIC) {
        reply_problem(r->req, 401, "not_authorised",
                      access == ACCESS_ADMIN ? "orders need an admin's token (log in with one)"
                                             : "log in with an observer's or admin's token");
        return false;
    }
    return true;
}

/* Returns true if the caller may give orders. Otherwise responds with 403. */
static bool may_order(struct request *r)
{
    const char *csrf = http_header(r->req, "X-CSRF-Token");
    if (view_role(r->view) != PRINCIPAL_ADMIN) {
        reply_problem(r->req, 403, "not_authorised", "orders need an admin's token");
        return false;
    }
    if (r->login && !login_is_csrf(r->login, csrf)) {
        reply_problem(r->req, 403, "csrf",
                      "an order needs X-CSRF-Token from the response of /api/v1/login");
        return false;
    }
    return true;
}

/* --- which path --- */

/* Returns true if the path matches the pattern. Stores the decoded value of {} in name. */
static bool matches(const char *pattern, const char *path, char name[REQUEST_NAME_MAX + 1])
{
    const char *placeholder = strstr(pattern, "{}");
    if (!placeholder) {
        return strcmp(pattern, path) == 0;
    }
    size_t before = (size_t)(placeholder - pattern);
    if (strncmp(pattern, path, before) != 0) {
        return false;
    }
    size_t part = strcspn(path + before, "/");
    if (part == 0 || strcmp(path + before + part, placeholder + 2) != 0) {
        return false;
    }
    char *copy = strndup(path + before, part);
    size_t n = 0;
    char *decoded = copy ? evhttp_uridecode(copy, 0, &n) : NULL;
    bool fits = decoded && n > 0 && n <= REQUEST_NAME_MAX && strlen(decoded) == n;
    for (size_t i = 0; fits && i < n; i++) {
        fits = (unsigned char)decoded[i] >= 0x20 && decoded[i] != 0x7f;
    }
    if (fits) {
        memcpy(name, decoded, n + 1);
    }
    free(decoded);
    free(copy);
    return fits;
}

/* Returns the route of path and method, or NULL. allow gets the methods of the path, "" for an
 * unknown path. */
static const struct route *find_route(struct request *r, const char *path, enum http_method method,
                                      char allow[ALLOW_MAX])
{
    const struct route *found = NULL;
    allow[0] = '\0';
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (matches(routes[i].path, path, r->name)) {
            const char *name = method_names[routes[i].method];
            const size_t n = strlen(allow);
            (void)snprintf(allow + n, ALLOW_MAX - n, "%s%s", n > 0 ? ", " : "", name);
            found = routes[i].method == method ? &routes[i] : found;
        }
    }
    return found;
}

/* Parses the body of an order, if there is one. Returns false, after a response with 400, if the
 * body is not a JSON object. The required Content-Type keeps forms of other sites out. */
static bool read_body(struct request *r)
{
    struct evbuffer *in = http_body(r->req);
    const char *type = http_header(r->req, "Content-Type");
    const size_t n = evbuffer_get_length(in);
    if (n == 0) {
        return true;
    }
    const char *bytes = (const char *)evbuffer_pullup(in, -1);
    json_error_t error;
    if (type && evutil_ascii_strncasecmp(type, "application/json", 16) == 0 && bytes) {
        r->body = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &error);
    }
    sodium_memzero((void *)(uintptr_t)bytes, bytes ? n : 0); /* the body may contain a token */
    if (!json_is_object(r->body)) {
        reply_problem(
            r->req, 400, "bad_request",
            "the body of an order must be a JSON object (Content-Type: application/json)");
        return false;
    }
    return true;
}

static void handle(struct request *r, const struct route *route)
{
    r->route = route;
    if (!find_caller(r, route->access)) {
        return;
    }
    const bool is_stream = route->handle == api_stream || request_follows(r);
    if (http_method(r->req) == HTTP_HEAD && is_stream) {
        http_set_header(r->req, "Content-Type", "text/event-stream");
        http_begin(r->req, 200);
        http_end(r->req);
    } else if ((route->access != ACCESS_ADMIN || may_order(r)) &&
               (route->method == HTTP_GET || route->method == HTTP_PUT || read_body(r))) {
        route->handle(r);
    }
    if (r->view) {
        view_leave(r->view);
    }
}

static void route_request(struct request *r)
{
    const char *path = http_path(r->req);
    enum http_method method = http_method(r->req);
    char allow[ALLOW_MAX];
    method = method == HTTP_HEAD ? HTTP_GET : method;
    const struct route *route = find_route(r, path, method, allow);
    const struct asset *asset = asset_find(path);
    if (route) {
        handle(r, route);
    } else if (asset && method == HTTP_GET) {
        reply_static(r->req, asset->type, asset->bytes, *asset->n, asset->etag);
    } else if (asset || allow[0] != '\0') {
        http_set_header(r->req, "Allow", asset ? method_names[HTTP_GET] : allow);
        reply_problem(r->req, 405, "method", "the path does not support this method");
    } else {
        reply_problem(r->req, 404, "no_such_path", "no such path");
    }
}

static void on_request(void *ctx, struct http_request *req)
{
    struct web *web = ctx;
    struct request r = {.web = web, .req = req};
    const char *query = http_query(req);
    web->n_requests++;
    reply_guard(req, web->settings->tls_cert != NULL);
    TAILQ_INIT(&r.query);
    if (!is_host_valid(web, req)) {
        reply_problem(req, 421, "wrong_host",
                      "this address serves this machine only (use localhost)");
    } else if (query && evhttp_parse_query_str(query, &r.query) != 0) {
        reply_problem(req, 400, "bad_request", "the query is malformed");
    } else {
        route_request(&r);
    }
    json_decref(r.body);
    evhttp_clear_headers(&r.query);
}

static bool streams_body(void *ctx, const struct http_request *req)
{
    return http_method(req) == HTTP_PUT &&
           strncmp(http_path(req), BUNDLES, sizeof(BUNDLES) - 1) == 0;
}

static void refuse(void *ctx, struct http_request *req, int status, const char *detail)
{
    const struct web *web = ctx;
    reply_guard(req, web->settings->tls_cert != NULL);
    reply_problem(req, status, status == 400 ? "bad_request" : "too_large", detail);
}

struct http_handler routes_handler(struct web *web)
{
    return (struct http_handler){
        .ctx = web, .streams_body = streams_body, .handle = on_request, .refuse = refuse};
}
