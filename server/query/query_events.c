/* server/query/query_events.c: lists events, from memory if they are buffered there, otherwise
 * from the database, one page at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "server/events/event_log.h"
#include "server/query/record_source.h"
#include "server/store/writer.h"

#define PAGE_ROWS 200

struct seen_rows {
    struct rows rows;
    struct writer *writer;
    const struct events *events;
    const struct principal *by;
    struct writer_request *ask; /* pending read of the store; NULL if there is none */
    struct store_page want;
    struct tfe_id job;
    struct record_list page;
    size_t told; /* rows of the page that have been sent */
    uint32_t left;
    bool last; /* true if the store has no rows after this page */
    enum tfe_refusal refusal;
    char sentence[sizeof(struct tfe_reason)];
};

static void fail(struct seen_rows *s, enum tfe_refusal refusal, const char *sentence)
{
    s->refusal = refusal;
    (void)snprintf(s->sentence, sizeof(s->sentence), "%s", sentence);
}

static void on_page(void *ctx, int rc, struct record_list *page, const char *reason)
{
    struct seen_rows *s = ctx;
    s->ask = NULL;
    if (rc != 0) {
        fail(s, REFUSAL_STORE, reason);
    } else {
        record_list_done(&s->page);
        s->page = *page;
        *page = (struct record_list){.v = NULL};
        s->told = 0;
        s->last = s->page.n < s->want.max || s->want.last > 0;
    }
    s->rows.wake(s->rows.wake_ctx);
}

/* Asks the store for the next page. Returns TFE_EMORE, or TFE_ENOMEM with the refusal set. */
static int ask(struct seen_rows *s)
{
    s->want.max = s->want.last > 0 ? s->want.last : PAGE_ROWS;
    if (s->ask || writer_read_events(s->writer, &s->want, on_page, s, &s->ask) == 0) {
        return TFE_EMORE;
    }
    fail(s, REFUSAL_LIMIT_REACHED, "the server is out of memory; try again later");
    return TFE_ENOMEM;
}

static int the_end(const struct seen_rows *s, struct tfe_msg *ret)
{
    if (s->refusal != 0) {
        *ret = (struct tfe_msg){.type = MSG_REFUSED, .u.refused = {s->refusal, s->sentence}};
    } else {
        *ret = (struct tfe_msg){.type = MSG_STATUS_END};
        ret->u.status_end.newest = events_newest(s->events);
    }
    return 0;
}

/* Sets *ret to the next row of the current page. Returns false if the page has no more rows. */
static bool next_of_page(struct seen_rows *s, struct tfe_msg *ret)
{
    if (s->told == s->page.n) {
        return false;
    }
    const struct msg_event_row *row = s->page.v[s->told++].at;
    *ret = (struct tfe_msg){.type = MSG_EVENT_ROW, .u.event_row = *row};
    s->want.after = row->number;
    return true;
}

/* Turns "the newest N events" into "events after number X". If the events are not all in memory,
 * only the store can do this. */
static void find_last(struct seen_rows *s)
{
    bool are_here;
    uint64_t after = events_before_last(s->events, s->want.job, s->want.last, &are_here);
    if (are_here) {
        s->want.after = after;
        s->want.last = 0;
    }
}

/* Server-wide orders and refused connections may concern any job: a principal with a token for
 * some jobs sees the events of these jobs and of the server's health only. */
static bool is_visible(const struct seen_rows *s, const struct msg_event_row *row)
{
    const bool is_for_all =
        row->job[0] == '\0' && strcmp(row->kind, "order") != 0 && strcmp(row->kind, "refused") != 0;
    return is_for_all || !principal_fault(s->by, MSG_EVENTS, row->job);
}

static int events_rows_next(struct rows *rows, struct tfe_msg *ret)
{
    struct seen_rows *s = (struct seen_rows *)rows;
    while (s->refusal == 0 && s->left > 0) {
        if (next_of_page(s, ret)) {
            s->want.last = 0;
        } else if (s->want.last == 0 && events_has_after(s->events, s->want.after)) {
            const struct msg_event_row *row = events_next(s->events, s->want.job, s->want.after);
            if (!row) {
                break;
            }
            s->want.after = row->number;
            *ret = (struct tfe_msg){.type = MSG_EVENT_ROW, .u.event_row = *row};
        } else if (s->last) {
            break;
        } else if (ask(s) == TFE_EMORE) {
            return TFE_EMORE;
        } else {
            break;
        }
        if (is_visible(s, &ret->u.event_row)) {
            s->left--;
            return 0;
        }
    }
    return the_end(s, ret);
}

static void seen_rows_free(struct rows *rows)
{
    struct seen_rows *s = (struct seen_rows *)rows;
    if (s->ask) {
        writer_cancel(s->writer, s->ask);
    }
    record_list_done(&s->page);
    free(s);
}

int rows_events(struct writer *writer, const struct events *events, const struct principal *by,
                const struct msg_events *asked, struct rows **ret)
{
    static const struct rows_ops ops = {.next = events_rows_next, .free = seen_rows_free};
    struct seen_rows *s = calloc(1, sizeof(*s));
    if (!s) {
        return TFE_ENOMEM;
    }
    s->rows.ops = &ops;
    s->writer = writer;
    s->events = events;
    s->by = by;
    s->left = MSG_EVENTS_MAX;
    if (asked->job) {
        (void)id_set(&s->job, asked->job); /* the codec has validated the id */
        s->want.job = s->job.text;
    }
    /* A number above the newest comes from a history that was lost: start at the beginning. */
    s->want.after = asked->after <= events_newest(events) ? asked->after : 0;
    if (asked->after == 0 && asked->last > 0) {
        s->want.last = asked->last < MSG_EVENTS_MAX ? asked->last : MSG_EVENTS_MAX;
        find_last(s);
    }
    *ret = &s->rows;
    return 0;
}
