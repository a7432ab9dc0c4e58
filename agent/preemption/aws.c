/* agent/preemption/aws.c: polls the EC2 instance metadata service (version 2) for spot
 * interruptions and rebalance recommendations, both every 5 s. Each request needs a token, which is
 * fetched first and again after a response 401. */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "agent/preemption/source.h"

#define TOKEN_PATH "/latest/api/token"
#define DOCUMENT_PATH "/latest/dynamic/instance-identity/document"
#define LIFE_PATH "/latest/meta-data/instance-life-cycle"

/* EC2 gives notice two minutes ahead. */
#define LEAD_MS 120000

/* Maximum length of a token; tokens have 56 characters. */
#define TOKEN_MAX 1023
#define TOKEN_HEADER "X-aws-ec2-metadata-token: "
_Static_assert(sizeof TOKEN_HEADER + TOKEN_MAX <= SOURCE_HEADER_MAX + 1, "a header holds it");

struct aws {
    size_t next;    /* index of the next request in requests */
    size_t current; /* index of the last request */
    size_t n_good;  /* successful requests of this round */
    char token[TOKEN_MAX + 1];
    bool is_fresh; /* no request has used the token yet */
};

static const char *read_token(struct source_poll *poll, const struct http_response *response)
{
    struct source *s = poll->source;
    struct aws *aws = s->own;
    size_t n = 0;
    while (isgraph((unsigned char)response->body[n])) {
        n++;
    }
    if (response->status != 200 || n == 0 || n > TOKEN_MAX ||
        response->body[n + strspn(response->body + n, "\r\n")] != '\0') {
        return "the response is not a token";
    }
    snprintf(aws->token, sizeof aws->token, "%.*s", (int)n, response->body);
    aws->is_fresh = true;
    if (!s->is_found) {
        source_works(s);
    }
    source_poll_after(poll, 0);
    return NULL;
}

static const char *read_action(struct source *s, const struct http_response *response)
{
    json_t *root = json_loadb(response->body, response->body_n, 0, NULL);
    const char *action;
    const char *time;
    struct tfe_mono deadline = TFE_MONO_NEVER;
    bool is_valid = json_unpack(root, "{s:s,s:s}", "action", &action, "time", &time) == 0;
    if (is_valid) {
        /* Hibernation starts at once. */
        const uint32_t lead_ms = strcmp(action, "hibernate") == 0 ? 0 : LEAD_MS;
        is_valid = source_deadline(response, time, lead_ms, &deadline) == 0;
    }
    if (is_valid) {
        /* Use the action as tag, because the time may change with each response. */
        source_set(s, NOTICE_PREEMPT, action, deadline, false);
    }
    json_decref(root);
    return is_valid ? NULL : "the response is not {\"action\",\"time\"}";
}

/* Rejects pages of other services: a hint can move a whole job if there is a spare. */
static const char *read_rebalance(struct source *s, const struct http_response *response)
{
    json_t *root = json_loadb(response->body, response->body_n, 0, NULL);
    const bool is_hint = json_is_string(json_object_get(root, "noticeTime"));
    json_decref(root);
    if (!is_hint) {
        return "the response is not {\"noticeTime\"}";
    }
    source_set(s, NOTICE_REBALANCE, "rebalance", TFE_MONO_NEVER, true);
    return NULL;
}

/* The requests of a round. */
static const struct {
    const char *path;
    enum tfe_notice kind; /* withdrawn by a response 404 */
    const char *(*read)(struct source *s, const struct http_response *response);
} requests[] = {
    {"/latest/meta-data/spot/instance-action", NOTICE_PREEMPT, read_action},
    {"/latest/meta-data/events/recommendations/rebalance", NOTICE_REBALANCE, read_rebalance},
};
#define REQUESTS (sizeof requests / sizeof requests[0])

static const char *handle(struct source_poll *poll, const struct http_response *response)
{
    struct source *s = poll->source;
    struct aws *aws = s->own;
    const bool was_fresh = aws->is_fresh;
    const char *reason = NULL;
    aws->is_fresh = false;
    if (response->status == 401) {
        aws->token[0] = '\0';
    }
    if (response->status == 401 && !was_fresh) {
        aws->next = aws->current;
        source_poll_after(poll, 0);
        return NULL;
    }
    if (response->status == 404) {
        source_withdraw(s, requests[aws->current].kind);
    } else if (response->status == 200) {
        reason = requests[aws->current].read(s, response);
    } else {
        reason = "neither 200 nor 404";
    }
    if (!reason && ++aws->n_good == REQUESTS) {
        source_works(s);
    }
    return reason;
}

static void header(const struct source *s, char ret[SOURCE_HEADER_MAX + 1])
{
    const struct aws *aws = s->own;
    snprintf(ret, SOURCE_HEADER_MAX + 1, TOKEN_HEADER "%s", aws->token);
}

/* Sends the next request of the round. A failed request does not delay the other one. */
static void turn(struct source_poll *poll)
{
    static const char *const ttl[] = {"X-aws-ec2-metadata-token-ttl-seconds: 21600", NULL};
    struct aws *aws = poll->source->own;
    poll->interval_ms = poll->source->options->intervals->aws_ms;
    if (!aws->token[0]) {
        source_request(poll, TOKEN_PATH, &(struct http_request){.method = "PUT", .headers = ttl},
                       read_token);
        return;
    }
    if (aws->next == 0) {
        aws->n_good = 0;
    }
    aws->current = aws->next;
    aws->next = (aws->current + 1) % REQUESTS;
    if (aws->next != 0) {
        poll->interval_ms = 0;
    }
    source_request(poll, requests[aws->current].path, &(struct http_request){.method = "GET"},
                   handle);
}

/* --- machine info --- */

static bool read_document(struct cloud_info *info, const struct http_response *response)
{
    json_t *root = json_loadb(response->body, response->body_n, 0, NULL);
    const char *zone;
    const char *type;
    const bool is_valid =
        json_unpack(root, "{s:s,s:s}", "availabilityZone", &zone, "instanceType", &type) == 0 &&
        source_text(info->zone, zone, strlen(zone)) &&
        source_text(info->instance, type, strlen(type));
    json_decref(root);
    return is_valid;
}

/* Parses "spot", "on-demand", "scheduled" or "capacity-block". */
static bool read_life_cycle(struct cloud_info *info, const struct http_response *response)
{
    info->has_spot = islower((unsigned char)response->body[0]) != 0;
    info->is_spot = strncmp(response->body, "spot", 4) == 0;
    return info->has_spot;
}

static const struct source_query queries[] = {
    {DOCUMENT_PATH, read_document}, {LIFE_PATH, read_life_cycle}, {NULL, NULL}};

const struct source_ops source_aws = {
    .name = "aws", .size = sizeof(struct aws), .turn = turn, .queries = queries, .header = header};
