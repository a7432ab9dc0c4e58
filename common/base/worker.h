/* common/base/worker.h: a thread beside the event loop, for what may have to wait: disks, name
 * servers. What it works on is its owner's; the worker brings the lock for it, the waking, the word
 * to the loop, and an end that waits no longer than it may. */
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
    const char *name; /* of the thread, at most 15 bytes; NULL: the process's */
    size_t stack;     /* bytes; 0: the system's default */
    /* The thread's main; it takes no signals. It begins after worker_start has returned. */
    void (*work)(void *ctx);
    struct event_base *base;    /* NULL: on_told is, too */
    void (*on_told)(void *ctx); /* on the loop, some time after worker_tell; several may be one */
    /* Nobody uses ctx any more: neither the thread, which is over, nor the owner, who has called
     * worker_free. Comes on the thread where that ends last. NULL: nothing is to be done. */
    void (*done)(void *ctx);
    void *ctx;
};

/* TFE_ENOMEM, TFE_ESYS (errno says why): nothing was started, done does not come. */
int worker_start(const struct worker_config *config, struct worker **ret) TFE_MUST_CHECK;

/* on_told does not come any more. Waits for the thread's end for wait_ms at most, and lets go of
 * it. False: it goes on, and ends when it can. NULL is allowed (true). */
bool worker_free(struct worker *w, uint32_t wait_ms);

/* Of what thread and owner share. */
void worker_lock(struct worker *w);
void worker_unlock(struct worker *w);

/* The thread looks for work again. With or without the lock. */
void worker_wake(struct worker *w);

/* From the thread, which holds the lock before and after: waits until it is woken, or for `until`;
 * may come back early. */
void worker_wait(struct worker *w, struct tfe_mono until);

/* From the thread, with or without the lock. */
void worker_tell(struct worker *w);

#endif
