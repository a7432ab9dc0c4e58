/* server/jobs/disk_worker.h: what may have to wait for a disk, beside the loop: one thread does it,
 * piece by piece, in the order in which it was asked for. */
#ifndef TFE_SERVER_JOBS_DISK_WORKER_H
#define TFE_SERVER_JOBS_DISK_WORKER_H

#include <bsd/sys/queue.h>

#include "common/base/error.h"

struct event_base;
struct disk;

/* The first member of whatever is to be done. */
struct disk_task {
    STAILQ_ENTRY(disk_task) link;
    void (*work)(struct disk_task *task); /* on the thread; what it looks at is its own meanwhile */
    void (*done)(struct disk_task *task); /* then, from the loop: its owner's again, who frees it */
};

/* TFE_ENOMEM, TFE_ESYS. */
int disk_new(struct event_base *base, struct disk **ret) TFE_MUST_CHECK;
/* Waits for what is under way, for 5 s at most; done() comes for all of it, worked or not. NULL is
 * allowed. */
void disk_free(struct disk *d);

/* From a done() of disk_free's, too. */
void disk_put(struct disk *d, struct disk_task *task);

#endif
