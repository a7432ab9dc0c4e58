/* agent/guard/guard_kill.c: scans of tfe-guard over its descendants: kill, signal
 * and count survivors. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/guard/guard_state.h"
#include "agent/os/proc.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/fd.h"

/* Intervals between two scans for survivors. A TensorFlow process dies 32 to 90 ms after
 * SIGKILL, and a process that forks during a scan is found by the next one. Processes alive
 * after PATIENT_US are stuck in the kernel or belong to another user. SIGCHLD ends a wait early. */
#define PAUSE_FIRST_US 500
#define PAUSE_LONGEST_US 20000
#define PATIENT_US 2000000
#define PAUSE_PATIENT_US 200000
/* Interval while a main process is dying: its end triggers a scan anyway, and two scans have
 * found everything forked earlier. More scans would slow down the dying processes if many
 * nodes share few cores. */
#define PAUSE_DYING_US 200000

/* Longest time that EXITED is delayed because other processes of the session are still dying. */
#define ENDING_LONGEST_US 200000

/* Consecutive empty scans that end a sweep if there are standbys, when waitpid cannot report
 * ECHILD. One scan may miss a process that is forked behind it. */
#define EMPTY_SCANS 2

/* Interval of reports about an unkillable process, and time after SIGKILL when a process
 * counts as unkillable. */
#define STUCK_EVERY_US 1000000
#define STUCK_AFTER_US 5000000

void scan_soon(struct guard *g)
{
    g->scan_at_us = 0;
    g->pause_us = PAUSE_FIRST_US;
}

void kill_everything(struct guard *g)
{
    /* Kill the main processes first, which needs no scan of /proc. */
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        const struct slot *slot = &g->slots[i];
        if (slot->is_standby && !g->closed) {
            continue;
        }
        if (slot_has_process(slot)) {
            kill(-slot->pid, SIGTERM);
            kill(slot->pid, SIGKILL);
        }
        guard_group_kill(&g->groups, slot->group);
    }
    guard_groups_kill_released(&g->groups);
    g->empty_scans = 0;
    if (!g->killing) {
        g->killing = true;
        g->killing_since_us = clock_us();
        g->stuck_sent_us = 0;
    }
    scan_soon(g);
}

/* SIGTERM goes to the main process only: children that it forked inherit its handler and must
 * not save the same checkpoint. */
#define TERM_BIT (UINT64_C(1) << (SIGTERM - 1))

/* Context of one scan over the descendants. */
struct scan {
    struct guard *g;
    pid_t seen;      /* a process that is alive */
    uint64_t signal; /* bit of the signal to send; 0 to kill */
};

static bool scan_select(void *ctx, pid_t pid, pid_t session)
{
    struct scan *scan = ctx;
    bool selected = false;
    bool is_standby = false;
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        struct slot *slot = &scan->g->slots[i];
        if (slot->state == SLOT_EMPTY || (slot->pid != pid && slot->pid != session)) {
            continue;
        }
        is_standby = is_standby || slot->is_standby;
        if (scan->signal) {
            bool is_for_all = scan->signal != TERM_BIT || slot->pid == pid;
            selected = selected || ((slot->signals & scan->signal) && is_for_all);
        } else if (slot->state == SLOT_ENDING) {
            slot->others_alive = true;
            selected = true;
        }
    }
    selected = selected || (scan->g->killing && !scan->signal && (!is_standby || scan->g->closed));
    scan->seen = selected ? pid : scan->seen;
    return selected;
}

static void sweep_report_stuck(struct guard *g, pid_t refused, pid_t alive)
{
    int64_t now = clock_us();
    pid_t stuck = refused;
    if (!stuck && now - g->killing_since_us >= STUCK_AFTER_US) {
        stuck = alive;
    }
    if (stuck && g->sweep_reported != g->sweep_requested &&
        (g->stuck_sent_us == 0 || now - g->stuck_sent_us >= STUCK_EVERY_US)) {
        g->stuck = stuck;
        g->stuck_sent_us = now;
    }
}

static void scan_later(struct guard *g, bool trainers_left)
{
    int64_t now = clock_us();
    bool waits = trainers_left && g->pause_us > PAUSE_FIRST_US && g->pause_us < PAUSE_DYING_US;
    g->scan_at_us = now + (waits ? PAUSE_DYING_US : g->pause_us);
    uint32_t longest = PAUSE_LONGEST_US;
    if (g->killing && now - g->killing_since_us > PATIENT_US) {
        longest = PAUSE_PATIENT_US;
    }
    g->pause_us = backoff_next(g->pause_us, PAUSE_FIRST_US, longest);
}

/* Buffer size for the list of a guard's children; with a longer list the shortcut is not used. */
#define CHILDREN_TEXT_MAX 512

static bool is_standby(const struct guard *g, long pid)
{
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        if (g->slots[i].is_standby && slot_has_process(&g->slots[i]) && g->slots[i].pid == pid) {
            return true;
        }
    }
    return false;
}

/* Returns true if only standbys and their descendants are left. Orphans become children of the
 * guard, a subreaper, so its own list of children is enough and no scan of all processes delays
 * the next epoch. Returns false if the kernel does not provide the list. */
static bool only_standbys_are_left(const struct guard *g)
{
    char text[CHILDREN_TEXT_MAX + 1];
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, CHILDREN_TEXT_MAX);
    fd_close(&fd);
    if (n <= 0 || n == CHILDREN_TEXT_MAX) {
        return false;
    }
    text[n] = '\0';
    bool only = true;
    char *end = text;
    for (long pid = strtol(text, &end, 10); pid > 0 && only; pid = strtol(end, &end, 10)) {
        only = is_standby(g, pid);
    }
    return only && end != text;
}

static bool trainers_are_left(const struct guard *g)
{
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        if (slot_has_process(&g->slots[i]) && !g->slots[i].is_standby) {
            return true;
        }
    }
    return false;
}

void kill_survivors(struct guard *g)
{
    struct scan scan = {.g = g};
    size_t alive = 0;
    pid_t refused = 0;
    bool seen = true;
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        g->slots[i].others_alive = false;
    }
    bool trainers_left = trainers_are_left(g);
    if (!g->childless && (g->closed || trainers_left || !only_standbys_are_left(g))) {
        int rc = proc_signal_descendants(getpid(), SIGKILL, scan_select, &scan, &alive, &refused);
        seen = rc == 0;
    }
    bool ending = false;
    int64_t now = clock_us();
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        struct slot *slot = &g->slots[i];
        if (slot->state != SLOT_ENDING) {
            continue;
        }
        if ((slot->others_alive || !seen) && now - slot->ended_us < ENDING_LONGEST_US) {
            ending = true;
        } else {
            slot->state = SLOT_ENDED;
        }
    }
    bool is_empty = seen && alive == 0 && !trainers_left && !ending && !g->closed;
    g->empty_scans = is_empty ? g->empty_scans + 1 : 0;
    if (g->killing && (g->childless || g->empty_scans >= EMPTY_SCANS)) {
        g->killing = false;
        g->stuck = 0;
        guard_groups_tidy(&g->groups);
    } else if (g->killing) {
        sweep_report_stuck(g, refused, scan.seen);
    }
    if (g->killing && is_empty) {
        g->scan_at_us = 0;
    } else if (g->killing || ending) {
        scan_later(g, trainers_left);
    } else {
        g->scan_at_us = GUARD_NEVER;
    }
}

void signals_send(struct guard *g)
{
    uint64_t selected = 0;
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        selected |= g->slots[i].signals;
    }
    for (int signo = 1; selected; signo++, selected >>= 1) {
        if (selected & 1) {
            struct scan scan = {.g = g, .signal = UINT64_C(1) << (signo - 1)};
            size_t alive;
            pid_t refused;
            int rc = proc_signal_descendants(getpid(), signo, scan_select, &scan, &alive, &refused);
            for (size_t i = 0; rc != 0 && i < GUARD_SLOTS; i++) {
                /* /proc is not readable, e.g. no free descriptor: signal the main
                 * process group at least */
                if (g->slots[i].signals & scan.signal) {
                    kill(signo == SIGTERM ? g->slots[i].pid : -g->slots[i].pid, signo);
                }
            }
        }
    }
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        g->slots[i].signals = 0;
    }
}
