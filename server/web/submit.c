/* server/web/submit.c: POST /api/v1/jobs: submits a job file in JSON. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/job_file.h"
#include "common/job/job_name.h"
#include "common/job/tfjob.h"
#include "server/web/api.h"
#include "server/web/calls.h"
#include "server/web/reply.h"

/* A submission: the job, and its text, which the message points to. */
struct submission {
    json_t *job;
    char *spec;
    unsigned n_names; /* names generated so far */
};

static void submission_free(void *own)
{
    struct submission *in = own;
    json_decref(in->job);
    free(in->spec);
    free(in);
}

/* Formats the job, under a new generated name unless is_named. Returns TFE_ENOMEM. */
static int format_job(struct submission *in, bool is_named, struct tfe_reason *reason)
{
    uint8_t random[JOB_NAME_RANDOM];
    randombytes_buf(random, sizeof(random));
    in->n_names += !is_named;
    if (!is_named && job_name_make(in->job, random, reason) != 0) {
        return TFE_ENOMEM;
    }
    free(in->spec);
    in->spec = job_file_format(in->job);
    return in->spec ? 0 : TFE_ENOMEM;
}

/* Responds that the server has accepted the job. */
static void respond_submitted(struct call *call)
{
    const struct submission *in = call->own;
    struct tfe_reason warning;
    job_file_warn(in->job, &warning);
    json_t *done = json_pack("{s:s, s:s, s:s*}", "done", "submit", "name", call->name, "warning",
                             warning.text[0] != '\0' ? warning.text : NULL);
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
    (void)snprintf(call->name, sizeof(call->name), "%s", job_text(in->job, "name"));
    call->message =
        (struct tfe_msg){.type = MSG_SUBMIT, .u.submit = {.job = call->name, .spec = in->spec}};
    call->answer = respond_submitted;
    call->again = retry_name;
    call_send(call);
}

/* Submits again under another generated name if the first one is in use. */
static bool retry_name(struct call *call, enum tfe_refusal code)
{
    struct submission *in = call->own;
    struct tfe_reason reason;
    if (code != REFUSAL_CONFLICT || in->n_names == 0 || in->n_names >= JOB_NAME_TRIES ||
        format_job(in, false, &reason) != 0) {
        return false;
    }
    submit(call);
    return true;
}

void api_submit(struct request *r)
{
    struct tfe_reason reason = {.text = ""};
    struct submission *in = calloc(1, sizeof(*in));
    int rc = in ? tfjob_read(r->body, &in->job, &reason) : TFE_ENOMEM;
    rc = rc == 0 ? format_job(in, !job_name_is_wanted(in->job), &reason) : rc;
    if (rc == TFE_EINVAL) {
        reply_problem(r->req, 400, "bad_request", reason.text);
    } else if (rc) {
        reply_problem(r->req, 503, "no_memory", "out of memory");
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
