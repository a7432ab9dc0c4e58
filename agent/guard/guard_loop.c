/* agent/guard/guard_loop.c: main loop of tfe-guard: starts processes, reports events and kills
 * until no descendant is left. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_proto.h"
#include "agent/guard/guard_state.h"
#include "agent/guard/spawn_block.h"
#include "common/base/clock.h"
#include "common/base/fd.h"

/* Maximum number of orders handled before children and the fence are checked again. */
#define ORDERS_PER_ITERATION 128

/* --- fence --- */

static void fence_set(struct guard *g, int64_t deadline_ms)
{
    struct itimerspec at = {.it_value = {0}};
    if (deadline_ms != GUARD_NEVER) {
        int64_t ms = deadline_ms > 0 ? deadline_ms : 0;
        at.it_value.tv_sec = (time_t)(ms / 1000);
        at.it_value.tv_nsec = (long)(ms % 1000) * 1000000 + 1; /* 0 would disarm the timer */
    }
    g->fence_ms = deadline_ms;
    g->fence_passed = false;
    timerfd_settime(FENCE_FD, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Kills all trainers if the fence has passed. Called before each decision that depends on the
 * fence; the timer only ends the wait. */
static void fence_check(struct guard *g)
{
    if (g->fence_ms == GUARD_NEVER || clock_mono().ms < g->fence_ms) {
        return;
    }
    fence_set(g, GUARD_NEVER);
    g->fence_passed = true;
    g->unsent_fenced = true;
    kill_everything(g);
}

/* --- children --- */

/* Reads the result of exec from the report pipe. With reaped set the process has ended, so
 * the result is final. */
static void exec_report_read(struct slot *slot, bool reaped)
{
    int error = 0;
    ssize_t n = read(slot->report, &error, sizeof error);
    if (n < 0 && !reaped) {
        return;
    }
    fd_close(&slot->report);
    if (n == (ssize_t)sizeof error) {
        slot->state = SLOT_FAILED;
        slot->value = error;
    } else {
        slot->state = SLOT_RUNNING;
        slot->unsent_pid = true;
    }
}

static void exec_reports_read(struct guard *g)
{
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        struct slot *slot = &g->slots[i];
        if (slot->state == SLOT_STARTING) {
            exec_report_read(slot, false);
        }
        if (slot->state == SLOT_FAILED) {
            standby_retry(g, slot);
        }
        standby_read_messages(slot);
    }
}

static void slot_ended(struct guard *g, pid_t pid, int status)
{
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        struct slot *slot = &g->slots[i];
        if (!slot_has_process(slot) || slot->pid != pid) {
            continue;
        }
        if (slot->state == SLOT_STARTING) {
            exec_report_read(slot, true);
        }
        standby_read_messages(slot); /* handle what the process sent before it ended */
        if (standby_retry(g, slot)) {
            return;
        }
        if (slot->state == SLOT_RUNNING) {
            slot->state = SLOT_ENDING;
            slot->value = status;
            slot->ended_us = clock_us();
            slot->others_alive = true;
            scan_soon(g);
        }
        return;
    }
}

static void children_reap(struct guard *g)
{
    struct signalfd_siginfo info[16];
    while (read(CHILD_FD, info, sizeof info) > 0) {
    }
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0) {
            slot_ended(g, pid, status);
        } else if (pid == 0 || errno != EINTR) {
            g->childless = pid < 0;
            return;
        }
    }
}

/* --- orders --- */

static void order_spawn(struct guard *g, const struct guard_order *order, const int fds[GUARD_FDS])
{
    struct slot *slot = &g->slots[order->slot];
    if (slot->state != SLOT_EMPTY) {
        return; /* cannot happen: the agent tracks used slots */
    }
    fence_check(g);
    /* The fence does not apply to a standby, which trains nothing. */
    bool is_late = g->fence_passed && !(order->flags & GUARD_AS_STANDBY);
    if (is_late || g->killing) {
        slot->state = SLOT_FAILED;
        slot->value = is_late ? ETIME : EBUSY;
    } else if (order->from < GUARD_SLOTS) {
        standby_hand_over(g, slot, &g->slots[order->from], order, fds);
    } else {
        slot_spawn(g, slot, order, fds);
    }
}

static void order_handle(struct guard *g, const struct guard_order *order, const int *fds,
                         size_t n_fds)
{
    if (g->closed && order->type != GUARD_LEAVE) {
        return;
    }
    switch (order->type) {
    case GUARD_SPAWN:
        if (order->slot < GUARD_SLOTS && n_fds == GUARD_FDS) {
            order_spawn(g, order, fds);
        }
        break;
    case GUARD_SIGNAL:
        if (order->slot < GUARD_SLOTS && slot_has_process(&g->slots[order->slot]) &&
            order->signo > 0 && order->signo <= 64) {
            g->slots[order->slot].signals |= UINT64_C(1) << (order->signo - 1);
        }
        break;
    case GUARD_SWEEP:
        g->sweep_requested = order->number;
        kill_everything(g);
        break;
    case GUARD_FENCE:
        fence_set(g, order->deadline_ms);
        fence_check(g);
        break;
    case GUARD_LEAVE:
        g->agent_left = true;
        break;
    default:
        break;
    }
}

/* Handles one packet with its descriptors. Returns false if there is none. */
static bool order_receive(struct guard *g)
{
    struct guard_order order;
    int fds[GUARD_FDS];
    size_t n_fds;
    ssize_t n = guard_receive(PAIR_FD, &order, sizeof order, fds, &n_fds);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n <= 0) {
        g->closed = true;
        /* ECONNRESET is reported once if the agent left events unread; its last orders follow. */
        return n < 0 && errno == ECONNRESET;
    }
    if (n == (ssize_t)sizeof order) {
        order_handle(g, &order, fds, n_fds);
    }
    for (size_t i = 0; i < n_fds; i++) {
        close(fds[i]);
    }
    return true;
}

/* --- events --- */

/* Sends one event. Unsent events are kept as states, not in a queue, so that an agent that does
 * not read, e.g. because it is stopped, costs no memory and blocks nothing. */
static bool event_send(struct guard *g, uint32_t type, uint32_t slot, pid_t pid, int value)
{
    struct guard_event event = {.type = type, .slot = slot, .pid = pid, .value = value};
    if (type == GUARD_COLD || type == GUARD_WARM) {
        memcpy(event.reason, g->slots[slot].reason, sizeof event.reason);
    }
    if (g->closed) {
        return true;
    }
    if (send(PAIR_FD, &event, sizeof event, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof event) {
        return true;
    }
    g->blocked = errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM;
    g->closed = !g->blocked;
    return !g->blocked;
}

static bool slot_send_events(struct guard *g, uint32_t at)
{
    struct slot *slot = &g->slots[at];
    if (slot->unsent_pid && event_send(g, GUARD_SPAWNED, at, slot->pid, 0)) {
        slot->unsent_pid = false;
    }
    if (!g->blocked && slot->unsent_warm && event_send(g, GUARD_WARM, at, slot->pid, 0)) {
        slot->unsent_warm = false;
    }
    if (!g->blocked && slot->unsent_cold && event_send(g, GUARD_COLD, at, slot->pid, 0)) {
        slot->unsent_cold = false;
    }
    if (!g->blocked && slot->state == SLOT_FAILED &&
        event_send(g, GUARD_SPAWN_FAILED, at, 0, slot->value)) {
        slot_reset(g, slot);
    }
    if (!g->blocked && slot->state == SLOT_ENDED &&
        event_send(g, GUARD_EXITED, at, slot->pid, slot->value)) {
        slot_reset(g, slot);
    }
    return !g->blocked;
}

static void send_events(struct guard *g)
{
    g->blocked = false;
    if (g->unsent_fenced) {
        if (!event_send(g, GUARD_FENCED, 0, 0, 0)) {
            return;
        }
        g->unsent_fenced = false;
    }
    for (uint32_t i = 0; i < GUARD_SLOTS; i++) {
        if (!slot_send_events(g, i)) {
            return;
        }
    }
    if (g->stuck && event_send(g, GUARD_SWEPT, g->sweep_requested, g->stuck, 0)) {
        g->stuck = 0;
    }
    if (!g->blocked && !g->killing && g->sweep_reported != g->sweep_requested &&
        event_send(g, GUARD_SWEPT, g->sweep_requested, 0, 0)) {
        g->sweep_reported = g->sweep_requested;
    }
}

/* --- loop --- */

static void wait_for_event(struct guard *g)
{
    struct pollfd fds[3 + 2 * GUARD_SLOTS];
    nfds_t n = 0;
    fds[n++] = (struct pollfd){.fd = CHILD_FD, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = FENCE_FD, .events = POLLIN};
    if (!g->closed) {
        short events = g->blocked ? POLLIN | POLLOUT : POLLIN;
        fds[n++] = (struct pollfd){.fd = PAIR_FD, .events = events};
    }
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        if (g->slots[i].state == SLOT_STARTING) {
            fds[n++] = (struct pollfd){.fd = g->slots[i].report, .events = POLLIN};
        }
        if (g->slots[i].control >= 0) {
            fds[n++] = (struct pollfd){.fd = g->slots[i].control, .events = POLLIN};
        }
    }
    struct timespec pause = {0};
    struct timespec *timeout = NULL;
    if (g->scan_at_us != GUARD_NEVER) {
        int64_t left = g->scan_at_us - clock_us();
        left = left > 0 ? left : 0;
        pause.tv_sec = (time_t)(left / 1000000);
        pause.tv_nsec = (long)(left % 1000000) * 1000;
        timeout = &pause;
    }
    if (ppoll(fds, n, timeout, NULL) <= 0) {
        return;
    }
    if (fds[1].revents) {
        uint64_t times;
        while (read(FENCE_FD, &times, sizeof times) > 0) {
        }
    }
    /* The agent has ended; orders that are still unread must start nothing. */
    if (!g->closed && (fds[2].revents & (POLLHUP | POLLERR | POLLNVAL))) {
        g->closed = true;
    }
}

static void serve(struct guard *g)
{
    while (!g->closed || g->killing || !g->childless) {
        if (g->closed && !g->killing) {
            kill_everything(g);
        }
        wait_for_event(g);
        fence_check(g);
        for (int i = 0; i < ORDERS_PER_ITERATION && !g->closed && order_receive(g); i++) {
        }
        signals_send(g);
        exec_reports_read(g);
        children_reap(g);
        if (g->scan_at_us <= clock_us() || (g->scan_at_us != GUARD_NEVER && g->childless)) {
            kill_survivors(g);
        }
        send_events(g);
    }
}

struct guard_end guard_serve(void)
{
    static struct guard guard; /* the only state of the forked process, of fixed size */
    guard.fence_ms = GUARD_NEVER;
    guard.scan_at_us = GUARD_NEVER;
    guard.childless = true;
    guard.may_renice = guard_can_renice();
    guard_groups_open(&guard.groups);
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        guard.slots[i].control = -1;
        guard.slots[i].report = -1;
    }
    serve(&guard);
    while (order_receive(&guard)) {
        /* Read a LEAVE that is still queued, however the end of the agent was noticed. */
    }
    guard_groups_close(&guard.groups);
    return (struct guard_end){.agent_left = guard.agent_left,
                              .agent_is_gone = guard.closed,
                              .is_childless = guard.childless,
                              .fence_ms = guard.fence_ms};
}
