/* common/base/worker.c: a thread that shares a mutex, a condition variable and an eventfd with its
 * owner. */
#include "common/base/worker.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"

struct worker {
    struct worker_config config;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool has_ended;   /* config.work has returned */
    bool is_detached; /* the owner has detached the thread, which frees the worker itself */
    int fd;           /* eventfd to the loop; -1 if the worker does not notify the loop */
    struct event notify_event;
};

static void clear_up(struct worker *w)
{
    if (w->fd >= 0) {
        (void)close(w->fd);
    }
    (void)pthread_cond_destroy(&w->wake);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
}

static void end(struct worker *w)
{
    if (w->config.done) {
        w->config.done(w->config.ctx);
    }
    clear_up(w);
}

/* Returns the CLOCK_MONOTONIC time in ms milliseconds. */
static struct timespec steady_in(int64_t ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    const int64_t ns = at.tv_nsec + ms % 1000 * 1000000;
    at.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    at.tv_nsec = (long)(ns % 1000000000);
    return at;
}

static void *thread_main(void *arg)
{
    struct worker *w = arg;
    /* Wait until worker_start, which holds the lock, has returned the worker to its owner. */
    worker_lock(w);
    worker_unlock(w);
    if (w->config.name) {
        (void)pthread_setname_np(pthread_self(), w->config.name);
    }
    w->config.work(w->config.ctx);
    worker_lock(w);
    w->has_ended = true;
    const bool is_detached = w->is_detached;
    worker_unlock(w);
    if (is_detached) {
        end(w);
    }
    return NULL;
}

/* Starts the thread with all signals blocked, because the loop's thread handles them. */
static int start_thread(struct worker *w)
{
    sigset_t all;
    sigset_t before;
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (error) {
        return error;
    }
    if (w->config.stack > 0) {
        error = pthread_attr_setstacksize(&attr, w->config.stack);
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = error ? error : pthread_create(&w->thread, &attr, thread_main, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return error;
}

static void on_notify(evutil_socket_t fd, short what, void *arg)
{
    struct worker *w = arg;
    uint64_t count;
    if (read(fd, &count, sizeof count) == (ssize_t)sizeof count) {
        w->config.on_notify(w->config.ctx);
    }
}

/* Makes the loop watch the eventfd. Returns false with errno set if that fails. */
static bool watch_fd(struct worker *w)
{
    w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return w->fd >= 0 &&
           !event_assign(&w->notify_event, w->config.base, w->fd, EV_READ | EV_PERSIST, on_notify,
                         w) &&
           !event_add(&w->notify_event, NULL);
}

static void unwatch_fd(struct worker *w)
{
    if (w->fd >= 0 && event_initialized(&w->notify_event)) {
        (void)event_del(&w->notify_event);
    }
}

int worker_start(const struct worker_config *config, struct worker **ret)
{
    struct worker *w = calloc(1, sizeof *w);
    if (!w) {
        return TFE_ENOMEM;
    }
    w->config = *config;
    w->fd = -1;
    (void)pthread_mutex_init(&w->lock,
                             NULL); /* mutex and condition initialisation cannot fail on Linux */
    (void)pthread_cond_init(&w->wake, NULL);
    worker_lock(w);
    const int error = config->base && !watch_fd(w) ? errno : start_thread(w);
    if (!error) {
        *ret = w;
    }
    worker_unlock(w);
    if (error) {
        unwatch_fd(w);
        clear_up(w);
        errno = error;
    }
    return error ? TFE_ESYS : 0;
}

bool worker_free(struct worker *w, uint32_t wait_ms)
{
    if (!w) {
        return true;
    }
    unwatch_fd(w);
    const struct timespec until = steady_in(wait_ms);
    if (pthread_clockjoin_np(w->thread, NULL, CLOCK_MONOTONIC, &until)) {
        (void)pthread_detach(w->thread);
        worker_lock(w);
        w->is_detached = !w->has_ended;
        const bool is_detached = w->is_detached;
        worker_unlock(w);
        if (is_detached) {
            return false;
        }
    }
    end(w);
    return true;
}

void worker_lock(struct worker *w)
{
    (void)pthread_mutex_lock(&w->lock);
}

void worker_unlock(struct worker *w)
{
    (void)pthread_mutex_unlock(&w->lock);
}

void worker_wake(struct worker *w)
{
    (void)pthread_cond_signal(&w->wake);
}

void worker_wait(struct worker *w, struct tfe_mono until)
{
    if (tfe_mono_is_never(until)) {
        (void)pthread_cond_wait(&w->wake, &w->lock);
        return;
    }
    const int64_t ms = tfe_mono_sub(until, clock_mono());
    if (ms > 0) {
        const struct timespec at = steady_in(ms);
        (void)pthread_cond_clockwait(&w->wake, &w->lock, CLOCK_MONOTONIC, &at);
    }
}

void worker_notify(struct worker *w)
{
    static const uint64_t one = 1;
    (void)!write(w->fd, &one, sizeof one); /* cannot fail: the counter does not overflow */
}
