/* server/web/api.c: see api.h. */
#include "server/web/api.h"

#include <stdio.h>
#include <string.h>

#include "common/channel/endpoint.h"
#include "common/records/json_text.h"
#include "common/records/operations.h"
#include "common/text/text.h"
#include "server/web/calls.h"
#include "server/web/health.h"
#include "server/web/logins.h"
#include "server/web/reply.h"
#include "server/web/streams.h"

/* Number of events in a response if the query does not name one. */
#define EVENTS_SHOWN 100

/* --- operations of the server --- */

static void answer_done(struct call *call)
{
    json_t *done = json_pack("{s:s, s:o}", "done", operations[call->operation].name, "name",
                             json_from_text(call->name));
    reply_json(call_end(call), 200, done);
}

static void answer_query(struct call *call)
{
    const int rc = operation_arrange(call->operation, &call->request.list);
    if (rc != 0) {
        reply_problem(call_end(call), 502, "failed",
                      rc == TFE_ENOMEM ? tfe_error_sentence(rc) : CLIENT_UNEXPECTED_SENTENCE);
        return;
    }
    json_t *value = operation_json(call->operation, &call->request.list, &call->message);
    reply_json(call_end(call), 200, value);
}

/* Returns the name in the path, or that of the job in the query; NULL if there is none. */
static const char *operand_of(const struct request *r)
{
    return r->name[0] != '\0' ? r->name : request_query(r, "job");
}

/* Returns true if the name of a job is valid, or NULL. Otherwise responds with 400. */
static bool is_job(struct request *r, const char *name)
{
    if (name && !id_is_valid(name)) {
        reply_problem(r->req, 400, "bad_request", "the job's name is invalid");
        return false;
    }
    return true;
}

bool api_is_job(struct request *r)
{
    return is_job(r, r->name);
}

/* Returns true if the body has only the route's numbers. Otherwise responds with 400: an order with
 * a misspelt number must not run with its default. */
static bool has_known_fields(struct request *r)
{
    char sentence[128];
    const char *key;
    json_t *value;
    json_object_foreach(r->body, key, value)
    {
        const struct route_number *number = r->route->numbers;
        while (number->key && strcmp(number->key, key) != 0) {
            number++;
        }
        if (!number->key) {
            text_setf(sentence, sizeof(sentence), "%.64s: unknown field", key);
            reply_problem(r->req, 400, "bad_request", sentence);
            return false;
        }
    }
    return true;
}

/* Makes a call for the route's operation, with its operand and its numbers. Returns NULL after a
 * response with an error. */
static struct call *operation_new(struct request *r)
{
    const struct route *route = r->route;
    const char *operand = operations[route->operation].operand_at > 0 ? operand_of(r) : NULL;
    struct tfe_msg message = operation_request(route->operation, operand);
    if (msg_job(&message) && !is_job(r, operand)) {
        return NULL;
    }
    if (operation_needs_admin(route->operation) && view_role(r->view) != PRINCIPAL_ADMIN) {
        reply_problem(r->req, 403, "not_authorised", "this needs an admin's token");
        return NULL;
    }
    if (!has_known_fields(r)) {
        return NULL;
    }
    for (const struct route_number *number = route->numbers; number->key; number++) {
        char *at = (char *)&message + number->at;
        uint64_t value = number->is_wide ? *(uint64_t *)at : *(uint32_t *)at;
        if (!request_number(r, number->key, number->min, number->max, &value)) {
            return NULL;
        }
        if (number->is_wide) {
            *(uint64_t *)at = value;
        } else {
            *(uint32_t *)at = (uint32_t)value;
        }
    }
    struct call *call = call_new(r, r->view);
    if (call) {
        (void)snprintf(call->name, sizeof(call->name), "%s", operand ? operand : "");
        call->operation = route->operation;
        call->message = message;
        if (operand) {
            operation_set_operand(route->operation, call->name, &call->message);
        }
        call->answer = client_is_order(message.type) ? answer_done : answer_query;
    }
    return call;
}

void api_operate(struct request *r)
{
    struct call *call = operation_new(r);
    if (call) {
        call_send(call);
    }
}

void api_scale(struct request *r)
{
    const json_int_t min = json_integer_value(json_object_get(r->body, "min"));
    const json_int_t max = json_integer_value(json_object_get(r->body, "max"));
    if (min < 1 || max < min) {
        reply_problem(r->req, 400, "bad_request",
                      "min and max must be numbers, and min must not be above max");
        return;
    }
    api_operate(r);
}

/* Starts an event stream. Returns NULL after a response with an error. */
static struct stream *begin_stream(struct request *r)
{
    struct stream *stream = stream_new(r);
    if (!stream) {
        reply_problem(r->req, 503, "limit_reached",
                      "too many open pages, of this token or in total (try again later)");
    }
    return stream;
}

void api_events(struct request *r)
{
    const char *job = request_query(r, "job");
    if (!request_follows(r)) {
        struct call *call = operation_new(r);
        if (call && call->message.u.events.last == 0) {
            call->message.u.events.last = EVENTS_SHOWN;
        }
        if (call) {
            call_send(call);
        }
        return;
    }
    struct stream *stream = is_job(r, job) ? begin_stream(r) : NULL;
    if (stream) {
        stream_join(stream, TOPIC_EVENTS, job ? job : "");
    }
}

void api_series(struct request *r)
{
    const char *name = request_query(r, "name");
    if (name && (name[0] == '\0' || strlen(name) > MSG_METRIC_NAME_MAX)) {
        reply_problem(r->req, 400, "bad_request", "the name of the metric is invalid");
        return;
    }
    struct call *call = operation_new(r);
    if (call) {
        (void)snprintf(call->other, sizeof(call->other), "%s", name ? name : "");
        call->message.u.series.name = name ? call->other : NULL;
        call_send(call);
    }
}

void api_stream(struct request *r)
{
    const char *job = request_query(r, "job");
    const char *pool = request_query(r, "pool");
    struct stream *stream = is_job(r, job) ? begin_stream(r) : NULL;
    if (!stream) {
        return;
    }
    stream_join(stream, TOPIC_FLEET, "");
    stream_join(stream, TOPIC_EVENTS, job ? job : "");
    if (pool && strcmp(pool, "0") != 0) {
        stream_join(stream, TOPIC_POOL, "");
    }
    if (job) {
        stream_join(stream, TOPIC_CONDITIONS, job);
        stream_join(stream, TOPIC_NODES, job);
        stream_join(stream, TOPIC_EPOCHS, job);
        stream_join(stream, TOPIC_POINTS, job);
    }
}

/* --- access to operations --- */

/* Makes the response of /api/v1/session. view is NULL for a caller without rights, who learns
 * nothing about the server. */
static json_t *session_json(const struct web *web, const struct view *view, bool is_logged_in)
{
    char at[ENDPOINT_TEXT_MAX];
    return json_pack("{s:b, s:b, s:s?, s:s?, s:s?}", "asks_login", web->requires_login, "logged_in",
                     is_logged_in, "token_role", view ? principal_role_name(view_role(view)) : NULL,
                     "server",
                     view ? endpoint_format(at, web->server.host, web->server.port) : NULL,
                     "version", view ? TFE_VERSION : NULL);
}

void api_session(struct request *r)
{
    reply_json(r->req, 200, session_json(r->web, r->view, r->login != NULL));
}

/* Sets the cookie of a login in the response, or deletes it if login is NULL. */
static void set_cookie(const struct web *web, struct http_request *req, const struct login *login)
{
    char cookie[LOGIN_COOKIE_MAX];
    login_cookie(web->logins, login, cookie);
    http_set_header(req, "Set-Cookie", cookie);
    sodium_memzero(cookie, sizeof(cookie));
}

/* This is the only response with the CSRF token. Browsers send the cookie to every port of this
 * host, so the cookie alone must not lead to the token. */
static void answer_login(struct call *call)
{
    struct web *web = call->web;
    struct view *view = call->view;
    char csrf[LOGIN_TEXT_MAX];
    view_use(view);
    struct http_request *req = call_end(call);
    const struct login *login = logins_begin(web->logins, view);
    if (!login) {
        reply_problem(req, 503, "limit_reached", "too many logins (try again later)");
        view_leave(view);
        return;
    }
    set_cookie(web, req, login);
    login_csrf(login, csrf);
    json_t *value = session_json(web, view, true);
    if (value && json_object_set_new(value, "csrf", json_string(csrf)) != 0) {
        json_decref(value);
        value = NULL;
    }
    view_leave(view);
    reply_json(req, 200, value);
}

void api_login(struct request *r)
{
    const char *text = json_string_value(json_object_get(r->body, "token"));
    struct token token;
    struct view *view;
    int rc = text && token_parse(&token, text) == 0
                 ? views_use(r->web->views, &token, http_source(r->req), &view)
                 : TFE_EINVAL;
    token_done(&token);
    if (rc == TFE_EFULL || rc == TFE_ENOMEM) {
        reply_problem(r->req, 429, "limit_reached", "too many tokens are in use (try again later)");
        return;
    }
    if (rc != 0) {
        reply_problem(r->req, 401, "not_authorised",
                      rc == TFE_EAUTH
                          ? "the token is not an observer's or admin's token of this server"
                          : "not a token: tokens begin with tfe1_");
        return;
    }
    /* The server accepts or rejects the token with its first response. */
    struct call *call = call_new(r, view);
    if (call) {
        call->message = operation_request(OPERATION_JOBS, NULL);
        call->answer = answer_login;
        call_send(call);
    }
    view_leave(view);
}

void api_logout(struct request *r)
{
    const char *csrf = http_header(r->req, "X-CSRF-Token");
    if (!r->login || !login_is_csrf(r->login, csrf)) {
        reply_problem(r->req, 403, "csrf", "X-CSRF-Token is missing or belongs to another login");
        return;
    }
    login_end(r->login);
    set_cookie(r->web, r->req, NULL);
    reply_json(r->req, 200,
               session_json(r->web, r->web->requires_login ? NULL : r->web->own, false));
}

/* --- health --- */

void api_healthz(struct request *r)
{
    reply_json(r->req, 200, json_pack("{s:s}", "status", "ok"));
}

/* Responds with the last result of the probe, so that a caller without a token cannot cause
 * requests to the server. */
void api_readyz(struct request *r)
{
    char reason[PROBE_REASON_MAX];
    if (probe_is_ready(r->web->probe, reason)) {
        reply_json(r->req, 200, json_pack("{s:s}", "status", "ready"));
    } else {
        reply_problem(r->req, 503, "not_ready", reason);
    }
}
