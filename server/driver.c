/* server/driver.c: the one place that steps the core: events in, actions out, and its one timer.
 *
 * Carrying out actions can end a session (no memory to send), and that is an event again. The core
 * is never stepped while its actions are being carried out, for the next step takes back what they
 * point to: ends are collected in `gone` and told one by one afterwards. */
#include "server/driver.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/base/id.h"
#include "common/net/clock.h"
#include "common/net/heap.h"
#include "common/net/log.h"
#include "common/net/timer.h"
#include "server/actions.h"
#include "server/store/writer.h"

/* The loop's timers stand still while the machine is suspended, the core's clock does not: look at
 * least this often. */
#define LOOK_MS 1000

/* After a step that found no memory. */
#define RETRY_MS 100

struct driver {
    struct rdzv *core;
    struct sessions *sessions;
    struct event *timer;
    struct tfe_mono fires;    /* the timer, if it is pending */
    struct tfe_mono deadline; /* the core's */
    uint32_t *gone; /* a ring; each session is in it at most once, so max_sessions places do */
    uint32_t gone_first;
    uint32_t n_gone;
    uint32_t max_sessions;
    struct writer *writer;
    /* Records that found no memory on their way to the writer, to be told to the core as not
     * written. A ring; a step asks for RDZV_PERSIST_MAX at most, and each that is answered makes
     * room for the one its answer may ask for. */
    struct {
        struct tfe_id job;
        uint64_t sequence;
    } lost[RDZV_PERSIST_MAX];
    uint32_t lost_first;
    uint32_t n_lost;
    bool stepping;
    bool stopped;
    struct event_base *base;
    const char *over; /* the core says that the process has to end; NULL: it does not */
};

static void arm(struct driver *driver, struct tfe_mono now, int64_t least_ms)
{
    int64_t ms = tfe_mono_sub(driver->deadline, now);
    if (tfe_mono_is_never(driver->deadline) || ms > LOOK_MS) {
        ms = LOOK_MS;
    }
    if (ms < least_ms) {
        ms = least_ms;
    }
    const struct tfe_mono when = tfe_mono_add(now, ms);
    /* Most steps leave the deadline as it was. A timer that should have fired has slept with the
     * machine. */
    if (least_ms == 0 && tfe_mono_before(now, driver->fires) &&
        !tfe_mono_before(when, driver->fires) && evtimer_pending(driver->timer, NULL)) {
        return; /* it fires early enough, and is armed again then */
    }
    driver->fires = when;
    (void)timer_after(driver->timer, ms); /* re-arming a timer takes no memory */
}

/* A time of the core's, as people tell it. */
static struct tfe_wall wall_of(struct tfe_mono t, struct tfe_mono now, struct tfe_wall now_wall)
{
    struct tfe_wall wall = {.ms = 0};
    if (!tfe_mono_is_never(t)) {
        wall.ms = now_wall.ms - tfe_mono_sub(now, t);
    }
    return wall;
}

/* What cannot be kept of the ledger for want of memory is missing there, and nothing else is. */
static void note(struct driver *driver, const struct rdzv_ledger *ledger)
{
    struct tfe_mono now = clock_mono();
    struct tfe_wall now_wall = clock_wall();
    struct msg_epoch_row row = {.run = ledger->run,
                                .epoch = ledger->epoch,
                                .cause = ledger->cause,
                                .blamed = ledger->blamed,
                                .planned = ledger->planned,
                                .members = ledger->n_members,
                                .has_saved = ledger->has_saved,
                                .saved_step = ledger->saved_step,
                                .has_lost = ledger->has_lost,
                                .lost_steps = ledger->lost_steps,
                                .over = ledger->is_over};
#define NOTE_TIME(NAME, name) row.at[EPOCH_##NAME] = wall_of(ledger->name, now, now_wall);
    TFE_EPOCH_TIMES(NOTE_TIME)
#undef NOTE_TIME
    if (writer_note(driver->writer, ledger->job, &row) != 0) {
        log_warn("ledger_row_lost", LOG_S("job", ledger->job), LOG_U("epoch", ledger->epoch));
    }
}

static void take_records(struct driver *driver, const struct rdzv_actions *actions)
{
    for (size_t i = 0; i < actions->n; i++) {
        if (actions->v[i].type == RDZV_EXIT) {
            driver->over = actions->v[i].sentence;
            driver->stopped = true;
            (void)event_base_loopbreak(driver->base);
        }
        if (actions->v[i].type == RDZV_LEDGER) {
            note(driver, actions->v[i].ledger);
        }
        if (actions->v[i].type == RDZV_PERSIST &&
            writer_submit(driver->writer, actions->v[i].record) != 0) {
            uint32_t at = (driver->lost_first + driver->n_lost++) % RDZV_PERSIST_MAX;
            driver->lost[at].sequence = actions->v[i].record->sequence;
            (void)id_set(&driver->lost[at].job, actions->v[i].record->job);
        }
    }
}

/* One step and what it asks for. Leaves the timer to the caller. */
static int step(struct driver *driver, const struct rdzv_event *event)
{
    struct rdzv_actions actions;
    struct rdzv_event dated = *event;
    dated.wall = clock_wall();
    driver->stepping = true;
    int err = rdzv_step(driver->core, &dated, &actions);
    if (err == 0) {
        driver->deadline = actions.deadline;
        actions_run(&actions, driver->sessions);
        take_records(driver, &actions);
    }
    driver->stepping = false;
    return err;
}

/* Tells the core what could not even be queued. False: no memory, try again later. */
static bool settle_lost(struct driver *driver, struct tfe_mono now)
{
    while (driver->n_lost > 0) {
        uint32_t at = driver->lost_first;
        struct rdzv_event event = {.type = RDZV_PERSIST_FAILED,
                                   .now = now,
                                   .job = driver->lost[at].job.text,
                                   .sequence = driver->lost[at].sequence};
        driver->lost_first = (at + 1) % RDZV_PERSIST_MAX;
        driver->n_lost--;
        if (step(driver, &event) == TFE_ENOMEM) {
            driver->lost_first = at;
            driver->n_lost++;
            return false;
        }
    }
    return true;
}

/* Tells the core of the sessions that ended, and arms the timer for what comes next. */
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
        int err =
            step(driver, &(struct rdzv_event){.type = RDZV_CLOSED, .now = now, .session = session});
        if (err == TFE_ENOMEM) {
            arm(driver, now, RETRY_MS);
            return;
        }
        driver->gone_first = (driver->gone_first + 1) % driver->max_sessions;
        driver->n_gone--;
        sessions_forgotten(driver->sessions, session);
    }
    arm(driver, now, 0);
}

static int on_message(void *ctx, uint32_t session, const struct tfe_msg *msg)
{
    struct driver *driver = ctx;
    struct tfe_mono now = clock_mono();
    if (driver->stopped) {
        return 0;
    }
    int err = step(driver, &(struct rdzv_event){
                               .type = RDZV_MESSAGE, .now = now, .session = session, .msg = msg});
    settle(driver, now);
    return err;
}

static void on_closed(void *ctx, uint32_t session)
{
    struct driver *driver = ctx;
    if (driver->stopped) {
        sessions_forgotten(driver->sessions, session);
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
    int err = step(driver, &timed);
    settle(driver, timed.now);
    return err;
}

const struct session_ops driver_session_ops = {
    .message = on_message, .closed = on_closed, .order = on_order};

/* writer_ops: a record's fate. */
static bool on_written(void *ctx, const char *job, uint64_t sequence, int err)
{
    struct driver *driver = ctx;
    struct tfe_mono now = clock_mono();
    struct rdzv_event event = {.type = err == 0 ? RDZV_PERSISTED : RDZV_PERSIST_FAILED,
                               .now = now,
                               .job = job,
                               .sequence = sequence,
                               .conflict = err == TFE_ECONFLICT};
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

static void on_condition(void *ctx, int err, const char *why)
{
    (void)ctx;
    if (err == 0) {
        log_info("store_writes_again");
    } else {
        log_error("store_failed", LOG_S("why", why),
                  LOG_S("effect", "running epochs go on, no new epoch begins until it is written"));
    }
}

static const struct writer_ops writer_callbacks = {.written = on_written,
                                                   .condition = on_condition};

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct driver *driver = ctx;
    struct tfe_mono now = clock_mono();
    (void)fd;
    (void)what;
    if (!tfe_mono_before(now, driver->deadline)) {
        int err = step(driver, &(struct rdzv_event){.type = RDZV_TICK, .now = now});
        if (err != 0) {
            log_error("tick_failed", LOG_S("why", tfe_error_sentence(err)));
            arm(driver, now, RETRY_MS);
            return;
        }
    }
    if (!driver->stopped && driver->writer != NULL && !writer_deliver(driver->writer)) {
        return; /* armed already */
    }
    settle(driver, now);
}

int driver_new(struct event_base *base, const struct rdzv_config *config, struct driver **ret)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    if (driver == NULL) {
        return TFE_ENOMEM;
    }
    driver->base = base;
    driver->deadline = TFE_MONO_NEVER;
    driver->max_sessions = config->max_sessions;
    driver->gone = calloc(config->max_sessions, sizeof(uint32_t));
    driver->timer = evtimer_new(base, on_timer, driver);
    int err = driver->gone == NULL || driver->timer == NULL ? TFE_ENOMEM : 0;
    if (err == 0) {
        err = rdzv_new(config, &heap_mem, &driver->core);
    }
    if (err != 0) {
        (void)driver_free(driver, 0);
        return err;
    }
    arm(driver, clock_mono(), 0);
    *ret = driver;
    return 0;
}

bool driver_free(struct driver *driver, uint32_t wait_ms)
{
    if (driver == NULL) {
        return true;
    }
    bool idle = writer_free(driver->writer, wait_ms);
    if (driver->timer != NULL) {
        event_free(driver->timer);
    }
    rdzv_free(driver->core);
    free(driver->gone);
    free(driver);
    return idle;
}

static int restore_job(void *ctx, const struct rdzv_record *record)
{
    struct driver *driver = ctx;
    int err = rdzv_restore(driver->core, clock_mono(), record);
    if (err == 0) {
        log_info("job_restored", LOG_S("job", record->job), LOG_U("run", record->run),
                 LOG_U("epoch", record->epoch), LOG_U("members", record->n_members),
                 LOG_B("over", record->over));
    }
    return err;
}

int driver_restore(struct driver *driver, struct store *store, struct tfe_why *why)
{
    return store_load(store, restore_job, driver, why);
}

struct writer *driver_writer(const struct driver *driver)
{
    return driver->writer;
}

int driver_set_store(struct driver *driver, struct store *store, int64_t keep_history_ms,
                     struct tfe_why *why)
{
    struct writer_config config = {.base = driver->base,
                                   .store = store,
                                   .ops = &writer_callbacks,
                                   .ctx = driver,
                                   .keep_history_ms = keep_history_ms};
    int err = writer_new(&config, &driver->writer, why);
    if (err == 0) {
        /* What was restored has deadlines of its own. */
        driver->deadline = clock_mono();
        arm(driver, driver->deadline, 0);
    }
    return err;
}

void driver_set_sessions(struct driver *driver, struct sessions *sessions)
{
    driver->sessions = sessions;
}

const struct rdzv *driver_core(const struct driver *driver)
{
    return driver->core;
}

const char *driver_over(const struct driver *driver)
{
    return driver->over;
}

void driver_stop(struct driver *driver)
{
    driver->stopped = true;
    (void)evtimer_del(driver->timer);
    if (driver->writer != NULL) {
        writer_stop(driver->writer);
    }
}
