/* server/ctl/request.c: sends one request to the server and receives its response, with all
 * errors. */
#include "server/ctl/request.h"

#include <event2/event.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/timer.h"
#include "common/channel/channel.h"
#include "common/channel/endpoint.h"
#include "common/cli/stdio.h"
#include "common/credentials/join.h"
#include "common/records/client.h"

/* Retry interval: a server that restarts is reached again within a few attempts. */
#define RETRY_MS 250

/* Failed attempts are not reported before this time, because most servers respond to the first
 * one. */
#define TIMEOUT_MS 1000

struct attempt {
    const struct ctl_settings *settings;
    struct event_base *base;
    struct event *deadline;
    struct event *check; /* timer that asks whether a stream continues; NULL if not used */
    struct client *client;
    struct client_request request;
    const struct request_stream *stream; /* NULL if rows are collected in a list */
    struct tfe_mono began;
    enum tfe_refusal expected; /* refusal that is returned and not reported; 0 if none */
    bool is_expected;
    bool has_reported; /* true if "waiting" was reported */
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
    stdio_print_message("tfe-ctl", sentence);
    end(a, status);
}

static void on_waiting(void *ctx, const char *reason)
{
    struct attempt *a = ctx;
    const struct join_info *join = &a->settings->server;
    char name[ENDPOINT_TEXT_MAX];
    (void)snprintf(a->last, sizeof(a->last), "%s", reason);
    if (!a->has_reported && tfe_mono_sub(clock_mono(), a->began) >= TIMEOUT_MS) {
        (void)fprintf(stderr, "tfe-ctl: waiting for %s: %s\n",
                      endpoint_format(name, join->host, join->port), reason);
        a->has_reported = true;
    }
    if (a->stream && !evtimer_pending(a->deadline, NULL)) {
        a->began = clock_mono();
        (void)timer_after(a->deadline, a->settings->timeout_ms);
        a->stream->lost(a->stream->ctx);
    }
}

/* For a stream, only the time without a connection counts against --timeout. */
static void on_connected(void *ctx)
{
    struct attempt *a = ctx;
    if (a->stream) {
        (void)evtimer_del(a->deadline);
        a->has_reported = false;
    }
}

static void on_row(struct client_request *request, const struct tfe_msg *row)
{
    struct attempt *a = (struct attempt *)((char *)request - offsetof(struct attempt, request));
    struct tfe_msg reply;
    if (a->status < 0 && !a->stream->row(a->stream->ctx, row)) {
        end(a, CTL_FAILED);
    }
    while (a->status < 0 && a->stream->reply && a->stream->reply(a->stream->ctx, &reply)) {
        const int rc = client_send_more(a->client, &reply);
        if (rc != 0 && !channel_ends_itself(rc)) {
            fail(a, CTL_FAILED, tfe_error_sentence(rc));
        }
    }
}

static int status_of(enum client_end how, enum tfe_refusal code)
{
    switch (how) {
    case CLIENT_ANSWERED:
        return EXIT_SUCCESS;
    case CLIENT_UNAUTHORISED:
        return CTL_UNAUTHORISED;
    case CLIENT_REFUSED:
        return code == REFUSAL_NOT_AUTHORISED ? CTL_UNAUTHORISED
               : code == REFUSAL_BAD_REQUEST  ? CTL_USAGE
                                              : CTL_FAILED;
    case CLIENT_UNEXPECTED:
    case CLIENT_FAILED:
        return CTL_FAILED;
    }
    return CTL_FAILED;
}

static void on_ended(struct client_request *request, enum client_end how, enum tfe_refusal code,
                     const char *sentence)
{
    struct attempt *a = (struct attempt *)((char *)request - offsetof(struct attempt, request));
    int status = status_of(how, code);
    a->is_expected = how == CLIENT_REFUSED && code == a->expected && request->n_sent == 1;
    if (status == EXIT_SUCCESS || a->is_expected) {
        end(a, status);
    } else {
        fail(a, status, sentence);
    }
}

static void on_deadline(evutil_socket_t fd, short what, void *ctx)
{
    struct attempt *a = ctx;
    const struct join_info *join = &a->settings->server;
    char name[ENDPOINT_TEXT_MAX];
    char sentence[768];
    (void)snprintf(sentence, sizeof(sentence), "no response from %s within %" PRIu32 " ms%s%s",
                   endpoint_format(name, join->host, join->port), a->settings->timeout_ms,
                   a->last[0] != '\0' ? ": " : "", a->last);
    fail(a, CTL_UNREACHED, sentence);
}

static void on_check(evutil_socket_t fd, short what, void *ctx)
{
    struct attempt *a = ctx;
    if (a->status < 0 && !a->stream->should_continue(a->stream->ctx)) {
        end(a, EXIT_SUCCESS);
    } else {
        (void)timer_after(a->check, REQUEST_CHECK_MS);
    }
}

static int run_attempts(struct attempt *a)
{
    struct client_config config = {.join = &a->settings->server,
                                   .retry_max_ms = RETRY_MS,
                                   .waiting = on_waiting,
                                   .connected = on_connected,
                                   .ctx = a};
    config.base = a->base = event_base_new();
    if (a->base) {
        a->deadline = evtimer_new(a->base, on_deadline, a);
    }
    const bool is_requested = a->stream && a->stream->should_continue;
    if (a->base && is_requested) {
        a->check = evtimer_new(a->base, on_check, a);
    }
    if (!a->deadline ||
        (is_requested && (!a->check || timer_after(a->check, REQUEST_CHECK_MS) != 0)) ||
        timer_after(a->deadline, a->settings->timeout_ms) != 0 ||
        client_new(&config, &a->client) != 0) {
        (void)fprintf(stderr, "tfe-ctl: cannot set up the event loop\n");
        return CTL_FAILED;
    }
    client_request(a->client, &a->request);
    if (event_base_dispatch(a->base) != 0) {
        (void)fprintf(stderr, "tfe-ctl: the event loop failed\n");
        return CTL_FAILED;
    }
    return a->status >= 0 ? a->status : CTL_FAILED;
}

int request_find_server(struct ctl_settings *settings, bool needs_admin)
{
    struct join_config config = {.endpoint = settings->endpoint,
                                 .token = settings->token,
                                 .token_file = settings->token_file,
                                 .state_dir = settings->state_dir};
    struct tfe_reason reason;
    if (!needs_admin) {
        config.roles[config.n_roles++] = PRINCIPAL_OBSERVER;
    }
    config.roles[config.n_roles++] = PRINCIPAL_ADMIN;
    if (sodium_init() < 0) {
        (void)fprintf(stderr, "tfe-ctl: cannot set up libsodium\n");
        return CTL_FAILED;
    }
    int rc = join_find(&config, &settings->server, &reason);
    if (rc != 0) {
        stdio_print_message("tfe-ctl", reason.text);
        return rc == TFE_EINVAL ? CTL_USAGE : CTL_UNAUTHORISED;
    }
    return EXIT_SUCCESS;
}

static int run(struct attempt *a)
{
    a->began = clock_mono();
    int status = run_attempts(a);
    client_free(a->client);
    event_drop(&a->deadline);
    event_drop(&a->check);
    if (a->base) {
        event_base_free(a->base);
    }
    return status;
}

int request_run_but(const struct ctl_settings *settings, const struct tfe_msg *message,
                    struct record_list *rows, enum tfe_refusal expected, bool *ret_is_expected)
{
    struct attempt a = {.settings = settings,
                        .expected = expected,
                        .request = {.message = message, .list = *rows, .ended = on_ended},
                        .status = -1};
    int status = run(&a);
    *rows = a.request.list;
    *ret_is_expected = a.is_expected;
    return status;
}

int request_run(const struct ctl_settings *settings, const struct tfe_msg *message,
                struct record_list *rows)
{
    bool is_expected;
    return request_run_but(settings, message, rows, (enum tfe_refusal)0, &is_expected);
}

int request_stream(const struct ctl_settings *settings, const struct tfe_msg *message,
                   const struct request_stream *stream)
{
    struct attempt a = {.settings = settings,
                        .stream = stream,
                        .request = {.message = message, .row = on_row, .ended = on_ended},
                        .status = -1};
    return run(&a);
}
