/* server/store/sqlite_history.c: ledger rows and events, stored in columns so that other programs
 * can read them. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/records/schemas.h"
#include "server/store/sqlite_private.h"

/* Number of events to retain over all jobs, about 30 MB. Events are counted occasionally, because
 * their numbers skip values at each start of a server. */
#define EVENTS_MAX 100000
#define EVENTS_PRUNE_INTERVAL 1000

/* --- ledger ----------------------------------------------------------------------------------- */

struct ledger_reading {
    store_ledger_fn fn;
    void *ctx;
};

/* Reads a ledger row; skips an invalid one. */
static int read_row(void *ctx, struct sqlite_row *at)
{
    const struct ledger_reading *to = ctx;
    struct msg_epoch_row row = {.epoch = (uint64_t)column_int(at)};
    row.run = (uint32_t)column_int(at);
    row.cause = (enum tfe_cause)column_int(at);
    row.blamed = column_text(at);
    row.planned = column_int(at) != 0;
    row.members = (uint32_t)column_int(at);
    for (int i = 0; i < EPOCH__TIMES; i++) {
        const int64_t ms = column_int(at);
        row.at[i].ms = ms < 0 ? 0 : ms; /* a negative time comes from a wrong clock */
    }
    row.saved_step = (uint64_t)column_int_if(at, &row.has_saved);
    row.lost_steps = (uint64_t)column_int_if(at, &row.has_lost);
    row.over = column_int(at) != 0;
    row.restarts = (uint32_t)column_int(at);
    row.failed = column_int(at) != 0;
    return at->is_bad || at->failed || row.epoch == 0 || row.run == 0 ? 0 : to->fn(to->ctx, &row);
}

int store_read_rows(struct store *s, const char *job, uint64_t after, uint32_t max,
                    store_ledger_fn fn, void *ctx, struct tfe_reason *reason)
{
    struct ledger_reading to = {fn, ctx};
    return sqlite_read(
        s, CALL("read the ledger", STATEMENT_ROWS, V_TEXT(job), V_INT(after), V_INT(max)), read_row,
        &to, reason);
}

/* Completes row from the stored row of the same epoch, because a restarted server knows less about
 * a running epoch than its predecessor. Borrows blamed from `kept`. */
static void fill(struct msg_epoch_row *row, const struct msg_epoch_row *kept)
{
    if (row->blamed[0] == '\0') {
        row->blamed = kept->blamed;
    }
    for (int i = 0; i < EPOCH__TIMES; i++) {
        bool is_first = i != EPOCH_PROGRESSED || row->at[i].ms < kept->at[i].ms;
        if (row->at[i].ms == 0 || (kept->at[i].ms != 0 && !is_first)) {
            row->at[i] = kept->at[i];
        }
    }
    if (!row->has_saved) {
        row->has_saved = kept->has_saved;
        row->saved_step = kept->saved_step;
    }
    if (!row->has_lost) {
        row->has_lost = kept->has_lost;
        row->lost_steps = kept->lost_steps;
    }
    row->restarts = row->restarts > kept->restarts ? row->restarts : kept->restarts;
    row->planned = row->planned || kept->planned;
    row->over = row->over || kept->over;
    row->failed = row->failed || kept->failed;
}

/* The row to be written, completed from the stored row. */
struct merging {
    struct msg_epoch_row row;
    struct msg_epoch_row *kept; /* copy of the stored row, from which `row` borrows; NULL if none */
};

static int merge(void *ctx, const struct msg_epoch_row *row)
{
    struct merging *m = ctx;
    if (row->epoch != m->row.epoch) {
        return 0; /* the row of a later epoch */
    }
    m->kept = record_copy(&schema_epoch, row);
    if (!m->kept) {
        return TFE_ENOMEM;
    }
    fill(&m->row, m->kept);
    return 0;
}

int store_put_row(struct store *s, const char *job, const struct msg_epoch_row *row,
                  struct tfe_wall now, struct tfe_reason *reason)
{
    struct merging m = {.row = *row};
    int rc = store_read_rows(s, job, row->epoch - 1, 1, merge, &m, reason);
    const struct msg_epoch_row *r = &m.row;
    if (rc == 0) {
#define TIME_VALUE(NAME, column) V_INT(r->at[EPOCH_##NAME].ms),
        rc = sqlite_run(s,
                        CALL("write the ledger", STATEMENT_PUT_ROW, V_TEXT(job), V_INT(now.ms),
                             V_INT(r->epoch), V_INT(r->run), V_INT(r->cause), V_TEXT(r->blamed),
                             V_INT(r->planned), V_INT(r->members),
                             TFE_EPOCH_TIMES(TIME_VALUE) /**/
                             V_INT_IF(r->has_saved, r->saved_step),
                             V_INT_IF(r->has_lost, r->lost_steps), V_INT(r->over),
                             V_INT(r->restarts), V_INT(r->failed)),
                        reason);
#undef TIME_VALUE
    }
    free(m.kept);
    return rc;
}

/* --- events ----------------------------------------------------------------------------------- */

int sqlite_put_event(struct store *s, const struct msg_event_row *row, struct tfe_reason *reason)
{
    int rc = sqlite_run(s,
                        CALL("write an event", STATEMENT_PUT_EVENT, V_INT(row->number),
                             V_INT(row->at.ms), V_TEXT(row->kind), V_INT(row->level),
                             V_TEXT(row->job), V_INT(row->run), V_INT(row->epoch),
                             V_TEXT(row->node), V_TEXT(row->name), V_TEXT(row->says)),
                        reason);
    return rc != 0 || row->number % EVENTS_PRUNE_INTERVAL != 0
               ? rc
               : sqlite_run(s, CALL("cut the events", STATEMENT_CUT_EVENTS, V_INT(EVENTS_MAX)),
                            reason);
}

struct event_reading {
    store_message_fn fn;
    void *ctx;
};

static int read_event(void *ctx, struct sqlite_row *at)
{
    const struct event_reading *to = ctx;
    struct tfe_msg msg = {.type = MSG_EVENT_ROW};
    struct msg_event_row *row = &msg.u.event_row;
    row->number = (uint64_t)column_int(at);
    row->at.ms = column_int(at);
    row->kind = column_text(at);
    row->level = (enum tfe_event_level)column_int(at);
    row->job = column_text(at);
    row->run = (uint32_t)column_int(at);
    row->epoch = (uint64_t)column_int(at);
    row->node = column_text(at);
    row->name = column_text(at);
    row->says = column_text(at);
    return at->is_bad || at->failed ? 0 : to->fn(to->ctx, &msg);
}

int store_read_events(struct store *s, const struct store_page *page, store_message_fn fn,
                      void *ctx, struct tfe_reason *reason)
{
    struct event_reading to = {fn, ctx};
    enum statement which = page->job ? STATEMENT_EVENTS_OF_JOB : STATEMENT_EVENTS_AFTER;
    if (page->last > 0) {
        which = page->job ? STATEMENT_EVENTS_LAST_OF_JOB : STATEMENT_EVENTS_LAST;
    }
    return sqlite_read(s,
                       CALL("read the events", which, V_TEXT(page->job),
                            V_INT(page->last > 0 ? 0 : page->after),
                            V_INT(page->last > 0 ? page->last : page->max)),
                       read_event, &to, reason);
}

/* --- pruning ---------------------------------------------------------------------------------- */

int store_prune(struct store *s, struct tfe_wall before, uint32_t max, uint32_t *ret_n,
                struct tfe_reason *reason)
{
    static const enum statement prunes[] = {STATEMENT_PRUNE_ROWS, STATEMENT_PRUNE_EVENTS};
    int rc = 0;
    *ret_n = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(prunes) / sizeof(prunes[0]); i++) {
        rc = sqlite_run(s, CALL("prune the history", prunes[i], V_INT(before.ms), V_INT(max)),
                        reason);
        const uint32_t n = rc == 0 ? (uint32_t)sqlite3_changes(s->db) : 0;
        *ret_n = n > *ret_n ? n : *ret_n;
    }
    return rc != 0 ? rc : sqlite_prune_trust(s, before, reason);
}
