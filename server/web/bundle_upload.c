/* server/web/bundle_upload.c: PUT /api/v1/bundles/DIGEST. Forwards a bundle to the server chunk by
 * chunk; the bundle is never in memory as a whole. */
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/timer.h"
#include "common/channel/channel.h"
#include "common/records/json_text.h"
#include "server/web/api.h"
#include "server/web/calls.h"
#include "server/web/reply.h"

/* Maximum duration of an upload, and the minimum rate in bytes per second once HTTP_REQUEST_MS have
 * passed. They bound how long a client holds a slot. */
#define UPLOAD_MS (INT64_C(1800) * 1000)
#define RATE_MIN 1024

#define TOO_MANY "too many concurrent uploads, of this token or in total (try again)"

/* A partial chunk is sent after this time if more bytes have arrived: the server drops an upload
 * that is silent for 20 s, and a client may be silent for HTTP_REQUEST_MS. */
#define CHUNK_MS 2000
_Static_assert(CHUNK_MS + HTTP_REQUEST_MS < 20000, "");

struct upload {
    struct call *call;
    struct share share;
    struct event *wake;  /* active if bytes may have arrived or may be sent */
    struct event *stall; /* fires if no bytes arrive */
    struct tfe_mono since;
    struct tfe_mono sent; /* when the last chunk was sent, or the upload started */
    uint32_t total;
    uint32_t at;    /* offset of the next byte to send to the server */
    uint32_t until; /* the server accepts bytes below this offset; 0 until its first response */
    bool is_lost;   /* the connection to the server ended, and the server dropped its part of the
                       bundle */
    uint32_t n_chunk;
    uint8_t chunk[MSG_CHUNK_MAX];
};

static void upload_free(void *own)
{
    struct upload *u = own;
    event_drop(&u->wake);
    event_drop(&u->stall);
    share_release(&u->share);
    free(u);
}

static void fail(struct upload *u, int status, const char *code, const char *sentence)
{
    reply_problem(call_end(u->call), status, code, sentence);
}

/* Responds that the server has the bundle, from this upload or from an earlier one. */
static void answer_stored(struct call *call)
{
    const struct upload *u = call->own;
    const bool is_new = u->at == u->total;
    json_t *done = json_pack("{s:s, s:b}", "bundle", call->name, "created", is_new);
    struct http_request *req = call_end(call);
    if (is_new) {
        http_set_header(req, "Location",
                        strrchr(http_path(req), '/') + 1); /* relative to the request's path */
    }
    reply_json(req, is_new ? 201 : 200, done);
}

static void on_want(struct client_request *request, const struct tfe_msg *row)
{
    struct upload *u = call_of(request)->own;
    const struct msg_bundle_want *want = &row->u.bundle_want;
    if (!u->is_lost) {
        u->until = want->until < u->total ? want->until : u->total;
        event_active(u->wake, EV_READ, 0);
    }
}

/* The connection to the server has ended. Before the server has accepted bytes, the client repeats
 * the request by itself. */
static void on_waiting(void *ctx, const char *reason)
{
    struct upload *u = ctx;
    if (u->until > 0) {
        u->is_lost = true;
        event_active(u->wake, EV_READ, 0);
    }
}

/* Returns an error that client_send_more's caller has to report, or 0. The client reports other
 * errors through on_ended. */
static int send_chunk(struct upload *u)
{
    const struct tfe_msg put = {.type = MSG_BUNDLE_PUT,
                                .u.bundle_put = {.digest = u->call->name,
                                                 .offset = u->at,
                                                 .data = u->chunk,
                                                 .n_data = u->n_chunk,
                                                 .is_last = u->at + u->n_chunk == u->total}};
    const int rc = client_send_more(u->call->client, &put);
    u->at += u->n_chunk;
    u->n_chunk = 0;
    u->sent = clock_mono();
    return rc && !channel_ends_itself(rc) ? rc : 0;
}

/* Returns how many bytes may be read now. Others stay in the kernel or at the client. */
static uint32_t allowance(const struct upload *u)
{
    const uint32_t window = u->until > u->at + u->n_chunk ? u->until - u->at - u->n_chunk : 0;
    const uint32_t space = MSG_CHUNK_MAX - u->n_chunk;
    return window < space ? window : space;
}

static int forward(struct upload *u)
{
    size_t n;
    int rc = 0;
    while (rc == 0 && (n = http_body_read(u->call->req, u->chunk + u->n_chunk, allowance(u))) > 0) {
        u->n_chunk += (uint32_t)n;
        (void)timer_after(u->stall, HTTP_REQUEST_MS);
        if (u->n_chunk == MSG_CHUNK_MAX || u->at + u->n_chunk == u->total ||
            tfe_mono_sub(clock_mono(), u->sent) > CHUNK_MS) {
            rc = send_chunk(u);
        }
    }
    return rc;
}

static void on_wake(evutil_socket_t fd, short what, void *ctx)
{
    struct upload *u = ctx;
    if (u->is_lost) {
        fail(u, 502, "failed",
             "the connection to the server was lost during the upload (send the whole bundle "
             "again)");
        return;
    }
    const int rc = forward(u);
    const int64_t ms = tfe_mono_sub(clock_mono(), u->since);
    if (rc != 0) {
        fail(u, 502, "failed", tfe_error_sentence(rc));
    } else if (ms > UPLOAD_MS ||
               (ms - HTTP_REQUEST_MS) / 1000 * RATE_MIN > (int64_t)u->at + u->n_chunk) {
        fail(u, 408, "too_slow", "the upload is too slow");
    }
}

static void on_stall(evutil_socket_t fd, short what, void *ctx)
{
    struct upload *u = ctx;
    if (allowance(u) == 0) {
        fail(u, 504, "no_answer", "the server does not accept the bundle");
    } else {
        fail(u, 408, "too_slow", "the rest of the bundle is missing");
    }
}

/* Starts the upload and hands u over to the call. Returns false without memory; call_end frees u
 * then as well. */
static bool begin(struct upload *u, struct call *call, const struct request *r)
{
    u->call = call;
    u->since = u->sent = clock_mono();
    u->total = (uint32_t)http_body_left(r->req);
    u->wake = event_new(r->web->base, -1, 0, on_wake, u);
    u->stall = evtimer_new(r->web->base, on_stall, u);
    call->own = u;
    call->own_free = upload_free;
    (void)snprintf(call->name, sizeof(call->name), "%s", r->name);
    call->message = (struct tfe_msg){.type = MSG_BUNDLE_HAVE,
                                     .u.bundle_have = {.digest = call->name, .total = u->total}};
    call->request.row = on_want;
    call->answer = answer_stored;
    (void)event_del(call->deadline); /* the upload has its own time limits */
    return u->wake && u->stall && timer_after(u->stall, HTTP_REQUEST_MS) == 0 &&
           view_dial(r->view, on_waiting, NULL, u, &call->client) == 0;
}

/* Ends this upload in favour of another caller's. */
static void evict(void *owner)
{
    fail(owner, 503, "limit_reached", TOO_MANY);
}

/* Checks the request. Returns NULL if it is valid, or a sentence with *ret_status. */
static const char *find_fault(const struct request *r, int *ret_status)
{
    const uint64_t n = http_body_left(r->req);
    *ret_status = 400;
    if (strlen(r->name) != MSG_BUNDLE_HEX ||
        strspn(r->name, "0123456789abcdef") != MSG_BUNDLE_HEX) {
        return "the bundle's name must be its digest: BLAKE2b of 32 bytes, as 64 hexadecimal "
               "digits";
    }
    if (!http_has_length(r->req)) {
        *ret_status = 411;
        return "a bundle needs Content-Length";
    }
    if (n > MSG_BUNDLE_MAX) {
        *ret_status = 413;
        return "the bundle is larger than 64 MiB (store data elsewhere)";
    }
    return n == 0 ? "the bundle is empty" : NULL;
}

void api_put_bundle(struct request *r)
{
    int status;
    const char *fault = find_fault(r, &status);
    if (fault) {
        reply_problem(r->req, status, status == 413 ? "too_large" : "bad_request", fault);
        return;
    }
    struct call *call = call_new(r, r->view);
    struct upload *u = call ? calloc(1, sizeof(*u)) : NULL;
    const struct share_holder holder = request_holder(r);
    if (!call) {
        return;
    }
    if (u && !share_enter(r->web->shares, SHARE_UPLOADS, &holder, u, evict, &u->share)) {
        free(u);
        reply_problem(call_end(call), 503, "limit_reached", TOO_MANY);
        return;
    }
    if (!u || !begin(u, call, r)) {
        reply_problem(call_end(call), 503, "no_memory", "out of memory");
        return;
    }
    http_stream_body(r->req, u->wake);
    call_send(call);
}
