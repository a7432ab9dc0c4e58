/* agent/os/proc.c: reads the process tree from /proc and signals parts of it. */
#include "agent/os/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/fd.h"

/* Rows on the stack: killing must work even if memory has run out. */
#define ROWS_ON_STACK 4096

/* Duration and intervals of proc_kill_all_descendants_and_reap. */
#define REAP_LONGEST_MS 5000
#define REAP_PAUSE_FIRST_US 500
#define REAP_PAUSE_LONGEST_US 20000

/* A process from /proc/PID/stat. start (clock ticks since boot) distinguishes processes that
 * have the same pid one after the other. */
struct record {
    pid_t pid;
    pid_t parent;
    pid_t session;
    bool dead;
    bool below; /* a descendant of the root of the query */
    uint64_t start;
};

/* All processes in ascending order of pid. */
struct table {
    int proc; /* descriptor of /proc */
    struct record *rows;
    size_t n;
    size_t cap;
    void *mapped; /* mapping of rows once they no longer fit on the stack, or NULL */
};

int proc_become_subreaper(struct tfe_reason *reason)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        reason_errno(reason, "cannot adopt orphaned processes of trainers");
        return TFE_ESYS;
    }
    return 0;
}

static int dir_open(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Parses the digits at *text and moves *text behind them. */
static uint64_t parse_number(const char **text)
{
    uint64_t value = 0;
    while (**text >= '0' && **text <= '9') {
        value = value * 10 + (uint64_t)(**text - '0');
        (*text)++;
    }
    return value;
}

/* Parses "PID (comm) S PPID PGRP SESSION ..." (proc(5)). comm may contain blanks and
 * parentheses, but no later field does, so the last ')' ends it. */
static bool row_parse(const char *text, size_t n, struct record *ret)
{
    enum { PARENT, SESSION = 2, THREADS = 16, START = 18, FIELDS };
    uint64_t fields[FIELDS] = {0};
    const char *p = memrchr(text, ')', n);
    if (!p || p[1] != ' ' || !p[2]) {
        return false;
    }
    char state = p[2];
    int i = 0;
    for (p += 3; i < FIELDS && *p == ' '; i++) {
        bool minus = *++p == '-';
        p += minus;
        fields[i] = parse_number(&p);
        fields[i] = minus ? 0 : fields[i];
    }
    ret->parent = (pid_t)fields[PARENT];
    ret->session = (pid_t)fields[SESSION];
    ret->start = fields[START];
    /* Z is also shown if only the first thread has ended while other threads run. */
    ret->dead = state == 'X' || (state == 'Z' && fields[THREADS] <= 1);
    return i == FIELDS;
}

/* Builds "123/stat". snprintf would double the time of a pass. */
static void stat_path(pid_t pid, char ret[24])
{
    char digits[12];
    size_t n = 0;
    for (unsigned rest = (unsigned)pid; rest || !n; rest /= 10) {
        digits[n++] = (char)('0' + rest % 10);
    }
    size_t at = 0;
    while (n) {
        ret[at++] = digits[--n];
    }
    memcpy(ret + at, "/stat", sizeof "/stat");
}

/* Returns false if the process no longer exists. */
static bool row_read(int proc, pid_t pid, struct record *ret)
{
    char path[24];
    stat_path(pid, path);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    char text[1024];
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    memset(ret, 0, sizeof *ret);
    ret->pid = pid;
    return row_parse(text, (size_t)n, ret);
}

static bool table_reserve(struct table *t)
{
    if (t->n < t->cap) {
        return true;
    }
    size_t bytes = t->cap * sizeof *t->rows;
    void *p = mmap(NULL, bytes * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return false;
    }
    memcpy(p, t->rows, bytes);
    if (t->mapped) {
        munmap(t->mapped, bytes);
    }
    t->mapped = p;
    t->rows = p;
    t->cap *= 2;
    return true;
}

static void table_done(struct table *t)
{
    if (t->mapped) {
        munmap(t->mapped, t->cap * sizeof *t->rows);
    }
}

static bool table_add(struct table *t, const struct record *row)
{
    if (!table_reserve(t)) {
        return false;
    }
    /* The kernel lists in ascending order of pid, so this loop normally ends at once. */
    size_t at = t->n;
    while (at > 0 && t->rows[at - 1].pid > row->pid) {
        at--;
    }
    memmove(&t->rows[at + 1], &t->rows[at], (t->n - at) * sizeof *row);
    t->rows[at] = *row;
    t->n++;
    return true;
}

/* Calls each for every numeric entry of a /proc directory until it returns false. Allocates no
 * memory. Returns TFE_ESYS. */
static int numbers_each(int dir, bool (*each)(void *ctx, int number), void *ctx)
{
    char entries[16384] __attribute__((aligned(8)));
    for (;;) {
        ssize_t n = getdents64(dir, entries, sizeof entries);
        if (n <= 0) {
            return n < 0 ? TFE_ESYS : 0;
        }
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            at += entry->d_reclen;
            const char *digits = entry->d_name;
            int number = (int)parse_number(&digits);
            if (digits != entry->d_name && !*digits && !each(ctx, number)) {
                return 0;
            }
        }
    }
}

/* Stops when the table cannot grow: the processes found so far are signalled, which frees memory
 * for the next pass. */
static bool table_add_pid(void *ctx, int pid)
{
    struct table *t = ctx;
    struct record row;
    return !row_read(t->proc, pid, &row) || table_add(t, &row);
}

static struct record *table_find(const struct table *t, pid_t pid)
{
    size_t low = 0;
    size_t high = t->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->rows[middle].pid < pid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < t->n && t->rows[low].pid == pid ? &t->rows[low] : NULL;
}

/* Marks all descendants of root. Children usually have higher pids than their parents, so two
 * rounds suffice; after a wrap of the pid counter each level may need a round. */
static void table_mark(struct table *t, pid_t root)
{
    bool changed = true;
    while (changed) {
        changed = false;
        for (size_t i = 0; i < t->n; i++) {
            struct record *row = &t->rows[i];
            if (row->below || row->pid == root) {
                continue;
            }
            const struct record *parent = table_find(t, row->parent);
            if (row->parent == root || (parent && parent->below)) {
                row->below = true;
                changed = true;
            }
        }
    }
}

static bool signal_stops(int signo)
{
    return signo == SIGSTOP || signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
}

/* Signals the process of the row, but no later process with the same pid: a pidfd pins the
 * current owner of the pid, and the start time tells whether it is the same process. Returns 0,
 * or -1 with errno set. */
static int row_signal(int proc, const struct record *row, int signo)
{
    bool wake = signo != SIGKILL && signo != SIGCONT && !signal_stops(signo);
    int fd = (int)syscall(SYS_pidfd_open, row->pid, 0);
    if (fd < 0) {
        if (errno == ESRCH) {
            return -1;
        }
        /* pidfds are not available: old kernel, sandbox or no free descriptor. */
        int rc = kill(row->pid, signo);
        if (rc == 0 && wake) {
            kill(row->pid, SIGCONT);
        }
        return rc;
    }
    struct record now;
    int rc = -1;
    int error = ESRCH;
    if (row_read(proc, row->pid, &now) && now.start == row->start) {
        rc = (int)syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0);
        error = errno;
        if (rc == 0 && wake) {
            syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0);
        }
    }
    close(fd);
    errno = error;
    return rc;
}

int proc_signal_descendants(pid_t root, int signo, proc_pick_fn *pick, void *ctx, size_t *ret_alive,
                            pid_t *ret_stuck)
{
    struct record on_stack[ROWS_ON_STACK];
    struct table t = {.proc = dir_open("/proc"), .rows = on_stack, .cap = ROWS_ON_STACK};
    *ret_alive = 0;
    *ret_stuck = 0;
    if (t.proc < 0) {
        return TFE_ESYS;
    }
    int rc = numbers_each(t.proc, table_add_pid, &t);
    if (rc == 0) {
        table_mark(&t, root);
        for (size_t i = 0; i < t.n; i++) {
            const struct record *row = &t.rows[i];
            if (!row->below || row->dead || (pick && !pick(ctx, row->pid, row->session))) {
                continue;
            }
            (*ret_alive)++;
            if (signo != 0 && row_signal(t.proc, row, signo) != 0 && errno == EPERM) {
                *ret_stuck = row->pid;
            }
        }
    }
    table_done(&t);
    close(t.proc);
    return rc;
}

pid_t proc_fork_blocked(void)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid != 0) {
        const int error = errno;
        sigprocmask(SIG_SETMASK, &before, NULL);
        errno = error;
    }
    return pid;
}

pid_t proc_parent(pid_t pid)
{
    struct record row;
    int proc = dir_open("/proc");
    pid_t parent = proc >= 0 && row_read(proc, pid, &row) ? row.parent : -1;
    fd_close(&proc);
    return parent;
}

int proc_each_of(pid_t pid, const char *what, bool (*each)(void *ctx, int number), void *ctx)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    int dir = dir_open(path);
    if (dir < 0) {
        return TFE_ESYS;
    }
    int rc = numbers_each(dir, each, ctx);
    close(dir);
    return rc;
}

bool proc_kill_all_descendants_and_reap(pid_t self)
{
    int64_t give_up = clock_us() + (int64_t)REAP_LONGEST_MS * 1000;
    uint32_t pause = REAP_PAUSE_FIRST_US;
    for (;;) {
        pid_t pid;
        do {
            pid = waitpid(-1, NULL, WNOHANG);
        } while (pid > 0 || (pid < 0 && errno == EINTR));
        if (pid < 0) {
            return true;
        }
        if (clock_us() >= give_up) {
            return false;
        }
        size_t alive;
        pid_t stuck;
        (void)!proc_signal_descendants(self, SIGKILL, NULL, NULL, &alive, &stuck);
        nanosleep(&(struct timespec){.tv_nsec = pause * 1000}, NULL);
        pause = backoff_next(pause, REAP_PAUSE_FIRST_US, REAP_PAUSE_LONGEST_US);
    }
}
