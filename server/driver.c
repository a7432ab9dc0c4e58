/* server/driver.c: steps the core and executes its actions, in their order. Executing an action can
 * end a session (out of memory), which is another event. The core is never stepped while its
 * actions are executed, because the next step invalidates them: ended sessions are collected in
 * `gone` and reported one by one afterwards. */
#include "server/driver.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/id.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "server/events/counters.h"
#include "server/events/event_log.h"
#include "server/events/event_text.h"
#include "server/events/trace_log.h"
#include "server/jobs/pool.h"
#include "server/store/writer.h"
#include "server/table_stream.h"

/* Maximum timer interval. Timers of the event loop stand still while the machine is suspended, but
 * the core's clock does not. */
#define CHECK_MS 1000

/* Interval of the search for jobs that have been idle longer than --keep-history. */
#define FORGET_EVERY_MS 10000

/* Delay before a step that ran out of memory is repeated. */
#define RETRY_MS 100

struct driver {
    struct rdzv *core;
    struct outlets to;
    struct writer *writer;
    const char *exit; /* reason of an EXIT action; NULL if there was none */
    /* Records that could not be queued for the writer for lack of memory; each is reported to the
     * core as not written. A step persists at most RDZV_PERSIST_MAX records, and each report frees
     * the capacity for the one record that it may cause. */
    struct lost_record {
        struct tfe_id job;
        uint64_t sequence;
    } lost[RDZV_PERSIST_MAX];
    uint32_t n_lost;
    struct event *timer;
    struct tfe_mono fires;    /* expiry of the timer while it is pending */
    struct tfe_mono deadline; /* next deadline of the core */
    uint32_t *gone; /* ring of ended sessions; each session is in it at most once, so max_sessions
                       entries suffice */
    uint32_t gone_first;
    uint32_t n_gone;
    uint32_t max_sessions;
    bool stepping;
    bool stopped;
    int64_t keep_history_ms; /* 0 for ever */
    struct tfe_mono forgets; /* time of the next search for expired jobs */
    struct event_base *base;
};

static void arm(struct driver *driver, struct tfe_mono now, int64_t min_ms)
{
    int64_t ms = tfe_mono_sub(driver->deadline, now);
    if (tfe_mono_is_never(driver->deadline) || ms > CHECK_MS) {
        ms = CHECK_MS;
    }
    if (ms < min_ms) {
        ms = min_ms;
    }
    const struct tfe_mono when = tfe_mono_add(now, ms);
    /* Most steps do not move the deadline. A pending timer whose time has passed was delayed by a
     * suspend. */
    if (min_ms == 0 && tfe_mono_before(now, driver->fires) &&
        !tfe_mono_before(when, driver->fires) && evtimer_pending(driver->timer, NULL)) {
        return; /* it fires early enough and is re-armed then */
    }
    driver->fires = when;
    (void)timer_after(driver->timer, ms); /* re-arming a timer allocates nothing */
}

/* --- actions ---------------------------------------------------------------------------------- */

static void send_table(struct sessions *sessions, struct table_cache *cache,
                       const struct rdzv_action *action)
{
    struct table_chunks *chunks;
    if (table_cache_get(cache, &action->msg.u.table, &chunks) != 0) {
        sessions_fail(sessions, action->session);
        return;
    }
    sessions_send_table(sessions, action->session, chunks);
}

static void persist(struct driver *driver, const struct rdzv_record *record)
{
    if (record->gone) {
        sessions_forget_job(driver->to.sessions, record->job);
    }
    if (writer_submit(driver->writer, record) != 0) {
        struct lost_record *lost = &driver->lost[driver->n_lost++];
        lost->sequence = record->sequence;
        (void)id_set(&lost->job, record->job); /* job names of the core are valid ids */
    }
}

/* Converts a monotonic time of the core to wall-clock time. */
static struct tfe_wall wall_of(struct tfe_mono t, struct tfe_mono now, struct tfe_wall now_wall)
{
    struct tfe_wall wall = {.ms = 0};
    if (!tfe_mono_is_never(t)) {
        wall.ms = now_wall.ms - tfe_mono_sub(now, t);
    }
    return wall;
}

/* If memory runs out, the entry is missing from the ledger; nothing else is affected. */
static void note(const struct driver *driver, const struct rdzv_ledger *ledger,
                 enum rdzv_ledger_change change)
{
    struct tfe_mono now = clock_mono();
    struct tfe_wall now_wall = clock_wall();
    struct msg_epoch_row row = ledger->row;
    for (size_t i = 0; i < EPOCH__TIMES; i++) {
        row.at[i] = wall_of(ledger->at[i], now, now_wall);
    }
    if (driver->to.gauges) {
        counters_add_epoch(driver->to.gauges, &row, change);
    }
    if (driver->to.events && change == LEDGER_PROGRESSED) {
        event_of_first_step(driver->to.events, ledger->job, &row);
    }
    if (writer_put_ledger(driver->writer, ledger->job, &row) != 0) {
        log_warn("ledger_row_lost", LOG_S("job", ledger->job), LOG_U("epoch", row.epoch));
    }
}

static void report_trace(const struct outlets *to, const struct rdzv_trace *trace)
{
    if (to->traces) {
        trace_log(to->traces, trace);
    }
    if (to->events) {
        event_of_trace(to->events, trace);
    }
    if (to->pool) {
        pool_trace(to->pool, trace);
    }
}

/* Executes all actions of a step. */
static void run_actions(struct driver *driver, const struct rdzv_actions *actions)
{
    struct table_cache cache = {.first = NULL};
    for (size_t i = 0; i < actions->n; i++) {
        const struct rdzv_action *action = &actions->v[i];
        switch (action->type) {
        case RDZV_SEND:
            if (action->msg.type == MSG_TABLE) {
                send_table(driver->to.sessions, &cache, action);
            } else {
                sessions_send(driver->to.sessions, action->session, &action->msg);
            }
            break;
        case RDZV_CLOSE:
            sessions_close(driver->to.sessions, action->session);
            break;
        case RDZV_PERSIST:
            persist(driver, action->record);
            break;
        case RDZV_EXIT:
            driver->exit = action->sentence;
            break;
        case RDZV_LEDGER:
            note(driver, action->ledger, action->change);
            break;
        case RDZV_TRACE:
            report_trace(&driver->to, &action->trace);
            break;
        }
    }
    table_cache_done(&cache);
}

/* --- events ----------------------------------------------------------------------------------- */

/* Steps the core once and executes its actions. The caller re-arms the timer. */
static int step(struct driver *driver, const struct rdzv_event *event)
{
    struct rdzv_actions actions;
    struct rdzv_event dated = *event;
    dated.wall = clock_wall();
    driver->stepping = true;
    int rc = rdzv_step(driver->core, &dated, &actions);
    if (rc == 0) {
        driver->deadline = actions.deadline;
        run_actions(driver, &actions);
    }
    if (driver->exit && !driver->stopped) {
        driver->stopped = true;
        (void)event_base_loopbreak(driver->base);
    }
    driver->stepping = false;
    return rc;
}

/* Reports records to the core that could not be queued for the writer. Returns false if out of
 * memory; the caller retries later. */
static bool settle_lost(struct driver *driver, struct tfe_mono now)
{
    while (driver->n_lost > 0) {
        const struct lost_record *lost = &driver->lost[--driver->n_lost];
        struct rdzv_event event = {.type = RDZV_PERSIST_FAILED,
                                   .now = now,
                                   .job = lost->job.text,
                                   .sequence = lost->sequence};
        if (step(driver, &event) == TFE_ENOMEM) {
            driver->n_lost++;
            return false;
        }
    }
    return true;
}

/* Reports ended sessions to the core and arms the timer for the next deadline. */
static void settle(struct driver *driver, struct tfe_mono now)
{
    while (driver->n_lost > 0 || driver->n_gone > 0) {
        if (!settle_lost(driver, now)) {
            arm(driver, now, RETRY_MS);
            return;
        }
        if (driver->n_gone == 0) {
            break;
        }
        uint32_t session = driver->gone[driver->gone_first];
        int rc =
            step(driver, &(struct rdzv_event){.type = RDZV_CLOSED, .now = now, .session = session});
        if (rc == TFE_ENOMEM) {
            arm(driver, now, RETRY_MS);
            return;
        }
        driver->gone_first = (driver->gone_first + 1) % driver->max_sessions;
        driver->n_gone--;
        sessions_forgotten(driver->to.sessions, session);
    }
    arm(driver, now, 0);
}

static int on_message(void *ctx, uint32_t session, const struct principal *by,
                      const struct tfe_msg *msg)
{
    struct driver *driver = ctx;
    struct tfe_mono now = clock_mono();
    if (driver->stopped) {
        return 0;
    }
    int rc = step(driver,
                  &(struct rdzv_event){
                      .type = RDZV_MESSAGE, .now = now, .session = session, .by = by, .msg = msg});
    settle(driver, now);
    return rc;
}

static void on_closed(void *ctx, uint32_t session)
{
    struct driver *driver = ctx;
    if (driver->stopped) {
        sessions_forgotten(driver->to.sessions, session);
        return;
    }
    driver->gone[(driver->gone_first + driver->n_gone) % driver->max_sessions] = session;
    driver->n_gone++;
    if (!driver->stepping) {
        settle(driver, clock_mono());
    }
}

static int on_order(void *ctx, const struct rdzv_event *event)
{
    struct driver *driver = ctx;
    struct rdzv_event timed = *event;
    timed.now = clock_mono();
    if (driver->stopped) {
        return TFE_ESTATE;
    }
    int rc = step(driver, &timed);
    settle(driver, timed.now);
    return rc;
}

const struct session_ops driver_session_ops = {
    .message = on_message, .closed = on_closed, .order = on_order};

/* Implements writer_ops: reports to the core whether a record was written. */
static bool on_written(void *ctx, const char *job, uint64_t sequence, int rc)
{
    struct driver *driver = ctx;
    struct tfe_mono now = clock_mono();
    struct rdzv_event event = {.type = rc == 0 ? RDZV_PERSISTED : RDZV_PERSIST_FAILED,
                               .now = now,
                               .job = job,
                               .sequence = sequence,
                               .conflict = rc == TFE_ECONFLICT};
    if (driver->stopped) {
        return true;
    }
    if (step(driver, &event) == TFE_ENOMEM) {
        arm(driver, now, RETRY_MS);
        return false;
    }
    settle(driver, now);
    return true;
}

static void on_condition(void *ctx, int rc, const char *reason)
{
    const struct driver *driver = ctx;
    if (!driver->to.events) {
        return;
    }
    if (rc == 0) {
        events_report(driver->to.events, &(struct msg_event_row){.kind = "store_writes_again"},
                      "database writes succeed again");
    } else {
        events_report(driver->to.events,
                      &(struct msg_event_row){.kind = "store_failed", .level = EVENT_ERROR},
                      "database writes fail (%.600s): running epochs continue, no new epoch begins",
                      reason);
    }
}

static const struct writer_ops writer_callbacks = {.written = on_written,
                                                   .condition = on_condition};

static void forget_old(struct driver *driver, struct tfe_mono now)
{
    if (driver->keep_history_ms == 0 || tfe_mono_before(now, driver->forgets)) {
        return;
    }
    struct rdzv_event event = {.type = RDZV_FORGET, .now = now, .before = clock_wall()};
    event.before.ms -= driver->keep_history_ms;
    driver->forgets = tfe_mono_add(now, FORGET_EVERY_MS);
    (void)step(driver, &event); /* if the step fails, the next search repeats it */
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct driver *driver = ctx;
    struct tfe_mono now = clock_mono();
    if (!tfe_mono_before(now, driver->deadline)) {
        int rc = step(driver, &(struct rdzv_event){.type = RDZV_TICK, .now = now});
        if (rc != 0) {
            log_error("tick_failed", LOG_S("reason", tfe_error_sentence(rc)));
            arm(driver, now, RETRY_MS);
            return;
        }
    }
    if (!driver->stopped) {
        forget_old(driver, now);
    }
    if (!driver->stopped && driver->writer && !writer_deliver(driver->writer)) {
        return; /* settle() has armed the timer */
    }
    settle(driver, now);
}

int driver_new(struct event_base *base, const struct rdzv_config *config, struct driver **ret)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    if (!driver) {
        return TFE_ENOMEM;
    }
    driver->base = base;
    driver->deadline = TFE_MONO_NEVER;
    driver->max_sessions = config->max_sessions;
    driver->gone = calloc(config->max_sessions, sizeof(uint32_t));
    driver->timer = evtimer_new(base, on_timer, driver);
    int rc = !driver->gone || !driver->timer ? TFE_ENOMEM : 0;
    if (rc == 0) {
        rc = rdzv_new(config, &heap_mem, &driver->core);
    }
    if (rc != 0) {
        (void)driver_free(driver, 0);
        return rc;
    }
    arm(driver, clock_mono(), 0);
    *ret = driver;
    return 0;
}

bool driver_free(struct driver *driver, uint32_t wait_ms)
{
    if (!driver) {
        return true;
    }
    bool idle = writer_free(driver->writer, wait_ms);
    if (driver->timer) {
        event_free(driver->timer);
    }
    rdzv_free(driver->core);
    free(driver->gone);
    free(driver);
    return idle;
}

static int restore_job(void *ctx, const struct rdzv_record *record, const char *fault)
{
    struct driver *driver = ctx;
    if (fault) {
        log_error("job_set_aside", LOG_S("job", record->job), LOG_S("reason", fault),
                  LOG_S("effect", "its agents can restore it; its record remains in the store"));
        return rdzv_set_aside(driver->core, record->job);
    }
    int rc = rdzv_restore(driver->core, clock_mono(), record);
    if (rc == 0) {
        log_info("job_restored", LOG_S("job", record->job), LOG_U("run", record->run),
                 LOG_U("epoch", record->epoch), LOG_U("members", record->n_members),
                 LOG_B("over", record->over));
    }
    return rc;
}

int driver_restore(struct driver *driver, struct store *store, struct tfe_reason *reason)
{
    return store_load(store, restore_job, driver, reason);
}

struct writer *driver_writer(const struct driver *driver)
{
    return driver->writer;
}

int driver_set_store(struct driver *driver, struct store *store, int64_t keep_history_ms,
                     struct tfe_reason *reason)
{
    struct writer_config config = {.base = driver->base,
                                   .store = store,
                                   .ops = &writer_callbacks,
                                   .ctx = driver,
                                   .keep_history_ms = keep_history_ms};
    driver->keep_history_ms = keep_history_ms;
    int rc = writer_new(&config, &driver->writer, reason);
    if (rc == 0) {
        /* restored jobs have deadlines of their own */
        driver->deadline = clock_mono();
        arm(driver, driver->deadline, 0);
    }
    return rc;
}

struct outlets *driver_outlets(struct driver *driver)
{
    return &driver->to;
}

const struct rdzv *driver_core(const struct driver *driver)
{
    return driver->core;
}

const char *driver_over(const struct driver *driver)
{
    return driver->exit;
}

void driver_stop(struct driver *driver)
{
    driver->stopped = true;
    (void)evtimer_del(driver->timer);
    if (driver->writer) {
        writer_stop(driver->writer);
    }
}
