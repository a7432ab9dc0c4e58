/* server/jobs/disk_worker.c: one thread for disk work that may block. */
#include "server/jobs/disk_worker.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/base/worker.h"

#define END_MS 5000

STAILQ_HEAD(tasks, disk_task);

struct disk {
    struct worker *worker;
    struct tasks asked, done; /* shared with the thread */
    bool is_over;
};

/* Main function of the thread. */
static void work(void *ctx)
{
    struct disk *d = ctx;
    worker_lock(d->worker);
    while (!d->is_over) {
        struct disk_task *task = STAILQ_FIRST(&d->asked);
        if (!task) {
            worker_wait(d->worker, TFE_MONO_NEVER);
            continue;
        }
        STAILQ_REMOVE_HEAD(&d->asked, link);
        worker_unlock(d->worker);
        task->work(task);
        worker_lock(d->worker);
        STAILQ_INSERT_TAIL(&d->done, task, link);
        worker_notify(d->worker);
    }
    worker_unlock(d->worker);
}

static void settle(struct tasks *tasks)
{
    struct disk_task *task;
    while ((task = STAILQ_FIRST(tasks))) {
        STAILQ_REMOVE_HEAD(tasks, link);
        task->done(task);
    }
}

static void on_notify(void *ctx)
{
    struct disk *d = ctx;
    struct tasks done = STAILQ_HEAD_INITIALIZER(done);
    worker_lock(d->worker);
    STAILQ_CONCAT(&done, &d->done);
    worker_unlock(d->worker);
    settle(&done);
}

int disk_new(struct event_base *base, struct disk **ret)
{
    struct disk *d = calloc(1, sizeof(*d));
    if (!d) {
        return TFE_ENOMEM;
    }
    STAILQ_INIT(&d->asked);
    STAILQ_INIT(&d->done);
    const struct worker_config config = {
        .name = "disk", .work = work, .base = base, .on_notify = on_notify, .ctx = d};
    int rc = worker_start(&config, &d->worker);
    if (rc != 0) {
        free(d);
        return rc;
    }
    *ret = d;
    return 0;
}

void disk_free(struct disk *d)
{
    if (!d) {
        return;
    }
    worker_lock(d->worker);
    d->is_over = true;
    worker_unlock(d->worker);
    worker_wake(d->worker);
    if (worker_free(d->worker,
                    END_MS)) { /* otherwise the thread still holds a task, and the process ends */
        d->worker = NULL;
        settle(&d->done);
        settle(&d->asked);
        free(d);
    }
}

void disk_put(struct disk *d, struct disk_task *task)
{
    if (!d->worker) { /* queued by a done() during disk_free(): its own done() is called next */
        STAILQ_INSERT_TAIL(&d->asked, task, link);
        return;
    }
    worker_lock(d->worker);
    STAILQ_INSERT_TAIL(&d->asked, task, link);
    worker_unlock(d->worker);
    worker_wake(d->worker);
}
