/* server/ctl/request.c: one question to the server and its answers, with everything that can go
 * wrong. */
#include "server/ctl/request.h"

#include <event2/event.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/channel.h"
#include "common/net/clock.h"
#include "common/net/endpoint.h"
#include "common/net/join.h"
#include "common/net/stdio.h"
#include "common/net/timer.h"
#include "common/rows/kinds.h"

/* Between two attempts; a server that is being restarted is back within a few of them. */
#define RETRY_MS 250

/* A server that goes away in the middle of a handshake looks like one that rejects the token, so a
 * rejection counts when it comes twice, this far apart. */
#define REJECTIONS 2
#define REJECTED_RETRY_MS 1000

/* Nothing is said of failed attempts before this: most servers answer the first one. */
#define PATIENCE_MS 1000

struct attempt {
    const struct ctl_settings *settings;
    const struct ctl_verb *verb;
    const struct tfe_msg *message;
    struct row_list *rows;
    const struct join_info *join;
    struct hello_facts facts;
    struct event_base *base;
    struct event *deadline;
    struct event *retry;
    struct channel *channel;
    struct tfe_mono began;
    unsigned rejections;
    bool told; /* that it is waiting */
    int status;
    char last[256]; /* why the last attempt failed */
};

static void end(struct attempt *a, int status)
{
    a->status = status;
    (void)event_base_loopbreak(a->base);
}

static void fail(struct attempt *a, int status, const char *sentence)
{
    stdio_say("tfe-ctl", sentence);
    end(a, status);
}

static void try_again(struct attempt *a, uint32_t in_ms, const char *why)
{
    char name[ENDPOINT_TEXT_MAX];
    (void)snprintf(a->last, sizeof(a->last), "%s", why);
    if (!a->told && tfe_mono_sub(clock_mono(), a->began) >= PATIENCE_MS) {
        (void)fprintf(stderr, "tfe-ctl: waiting for %s: %s\n",
                      endpoint_format(name, a->join->host, a->join->port), why);
        a->told = true;
    }
    (void)timer_after(a->retry, in_ms);
}

/* --- the channel --- */

static void on_established(void *ctx, struct channel *ch, const struct principal *by)
{
    struct attempt *a = ctx;
    (void)by;
    row_list_done(a->rows);
    if (channel_send(ch, a->message) != 0) {
        fail(a, CTL_FAILED, "the question cannot be sent");
    }
}

static void on_refused(struct attempt *a, const struct msg_refused *refused)
{
    int status = CTL_FAILED;
    if (refused->code == REFUSAL_NOT_AUTHORISED) {
        status = CTL_UNAUTHORISED;
    } else if (refused->code == REFUSAL_BAD_REQUEST) {
        status = CTL_USAGE;
    }
    fail(a, status, refused->sentence);
}

/* The kind of a row that may answer the question, or NULL. */
static const struct row_kind *kind_of_answer(const struct ctl_verb *verb, enum tfe_msg_type type)
{
    bool is_row = false;
    for (size_t i = 0; i < sizeof(verb->rows) / sizeof(verb->rows[0]); i++) {
        is_row = is_row || type == verb->rows[i];
    }
    return is_row ? kind_of(type) : NULL;
}

static void on_message(void *ctx, struct channel *ch, const struct tfe_msg *msg)
{
    struct attempt *a = ctx;
    (void)ch;
    if (a->status >= 0) {
        return;
    }
    if (msg->type == MSG_REFUSED) {
        on_refused(a, &msg->u.refused);
        return;
    }
    const struct row_kind *kind = kind_of_answer(a->verb, msg->type);
    if (msg->type == (a->verb->show ? MSG_STATUS_END : MSG_DONE)) {
        end(a, EXIT_SUCCESS);
    } else if (!kind) {
        fail(a, CTL_FAILED, REQUEST_STRANGE);
    } else if (row_list_add(a->rows, kind, &msg->u) != 0) {
        fail(a, CTL_FAILED, "out of memory");
    }
}

static void on_closed(void *ctx, struct channel *ch, enum channel_end how, const char *detail)
{
    struct attempt *a = ctx;
    (void)ch;
    a->channel = NULL;
    if (a->status >= 0) {
        return;
    }
    switch (how) {
    case CHANNEL_UNAUTHORISED:
        if (++a->rejections < REJECTIONS) {
            try_again(a, REJECTED_RETRY_MS, "the token was rejected");
        } else {
            fail(a, CTL_UNAUTHORISED,
                 "not authorised: the server does not accept this token; it may belong to another "
                 "server, or have expired");
        }
        return;
    case CHANNEL_NO_MEMORY:
        fail(a, CTL_FAILED, "out of memory");
        return;
    case CHANNEL_EOF:
    case CHANNEL_RESET:
    case CHANNEL_TIMEOUT:
    case CHANNEL_UNREACHABLE:
    case CHANNEL_PROTOCOL:
    case CHANNEL_OVERFLOW:
        try_again(a, RETRY_MS, detail);
        return;
    }
}

static const struct channel_ops channel_callbacks = {
    .established = on_established, .message = on_message, .closed = on_closed};

/* --- attempts --- */

static void dial(struct attempt *a)
{
    int64_t left = a->settings->timeout_ms - tfe_mono_sub(clock_mono(), a->began);
    /* The deadline timer ends it; this limit only must not be shorter. */
    uint32_t limit = left > 0 ? (uint32_t)left + 1 : 1;
    int rc = channel_connect(a->base, a->join->host, a->join->port, a->join->token, &a->facts,
                             limit, &channel_callbacks, a, &a->channel);
    if (rc == TFE_EPROTO) {
        fail(a, CTL_UNAUTHORISED, "not authorised: the token names no usable server key");
    } else if (rc != 0) {
        try_again(a, RETRY_MS, tfe_error_sentence(rc));
    }
}

static void on_retry(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    dial(ctx);
}

static void on_deadline(evutil_socket_t fd, short what, void *ctx)
{
    struct attempt *a = ctx;
    char name[ENDPOINT_TEXT_MAX];
    char sentence[768];
    (void)fd;
    (void)what;
    (void)snprintf(sentence, sizeof(sentence), "no answer from %s within %" PRIu32 " ms%s%s",
                   endpoint_format(name, a->join->host, a->join->port), a->settings->timeout_ms,
                   a->last[0] != '\0' ? ": " : "", a->last);
    fail(a, CTL_UNREACHED, sentence);
}

static int run_attempts(struct attempt *a)
{
    a->base = event_base_new();
    if (a->base) {
        a->deadline = evtimer_new(a->base, on_deadline, a);
        a->retry = evtimer_new(a->base, on_retry, a);
    }
    if (!a->deadline || !a->retry || timer_after(a->deadline, a->settings->timeout_ms) != 0) {
        (void)fprintf(stderr, "tfe-ctl: the event loop cannot be set up\n");
        return CTL_FAILED;
    }
    dial(a);
    if (a->status < 0 && event_base_dispatch(a->base) != 0) {
        (void)fprintf(stderr, "tfe-ctl: the event loop failed\n");
        return CTL_FAILED;
    }
    return a->status >= 0 ? a->status : CTL_FAILED;
}

int request_find_server(struct ctl_settings *settings, const struct ctl_verb *verb)
{
    struct join_wish wish = {.endpoint = settings->endpoint,
                             .token = settings->token,
                             .token_file = settings->token_file,
                             .state_dir = settings->state_dir};
    struct tfe_why why;
    if (!verb_is_order(verb)) {
        wish.roles[wish.n_roles++] = PRINCIPAL_OBSERVER;
    }
    wish.roles[wish.n_roles++] = PRINCIPAL_ADMIN;
    if (sodium_init() < 0) {
        (void)fprintf(stderr, "tfe-ctl: libsodium cannot be set up\n");
        return CTL_FAILED;
    }
    int rc = join_find(&wish, &settings->server, &why);
    if (rc != 0) {
        stdio_say("tfe-ctl", why.text);
        return rc == TFE_EINVAL ? CTL_USAGE : CTL_UNAUTHORISED;
    }
    return EXIT_SUCCESS;
}

int request_run(const struct ctl_settings *settings, const struct ctl_verb *verb,
                const struct tfe_msg *message, struct row_list *rows)
{
    struct attempt a = {.settings = settings,
                        .verb = verb,
                        .message = message,
                        .rows = rows,
                        .join = &settings->server,
                        .facts = {.version_min = PROTOCOL_VERSION, .version_max = PROTOCOL_VERSION},
                        .began = clock_mono(),
                        .status = -1};
    randombytes_buf(&a.facts.boot_nonce, sizeof(a.facts.boot_nonce));
    int status = run_attempts(&a);
    channel_free(a.channel);
    if (a.deadline) {
        event_free(a.deadline);
    }
    if (a.retry) {
        event_free(a.retry);
    }
    if (a.base) {
        event_base_free(a.base);
    }
    return status;
}
