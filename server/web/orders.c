/* server/web/orders.c: the handlers of /api/v1 that change something; see api.h. */
#include <stdio.h>
#include <string.h>

#include "common/records/json_text.h"
#include "server/web/api.h"
#include "server/web/calls.h"
#include "server/web/reply.h"

static void answer_done(struct call *call)
{
    json_t *done = json_pack("{s:s, s:o}", "done", call->other, "name", json_from_text(call->name));
    reply_json(call_end(call), 200, done);
}

/* Makes a call for an order on r->name. word: the value of "done" in the response. */
static struct call *order_new(struct request *r, enum tfe_msg_type type, const char *word)
{
    struct call *call = call_new(r, r->view);
    if (call) {
        (void)snprintf(call->name, sizeof(call->name), "%s", r->name);
        (void)snprintf(call->other, sizeof(call->other), "%s", word);
        call->message = (struct tfe_msg){.type = type};
        call->ask.is_order = true;
        call->answer = answer_done;
    }
    return call;
}

/* Reads a number of the body. Returns false, after a response with 400, if the value is out of
 * range. *ret is unchanged if the key is absent. */
static bool read_number(struct request *r, const char *key, uint32_t min, uint32_t max,
                        uint32_t *ret)
{
    json_t *value = json_object_get(r->body, key);
    json_int_t number = json_integer_value(value);
    char sentence[128];
    if (!value || json_is_null(value)) {
        return true;
    }
    if (!json_is_integer(value) || number < (json_int_t)min || number > (json_int_t)max) {
        (void)snprintf(sentence, sizeof(sentence), "%s must be a number from %u to %u", key,
                       (unsigned)min, (unsigned)max);
        reply_problem(r->req, 400, "bad_request", sentence);
        return false;
    }
    *ret = (uint32_t)number;
    return true;
}

void api_drain(struct request *r)
{
    uint32_t within_ms = MSG_UNSET;
    if (!read_number(r, "within_ms", 0, MSG_DURATION_MAX_MS, &within_ms)) {
        return;
    }
    struct call *call = order_new(r, MSG_DRAIN, "drain");
    if (call) {
        call->message.u.drain = (struct msg_drain){.node = call->name, .within_ms = within_ms};
        call_send(call);
    }
}

void api_evict(struct request *r)
{
    uint32_t for_ms = 0;
    if (!read_number(r, "for_ms", 0, MSG_DURATION_MAX_MS, &for_ms)) {
        return;
    }
    struct call *call = order_new(r, MSG_EVICT, "evict");
    if (call) {
        call->message.u.evict = (struct msg_evict){.node = call->name, .for_ms = for_ms};
        call_send(call);
    }
}

/* Sends an order whose only operand is a job. job: offset of the job's name in struct tfe_msg. */
static void order_job(struct request *r, enum tfe_msg_type type, const char *word, size_t job)
{
    struct call *call = api_is_job(r) ? order_new(r, type, word) : NULL;
    if (call) {
        const char *name = call->name;
        memcpy((char *)&call->message + job, &name, sizeof(name));
        call_send(call);
    }
}

#define ORDER_JOB(word, TYPE, member)                                                              \
    void api_##word(struct request *r)                                                             \
    {                                                                                              \
        order_job(r, TYPE, #word, offsetof(struct tfe_msg, u.member.job));                         \
    }
ORDER_JOB(grow, MSG_GROW, grow)
ORDER_JOB(suspend, MSG_SUSPEND, suspend)
ORDER_JOB(resume, MSG_RESUME, resume)
ORDER_JOB(cancel, MSG_CANCEL, cancel)
ORDER_JOB(restart, MSG_RERUN, rerun)
#undef ORDER_JOB

/* Reads min and max of the body. Returns false after a response with 400. */
static bool read_sizes(struct request *r, uint32_t *ret_min, uint32_t *ret_max)
{
    *ret_min = *ret_max = 0;
    if (!read_number(r, "min", 1, MSG_NODES_MAX, ret_min) ||
        !read_number(r, "max", 1, MSG_NODES_MAX, ret_max)) {
        return false;
    }
    if (*ret_min == 0 || *ret_max < *ret_min) {
        reply_problem(r->req, 400, "bad_request",
                      "min and max must be numbers, and min must not be above max");
        return false;
    }
    return true;
}

void api_scale(struct request *r)
{
    uint32_t min;
    uint32_t max;
    uint32_t n_ps = MSG_UNSET;
    if (!api_is_job(r) || !read_number(r, "ps", 1, MSG_NODES_MAX, &n_ps) ||
        !read_sizes(r, &min, &max)) {
        return;
    }
    struct call *call = order_new(r, MSG_SCALE, "scale");
    if (call) {
        call->message.u.scale =
            (struct msg_scale){.job = call->name, .min_nodes = min, .max_nodes = max, .n_ps = n_ps};
        call_send(call);
    }
}
