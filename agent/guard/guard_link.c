/* agent/guard/guard_link.c: the agent's end of the pipe to its guard: sends orders
 * and delivers events. */
#include "agent/guard/guard_link.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/guard/guard_proto.h"
#include "agent/guard/spawn_block.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"

/* Interval of waitpid after EOF, which comes while the guard is still dying. Its children become
 * the agent's once it can be reaped. */
#define REAP_RETRY_US 1000

struct guard_link {
    struct guard_process guard; /* its fd is -1 once the guard is gone */
    guard_event_fn *on_event;
    void *ctx;
    struct event *readable;
    struct event *writable; /* pending while an order is unsent */
    struct event *reaper;
    bool used[GUARD_SLOTS];

    /* Orders that the pipe has not accepted yet. They are states rather than a queue, so that a
     * stopped guard costs no memory and later finds only the newest orders. */
    uint64_t signals[GUARD_SLOTS]; /* bit n-1 is set if signal n has to be sent */
    bool unsent_signals;
    bool unsent_sweep;
    bool unsent_fence;
    struct tfe_mono fence;

    uint32_t sweep_requested;
    uint32_t sweep_reported;
};

/* Returns false if the pipe is full, or broken, which the reading side detects. */
static bool order_send(struct guard_link *link, const struct guard_order *order)
{
    ssize_t n = send(link->guard.fd, order, sizeof *order, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n == (ssize_t)sizeof *order;
}

static bool signals_send(struct guard_link *link)
{
    for (uint32_t slot = 0; slot < GUARD_SLOTS; slot++) {
        for (int signo = 1; link->signals[slot] && signo <= 64; signo++) {
            uint64_t bit = UINT64_C(1) << (signo - 1);
            struct guard_order order = {.type = GUARD_SIGNAL, .slot = slot, .signo = signo};
            if (!(link->signals[slot] & bit)) {
                continue;
            }
            if (!order_send(link, &order)) {
                return false;
            }
            link->signals[slot] &= ~bit;
        }
    }
    return true;
}

static void link_send_unsent(struct guard_link *link)
{
    if (link->guard.fd < 0) {
        return;
    }
    if (link->unsent_fence) {
        struct guard_order order = {.type = GUARD_FENCE, .deadline_ms = link->fence.ms};
        link->unsent_fence = !order_send(link, &order);
    }
    if (!link->unsent_fence && link->unsent_signals) {
        link->unsent_signals = !signals_send(link);
    }
    if (!link->unsent_fence && !link->unsent_signals && link->unsent_sweep) {
        struct guard_order order = {.type = GUARD_SWEEP, .number = link->sweep_requested};
        link->unsent_sweep = !order_send(link, &order);
    }
    if (link->unsent_fence || link->unsent_signals || link->unsent_sweep) {
        event_add(link->writable, NULL);
    }
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    link_send_unsent(arg);
}

static void event_handle(struct guard_link *link, const struct guard_event *event)
{
    if (event->type != GUARD_SWEPT && event->slot >= GUARD_SLOTS) {
        return;
    }
    if (event->type == GUARD_SPAWN_FAILED || event->type == GUARD_EXITED) {
        link->used[event->slot] = false;
        link->signals[event->slot] = 0;
    } else if (event->type == GUARD_SWEPT && event->slot != link->sweep_requested) {
        return; /* a later sweep is in progress; wait for its response */
    } else if (event->type == GUARD_SWEPT && event->pid == 0) {
        link->sweep_reported = event->slot;
    }
    link->on_event(link->ctx, event); /* last, because the callback may free the link */
}

static void on_reaper(evutil_socket_t fd, short what, void *arg)
{
    struct guard_link *link = arg;
    pid_t pid = waitpid(link->guard.pid, NULL, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR)) {
        event_add(link->reaper, &(struct timeval){.tv_usec = REAP_RETRY_US});
        return;
    }
    event_handle(link, &(struct guard_event){.type = GUARD_LOST});
}

static void link_lost(struct guard_link *link)
{
    event_del(link->readable);
    event_del(link->writable);
    fd_close(&link->guard.fd);
    event_add(link->reaper, &(struct timeval){.tv_usec = 0});
}

/* Reads one packet per call; the descriptor stays readable if there are more. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct guard_link *link = arg;
    struct guard_event event;
    ssize_t n = recv(fd, &event, sizeof event, MSG_DONTWAIT);
    if (n == (ssize_t)sizeof event) {
        event_handle(link, &event);
    } else if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
        link_lost(link);
    }
}

struct guard_link *guard_link_new(struct event_base *base, const struct guard_process *process,
                                  guard_event_fn *on_event, void *ctx)
{
    struct guard_link *link = must_alloc(sizeof *link);
    *link = (struct guard_link){
        .guard = *process,
        .on_event = on_event,
        .ctx = ctx,
        .readable = event_new(base, process->fd, EV_READ | EV_PERSIST, on_readable, link),
        .writable = event_new(base, process->fd, EV_WRITE, on_writable, link),
        .reaper = evtimer_new(base, on_reaper, link)};
    must_succeed(link->readable && link->writable && link->reaper &&
                 event_add(link->readable, NULL) == 0);
    return link;
}

void guard_link_free(struct guard_link *link)
{
    if (!link) {
        return;
    }
    event_drop(&link->readable);
    event_drop(&link->writable);
    event_drop(&link->reaper);
    if (link->guard.fd >= 0) {
        struct guard_order order = {.type = GUARD_LEAVE};
        (void)order_send(link, &order);
        close(link->guard.fd);
    }
    free(link);
}

pid_t guard_link_pid(const struct guard_link *link)
{
    return link->guard.pid;
}

static int spawn_order(struct guard_link *link, const struct spawn_spec *spec,
                       struct guard_order *order, int stdout_fd, int stderr_fd)
{
    if (order->slot >= GUARD_SLOTS) {
        return TFE_EINVAL;
    }
    if (link->used[order->slot] || link->sweep_requested != link->sweep_reported) {
        return TFE_ESTATE;
    }
    if (link->guard.fd < 0 || link->unsent_fence) {
        /* The guard does not know the newest fence yet; start nothing before it does. */
        errno = link->guard.fd < 0 ? EPIPE : EAGAIN;
        return TFE_ESYS;
    }
    int fds[GUARD_FDS] = {[GUARD_FD_STDOUT] = stdout_fd, [GUARD_FD_STDERR] = stderr_fd};
    int rc = spawn_block_new(spec, &order->block, &fds[GUARD_FD_BLOCK]);
    if (rc != 0) {
        return rc;
    }
    rc = guard_send(link->guard.fd, order, sizeof *order, fds) ? 0 : TFE_ESYS;
    fd_close(&fds[GUARD_FD_BLOCK]);
    link->used[order->slot] = rc == 0;
    return rc;
}

int guard_link_spawn(struct guard_link *link, uint32_t slot, const struct spawn_spec *spec,
                     int stdout_fd, int stderr_fd)
{
    struct guard_order order = {.type = GUARD_SPAWN, .slot = slot, .from = GUARD_NO_SLOT};
    return spawn_order(link, spec, &order, stdout_fd, stderr_fd);
}

int guard_link_spawn_standby(struct guard_link *link, uint32_t slot, const struct spawn_spec *spec,
                             bool background)
{
    struct guard_order order = {.type = GUARD_SPAWN,
                                .slot = slot,
                                .from = GUARD_NO_SLOT,
                                .flags = GUARD_AS_STANDBY |
                                         (background ? (uint32_t)GUARD_IN_BACKGROUND : 0)};
    /* Python caches whether stdout and stderr are seekable or a terminal. Like a trainer's,
     * these pipes are neither. Output before the hand-over is discarded. */
    int nowhere[2];
    if (pipe2(nowhere, O_CLOEXEC) != 0) {
        return TFE_ESYS;
    }
    int rc = spawn_order(link, spec, &order, nowhere[1], nowhere[1]);
    fd_close(&nowhere[0]);
    fd_close(&nowhere[1]);
    return rc;
}

int guard_link_hand_over(struct guard_link *link, uint32_t slot, uint32_t from,
                         const struct spawn_spec *spec, int stdout_fd, int stderr_fd)
{
    if (from >= GUARD_SLOTS || from == slot) {
        return TFE_EINVAL;
    }
    struct guard_order order = {.type = GUARD_SPAWN, .slot = slot, .from = from};
    int rc = spawn_order(link, spec, &order, stdout_fd, stderr_fd);
    if (rc == 0) {
        link->used[from] = false;
        link->signals[from] = 0;
    }
    return rc;
}

void guard_link_signal(struct guard_link *link, uint32_t slot, int signo)
{
    if (slot >= GUARD_SLOTS || !link->used[slot] || signo < 1 || signo > 64) {
        return;
    }
    link->signals[slot] |= UINT64_C(1) << (signo - 1);
    link->unsent_signals = true;
    link_send_unsent(link);
}

void guard_link_sweep(struct guard_link *link)
{
    link->sweep_requested++;
    link->unsent_sweep = true;
    link_send_unsent(link);
}

void guard_link_fence(struct guard_link *link, struct tfe_mono deadline)
{
    link->fence = deadline;
    link->unsent_fence = true;
    link_send_unsent(link);
}
