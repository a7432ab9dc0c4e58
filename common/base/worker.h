/* common/base/worker.h: a thread beside the event loop for operations that may block: disks, name
 * servers. The owner owns the data; the worker provides a lock for it, wake-ups, notifications to
 * the loop, and an end with a bounded wait. */
#ifndef TFE_COMMON_BASE_WORKER_H
#define TFE_COMMON_BASE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/time.h"

struct event_base;
struct worker;

struct worker_config {
    const char *name; /* name of the thread, at most 15 bytes; NULL for the process's name */
    size_t stack;     /* stack size in bytes; 0 for the system's default */
    /* Main function of the thread, which runs with all signals blocked. Starts after worker_start
     * has returned. */
    void (*work)(void *ctx);
    struct event_base *base; /* event loop to notify; NULL if on_notify is NULL */
    void (*on_notify)(
        void *ctx); /* runs on the loop after worker_notify; several calls may be merged into one */
    /* Called once ctx is no longer used: the thread has ended and the owner has called worker_free.
     * Runs on the thread if that ends last. May be NULL. */
    void (*done)(void *ctx);
    void *ctx;
};

/* Starts a worker. Returns TFE_ENOMEM or TFE_ESYS (errno set) if nothing was started; done is not
 * called then. */
int worker_start(const struct worker_config *config, struct worker **ret) TFE_MUST_CHECK;

/* Stops notifications, waits at most wait_ms for the thread to end, and releases the worker.
 * Returns false if the thread is still running; it then ends on its own. NULL is allowed and
 * returns true. */
bool worker_free(struct worker *w, uint32_t wait_ms);

/* Lock and unlock the mutex for data shared by thread and owner. */
void worker_lock(struct worker *w);
void worker_unlock(struct worker *w);

/* Wakes the thread to look for work. May be called with or without the lock. */
void worker_wake(struct worker *w);

/* Called by the thread with the lock held: waits until worker_wake or the time `until`. May return
 * early. */
void worker_wait(struct worker *w, struct tfe_mono until);

/* Notifies the loop. Called by the thread, with or without the lock. */
void worker_notify(struct worker *w);

#endif
