/* server/store/writer.c: writes to the store on a thread of its own. */
#include "server/store/writer.h"

#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

#include "common/net/clock.h"
#include "server/store/record.h"

/* Of one transaction; a longer one would only let the first wait for the last. */
#define BATCH_RECORDS_MAX 500
#define BATCH_MEMBERS_MAX 100000

struct item {
    STAILQ_ENTRY(item) link;
    struct rdzv_record *record;
    int err;
};
STAILQ_HEAD(item_list, item);

struct writer {
    struct store *store;
    const struct writer_ops *ops;
    void *ctx;
    struct event *on_done;
    pthread_t thread;
    int done_fd;
    bool started;
    /* The condition that the loop was told last. */
    int told_err;
    struct tfe_why told_why;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t wake;
    struct item_list queue;
    struct item_list done;
    int err; /* of the last transaction */
    struct tfe_why why;
    bool stop;
};

static void item_free(struct item *item)
{
    free(item->record);
    free(item);
}

static void clear(struct item_list *list)
{
    while (!STAILQ_EMPTY(list)) {
        struct item *item = STAILQ_FIRST(list);
        STAILQ_REMOVE_HEAD(list, link);
        item_free(item);
    }
}

/* --- the thread --- */

static int write_batch(struct writer *w, const struct item_list *batch, struct tfe_why *why)
{
    const struct item *item;
    struct tfe_wall now = clock_wall();
    int err = store_begin(w->store, why);
    if (err != 0) {
        return err;
    }
    STAILQ_FOREACH(item, batch, link) {
        err = store_put(w->store, item->record, now, why);
        if (err != 0) {
            store_rollback(w->store);
            return err;
        }
    }
    return store_commit(w->store, why);
}

/* From the queue, in its order. Holds the lock. */
static void take_batch(struct writer *w, struct item_list *ret)
{
    uint32_t records = 0;
    uint32_t members = 0;
    STAILQ_INIT(ret);
    while (!STAILQ_EMPTY(&w->queue) && records < BATCH_RECORDS_MAX && members < BATCH_MEMBERS_MAX) {
        struct item *item = STAILQ_FIRST(&w->queue);
        STAILQ_REMOVE_HEAD(&w->queue, link);
        STAILQ_INSERT_TAIL(ret, item, link);
        records++;
        members += item->record->n_members;
    }
}

static void *run(void *ctx)
{
    static const uint64_t one = 1;
    struct writer *w = ctx;
    struct item_list batch;
    struct tfe_why why;
    (void)pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->stop && STAILQ_EMPTY(&w->queue)) {
            (void)pthread_cond_wait(&w->wake, &w->lock);
        }
        if (w->stop) {
            break;
        }
        take_batch(w, &batch);
        (void)pthread_mutex_unlock(&w->lock);
        why.text[0] = '\0';
        int err = write_batch(w, &batch, &why);
        struct item *item;
        STAILQ_FOREACH(item, &batch, link) {
            item->err = err;
        }
        (void)pthread_mutex_lock(&w->lock);
        w->err = err;
        w->why = why;
        STAILQ_CONCAT(&w->done, &batch);
        ssize_t n = write(w->done_fd, &one, sizeof(one)); /* cannot fail: the counter is far off */
        (void)n;
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* --- the loop --- */

static void tell_condition(struct writer *w)
{
    (void)pthread_mutex_lock(&w->lock);
    int err = w->err;
    struct tfe_why why = w->why;
    (void)pthread_mutex_unlock(&w->lock);
    if (err != w->told_err || (err != 0 && strcmp(why.text, w->told_why.text) != 0)) {
        w->told_err = err;
        w->told_why = why;
        w->ops->condition(w->ctx, err, why.text);
    }
}

bool writer_deliver(struct writer *w)
{
    tell_condition(w);
    for (;;) {
        (void)pthread_mutex_lock(&w->lock);
        struct item *item = w->stop ? NULL : STAILQ_FIRST(&w->done);
        (void)pthread_mutex_unlock(&w->lock);
        if (item == NULL) {
            return true;
        }
        /* It stays the first: the thread appends only. */
        if (!w->ops->written(w->ctx, item->record->job, item->record->sequence, item->err)) {
            return false;
        }
        (void)pthread_mutex_lock(&w->lock);
        STAILQ_REMOVE_HEAD(&w->done, link);
        (void)pthread_mutex_unlock(&w->lock);
        item_free(item);
    }
}

static void on_done(evutil_socket_t fd, short what, void *ctx)
{
    uint64_t n;
    (void)what;
    if (read(fd, &n, sizeof(n)) == (ssize_t)sizeof(n)) {
        (void)writer_deliver(ctx); /* else the driver's timer does */
    }
}

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
    STAILQ_FOREACH(queued, &w->queue, link) {
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

/* --- its beginning and end --- */

static int start_thread(struct writer *w)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&w->thread, NULL, run, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) {
        w->started = true;
        (void)pthread_setname_np(w->thread, "tfe-rdzv-store");
    }
    return rc == 0 ? 0 : TFE_ESYS;
}

int writer_new(struct event_base *base, struct store *store, const struct writer_ops *ops,
               void *ctx, struct writer **ret, struct tfe_why *why)
{
    struct writer *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        why_set(why, "start the writer: out of memory");
        return TFE_ENOMEM;
    }
    *w = (struct writer){.store = store, .ops = ops, .ctx = ctx};
    STAILQ_INIT(&w->queue);
    STAILQ_INIT(&w->done);
    (void)pthread_mutex_init(&w->lock, NULL); /* neither fails on Linux */
    (void)pthread_cond_init(&w->wake, NULL);
    w->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->done_fd >= 0) {
        w->on_done = event_new(base, w->done_fd, EV_READ | EV_PERSIST, on_done, w);
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

bool writer_free(struct writer *w, uint32_t wait_ms)
{
    if (w == NULL) {
        return true;
    }
    if (w->started) {
        struct timespec until;
        writer_stop(w);
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += wait_ms / 1000;
        until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        if (pthread_clockjoin_np(w->thread, NULL, CLOCK_MONOTONIC, &until) != 0) {
            return false;
        }
    }
    if (w->on_done != NULL) {
        event_free(w->on_done);
    }
    if (w->done_fd >= 0) {
        (void)close(w->done_fd);
    }
    clear(&w->queue);
    clear(&w->done);
    (void)pthread_cond_destroy(&w->wake);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
    return true;
}
