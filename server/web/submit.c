/* server/web/submit.c: POST /api/v1/jobs: a job as JSON, or a form of it and its bundle, which goes
 * on to the server as it comes. */
#include <event2/event.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jobs/job_file.h"
#include "common/jobs/job_message.h"
#include "common/jobs/job_name.h"
#include "common/net/channel.h"
#include "common/net/clock.h"
#include "common/net/timer.h"
#include "common/rows/json.h"
#include "server/web/api.h"
#include "server/web/calls.h"
#include "server/web/http.h"
#include "server/web/intake.h"
#include "server/web/multipart.h"
#include "server/web/reply.h"

/* Forms at a time: the server takes as many bundles. Each holds some 300 KiB here. */
#define FORMS_MAX 8

/* A form's bytes: a bundle, a job, and what a form puts around them. */
#define FORM_BYTES_MAX (MSG_BUNDLE_MAX + HTTP_BODY_MAX + 65536u)

/* All of it has come by then, however little comes at a time; none for HTTP_REQUEST_MS is the end,
 * too. */
#define FORM_MS (INT64_C(1800) * 1000)

/* Taken at a time; before a bundle has begun so little that one fits into a chunk. */
#define TAKE_BYTES 16384u
#define TAKE_BYTES_FIRST 4096u
_Static_assert(TAKE_BYTES_FIRST <= MSG_CHUNK_MAX, "");

/* What has come of a bundle is told by then, if more of it comes, however little it is: the server
 * lets go of who says nothing for 20 s, and here nothing may come for HTTP_REQUEST_MS. */
#define TELL_MS 2000
_Static_assert(TELL_MS + HTTP_REQUEST_MS < 20000, "");

/* What was read of a form and not told yet may be a boundary. */
#define HELD_MAX (4u + MULTIPART_BOUNDARY_MAX)

/* What the message points to, and what is to be said of it. */
struct handed_in {
    json_t *job;
    struct msg_spec spec;
    struct tfe_why warning;
    unsigned n_made; /* names for it */
};

enum part { PART_NONE, PART_JOB, PART_BUNDLE };

struct form {
    struct handed_in in; /* without a job until its part is over */
    struct call *call;
    struct intake *body;
    struct event *wake;  /* there is something to take, or to send */
    struct event *stall; /* nothing has come for too long */
    struct tfe_mono since;
    struct multipart reader;
    enum part part; /* that is being read */
    bool has_job, has_bundle;
    bool is_read; /* all of the form */
    bool is_put;  /* the server has the bundle */
    bool is_lost; /* the server was, and with it what it had of the bundle */
    char *job;    /* its part's bytes; NULL: none, or read */
    size_t n_job;
    size_t taken; /* bytes that the reader has at this moment */
    /* The bundle: bytes said to the server, that it takes by now, that there are at most. */
    uint32_t at, until, total;
    struct tfe_mono told; /* something of it, or that it begins */
    bool is_whole;        /* the chunk is its last */
    uint32_t n_chunk;
    uint8_t chunk[MSG_CHUNK_MAX];
};

/* --- what was handed in ----------------------------------------------------------------------- */

static void handed_in_done(struct handed_in *in)
{
    job_message_done(&in->spec);
    json_decref(in->job);
}

static void handed_in_free(void *own)
{
    handed_in_done(own);
    free(own);
}

static int make_name(struct handed_in *in, struct tfe_why *why)
{
    uint8_t random[JOB_NAME_RANDOM];
    randombytes_buf(random, sizeof(random));
    in->n_made++;
    return job_name_make(in->job, random, why);
}

/* As job_file_take. */
static int take_job(struct handed_in *in, const json_t *tree, struct tfe_why *why)
{
    int rc = job_file_take(tree, &in->job, &in->warning, why);
    rc = rc == 0 && job_name_is_wanted(in->job) ? make_name(in, why) : rc;
    return rc ? rc : job_message_make(in->job, &in->spec, why);
}

/* in: what call->own begins with. */
static void answer_handed_in(struct call *call)
{
    const struct handed_in *in = call->own;
    const char *warning = in->warning.text[0] != '\0' ? in->warning.text : NULL;
    json_t *done = json_pack("{s:s, s:s}", "done", "submit", "name", call->name);
    if (done && warning && json_object_set_new(done, "warning", row_json_text(warning)) != 0) {
        json_decref(done);
        done = NULL;
    }
    reply_json(call_end(call), 200, done);
}

static bool make_anew(struct call *call, enum tfe_refusal code);

/* Asks the server to take it; call->own begins with a handed_in. */
static void hand_in(struct call *call)
{
    const struct handed_in *in = call->own;
    (void)snprintf(call->name, sizeof(call->name), "%s", in->spec.name);
    call->message = (struct tfe_msg){.type = MSG_SUBMIT, .u.submit.spec = in->spec};
    call->ask =
        (struct client_ask){.message = &call->message, .is_order = true, .ended = call->ask.ended};
    call->answer = answer_handed_in;
    call->again = make_anew;
    call_ask(call);
}

/* Another job has the name that was made. */
static bool make_anew(struct call *call, enum tfe_refusal code)
{
    struct handed_in *in = call->own;
    struct tfe_why why;
    if (code != REFUSAL_CONFLICT || in->n_made == 0 || in->n_made >= JOB_NAME_TRIES) {
        return false;
    }
    job_message_done(&in->spec);
    in->spec = (struct msg_spec){.name = NULL};
    if (make_name(in, &why) != 0 || job_message_make(in->job, &in->spec, &why) != 0) {
        return false;
    }
    hand_in(call);
    return true;
}

static void refuse(struct evhttp_request *req, int rc, const char *sentence)
{
    switch (rc) {
    case TFE_EINVAL:
        reply_problem(req, 400, "bad_request", sentence);
        return;
    case TFE_ETOOBIG:
        reply_problem(req, 413, "too_large", sentence);
        return;
    case TFE_ENOMEM:
        reply_problem(req, 503, "no_memory", "out of memory");
        return;
    default:
        reply_problem(req, 502, "failed", sentence);
        return;
    }
}

static void submit_json(struct request *r)
{
    struct tfe_why why = {.text = ""};
    struct handed_in *in = calloc(1, sizeof(*in));
    int rc = in ? take_job(in, r->body, &why) : TFE_ENOMEM;
    if (rc) {
        refuse(r->req, rc, why.text);
    }
    struct call *call = rc ? NULL : call_new(r->web, r->view, r->req);
    if (call) {
        call->own = in;
        call->own_free = handed_in_free;
        hand_in(call);
    } else if (in) {
        handed_in_free(in);
    }
}

/* --- a form's parts --------------------------------------------------------------------------- */

static void form_free(void *own)
{
    struct form *f = own;
    intake_end(f->body);
    event_drop(&f->wake);
    event_drop(&f->stall);
    handed_in_done(&f->in);
    f->call->web->n_forms--;
    free(f->job);
    free(f);
}

static void fail(struct form *f, int code, const char *what, const char *sentence)
{
    reply_problem(call_end(f->call), code, what, sentence);
}

static int invalid(struct tfe_why *why, const char *sentence)
{
    why_set(why, "%s", sentence);
    return TFE_EINVAL;
}

static void on_want(struct client_ask *ask, const struct tfe_msg *row)
{
    struct call *call = call_of(ask);
    struct form *f = call->own;
    const struct msg_bundle_want *want = &row->u.bundle_want;
    if (!f->is_lost) {
        f->until = want->until < f->total ? want->until : f->total;
        event_active(f->wake, EV_READ, 0);
    }
}

static void on_put(struct call *call)
{
    struct form *f = call->own;
    f->is_put = true;
    f->n_chunk = 0;
    event_active(f->wake, EV_READ, 0);
}

/* The bundle begins: the server is asked to take so much at most. */
static int begin_bundle(struct form *f, struct tfe_why *why)
{
    struct call *call = f->call;
    const uint64_t most = intake_left(f->body) + f->taken;
    if (!f->has_job || f->has_bundle) {
        return invalid(why, f->has_bundle ? "bundle: the form has two of them"
                                          : "bundle: the job's part comes before it");
    }
    if (f->in.spec.source_kind != SOURCE_BUNDLE) {
        return invalid(why, "bundle: the job's source does not name it: {\"bundle\": DIGEST} does, "
                            "by the BLAKE2b of its bytes");
    }
    f->has_bundle = true;
    f->part = PART_BUNDLE;
    f->told = clock_mono();
    f->total = most < MSG_BUNDLE_MAX ? (uint32_t)most : MSG_BUNDLE_MAX;
    call->message =
        (struct tfe_msg){.type = MSG_BUNDLE_HAVE, .u.bundle_have = {f->in.spec.source, f->total}};
    call->ask.is_order = true;
    call->ask.rows[0] = MSG_BUNDLE_WANT;
    call->ask.row = on_want;
    call->answer = on_put;
    call_ask(call);
    return 0;
}

static int on_part(void *ctx, const char *name, struct tfe_why *why)
{
    struct form *f = ctx;
    if (strcmp(name, "bundle") == 0) {
        return begin_bundle(f, why);
    }
    if (strcmp(name, "job") != 0) {
        why_set(why, "%.64s: a form has the parts job and bundle", name);
        return TFE_EINVAL;
    }
    if (f->has_job) {
        return invalid(why, "job: the form has two of them");
    }
    f->has_job = true;
    f->part = PART_JOB;
    f->job = malloc(HTTP_BODY_MAX);
    return f->job ? 0 : TFE_ENOMEM;
}

static int send_chunk(struct form *f, struct tfe_why *why)
{
    const struct tfe_msg put = {.type = MSG_BUNDLE_PUT,
                                .u.bundle_put = {.digest = f->in.spec.source,
                                                 .offset = f->at,
                                                 .data = f->chunk,
                                                 .n_data = f->n_chunk,
                                                 .is_last = f->is_whole}};
    int rc = f->is_lost ? TFE_ESTATE : client_say(f->call->client, &put);
    f->at += f->n_chunk;
    f->n_chunk = 0;
    f->told = clock_mono();
    if (rc && !channel_ends_itself(rc)) {
        why_set(why, "the bundle cannot be sent to the server: %s", tfe_error_sentence(rc));
        return rc;
    }
    return 0; /* of a connection that ends the client tells */
}

/* Whether the chunk goes as it is, now that there is more. */
static bool is_due(const struct form *f)
{
    const bool is_late = tfe_mono_sub(clock_mono(), f->told) > TELL_MS;
    return f->n_chunk == MSG_CHUNK_MAX ||
           (is_late && f->n_chunk > 0 && f->at + f->n_chunk <= f->until);
}

/* A chunk goes when there is more: the last one says that it is. */
static int take_bundle(struct form *f, const uint8_t *bytes, size_t n, struct tfe_why *why)
{
    if (f->is_put) {
        return 0; /* the server had it before */
    }
    if (n > f->total - f->at - f->n_chunk) {
        why_set(why, "bundle: it has more than %u MiB: data belongs elsewhere",
                MSG_BUNDLE_MAX >> 20);
        return TFE_ETOOBIG;
    }
    while (n > 0) {
        int rc = is_due(f) ? send_chunk(f, why) : 0;
        if (rc) {
            return rc;
        }
        const size_t room = MSG_CHUNK_MAX - f->n_chunk;
        const size_t some = n < room ? n : room;
        memcpy(f->chunk + f->n_chunk, bytes, some);
        f->n_chunk += (uint32_t)some;
        bytes += some;
        n -= some;
    }
    return 0;
}

static int on_bytes(void *ctx, const uint8_t *bytes, size_t n, struct tfe_why *why)
{
    struct form *f = ctx;
    if (f->part == PART_BUNDLE) {
        return take_bundle(f, bytes, n, why);
    }
    if (n > HTTP_BODY_MAX - f->n_job) {
        why_set(why, "job: it has more than %u KiB: put what is long into its files",
                HTTP_BODY_MAX >> 10);
        return TFE_ETOOBIG;
    }
    memcpy(f->job + f->n_job, bytes, n);
    f->n_job += n;
    return 0;
}

static int end_job(struct form *f, struct tfe_why *why)
{
    json_error_t error;
    json_t *tree = json_loadb(f->job, f->n_job, JSON_REJECT_DUPLICATES, &error);
    int rc = json_is_object(tree) ? take_job(&f->in, tree, why)
                                  : invalid(why, "job: this part is a JSON object");
    json_decref(tree);
    free(f->job);
    f->job = NULL;
    return rc;
}

static int on_end(void *ctx, struct tfe_why *why)
{
    struct form *f = ctx;
    const enum part part = f->part;
    f->part = PART_NONE;
    if (part == PART_JOB) {
        return end_job(f, why);
    }
    f->is_whole = true;
    return f->is_put || f->n_chunk > 0 ? 0 : invalid(why, "bundle: it is empty");
}

/* --- a form as it comes ----------------------------------------------------------------------- */

/* Bytes that may be taken now: what the server does not take yet waits in the kernel, or with who
 * sends it. */
static size_t allowance(const struct form *f)
{
    if (f->part != PART_BUNDLE) {
        return TAKE_BYTES_FIRST;
    }
    if (f->is_put || f->until == f->total) {
        return TAKE_BYTES;
    }
    const uint32_t held = f->at + f->n_chunk + HELD_MAX;
    const uint32_t room = f->until > held ? f->until - held : 0;
    return room < TAKE_BYTES ? room : TAKE_BYTES;
}

static int take_some(struct form *f, struct tfe_why *why)
{
    uint8_t bytes[TAKE_BYTES];
    size_t n;
    int rc = 0;
    while (rc == 0 && (n = intake_take(f->body, bytes, allowance(f))) > 0) {
        f->taken = n;
        rc = multipart_read(&f->reader, bytes, n, why);
        (void)timer_after(f->stall, HTTP_REQUEST_MS);
    }
    if (rc == 0 && !f->is_read && intake_left(f->body) == 0) {
        f->is_read = true;
        rc = multipart_end(&f->reader, why);
        rc = rc == 0 && !f->has_job ? invalid(why, "job: the form has no such part") : rc;
    }
    return rc;
}

static void on_wake(evutil_socket_t fd, short what, void *ctx)
{
    struct form *f = ctx;
    struct tfe_why why = {.text = ""};
    if (!intake_is_taken(f->body)) {
        return; /* it is handed in */
    }
    if (f->is_lost) {
        fail(f, 502, "failed",
             "the server was lost while it took the bundle: send all of it again");
        return;
    }
    int rc = take_some(f, &why);
    if (rc == 0 && f->is_whole && f->n_chunk > 0 && f->at + f->n_chunk <= f->until) {
        rc = send_chunk(f, &why);
    }
    if (rc) {
        refuse(call_end(f->call), rc, why.text);
    } else if (f->is_read && (f->is_put || !f->has_bundle)) {
        intake_end(f->body);
        http_is_answer(f->call->web->http, f->call->req);
        (void)event_del(f->stall);
        (void)timer_after(f->call->deadline, CALL_MS);
        hand_in(f->call);
    } else if (tfe_mono_sub(clock_mono(), f->since) > FORM_MS) {
        fail(f, 408, "too_slow", "the form has taken too long to come");
    }
}

/* Of the two one is waited for. */
static void on_stall(evutil_socket_t fd, short what, void *ctx)
{
    struct form *f = ctx;
    if (f->is_read || (f->part == PART_BUNDLE && allowance(f) == 0)) {
        fail(f, 504, "no_answer", "the server does not take the bundle");
    } else {
        fail(f, 408, "too_slow", "the rest of the form has not come");
    }
}

/* Before it has taken something it is only not there yet. */
static void on_waiting(void *ctx, const char *why)
{
    struct form *f = ctx;
    if (f->until > 0 && !f->is_put) {
        f->is_lost = true;
        event_active(f->wake, EV_READ, 0);
    }
}

/* What the form needs; it is the call's then. False: no memory. */
static bool form_make(struct form *f, struct request *r, struct call *call)
{
    f->call = call;
    f->body = r->form;
    f->since = clock_mono();
    f->wake = event_new(r->web->base, -1, 0, on_wake, f);
    f->stall = evtimer_new(r->web->base, on_stall, f);
    r->web->n_forms++;
    call->own = f;
    call->own_free = form_free;
    return f->wake && f->stall && timer_after(f->stall, HTTP_REQUEST_MS) == 0 &&
           view_dial(r->view, on_waiting, NULL, f, &call->client) == 0;
}

static void submit_form(struct request *r)
{
    const char *type = evhttp_find_header(evhttp_request_get_input_headers(r->req), "Content-Type");
    struct tfe_why why = {.text = ""};
    if (intake_left(r->form) > FORM_BYTES_MAX) {
        why_set(&why, "the form has more than a bundle of %u MiB and its job need",
                MSG_BUNDLE_MAX >> 20);
        refuse(r->req, TFE_ETOOBIG, why.text);
        return;
    }
    if (r->web->n_forms >= FORMS_MAX) {
        reply_problem(r->req, 503, "limit_reached", "too many bundles come at a time: try again");
        return;
    }
    struct form *f = calloc(1, sizeof(*f));
    const struct multipart_sink sink = {on_part, on_bytes, on_end, f};
    int rc = f ? multipart_init(&f->reader, type, &sink, &why) : TFE_ENOMEM;
    if (rc) {
        refuse(r->req, rc, why.text);
    }
    struct call *call = rc ? NULL : call_new(r->web, r->view, r->req);
    if (!call) {
        free(f);
        return;
    }
    (void)event_del(call->deadline); /* the form has its own */
    if (!form_make(f, r, call)) {
        refuse(call_end(call), TFE_ENOMEM, "");
        return;
    }
    intake_begin(f->body, f->wake);
}

void api_submit(struct request *r)
{
    if (r->form) {
        submit_form(r);
    } else {
        submit_json(r);
    }
}
