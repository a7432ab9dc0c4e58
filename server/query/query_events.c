/* server/query/query_events.c: lists events, from memory if they are buffered there, otherwise
 * from the database, one page at a time. */
#include <string.h>

#include "common/base/id.h"
#include "server/events/event_log.h"
#include "server/query/store_rows.h"

#define PAGE_ROWS 200

struct event_rows {
    struct store_rows store;
    const struct events *events;
    const struct principal *by;
    struct store_page want;
    bool is_buffered; /* the buffer in memory has all rows of the response */
    struct tfe_id job;
    uint32_t left;
};

/* Requests the next page from the store. */
static void request_page(struct event_rows *s)
{
    s->want.max = s->want.last > 0 ? s->want.last : PAGE_ROWS;
    store_rows_wait(&s->store, writer_read(s->store.writer, &s->want, store_rows_on_result, s,
                                           &s->store.request));
}

/* Turns "the newest N events" into "events after number X". If the events are not all in memory,
 * only the store can do this. */
static void find_last(struct event_rows *s)
{
    uint64_t after = events_before_last(s->events, s->want.job, s->want.last, &s->is_buffered);
    if (s->is_buffered) {
        s->want.after = after;
        s->want.last = 0;
    }
}

/* Server-wide orders and refused connections may concern any job: a principal with a token for
 * some jobs sees the events of these jobs and of the server's health only. */
static bool is_visible(const struct event_rows *s, const struct msg_event_row *row)
{
    const bool is_for_all = row->job[0] == '\0' && strcmp(row->kind, "ordered") != 0 &&
                            strcmp(row->kind, "node_refused") != 0;
    return is_for_all || !principal_fault(s->by, MSG_EVENTS, row->job);
}

/* Returns the next event of the page read from the store or, after that page, of those in memory.
 * Returns NULL if the next page must be read first, or if there are no more events. */
static const struct msg_event_row *next_event(struct event_rows *s)
{
    const struct msg_event_row *row = store_rows_next(&s->store);
    if (row) {
        s->want.last = 0;
    } else if (s->is_buffered ||
               (s->want.last == 0 && events_has_after(s->events, s->want.after))) {
        row = events_next(s->events, s->want.job, s->want.after);
        s->store.is_last = s->store.is_last || !row;
    }
    if (row) {
        s->want.after = row->number;
    }
    return row;
}

static int events_rows_next(struct rows *rows, struct tfe_msg *ret)
{
    struct event_rows *s = (struct event_rows *)rows;
    while (!s->store.waits && s->store.refusal == 0 && s->left > 0) {
        const struct msg_event_row *row = next_event(s);
        if (row && is_visible(s, row)) {
            *ret = (struct tfe_msg){.type = MSG_EVENT_ROW, .u.event_row = *row};
            s->left--;
            return 0;
        }
        if (!row && s->store.is_last) {
            break;
        }
        if (!row) {
            request_page(s);
        }
    }
    const int rc = store_rows_end(&s->store, MSG_STATUS_END, ret);
    if (rc == 0 && ret->type == MSG_STATUS_END) {
        ret->u.status_end.newest = events_newest(s->events);
    }
    return rc;
}

int rows_events(struct writer *writer, const struct events *events, const struct principal *by,
                const struct msg_events *request, struct rows **ret)
{
    static const struct rows_ops ops = {.next = events_rows_next, .free = store_rows_free};
    struct event_rows *s = store_rows_new(&ops, sizeof(*s), writer, ret);
    if (!s) {
        return TFE_ENOMEM;
    }
    s->events = events;
    s->by = by;
    s->left = MSG_EVENTS_MAX;
    s->want.type = MSG_EVENT_ROW;
    if (request->job) {
        (void)id_set(&s->job, request->job); /* the codec has validated the id */
        s->want.job = s->job.text;
    }
    /* A number above the newest belongs to a history that was lost: start at the beginning. */
    s->want.after = request->after <= events_newest(events) ? request->after : 0;
    if (request->after == 0 && request->last > 0) {
        s->want.last = request->last < MSG_EVENTS_MAX ? request->last : MSG_EVENTS_MAX;
        find_last(s);
    }
    return 0;
}
