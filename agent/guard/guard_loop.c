/* agent/guard/guard_loop.c: what tfe-guard does next: start, tell, and kill until nobody is left. */
#include "agent/guard/guard_loop.h"

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
#include "agent/guard/guard_spawn.h"
#include "agent/reach/proc.h"

/* Between two looks for survivors. TensorFlow takes 32 to 90 ms from SIGKILL to the grave, a
 * process that forks while it is looked at shows at the next look; what is left after PATIENT_US is
 * stuck in the kernel or not ours to kill. SIGCHLD ends the wait anyway. */
#define PAUSE_FIRST_US 500
#define PAUSE_LONGEST_US 20000
#define PATIENT_US 2000000
#define PAUSE_PATIENT_US 200000

/* A slot's end is told after this long though others of its session still die: they are killed. */
#define ENDING_LONGEST_US 200000

/* Of a sweep: how often a stuck process is named, and from when on one that was killed in vain is.
 */
#define STUCK_EVERY_US 1000000
#define STUCK_AFTER_US 5000000

/* Orders taken in before children and the fence are looked at again. */
#define ORDERS_A_TURN 128

#define NEVER INT64_MAX

/*  EMPTY --SPAWN--> STARTING --exec--> RUNNING --wait--> ENDING --session dead--> ENDED
 *    ^                 |                                                            |
 *    |                 '--exec failed--> FAILED                                     |
 *    '------- told ------------------------'------------------- told ---------------'   */
enum slot_state { SLOT_EMPTY, SLOT_STARTING, SLOT_RUNNING, SLOT_ENDING, SLOT_ENDED, SLOT_FAILED };

struct slot {
    enum slot_state state;
    pid_t pid;        /* and session */
    int report;       /* STARTING: see guard_spawn */
    int value;        /* ENDING, ENDED: wait status; FAILED: errno */
    bool owes_pid;    /* SPAWNED is not told yet */
    bool others_live; /* ENDING: the last look found somebody in the session */
    int64_t ended_us;
    uint64_t signals; /* bit n-1: signal n is still to be sent */
};

struct guard {
    struct slot slots[GUARD_SLOTS];
    bool closed;    /* the agent is gone: kill, then end */
    bool childless; /* waitpid said so: not one descendant is left, we are their subreaper */
    bool blocked;   /* the agent takes no packet at the moment */

    /* The fence. passed: nothing may start until the agent sends another. */
    int64_t fence_ms;
    bool fence_passed;
    bool owes_fenced;

    /* Everything is being killed: a sweep, a passed fence or a closed pair. */
    bool killing;
    int64_t killing_since_us;
    uint32_t sweep_asked;
    uint32_t sweep_answered;
    pid_t stuck; /* to be told */
    int64_t stuck_told_us;

    /* When to look at /proc again; NEVER if there is no reason. */
    int64_t look_us;
    int64_t pause_us;
};

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Something has to be killed now: look at once, then ever less often. */
static void look_soon(struct guard *g)
{
    g->look_us = 0;
    g->pause_us = PAUSE_FIRST_US;
}

static bool slot_has_process(const struct slot *slot)
{
    return slot->state == SLOT_STARTING || slot->state == SLOT_RUNNING;
}

static void kill_everything(struct guard *g)
{
    /* The main processes first: that needs no walk through /proc. */
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        if (slot_has_process(&g->slots[i])) {
            kill(g->slots[i].pid, SIGKILL);
        }
    }
    if (!g->killing) {
        g->killing = true;
        g->killing_since_us = now_us();
        g->stuck_told_us = 0;
    }
    look_soon(g);
}

/* --- the fence ----------------------------------------------------------------------------------
 */

static void fence_set(struct guard *g, int64_t deadline_ms)
{
    struct itimerspec at = {.it_value = {0}};
    if (deadline_ms != NEVER) {
        int64_t ms = deadline_ms > 0 ? deadline_ms : 0;
        at.it_value.tv_sec = (time_t)(ms / 1000);
        at.it_value.tv_nsec = (long)(ms % 1000) * 1000000 + 1; /* all zero would disarm */
    }
    g->fence_ms = deadline_ms;
    g->fence_passed = false;
    timerfd_settime(FENCE_FD, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Asked before everything that depends on it; the timer only ends the wait. */
static void fence_check(struct guard *g)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    if (g->fence_ms == NEVER || (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 < g->fence_ms) {
        return;
    }
    fence_set(g, NEVER);
    g->fence_passed = true;
    g->owes_fenced = true;
    kill_everything(g);
}

/* --- children -----------------------------------------------------------------------------------
 */

/* What became of exec. Also asked when the child is reaped first. */
static void report_take(struct slot *slot, bool reaped)
{
    int error = 0;
    ssize_t n = read(slot->report, &error, sizeof error);
    if (n < 0 && !reaped) {
        return;
    }
    close(slot->report);
    slot->report = -1;
    if (n == (ssize_t)sizeof error) {
        slot->state = SLOT_FAILED;
        slot->value = error;
    } else {
        slot->state = SLOT_RUNNING;
        slot->owes_pid = true;
    }
}

static void reports_take(struct guard *g)
{
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        if (g->slots[i].state == SLOT_STARTING) {
            report_take(&g->slots[i], false);
        }
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
            report_take(slot, true);
        }
        if (slot->state == SLOT_RUNNING) {
            slot->state = SLOT_ENDING;
            slot->value = status;
            slot->ended_us = now_us();
            slot->others_live = true;
            look_soon(g);
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

/* What one walk over the descendants is for. */
struct look {
    struct guard *g;
    pid_t seen;      /* one that lives */
    uint64_t signal; /* 0: the walk kills; else the bit of the signal it sends */
};

static bool look_pick(void *ctx, pid_t pid, pid_t session)
{
    struct look *look = ctx;
    bool wanted = false;
    look->seen = pid;
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        struct slot *slot = &look->g->slots[i];
        if (slot->state == SLOT_EMPTY || (slot->pid != pid && slot->pid != session)) {
            continue;
        }
        if (look->signal) {
            wanted = wanted || (slot->signals & look->signal);
        } else if (slot->state == SLOT_ENDING) {
            slot->others_live = true;
            wanted = true;
        }
    }
    return wanted || (look->g->killing && !look->signal);
}

static void sweep_report_stuck(struct guard *g, pid_t refused, pid_t alive)
{
    int64_t now = now_us();
    pid_t stuck = refused;
    if (!stuck && now - g->killing_since_us >= STUCK_AFTER_US) {
        stuck = alive;
    }
    if (stuck && g->sweep_answered != g->sweep_asked &&
        (g->stuck_told_us == 0 || now - g->stuck_told_us >= STUCK_EVERY_US)) {
        g->stuck = stuck;
        g->stuck_told_us = now;
    }
}

static void next_look(struct guard *g)
{
    int64_t now = now_us();
    g->look_us = now + g->pause_us;
    int64_t longest = PAUSE_LONGEST_US;
    if (g->killing && now - g->killing_since_us > PATIENT_US) {
        longest = PAUSE_PATIENT_US;
    }
    g->pause_us = g->pause_us * 2 < longest ? g->pause_us * 2 : longest;
}

/* Kills what is to be killed, and sees who is left. */
static void survivors_kill(struct guard *g)
{
    struct look look = {.g = g};
    size_t alive = 0;
    pid_t refused = 0;
    bool seen = true;
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        g->slots[i].others_live = false;
    }
    if (!g->childless) {
        int rc = proc_signal_descendants(getpid(), SIGKILL, look_pick, &look, &alive, &refused);
        seen = rc == 0;
    }
    bool ending = false;
    int64_t now = now_us();
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        struct slot *slot = &g->slots[i];
        if (slot->state != SLOT_ENDING) {
            continue;
        }
        if ((slot->others_live || !seen) && now - slot->ended_us < ENDING_LONGEST_US) {
            ending = true;
        } else {
            slot->state = SLOT_ENDED;
        }
    }
    if (g->killing && g->childless) {
        g->killing = false;
        g->stuck = 0;
    } else if (g->killing) {
        sweep_report_stuck(g, refused, look.seen);
    }
    if (g->killing || ending) {
        next_look(g);
    } else {
        g->look_us = NEVER;
    }
}

/* --- orders -------------------------------------------------------------------------------------
 */

static void order_spawn(struct guard *g, const struct guard_order *order, const int fds[GUARD_FDS])
{
    struct slot *slot = &g->slots[order->slot];
    if (slot->state != SLOT_EMPTY) {
        return; /* the agent's end keeps count: cannot happen */
    }
    memset(slot, 0, sizeof *slot);
    slot->report = -1;
    fence_check(g);
    if (g->fence_passed || g->killing) {
        slot->state = SLOT_FAILED;
        slot->value = g->fence_passed ? ETIME : EBUSY;
        return;
    }
    slot->pid = guard_spawn(order, fds, &slot->report);
    slot->state = slot->pid > 0 ? SLOT_STARTING : SLOT_FAILED;
    slot->value = slot->pid > 0 ? 0 : errno;
    g->childless = g->childless && slot->pid < 0;
}

static void order_take(struct guard *g, const struct guard_order *order, const int *fds,
                       size_t n_fds)
{
    switch (order->word) {
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
        g->sweep_asked = order->number;
        kill_everything(g);
        break;
    case GUARD_FENCE:
        fence_set(g, order->deadline_ms);
        fence_check(g);
        break;
    default:
        break;
    }
}

/* Takes one packet with its descriptors; false if there is none. */
static bool order_receive(struct guard *g)
{
    struct guard_order order;
    union {
        char bytes[CMSG_SPACE(GUARD_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = &order, .iov_len = sizeof order};
    struct msghdr msg = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(PAIR_FD, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n <= 0) {
        g->closed = true;
        return false;
    }
    int fds[GUARD_FDS];
    size_t n_fds = 0;
    const struct cmsghdr *part_of = CMSG_FIRSTHDR(&msg);
    if (part_of && part_of->cmsg_level == SOL_SOCKET && part_of->cmsg_type == SCM_RIGHTS) {
        n_fds = (part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(part_of), n_fds * sizeof(int));
    }
    if (n == (ssize_t)sizeof order) {
        order_take(g, &order, fds, n_fds);
    }
    for (size_t i = 0; i < n_fds; i++) {
        close(fds[i]);
    }
    return true;
}

/* One walk per signal, however many slots want it. */
static void signals_send(struct guard *g)
{
    uint64_t wanted = 0;
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        wanted |= g->slots[i].signals;
    }
    for (int signo = 1; wanted; signo++, wanted >>= 1) {
        if (wanted & 1) {
            struct look look = {.g = g, .signal = UINT64_C(1) << (signo - 1)};
            size_t alive;
            pid_t refused;
            int rc = proc_signal_descendants(getpid(), signo, look_pick, &look, &alive, &refused);
            for (size_t i = 0; rc != 0 && i < GUARD_SLOTS; i++) {
                /* No /proc for the moment (no descriptors): the main group at least. */
                if (g->slots[i].signals & look.signal) {
                    kill(-g->slots[i].pid, signo);
                }
            }
        }
    }
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        g->slots[i].signals = 0;
    }
}

/* --- what the agent is told ---------------------------------------------------------------------
 */

/* Everything that is owed is a state, not a queue: an agent that does not read (stopped, swapped
 * out) costs no memory and holds nothing up. */
static bool event_send(struct guard *g, uint32_t word, uint32_t slot, pid_t pid, int value)
{
    struct guard_event event = {.word = word, .slot = slot, .pid = pid, .value = value};
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

static bool slot_tell(struct guard *g, uint32_t at)
{
    struct slot *slot = &g->slots[at];
    if (slot->owes_pid && event_send(g, GUARD_SPAWNED, at, slot->pid, 0)) {
        slot->owes_pid = false;
    }
    if (!g->blocked && slot->state == SLOT_FAILED &&
        event_send(g, GUARD_SPAWN_FAILED, at, 0, slot->value)) {
        slot->state = SLOT_EMPTY;
    }
    if (!g->blocked && slot->state == SLOT_ENDED &&
        event_send(g, GUARD_EXITED, at, slot->pid, slot->value)) {
        slot->state = SLOT_EMPTY;
    }
    return !g->blocked;
}

static void tell(struct guard *g)
{
    g->blocked = false;
    if (g->owes_fenced) {
        if (!event_send(g, GUARD_FENCED, 0, 0, 0)) {
            return;
        }
        g->owes_fenced = false;
    }
    for (uint32_t i = 0; i < GUARD_SLOTS; i++) {
        if (!slot_tell(g, i)) {
            return;
        }
    }
    if (g->stuck && event_send(g, GUARD_SWEPT, g->sweep_asked, g->stuck, 0)) {
        g->stuck = 0;
    }
    if (!g->blocked && !g->killing && g->sweep_answered != g->sweep_asked &&
        event_send(g, GUARD_SWEPT, g->sweep_asked, 0, 0)) {
        g->sweep_answered = g->sweep_asked;
    }
}

/* --- the loop -----------------------------------------------------------------------------------
 */

static void wait_for_something(struct guard *g)
{
    struct pollfd fds[3 + GUARD_SLOTS];
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
    }
    struct timespec pause = {0};
    struct timespec *timeout = NULL;
    if (g->look_us != NEVER) {
        int64_t left = g->look_us - now_us();
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
    /* An order may still be unread: whoever gave it is gone, and it must start nothing any more. */
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
        wait_for_something(g);
        fence_check(g);
        for (int i = 0; i < ORDERS_A_TURN && !g->closed && order_receive(g); i++) {
        }
        signals_send(g);
        reports_take(g);
        children_reap(g);
        if (g->look_us <= now_us() || (g->look_us != NEVER && g->childless)) {
            survivors_kill(g);
        }
        tell(g);
    }
}

void guard_serve(void)
{
    static struct guard guard; /* of the forked process: its only state, and of fixed size */
    guard.fence_ms = NEVER;
    guard.look_us = NEVER;
    guard.childless = true;
    serve(&guard);
}
