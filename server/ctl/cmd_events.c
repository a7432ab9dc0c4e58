/* server/ctl/cmd_events.c: tfe-ctl events: lists events, and follows new ones with -f. */
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/timer.h"
#include "common/cli/option_table.h"
#include "common/cli/stdio.h"
#include "common/records/client.h"
#include "common/records/json_text.h"
#include "common/records/schemas.h"
#include "common/records/text_table.h"
#include "common/text/escape.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

/* Poll interval with -f; also the retry interval while the server is away. */
#define ASK_MS 400
#define RETRY_MAX_MS 2000

static void set_request(const struct ctl_settings *settings, struct tfe_msg *message)
{
    message->u.events.last = settings->last;
}

/* Prints an event as a JSON object, or as a line like a table's, but without knowing the widths of
 * later rows. Returns 0 or TFE_ENOMEM. */
static int print(const struct ctl_settings *settings, const struct msg_event_row *row)
{
    char buf[RECORD_TEXT_MAX];
    if (settings->json) {
        return verb_print_json(record_json(&schema_event, row));
    }
    (void)printf("%s  %-12s  %-16s  ", text_table_time(row->at.ms, buf),
                 row->job[0] != '\0' ? row->job : "-", row->kind);
    stdio_print_escaped(stdout, row->message);
    (void)putchar('\n');
    return 0;
}

static int print_all(const struct ctl_settings *settings, const struct record_list *rows)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < rows->n; i++) {
        rc = print(settings, rows->v[i].at);
    }
    return rc;
}

/* --- following --- */

struct follow {
    const struct ctl_settings *settings;
    struct event_base *base;
    struct event *next;
    struct client *client;
    struct client_request request;
    struct tfe_msg message;
    int status;
};

static void end(struct follow *f, int status)
{
    f->status = status;
    (void)event_base_loopbreak(f->base);
}

static struct follow *follow_of(struct client_request *request)
{
    return (struct follow *)((char *)request - offsetof(struct follow, request));
}

/* Writes each row at once, because a reader of a pipe waits for it. */
static void on_row(struct client_request *request, const struct tfe_msg *row)
{
    struct follow *f = follow_of(request);
    const struct msg_event_row *event = &row->u.event_row;
    f->message.u.events.after = event->number;
    if (print(f->settings, event) != 0) {
        end(f, CTL_FAILED);
    }
    if (fflush(stdout) != 0) {
        end(f, EXIT_SUCCESS); /* main() checks stdout and reports its errors */
    }
}

static void on_ended(struct client_request *request, enum client_end how, enum tfe_refusal code,
                     const char *sentence)
{
    struct follow *f = follow_of(request);
    if (how == CLIENT_ANSWERED) {
        (void)timer_after(f->next, ASK_MS);
        return;
    }
    stdio_print_message("tfe-ctl", sentence);
    end(f, how == CLIENT_UNAUTHORISED || code == REFUSAL_NOT_AUTHORISED ? CTL_UNAUTHORISED
                                                                        : CTL_FAILED);
}

static void on_next(evutil_socket_t fd, short what, void *ctx)
{
    struct follow *f = ctx;
    client_request(f->client, &f->request);
}

static int follow(const struct ctl_settings *settings, const char *job, uint64_t after)
{
    struct follow f = {.settings = settings, .base = event_base_new(), .status = CTL_FAILED};
    const struct client_config config = {
        .base = f.base, .join = &settings->server, .retry_max_ms = RETRY_MAX_MS};
    f.message = (struct tfe_msg){.type = MSG_EVENTS, .u.events = {.job = job, .after = after}};
    f.request = (struct client_request){.message = &f.message, .row = on_row, .ended = on_ended};
    f.next = f.base ? evtimer_new(f.base, on_next, &f) : NULL;
    if (!f.next || client_new(&config, &f.client) != 0) {
        stdio_print_message("tfe-ctl", "cannot set up the event loop");
    } else {
        client_request(f.client, &f.request);
        (void)event_base_dispatch(f.base);
    }
    client_free(f.client);
    event_drop(&f.next);
    if (f.base) {
        event_base_free(f.base);
    }
    if (f.status == EXIT_SUCCESS) {
        return 0;
    }
    return f.status == CTL_UNAUTHORISED ? TFE_EAUTH : TFE_ESYS;
}

/* --- the verb --- */

static int show(const struct ctl_settings *settings, const char *job, struct record_list *rows)
{
    const struct msg_event_row *last = rows->n > 0 ? rows->v[rows->n - 1].at : NULL;
    if (settings->follow) {
        int rc = print_all(settings, rows);
        if (rc != 0 || fflush(stdout) != 0) {
            return rc; /* main() checks stdout and reports its errors */
        }
        return follow(settings, job, last ? last->number : 0);
    }
    if (settings->json) {
        const struct tfe_msg request = operation_request(OPERATION_EVENTS, job);
        return verb_print_json(operation_json(OPERATION_EVENTS, rows, &request));
    }
    return print_all(settings, rows);
}

static const struct option_spec options[] = {
    OPTION_ROW(OPTION_FLAG, "follow", NULL, NULL,
               "continue and print each event when it happens (with --json one object per line)",
               .letter = 'f', .offset = FIELD(follow)),
    OPTION_ROW(OPTION_NUMBER, "last", "N", "50", "number of newest events to print", .letter = 'n',
               OPTION_RANGE(last, 1, MSG_EVENTS_MAX)),
};

const struct ctl_verb ctl_verb_events = {
    .name = "events",
    .operands = "[JOB]",
    .about = "show past events and optionally follow new ones",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .operand = CTL_JOB,
    .operation = OPERATION_EVENTS,
    .set_request = set_request,
    .show = show,
    .shows_json = true,
};
