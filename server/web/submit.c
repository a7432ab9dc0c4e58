/* server/web/submit.c: POST /api/v1/jobs: submits a job file in JSON. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_file.h"
#include "common/job/job_message.h"
#include "common/job/job_name.h"
#include "common/records/json_text.h"
#include "server/web/api.h"
#include "server/web/calls.h"
#include "server/web/reply.h"

/* A submission: the job that the message points to, and a warning for the response. */
struct submission {
    json_t *job;
    struct msg_spec spec;
    struct tfe_reason warning;
    unsigned n_names; /* names generated so far */
};

static void submission_done(struct submission *in)
{
    job_message_done(&in->spec);
    json_decref(in->job);
}

static void submission_free(void *own)
{
    submission_done(own);
    free(own);
}

static int make_name(struct submission *in, struct tfe_reason *reason)
{
    uint8_t random[JOB_NAME_RANDOM];
    randombytes_buf(random, sizeof(random));
    in->n_names++;
    return job_name_make(in->job, random, reason);
}

/* Reads the job file, and generates a name if it has none. Errors as of job_file_read_any. */
static int read_job(struct submission *in, const json_t *tree, struct tfe_reason *reason)
{
    int rc = job_file_read_any(tree, &in->job, &in->warning, reason);
    rc = rc == 0 && job_name_is_wanted(in->job) ? make_name(in, reason) : rc;
    return rc ? rc : job_message_make(in->job, &in->spec, reason);
}

/* Responds that the server has accepted the job. */
static void respond_submitted(struct call *call)
{
    const struct submission *in = call->own;
    const char *warning = in->warning.text[0] != '\0' ? in->warning.text : NULL;
    json_t *done = json_pack("{s:s, s:s}", "done", "submit", "name", call->name);
    if (done && warning && json_object_set_new(done, "warning", json_from_text(warning)) != 0) {
        json_decref(done);
        done = NULL;
    }
    char location[sizeof(call->name) + sizeof("jobs/")];
    (void)snprintf(location, sizeof(location), "jobs/%s", call->name); /* relative to .../jobs */
    struct http_request *req = call_end(call);
    http_set_header(req, "Location", location);
    reply_json(req, 201, done);
}

static bool retry_name(struct call *call, enum tfe_refusal code);

/* Sends the submission, which call->own points to. */
static void submit(struct call *call)
{
    const struct submission *in = call->own;
    (void)snprintf(call->name, sizeof(call->name), "%s", in->spec.name);
    call->message = (struct tfe_msg){.type = MSG_SUBMIT, .u.submit.spec = in->spec};
    call->ask = (struct client_request){.message = &call->message, .ended = call->ask.ended};
    call->answer = respond_submitted;
    call->again = retry_name;
    call_send(call);
}

/* Submits again under another generated name if the first one is in use. */
static bool retry_name(struct call *call, enum tfe_refusal code)
{
    struct submission *in = call->own;
    struct tfe_reason reason;
    if (code != REFUSAL_CONFLICT || in->n_names == 0 || in->n_names >= JOB_NAME_TRIES) {
        return false;
    }
    job_message_done(&in->spec);
    in->spec = (struct msg_spec){.name = NULL};
    if (make_name(in, &reason) != 0 || job_message_make(in->job, &in->spec, &reason) != 0) {
        return false;
    }
    submit(call);
    return true;
}

static void refuse(struct http_request *req, int rc, const char *sentence)
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

void api_submit(struct request *r)
{
    struct tfe_reason reason = {.text = ""};
    struct submission *in = calloc(1, sizeof(*in));
    int rc = in ? read_job(in, r->body, &reason) : TFE_ENOMEM;
    if (rc) {
        refuse(r->req, rc, reason.text);
    }
    struct call *call = rc ? NULL : call_new(r, r->view);
    if (call) {
        call->own = in;
        call->own_free = submission_free;
        submit(call);
    } else if (in) {
        submission_free(in);
    }
}
