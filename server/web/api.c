/* server/web/api.c: see api.h. */
#include "server/web/api.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/channel/endpoint.h"
#include "common/records/epoch_summary.h"
#include "common/records/json_text.h"
#include "common/records/record_order.h"
#include "common/records/responses.h"
#include "common/records/schemas.h"
#include "server/web/calls.h"
#include "server/web/health.h"
#include "server/web/logins.h"
#include "server/web/reply.h"
#include "server/web/streams.h"

/* Number of events in a response if the query does not name one. */
#define EVENTS_SHOWN 100

static void answer(struct call *call, json_t *value)
{
    reply_json(call_end(call), 200, value);
}

/* Returns true if name is a valid job id. Otherwise responds with 400. */
static bool is_job(struct http_request *req, const char *name)
{
    if (!id_is_valid(name)) {
        reply_problem(req, 400, "bad_request", "the job's name is invalid");
        return false;
    }
    return true;
}

bool api_is_job(struct request *r)
{
    return is_job(r->req, r->name);
}

/* --- what is seen --- */

/* Puts the rows into the order of the response. Returns false, after a response with an error, if
 * the rows do not fit together. */
static bool is_in_order(struct call *call)
{
    int rc = records_sort_status(&call->ask.list);
    if (rc != 0) {
        reply_problem(call_end(call), 502, "failed",
                      rc == TFE_ENOMEM ? tfe_error_sentence(rc) : CLIENT_UNEXPECTED_SENTENCE);
    }
    return rc == 0;
}

static void answer_with_status(struct call *call)
{
    if (!is_in_order(call)) {
        return;
    }
    answer(call, response_status(&call->ask.list));
}

static void answer_with_jobs(struct call *call)
{
    if (is_in_order(call)) {
        answer(call, response_jobs(&call->ask.list));
    }
}

static void answer_with_nodes(struct call *call)
{
    if (!is_in_order(call)) {
        return;
    }
    answer(call, response_nodes(&call->ask.list));
}

static void answer_with_job(struct call *call)
{
    if (is_in_order(call)) {
        answer(call, response_job(&call->ask.list));
    }
}

static void answer_with_epochs(struct call *call)
{
    epochs_compute(&call->ask.list, clock_wall());
    answer(call, response_epochs(&call->ask.list, call->name));
}

static void answer_with_gauges(struct call *call)
{
    answer(call, json_pack("{s:o}", "gauges", record_list_json(&call->ask.list, &schema_gauge)));
}

static void answer_with_audit(struct call *call)
{
    answer(call, json_pack("{s:o}", "audit", record_list_json(&call->ask.list, &schema_audit_row)));
}

/* Returns the job that the query names, or "" for all jobs. */
static const char *job_of(struct request *r)
{
    const char *job = request_query(r, "job");
    return job ? job : "";
}

/* Requests the status of a job, or of all jobs if job is "". */
static void ask_status(struct request *r, const char *job, bool jobs_only,
                       void (*then)(struct call *call))
{
    if (job[0] != '\0' && !is_job(r->req, job)) {
        return;
    }
    struct call *call = call_new(r, r->view);
    if (!call) {
        return;
    }
    call->message =
        (struct tfe_msg){.type = MSG_STATUS,
                         .u.status = {.jobs_only = jobs_only, .detail = then == answer_with_job}};
    if (job[0] != '\0') {
        (void)snprintf(call->name, sizeof(call->name), "%s", job);
        call->message.u.status.job = call->name;
    }
    call->ask.rows[0] = MSG_STATUS_JOB;
    call->ask.rows[1] = MSG_STATUS_NODE;
    call->ask.rows[2] = MSG_HEALTH;
    call->ask.rows[3] = MSG_SERIES_ROW;
    call->ask.rows[4] = MSG_CONDITION_ROW;
    call->ask.rows[5] = MSG_POOL_ROW;
    call->answer = then;
    call_send(call);
}

void api_status(struct request *r)
{
    ask_status(r, job_of(r), false, answer_with_status);
}

void api_jobs(struct request *r)
{
    ask_status(r, "", true, answer_with_jobs);
}

void api_job(struct request *r)
{
    ask_status(r, r->name, false, answer_with_job);
}

void api_nodes(struct request *r)
{
    ask_status(r, job_of(r), false, answer_with_nodes);
}

static void ask_simple(struct request *r, enum tfe_msg_type type, enum tfe_msg_type row,
                       void (*then)(struct call *call))
{
    struct call *call = call_new(r, r->view);
    if (call) {
        call->message = (struct tfe_msg){.type = type};
        call->ask.rows[0] = row;
        call->answer = then;
        call_send(call);
    }
}

void api_epochs(struct request *r)
{
    struct call *call = is_job(r->req, r->name) ? call_new(r, r->view) : NULL;
    if (call) {
        (void)snprintf(call->name, sizeof(call->name), "%s", r->name);
        call->message = (struct tfe_msg){.type = MSG_EPOCHS, .u.epochs = {.job = call->name}};
        call->ask.rows[0] = MSG_EPOCH_ROW;
        call->ask.rows[1] = MSG_STATUS_JOB;
        call->answer = answer_with_epochs;
        call_send(call);
    }
}

static void answer_with_pool(struct call *call)
{
    answer(call, json_pack("{s:o}", "pool", record_list_json(&call->ask.list, &schema_pool_node)));
}

void api_pool(struct request *r)
{
    ask_simple(r, MSG_POOL_NODES, MSG_POOL_ROW, answer_with_pool);
}

static void answer_with_demand(struct call *call)
{
    answer(call, json_pack("{s:o}", "demand", record_list_json(&call->ask.list, &schema_demand)));
}

void api_demand(struct request *r)
{
    ask_simple(r, MSG_DEMAND, MSG_DEMAND_ROW, answer_with_demand);
}

void api_gauges(struct request *r)
{
    ask_simple(r, MSG_GAUGES, MSG_GAUGE, answer_with_gauges);
}

void api_audit(struct request *r)
{
    if (view_role(r->view) != PRINCIPAL_ADMIN) {
        reply_problem(r->req, 403, "not_authorised", "the audit needs an admin's token");
        return;
    }
    ask_simple(r, MSG_AUDIT, MSG_AUDIT_ROW, answer_with_audit);
}

/* Starts an event stream. Returns NULL after a response with an error. */
static struct stream *begin_stream(struct request *r)
{
    struct stream *stream = stream_new(r);
    if (!stream) {
        reply_problem(r->req, 503, "limit_reached",
                      "too many pages are open, with this token or in all; try again later");
    }
    return stream;
}

static void answer_with_events(struct call *call)
{
    answer(call, response_events(&call->ask.list, call->message.u.events.after));
}

void api_events(struct request *r)
{
    const char *job = job_of(r);
    uint64_t after = 0;
    uint64_t last = EVENTS_SHOWN;
    if ((job[0] != '\0' && !is_job(r->req, job)) ||
        !request_number(r, "after", 0, MSG_NUMBER_MAX, &after) ||
        !request_number(r, "last", 1, MSG_EVENTS_MAX, &last)) {
        return;
    }
    if (request_follows(r)) {
        struct stream *stream = begin_stream(r);
        if (stream) {
            stream_join(stream, TOPIC_EVENTS, job);
        }
        return;
    }
    struct call *call = call_new(r, r->view);
    if (call) {
        (void)snprintf(call->name, sizeof(call->name), "%s", job);
        call->message = (struct tfe_msg){.type = MSG_EVENTS,
                                         .u.events = {.job = job[0] != '\0' ? call->name : NULL,
                                                      .after = after,
                                                      .last = (uint32_t)last}};
        call->ask.rows[0] = MSG_EVENT_ROW;
        call->answer = answer_with_events;
        call_send(call);
    }
}

static void answer_with_series(struct call *call)
{
    answer(call, json_pack("{s:s, s:o}", "job", call->name, "points",
                           record_list_json(&call->ask.list, &schema_point)));
}

void api_series(struct request *r)
{
    const char *name = request_query(r, "name");
    uint64_t after = 0;
    uint64_t run = 0;
    if (!is_job(r->req, r->name) || !request_number(r, "after", 0, MSG_NUMBER_MAX, &after) ||
        !request_number(r, "run", 1, MSG_RUN_MAX, &run)) {
        return;
    }
    if (name && (name[0] == '\0' || strlen(name) > MSG_METRIC_NAME_MAX)) {
        reply_problem(r->req, 400, "bad_request", "the name of the metric is invalid");
        return;
    }
    struct call *call = call_new(r, r->view);
    if (call) {
        (void)snprintf(call->name, sizeof(call->name), "%s", r->name);
        (void)snprintf(call->other, sizeof(call->other), "%s", name ? name : "");
        call->message = (struct tfe_msg){.type = MSG_SERIES,
                                         .u.series = {.job = call->name,
                                                      .run = (uint32_t)run,
                                                      .name = name ? call->other : NULL,
                                                      .after = after}};
        call->ask.rows[0] = MSG_SERIES_ROW;
        call->answer = answer_with_series;
        call_send(call);
    }
}

void api_stream(struct request *r)
{
    const char *job = request_query(r, "job");
    if (job && !is_job(r->req, job)) {
        return;
    }
    const char *pool = request_query(r, "pool");
    struct stream *stream = begin_stream(r);
    if (stream) {
        stream_join(stream, TOPIC_FLEET, "");
        stream_join(stream, TOPIC_EVENTS, job ? job : "");
    }
    if (stream && pool && strcmp(pool, "0") != 0) {
        stream_join(stream, TOPIC_QUEUE, "");
        stream_join(stream, TOPIC_POOL, "");
    }
    if (stream && job) {
        stream_join(stream, TOPIC_CONDITIONS, job);
        stream_join(stream, TOPIC_NODES, job);
        stream_join(stream, TOPIC_EPOCHS, job);
        stream_join(stream, TOPIC_POINTS, job);
    }
}

/* --- who sees it --- */

/* Makes the response of /api/v1/session. view is NULL for a caller without rights, who learns
 * nothing about the server. */
static json_t *session_json(const struct web *web, const struct view *view, bool is_logged_in)
{
    char at[ENDPOINT_TEXT_MAX];
    return json_pack("{s:b, s:b, s:s?, s:s?, s:s?}", "asks_login", web->requires_login, "logged_in",
                     is_logged_in, "role", view ? principal_role_name(view_role(view)) : NULL,
                     "server",
                     view ? endpoint_format(at, web->server.host, web->server.port) : NULL,
                     "version", view ? TFE_VERSION : NULL);
}

void api_session(struct request *r)
{
    reply_json(r->req, 200, session_json(r->web, r->view, r->login != NULL));
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
    const struct login *login = logins_begin(web->logins, view, req);
    if (!login) {
        reply_problem(req, 503, "limit_reached", "too many are logged in; try again later");
        view_leave(view);
        return;
    }
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
        reply_problem(r->req, 429, "limit_reached", "too many tokens are in use; try again later");
        return;
    }
    if (rc != 0) {
        reply_problem(r->req, 401, "not_authorised",
                      rc == TFE_EAUTH
                          ? "the token is not an observer's or admin's token of this server"
                          : "this is not a token: tokens begin with tfe1_");
        return;
    }
    /* The server accepts or rejects the token with its first response. */
    struct call *call = call_new(r, view);
    if (call) {
        call->message = (struct tfe_msg){.type = MSG_STATUS, .u.status.jobs_only = true};
        call->ask.rows[0] = MSG_STATUS_JOB;
        call->ask.rows[1] = MSG_HEALTH;
        call->ask.rows[2] = MSG_SERIES_ROW;
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
    logins_end(r->web->logins, r->login, r->req);
    reply_json(r->req, 200,
               session_json(r->web, r->web->requires_login ? NULL : r->web->own, false));
}

/* --- whether it is well --- */

void api_healthz(struct request *r)
{
    reply_json(r->req, 200, json_pack("{s:s}", "status", "ok"));
}

/* Responds with the last result of the probe, so that a caller without a token cannot cause
 * requests to the server. */
void api_readyz(struct request *r)
{
    char reason[PROBE_WHY_MAX];
    if (probe_is_ready(r->web->probe, reason)) {
        reply_json(r->req, 200, json_pack("{s:s}", "status", "ready"));
    } else {
        reply_problem(r->req, 503, "not_ready", reason);
    }
}
