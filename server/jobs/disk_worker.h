/* server/jobs/disk_worker.h: one thread for disk work that may block; it carries out tasks in
 * order. */
#ifndef TFE_SERVER_JOBS_DISK_WORKER_H
#define TFE_SERVER_JOBS_DISK_WORKER_H

#include <bsd/sys/queue.h>

#include "common/base/error.h"

struct event_base;
struct disk;

/* The base of each task (its first member). */
struct disk_task {
    STAILQ_ENTRY(disk_task) link;
    void (*work)(struct disk_task *task); /* runs on the thread, which owns the task meanwhile */
    void (*done)(
        struct disk_task *task); /* runs from the event loop afterwards; the owner frees the task */
};

/* Returns 0, TFE_ENOMEM or TFE_ESYS. */
int disk_new(struct event_base *base, struct disk **ret) TFE_MUST_CHECK;
/* Waits up to 5 s for the running task; done() is called for every task, carried out or not. NULL
 * is allowed. */
void disk_free(struct disk *d);

/* Queues a task. May be called from a done() during disk_free(). */
void disk_put(struct disk *d, struct disk_task *task);

#endif
