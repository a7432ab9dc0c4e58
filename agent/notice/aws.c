/* agent/notice/aws.c: the instance metadata service of EC2, version 2: a token first, then every
 * few seconds whether the spot instance is to be interrupted, and whether it may be soon.
 *
 *   TOKEN --> ACTION --> REBALANCE --> (5 s) --> ACTION …
 *     ^__ 401 ___|___________|
 */
#include <jansson.h>
#include <string.h>

#include "agent/notice/source.h"
#include "common/net/timer.h"

#define TOKEN_PATH "/latest/api/token"
#define ACTION_PATH "/latest/meta-data/spot/instance-action"
#define REBALANCE_PATH "/latest/meta-data/events/recommendations/rebalance"

/* EC2 warns two minutes ahead, never earlier. */
#define LEAD_MS 120000

/* A token has 56 characters. */
#define TOKEN_MAX 1023

enum aws_step { STEP_TOKEN, STEP_ACTION, STEP_REBALANCE, STEP_PAUSE };

struct aws {
    struct event *timer;
    struct http *http;
    enum aws_step step;  /* what is asked */
    enum aws_step after; /* STEP_TOKEN: what it is for */
    char token[TOKEN_MAX + 1];
    bool is_fresh;   /* the token was got for this question */
    bool went_wrong; /* something in this round */
};

static void ask(struct source *s, enum aws_step step);

static void pause_then(struct source *s)
{
    struct aws *aws = s->own;
    aws->step = STEP_PAUSE;
    timer_after(aws->timer, s->wish->pace->aws_ms);
}

/* The next question of the round, or its end. */
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
    pause_then(s);
}

static void give_up(struct source *s, const char *path, const char *why)
{
    struct aws *aws = s->own;
    aws->went_wrong = true;
    if (!source_failed(s, path, why)) {
        return;
    }
    if (aws->step == STEP_ACTION) {
        go_on(s); /* the other question may have better luck */
    } else {
        pause_then(s);
    }
}

static void take_token(struct source *s, const struct http_answer *answer)
{
    struct aws *aws = s->own;
    if (answer->status != 200 || answer->body_n == 0 || answer->body_n > TOKEN_MAX) {
        give_up(s, TOKEN_PATH, "it gives no token");
        return;
    }
    memcpy(aws->token, answer->body, answer->body_n + 1);
    aws->token[strcspn(aws->token, "\r\n")] = '\0';
    aws->is_fresh = true;
    if (!s->is_found) {
        source_works(s);
    }
    ask(s, aws->after);
}

static void take_action(struct source *s, const struct http_answer *answer)
{
    json_error_t error;
    json_t *root = json_loadb(answer->body, answer->body_n, 0, &error);
    const char *action = json_string_value(json_object_get(root, "action"));
    const char *time = json_string_value(json_object_get(root, "time"));
    struct tfe_mono deadline = TFE_MONO_NEVER;
    /* Hibernation begins at once. */
    const uint32_t lead_ms = action && strcmp(action, "hibernate") == 0 ? 0 : LEAD_MS;
    if (!action || !time || source_deadline(answer, time, lead_ms, &deadline)) {
        json_decref(root);
        give_up(s, ACTION_PATH, "it is no {\"action\",\"time\"}");
        return;
    }
    /* The time of one action may move with every answer: only another action is news. */
    source_tell(s, NOTICE_PREEMPT, action, deadline, false);
    json_decref(root);
    go_on(s);
}

/* A hint moves a whole job where a spare stands by: no page of somebody else's may be one. */
static void take_rebalance(struct source *s, const struct http_answer *answer)
{
    json_error_t error;
    json_t *root = json_loadb(answer->body, answer->body_n, 0, &error);
    const bool is_hint = json_is_string(json_object_get(root, "noticeTime"));
    json_decref(root);
    if (!is_hint) {
        give_up(s, REBALANCE_PATH, "it is no {\"noticeTime\"}");
        return;
    }
    source_tell(s, NOTICE_REBALANCE, "rebalance", TFE_MONO_NEVER, true);
    go_on(s);
}

static void take(struct source *s, const struct http_answer *answer, const char *path)
{
    struct aws *aws = s->own;
    const enum tfe_notice kind = aws->step == STEP_ACTION ? NOTICE_PREEMPT : NOTICE_REBALANCE;
    if (aws->step == STEP_TOKEN) {
        take_token(s, answer);
    } else if (answer->status == 401 && !aws->is_fresh) {
        ask(s, STEP_TOKEN);
    } else if (answer->status == 404) {
        source_quiet(s, kind);
        go_on(s);
    } else if (answer->status != 200) {
        aws->token[0] = answer->status == 401 ? '\0' : aws->token[0];
        give_up(s, path, "neither 200 nor 404");
    } else if (aws->step == STEP_ACTION) {
        take_action(s, answer);
    } else {
        take_rebalance(s, answer);
    }
}

static void on_answer(void *ctx, const struct http_answer *answer, const char *error)
{
    static const char *const paths[] = {
        [STEP_TOKEN] = TOKEN_PATH, [STEP_ACTION] = ACTION_PATH, [STEP_REBALANCE] = REBALANCE_PATH};
    struct source *s = ctx;
    struct aws *aws = s->own;
    aws->http = NULL;
    if (answer) {
        take(s, answer, paths[aws->step]);
    } else {
        give_up(s, paths[aws->step], error);
    }
}

static void ask(struct source *s, enum aws_step step)
{
    struct aws *aws = s->own;
    const struct http_header ttl[] = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"},
                                      {NULL, NULL}};
    const struct http_header token[] = {{"X-aws-ec2-metadata-token", aws->token}, {NULL, NULL}};
    const bool is_token = step == STEP_TOKEN || !aws->token[0];
    const struct http_question question = {
        .method = is_token ? "PUT" : "GET",
        .path = is_token              ? TOKEN_PATH
                : step == STEP_ACTION ? ACTION_PATH
                                      : REBALANCE_PATH,
        .headers = is_token ? ttl : token,
    };
    if (is_token) {
        aws->after = step == STEP_TOKEN ? aws->step : step;
    }
    aws->step = is_token ? STEP_TOKEN : step;
    if (!source_ask(s, &question, on_answer, s, &aws->http) && !s->is_over) {
        aws->token[0] = '\0'; /* with a character in it that no header may have, perhaps */
        pause_then(s);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct source *s = ctx;
    struct aws *aws = s->own;
    aws->went_wrong = false;
    ask(s, STEP_ACTION);
}

static int start(struct source *s)
{
    struct aws *aws = s->own;
    aws->timer = evtimer_new(s->base, on_timer, s);
    if (!aws->timer) {
        return TFE_ENOMEM;
    }
    timer_after(aws->timer, 0);
    return 0;
}

static void stop(struct source *s)
{
    struct aws *aws = s->own;
    http_free(aws->http);
    aws->http = NULL;
    if (aws->timer) {
        event_free(aws->timer);
        aws->timer = NULL;
    }
}

const struct source_ops source_aws = {
    .name = "aws", .size = sizeof(struct aws), .start = start, .stop = stop};
