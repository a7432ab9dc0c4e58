/* agent/preemption/aws.c: polls the EC2 instance metadata service (version 2) for spot
 * interruptions and rebalance recommendations, after fetching a token.
 *
 *   TOKEN --> ACTION --> REBALANCE --> (5 s) --> ACTION ...
 *     ^__ 401 ___|___________| */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "agent/preemption/source.h"

#define TOKEN_PATH "/latest/api/token"
#define ACTION_PATH "/latest/meta-data/spot/instance-action"
#define REBALANCE_PATH "/latest/meta-data/events/recommendations/rebalance"
#define DOCUMENT_PATH "/latest/dynamic/instance-identity/document"
#define LIFE_PATH "/latest/meta-data/instance-life-cycle"

/* EC2 gives notice two minutes ahead. */
#define LEAD_MS 120000

/* Maximum length of a token; tokens have 56 characters. */
#define TOKEN_MAX 1023
#define TOKEN_HEADER "X-aws-ec2-metadata-token: "
_Static_assert(sizeof TOKEN_HEADER + TOKEN_MAX <= SOURCE_HEADER_MAX + 1, "a header holds it");

enum aws_step { STEP_TOKEN, STEP_ACTION, STEP_REBALANCE };
static const char *const paths[] = {
    [STEP_TOKEN] = TOKEN_PATH, [STEP_ACTION] = ACTION_PATH, [STEP_REBALANCE] = REBALANCE_PATH};

struct aws {
    enum aws_step step;  /* request in progress */
    enum aws_step after; /* STEP_TOKEN: request that needs the token */
    char token[TOKEN_MAX + 1];
    bool is_fresh;   /* the token was fetched for this request */
    bool went_wrong; /* a request of this round failed */
};

static void ask(struct source *s, enum aws_step step);

/* Sends the next request of the round, or ends the round. */
static void go_on(struct source *s)
{
    struct aws *aws = s->own;
    aws->is_fresh = false;
    if (aws->step == STEP_ACTION) {
        ask(s, STEP_REBALANCE);
        return;
    }
    if (!aws->went_wrong) {
        source_works(s);
    }
    source_poll_after(&s->poll, s->options->intervals->aws_ms);
}

/* Continues after a useless response. */
static void go_on_after_failure(struct source *s)
{
    struct aws *aws = s->own;
    aws->went_wrong = true;
    if (aws->step == STEP_ACTION) {
        go_on(s); /* the other request may succeed */
    } else {
        source_poll_after(&s->poll, s->options->intervals->aws_ms);
    }
}

static void give_up(struct source *s, const char *reason)
{
    const struct aws *aws = s->own;
    if (source_failed(s, paths[aws->step], reason)) {
        go_on_after_failure(s);
    }
}

static void read_token(struct source *s, const struct http_response *answer)
{
    struct aws *aws = s->own;
    size_t n = 0;
    while (isgraph((unsigned char)answer->body[n])) {
        n++;
    }
    if (answer->status != 200 || n == 0 || n > TOKEN_MAX ||
        answer->body[n + strspn(answer->body + n, "\r\n")] != '\0') {
        give_up(s, "it gives no token");
        return;
    }
    snprintf(aws->token, sizeof aws->token, "%.*s", (int)n, answer->body);
    aws->is_fresh = true;
    if (!s->is_found) {
        source_works(s);
    }
    ask(s, aws->after);
}

static void read_action(struct source *s, const struct http_response *answer)
{
    json_t *root = json_loadb(answer->body, answer->body_n, 0, NULL);
    const char *action;
    const char *time;
    struct tfe_mono deadline = TFE_MONO_NEVER;
    bool is_valid = json_unpack(root, "{s:s,s:s}", "action", &action, "time", &time) == 0;
    if (is_valid) {
        /* Hibernation starts at once. */
        const uint32_t lead_ms = strcmp(action, "hibernate") == 0 ? 0 : LEAD_MS;
        is_valid = source_deadline(answer, time, lead_ms, &deadline) == 0;
    }
    if (is_valid) {
        /* Use the action as tag, because the time may change with each response. */
        source_set(s, NOTICE_PREEMPT, action, deadline, false);
    }
    json_decref(root);
    if (is_valid) {
        go_on(s);
    } else {
        give_up(s, "it is no {\"action\",\"time\"}");
    }
}

/* Rejects pages of other services: a hint can move a whole job if there is a spare. */
static void read_rebalance(struct source *s, const struct http_response *answer)
{
    json_t *root = json_loadb(answer->body, answer->body_n, 0, NULL);
    const bool is_hint = json_is_string(json_object_get(root, "noticeTime"));
    json_decref(root);
    if (!is_hint) {
        give_up(s, "it is no {\"noticeTime\"}");
        return;
    }
    source_set(s, NOTICE_REBALANCE, "rebalance", TFE_MONO_NEVER, true);
    go_on(s);
}

static void handle(struct source_poll *poll, const struct http_response *answer, const char *error)
{
    struct source *s = poll->source;
    struct aws *aws = s->own;
    if (!answer) {
        source_unanswered(s, paths[aws->step], error);
        go_on_after_failure(s);
    } else if (aws->step == STEP_TOKEN) {
        read_token(s, answer);
    } else if (answer->status == 401 && !aws->is_fresh) {
        ask(s, STEP_TOKEN);
    } else if (answer->status == 404) {
        source_withdraw(s, aws->step == STEP_ACTION ? NOTICE_PREEMPT : NOTICE_REBALANCE);
        go_on(s);
    } else if (answer->status != 200) {
        aws->token[0] = answer->status == 401 ? '\0' : aws->token[0];
        give_up(s, "neither 200 nor 404");
    } else if (aws->step == STEP_ACTION) {
        read_action(s, answer);
    } else {
        read_rebalance(s, answer);
    }
}

static void head(const struct source *s, char ret[SOURCE_HEADER_MAX + 1])
{
    const struct aws *aws = s->own;
    snprintf(ret, SOURCE_HEADER_MAX + 1, TOKEN_HEADER "%s", aws->token);
}

/* Sends a request, preceded by a token request if there is no token. */
static void ask(struct source *s, enum aws_step step)
{
    struct aws *aws = s->own;
    char line[SOURCE_HEADER_MAX + 1];
    const char *const headers[] = {line, NULL};
    const bool is_token = step == STEP_TOKEN || !aws->token[0];
    if (is_token) {
        snprintf(line, sizeof line, "X-aws-ec2-metadata-token-ttl-seconds: 21600");
        aws->after = step == STEP_TOKEN ? aws->step : step;
        aws->step = STEP_TOKEN;
    } else {
        head(s, line);
        aws->step = step;
    }
    const struct http_request question = {.method = is_token ? "PUT" : "GET", .headers = headers};
    source_request(&s->poll, paths[aws->step], &question, handle);
}

static void turn(struct source_poll *poll)
{
    struct aws *aws = poll->source->own;
    aws->went_wrong = false;
    ask(poll->source, STEP_ACTION);
}

/* --- machine facts --- */

static bool read_document(struct cloud_facts *facts, const struct http_response *answer)
{
    json_t *root = json_loadb(answer->body, answer->body_n, 0, NULL);
    const char *zone;
    const char *type;
    const bool is_valid =
        json_unpack(root, "{s:s,s:s}", "availabilityZone", &zone, "instanceType", &type) == 0 &&
        source_text(facts->zone, zone, strlen(zone)) &&
        source_text(facts->instance, type, strlen(type));
    json_decref(root);
    return is_valid;
}

/* Parses "spot", "on-demand", "scheduled" or "capacity-block". */
static bool read_life_cycle(struct cloud_facts *facts, const struct http_response *answer)
{
    facts->has_spot = islower((unsigned char)answer->body[0]) != 0;
    facts->is_spot = strncmp(answer->body, "spot", 4) == 0;
    return facts->has_spot;
}

static const struct source_fact facts[] = {
    {DOCUMENT_PATH, read_document}, {LIFE_PATH, read_life_cycle}, {NULL, NULL}};

const struct source_ops source_aws = {
    .name = "aws", .size = sizeof(struct aws), .turn = turn, .facts = facts, .head = head};
