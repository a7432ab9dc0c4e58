/* server/web/logs.c: see logs.h. */
#include "server/web/logs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/records/json_text.h"
#include "common/records/schemas.h"
#include "server/web/api.h"
#include "server/web/calls.h"
#include "server/web/reply.h"
#include "server/web/streams.h"

#define TOO_MANY "too many log readers, of this token or in total (try again later)"

#define RANKS_MAX (MSG_NODES_MAX * MSG_NPROC_MAX)

/* Reads the query into *ret. Returns false, after a response with 400, if the query is invalid. */
static bool read_query(struct request *r, struct msg_logs *ret)
{
    uint64_t rank = UINT64_MAX;
    uint64_t lines = LOGS_LINES;
    uint64_t since = 0;
    *ret = (struct msg_logs){.epoch = 0};
    if (!request_number(r, "rank", 0, RANKS_MAX - 1, &rank) ||
        !request_number(r, "lines", 0, LOGS_LINES_MAX, &lines) ||
        !request_number(r, "epoch", 1, MSG_NUMBER_MAX, &ret->epoch) ||
        !request_number(r, "since_ms", 0, MSG_NUMBER_MAX, &since)) {
        return false;
    }
    const char *node = request_query(r, "node");
    if (node && !id_is_valid(node)) {
        reply_problem(r->req, 400, "bad_request", "the node's id or label is invalid");
        return false;
    }
    ret->has_rank = rank != UINT64_MAX;
    ret->rank = ret->has_rank ? (uint32_t)rank : 0;
    ret->lines = (uint32_t)lines;
    ret->since = (struct tfe_wall){.ms = (int64_t)since};
    return true;
}

/* --- one answer --- */

struct page {
    struct call *call;
    struct share share;
    size_t bytes;
    bool is_cut;
};

static void page_free(void *own)
{
    struct page *page = own;
    share_release(&page->share);
    free(page);
}

static void on_page_row(struct client_request *request, const struct tfe_msg *msg)
{
    struct call *call = call_of(request);
    struct page *page = call->own;
    if (request->list.n == 0) { /* true also for a repeated query on a new connection */
        page->bytes = 0;
        page->is_cut = false;
    }
    size_t n = sizeof(struct msg_log_lines) + strlen(msg->u.log_lines.text);
    if (page->is_cut || page->bytes + n > LOGS_BYTES_MAX ||
        record_list_add(&request->list, &schema_log_lines, &msg->u.log_lines) != 0) {
        page->is_cut = true; /* later rows are left out as well: a shorter row would hide the gap */
        return;
    }
    page->bytes += n;
}

static void answer_page(struct call *call)
{
    const struct page *page = call->own;
    json_t *value =
        json_pack("{s:s, s:o, s:b}", "job", call->name, "lines",
                  record_list_json(&call->request.list, &schema_log_lines), "cut", page->is_cut);
    reply_json(call_end(call), 200, value);
}

/* Ends this reader in favour of another caller's. */
static void evict_page(void *owner)
{
    struct page *page = owner;
    reply_problem(call_end(page->call), 503, "limit_reached", TOO_MANY);
}

static void show_page(struct request *r, const struct msg_logs *query)
{
    struct call *call = call_new(r, r->view);
    if (!call) {
        return;
    }
    const struct share_holder holder = request_holder(r);
    struct page *page = calloc(1, sizeof(*page));
    if (page) {
        page->call = call;
        call->own = page;
        call->own_free = page_free;
    }
    if (!page ||
        !share_enter(r->web->shares, SHARE_LOGS, &holder, page, evict_page, &page->share) ||
        view_dial(r->view, NULL, NULL, NULL, &call->client) != 0) {
        reply_problem(call_end(call), 503, "limit_reached", TOO_MANY);
        return;
    }
    const char *node = request_query(r, "node");
    (void)snprintf(call->name, sizeof(call->name), "%s", r->name);
    (void)snprintf(call->other, sizeof(call->other), "%s", node ? node : "");
    call->message = (struct tfe_msg){.type = MSG_LOGS, .u.logs = *query};
    call->message.u.logs.job = call->name;
    call->message.u.logs.node = node ? call->other : NULL;
    call->request.row = on_page_row;
    call->answer = answer_page;
    call_send(call);
}

/* --- following new lines --- */

struct tail {
    struct share share;
    struct view *view;
    struct stream *stream;
    struct client *client;
    struct client_request request;
    struct tfe_msg message;
    uint64_t
        lost; /* lines that were dropped because the page is too slow, and not reported to it yet */
    bool has_begun; /* a row was sent to the page */
    struct tfe_id job;
    char node[TFE_LABEL_MAX + 1];
};

static uint64_t lines_of(const struct msg_log_lines *row)
{
    uint64_t n = row->lost + (row->text[0] != '\0' || row->lost == 0);
    for (const char *at = row->text; (at = strchr(at, '\n')); at++) {
        n++;
    }
    return n;
}

static void on_tail_row(struct client_request *request, const struct tfe_msg *msg)
{
    struct tail *t = (struct tail *)((char *)request - offsetof(struct tail, request));
    const struct msg_log_lines *row = &msg->u.log_lines;
    if (t->lost > 0 || stream_is_behind(t->stream)) {
        t->lost += lines_of(row);
        return;
    }
    t->has_begun = true;
    stream_send(t->stream, "lines", record_json(&schema_log_lines, row));
}

static void on_caught_up(void *own)
{
    struct tail *t = own;
    if (t->lost > 0) {
        stream_send(t->stream, "lost", json_pack("{s:I}", "lines", (json_int_t)t->lost));
        t->lost = 0;
    }
}

/* Each new connection repeats the query from the start. */
static void on_waiting(void *ctx, const char *reason)
{
    struct tail *t = ctx;
    stream_send(t->stream, "state",
                json_pack("{s:b, s:o}", "up", 0, "why", json_from_text(reason)));
}

static void on_connected(void *ctx)
{
    struct tail *t = ctx;
    if (t->has_begun || t->lost > 0) {
        t->has_begun = false;
        t->lost = 0;
        stream_send(t->stream, "again", json_object());
    }
    stream_send(t->stream, "state", json_pack("{s:b, s:n}", "up", 1, "why"));
}

static void on_ended(struct client_request *request, enum client_end how, enum tfe_refusal code,
                     const char *sentence)
{
    struct tail *t = (struct tail *)((char *)request - offsetof(struct tail, request));
    if (how == CLIENT_UNAUTHORISED) {
        view_reject(t->view); /* ends this stream */
        return;
    }
    on_caught_up(t);
    const char *word = how == CLIENT_ANSWERED  ? NULL
                       : how == CLIENT_REFUSED ? msg_refusal_name(code)
                                               : "failed";
    stream_send(t->stream, "end",
                json_pack("{s:s?, s:o}", "code", word, "detail",
                          how == CLIENT_ANSWERED ? json_null() : json_from_text(sentence)));
    stream_end(t->stream);
}

static void tail_free(void *own)
{
    struct tail *t = own;
    share_release(&t->share);
    client_free(t->client);
    record_list_done(&t->request.list);
    free(t);
}

/* Ends this reader in favour of another caller's. */
static void evict_tail(void *owner)
{
    struct tail *t = owner;
    stream_send(t->stream, "end",
                json_pack("{s:s, s:s}", "code", "limit_reached", "detail", TOO_MANY));
    stream_end(t->stream);
}

static void follow(struct request *r, const struct msg_logs *query)
{
    struct tail *t = calloc(1, sizeof(*t));
    const struct share_holder holder = request_holder(r);
    const char *node = request_query(r, "node");
    if (!t || view_dial(r->view, on_waiting, on_connected, t, &t->client) != 0) {
        free(t);
        reply_problem(r->req, 503, "no_memory", "out of memory");
        return;
    }
    const bool has_share =
        share_enter(r->web->shares, SHARE_LOGS, &holder, t, evict_tail, &t->share);
    t->stream = has_share ? stream_new(r) : NULL;
    if (!t->stream) {
        tail_free(t);
        reply_problem(r->req, 503, "limit_reached", TOO_MANY);
        return;
    }
    t->view = r->view;
    (void)id_set(&t->job, r->name); /* api_is_job has checked the id */
    (void)snprintf(t->node, sizeof(t->node), "%s", node ? node : "");
    t->message = (struct tfe_msg){.type = MSG_LOGS, .u.logs = *query};
    t->message.u.logs.job = t->job.text;
    t->message.u.logs.node = node ? t->node : NULL;
    t->message.u.logs.follow = true;
    t->request =
        (struct client_request){.message = &t->message, .row = on_tail_row, .ended = on_ended};
    stream_attach(t->stream, t, on_caught_up, tail_free);
    client_request(t->client, &t->request);
}

void api_logs(struct request *r)
{
    struct msg_logs query;
    if (!api_is_job(r) || !read_query(r, &query)) {
        return;
    }
    if (request_follows(r)) {
        follow(r, &query);
    } else {
        show_page(r, &query);
    }
}
