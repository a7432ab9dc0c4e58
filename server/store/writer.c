/* server/store/writer.c: the loop's side of the writer: queues, answers, its beginning and end. */
#include "server/store/writer.h"

#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/net/clock.h"
#include "server/store/record.h"
#include "server/store/writer_private.h"

/* Rows of the ledger that wait for a disk that takes none: some 200 bytes each. */
#define ROWS_MAX 10000

void item_free(struct item *item)
{
    free(item->record);
    free(item);
}

void row_item_free(struct row_item *row)
{
    ledger_page_done(&row->page);
    free(row);
}

void ask_free(struct writer_ask *ask)
{
    if (ask != NULL) {
        ledger_page_done(&ask->page);
        free(ask->path);
        free(ask);
    }
}

/* Takes the first of a list with the lock held, or NULL. */
#define TAKE_FIRST(w, list, ret)                                                                   \
    do {                                                                                           \
        (void)pthread_mutex_lock(&(w)->lock);                                                      \
        (ret) = STAILQ_FIRST(&(w)->list);                                                          \
        if ((ret) != NULL) {                                                                       \
            STAILQ_REMOVE_HEAD(&(w)->list, link);                                                  \
        }                                                                                          \
        (void)pthread_mutex_unlock(&(w)->lock);                                                    \
    } while (0)

/* --- what comes back --- */

static void tell_conditions(struct writer *w)
{
    for (int i = 0; i < CONDITION__COUNT; i++) {
        struct condition *told = &w->told[i];
        (void)pthread_mutex_lock(&w->lock);
        struct condition now = w->now[i];
        (void)pthread_mutex_unlock(&w->lock);
        if (now.err != told->err || (now.err != 0 && strcmp(now.why.text, told->why.text) != 0)) {
            *told = now;
            w->config.ops->condition(w->config.ctx, now.err, now.why.text);
        }
    }
}

static bool deliver_records(struct writer *w)
{
    for (;;) {
        (void)pthread_mutex_lock(&w->lock);
        struct item *item = STAILQ_FIRST(&w->done);
        (void)pthread_mutex_unlock(&w->lock);
        if (item == NULL) {
            return true;
        }
        /* It stays the first: the thread appends only. */
        if (!w->config.ops->written(w->config.ctx, item->record->job, item->record->sequence,
                                    item->err)) {
            return false;
        }
        TAKE_FIRST(w, done, item);
        item_free(item);
    }
}

static void deliver_answers(struct writer *w)
{
    for (;;) {
        struct writer_ask *ask;
        TAKE_FIRST(w, answered, ask);
        if (ask == NULL) {
            return;
        }
        if (ask->fn != NULL) {
            ask->fn(ask->ctx, ask->err, &ask->page, ask->why.text);
        }
        ask_free(ask);
    }
}

bool writer_deliver(struct writer *w)
{
    (void)pthread_mutex_lock(&w->lock);
    bool stop = w->stop;
    (void)pthread_mutex_unlock(&w->lock);
    if (stop) {
        return true;
    }
    tell_conditions(w);
    bool all = deliver_records(w);
    deliver_answers(w);
    return all;
}

static void on_done(evutil_socket_t fd, short what, void *ctx)
{
    uint64_t n;
    (void)what;
    if (read(fd, &n, sizeof(n)) == (ssize_t)sizeof(n)) {
        (void)writer_deliver(ctx); /* what could not be taken in, the driver's timer delivers */
    }
}

/* --- what is asked for --- */

int writer_submit(struct writer *w, const struct rdzv_record *record)
{
    struct rdzv_record *copy = record_copy(record);
    struct item *item = malloc(sizeof(*item));
    if (copy == NULL || item == NULL) {
        free(copy);
        free(item);
        return TFE_ENOMEM;
    }
    *item = (struct item){.record = copy};
    (void)pthread_mutex_lock(&w->lock);
    struct item *queued;
    STAILQ_FOREACH(queued, &w->queue, link)
    {
        if (strcmp(queued->record->job, copy->job) == 0) {
            break;
        }
    }
    if (queued != NULL) {
        item->record = queued->record;
        queued->record = copy;
    } else {
        STAILQ_INSERT_TAIL(&w->queue, item, link);
        item = NULL;
    }
    (void)pthread_cond_signal(&w->wake);
    (void)pthread_mutex_unlock(&w->lock);
    if (item != NULL) {
        item_free(item);
    }
    return 0;
}

int writer_note(struct writer *w, const char *job, const struct msg_epoch_row *row)
{
    struct row_item *item = calloc(1, sizeof(*item));
    struct row_item *dropped = NULL;
    if (item == NULL || ledger_page_add(&item->page, row) != 0) {
        free(item);
        return TFE_ENOMEM;
    }
    (void)id_set(&item->job, job); /* the core's own names are sound */
    (void)pthread_mutex_lock(&w->lock);
    if (w->n_rows == ROWS_MAX) {
        dropped = STAILQ_FIRST(&w->rows);
    }
    if (dropped != NULL) {
        STAILQ_REMOVE_HEAD(&w->rows, link);
        w->n_rows--;
    }
    STAILQ_INSERT_TAIL(&w->rows, item, link);
    w->n_rows++;
    (void)pthread_cond_signal(&w->wake);
    (void)pthread_mutex_unlock(&w->lock);
    if (dropped != NULL) {
        row_item_free(dropped);
    }
    return 0;
}

static void ask_for(struct writer *w, struct writer_ask *ask)
{
    (void)pthread_mutex_lock(&w->lock);
    STAILQ_INSERT_TAIL(&w->asks, ask, link);
    (void)pthread_cond_signal(&w->wake);
    (void)pthread_mutex_unlock(&w->lock);
}

int writer_read(struct writer *w, const char *job, uint64_t after, uint32_t max,
                writer_answer_fn fn, void *ctx, struct writer_ask **ret)
{
    struct writer_ask *ask = calloc(1, sizeof(*ask));
    if (ask == NULL) {
        return TFE_ENOMEM;
    }
    *ask = (struct writer_ask){.fn = fn, .ctx = ctx, .after = after, .max = max};
    (void)id_set(&ask->job, job); /* not an id: no rows */
    *ret = ask;
    ask_for(w, ask);
    return 0;
}

int writer_backup(struct writer *w, const char *path, writer_answer_fn fn, void *ctx,
                  struct writer_ask **ret)
{
    struct writer_ask *ask = calloc(1, sizeof(*ask));
    if (ask == NULL) {
        return TFE_ENOMEM;
    }
    *ask = (struct writer_ask){.fn = fn, .ctx = ctx, .path = strdup(path)};
    if (ask->path == NULL) {
        ask_free(ask);
        return TFE_ENOMEM;
    }
    *ret = ask;
    ask_for(w, ask);
    return 0;
}

void writer_forget(struct writer *w, struct writer_ask *ask)
{
    (void)w;
    ask->fn = NULL; /* the thread does not look at it */
}

/* --- its beginning and end --- */

static int start_thread(struct writer *w)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&w->thread, NULL, writer_work, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) {
        w->started = true;
        (void)pthread_setname_np(w->thread, "tfe-rdzv-store");
    }
    return rc == 0 ? 0 : TFE_ESYS;
}

static void init_lock(struct writer *w)
{
    pthread_condattr_t steady; /* none of these fails on Linux */
    (void)pthread_condattr_init(&steady);
    (void)pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->wake, &steady);
    (void)pthread_condattr_destroy(&steady);
}

int writer_new(const struct writer_config *config, struct writer **ret, struct tfe_why *why)
{
    struct writer *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        why_set(why, "start the writer: out of memory");
        return TFE_ENOMEM;
    }
    *w = (struct writer){.config = *config, .rows_again = clock_mono()};
    w->prune_next = config->keep_history_ms > 0 ? clock_mono() : TFE_MONO_NEVER;
    STAILQ_INIT(&w->queue);
    STAILQ_INIT(&w->done);
    STAILQ_INIT(&w->rows);
    STAILQ_INIT(&w->asks);
    STAILQ_INIT(&w->answered);
    init_lock(w);
    w->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->done_fd >= 0) {
        w->on_done = event_new(config->base, w->done_fd, EV_READ | EV_PERSIST, on_done, w);
    }
    if (w->on_done == NULL || event_add(w->on_done, NULL) != 0 || start_thread(w) != 0) {
        why_errno(why, "start the writer");
        (void)writer_free(w, 0);
        return TFE_ESYS;
    }
    *ret = w;
    return 0;
}

void writer_stop(struct writer *w)
{
    (void)pthread_mutex_lock(&w->lock);
    w->stop = true;
    (void)pthread_cond_signal(&w->wake);
    (void)pthread_mutex_unlock(&w->lock);
}

/* False: it does not end in time. */
static bool join_thread(struct writer *w, uint32_t wait_ms)
{
    struct timespec until;
    writer_stop(w);
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return pthread_clockjoin_np(w->thread, NULL, CLOCK_MONOTONIC, &until) == 0;
}

bool writer_free(struct writer *w, uint32_t wait_ms)
{
    if (w == NULL) {
        return true;
    }
    if (w->started && !join_thread(w, wait_ms)) {
        return false;
    }
    if (w->on_done != NULL) {
        event_free(w->on_done);
    }
    if (w->done_fd >= 0) {
        (void)close(w->done_fd);
    }
    struct item *item;
    struct row_item *row;
    struct writer_ask *ask;
    STAILQ_CONCAT(&w->queue, &w->done);
    while ((item = STAILQ_FIRST(&w->queue)) != NULL) {
        STAILQ_REMOVE_HEAD(&w->queue, link);
        item_free(item);
    }
    while ((row = STAILQ_FIRST(&w->rows)) != NULL) {
        STAILQ_REMOVE_HEAD(&w->rows, link);
        row_item_free(row);
    }
    STAILQ_CONCAT(&w->asks, &w->answered);
    while ((ask = STAILQ_FIRST(&w->asks)) != NULL) {
        STAILQ_REMOVE_HEAD(&w->asks, link);
        ask_free(ask);
    }
    ask_free(w->backup);
    (void)pthread_cond_destroy(&w->wake);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
    return true;
}
