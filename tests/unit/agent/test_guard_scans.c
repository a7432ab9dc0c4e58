/* tests/unit/agent/test_guard_scans.c: the guard with simulated failures of the kernel, the
 * clock or scans of /proc, which real processes cause once in a thousand runs. Control groups
 * are off, so that a process missed by a scan survives. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/guard/guard.h"
#include "agent/os/cgroup.h"
#include "agent/os/proc.h"
#include "common/base/clock.h"
#include "tests/unit/agent/agent_fixture.h"

#define STANDBY GUARD_STANDBY_SLOT
extern char **environ;

/* Shared with the guard. With all fields zero nothing is simulated. */
static struct {
    atomic_int scans;          /* number of scans of /proc so far */
    atomic_int sent[NSIG];     /* number of signals that they sent */
    atomic_int blind;          /* so many of them meet nobody */
    atomic_bool scans_in_vain; /* scans kill no process */
    atomic_bool kills_in_vain; /* nor does kill(2) */
    atomic_llong later_us;     /* offset of CLOCK_MONOTONIC */
    atomic_llong later_ms;     /* what CLOCK_BOOTTIME is ahead by … */
    atomic_llong step_ms;      /* added to the offset after each call */
    atomic_bool fork_fails;    /* (EAGAIN) */
    atomic_bool is_orphaned;   /* the next child is orphaned before it can set PDEATHSIG */
    atomic_int orphan;         /* that child */
    /* process that receives SIGUSR1, and ends, just before the next waitpid(2) */
    atomic_int ends_before_reap;
} * fate;

ssize_t __real_getdents64(int fd, void *buffer, size_t n);
ssize_t __wrap_getdents64(int fd, void *buffer, size_t n);
ssize_t __wrap_getdents64(int fd, void *buffer, size_t n)
{
    char link[32];
    char path[8] = "";
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    (void)!readlink(link, path, sizeof path - 1);
    if (strcmp(path, "/proc") == 0 && lseek(fd, 0, SEEK_CUR) == 0) {
        fate->scans++;
        if (fate->blind > 0) {
            fate->blind--;
            return 0;
        }
    }
    return __real_getdents64(fd, buffer, n);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_pidfd_send_signal) {
        fate->sent[(int)b]++;
        if (fate->scans_in_vain) {
            return 0;
        }
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

int __real_kill(pid_t pid, int signo);
int __wrap_kill(pid_t pid, int signo);
int __wrap_kill(pid_t pid, int signo)
{
    return fate->kills_in_vain ? 0 : __real_kill(pid, signo);
}

int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    const int rc = __real_clock_gettime(id, ret);
    int64_t us = ret->tv_nsec / 1000;
    if (id == CLOCK_MONOTONIC) {
        us += fate->later_us;
    } else if (id == CLOCK_BOOTTIME) {
        us += 1000 * atomic_fetch_add(&fate->later_ms, fate->step_ms);
    }
    ret->tv_sec += us / 1000000;
    ret->tv_nsec = us % 1000000 * 1000;
    return rc;
}

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    if (fate->fork_fails) {
        errno = EAGAIN;
        return -1;
    }
    return __real_fork();
}

int __real_prctl(int option, ...);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
    pid_t guard = getppid();
    if (option == PR_SET_PDEATHSIG && atomic_exchange(&fate->is_orphaned, false)) {
        kill(guard, SIGKILL);
        while (getppid() == guard) {
            usleep(100);
        }
        fate->orphan = getpid();
    }
    return __real_prctl(option, a, b, c, d);
}

pid_t __real_waitpid(pid_t pid, int *ret_status, int options);
pid_t __wrap_waitpid(pid_t pid, int *ret_status, int options);
pid_t __wrap_waitpid(pid_t pid, int *ret_status, int options)
{
    pid_t ends = atomic_exchange(&fate->ends_before_reap, 0);
    if (ends) {
        siginfo_t info;
        kill(ends, SIGUSR1);
        (void)waitid(P_PID, (id_t)ends, &info, WEXITED | WNOWAIT);
    }
    return __real_waitpid(pid, ret_status, options);
}

static int setup(void **state)
{
    memset(fate, 0, sizeof *fate);
    return rig_setup(state);
}

static int teardown(void **state)
{
    memset(fate, 0, sizeof *fate); /* otherwise the guard would not end after a failed test */
    return rig_teardown(state);
}

#define FIXTURE setup, teardown

static void start_standby(struct rig *rig, const char *script)
{
    rig_start_standby(rig, script, false);
    RIG_UNTIL(rig, rig->slots[STANDBY].warm);
}

/* Starts a process in its own session, whose trainer has ended. */
static pid_t start_daemon(struct rig *rig)
{
    rig->slots[0] = (struct rig_slot){0};
    RIG_RUN(rig, 0, "bash", "-c", "(setsid sh -c 'echo $$; exec sleep 1000' &); exec sleep 1000");
    pid_t pid = rig_pid(rig);
    guard_link_signal(rig->link, 0, SIGTERM);
    RIG_UNTIL(rig, rig->slots[0].exited);
    return pid;
}

/* Runs the event loop until the guard has handled all requests so far. */
static void orders_taken(struct rig *rig)
{
    int n = rig->slots[9].exited;
    RIG_RUN(rig, 9, "true");
    RIG_UNTIL(rig, rig->slots[9].exited > n);
}

/* One scan may miss processes that are forked meanwhile, and while a standby exists the kernel
 * never reports ECHILD. */
TEST_IN(guard, single_empty_scan_does_not_end_a_sweep)
{
    struct rig *rig = *state;
    start_standby(rig, "printf W >&3; sleep 1000; :");
    /* the counts of the first sweep do not apply to the second */
    for (int round = 1; round <= 2; round++) {
        pid_t daemon = start_daemon(rig);
        fate->blind = 1;
        guard_link_sweep(rig->link);
        RIG_UNTIL(rig, rig->swept == round);
        assert_true(rig_is_gone(daemon));
    }
    assert_false(rig_is_gone(rig->slots[STANDBY].pid));
}

/* The next epoch waits for the response, and each scan reads every process of the machine. */
TEST_IN(guard, sweep_with_only_standbys_left_does_not_scan)
{
    struct rig *rig = *state;
    if (access("/proc/thread-self/children", R_OK) != 0) {
        skip(); /* not supported by this kernel */
    }
    start_standby(rig, "printf W >&3; sleep 1000; :");
    orders_taken(rig);
    int scans = fate->scans;
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept);
    assert_int_equal(fate->scans, scans);
    assert_false(rig_is_gone(rig->slots[STANDBY].pid));
}

TEST_IN(guard, sweep_with_a_standby_is_reported_after_all_trainers_end)
{
    struct rig *rig = *state;
    start_standby(rig, "printf W >&3; sleep 1000; :");
    RIG_RUN(rig, 0, "sleep", "1000");
    RIG_UNTIL(rig, rig->slots[0].spawned);
    fate->kills_in_vain = true;
    fate->blind = 3;
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept);
    assert_int_equal(rig->slots[0].exited, 1);
}

/* A repeated request concerns the same process, and does not wait for another five seconds. */
TEST_IN(guard, process_alive_5_s_after_sigkill_is_named_once_per_sweep)
{
    struct rig *rig = *state;
    pid_t daemon = start_daemon(rig);
    int scans = fate->scans;
    fate->scans_in_vain = true;
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, fate->scans > scans + 1);
    fate->later_us = 2500000;
    guard_link_sweep(rig->link);
    scans = fate->scans;
    RIG_UNTIL(rig, fate->scans > scans + 1);
    assert_int_equal(rig->stuck_told, 0);
    fate->later_us = 5000000;
    scans = fate->scans;
    RIG_UNTIL(rig, rig->stuck_told || fate->scans > scans + 5);
    assert_int_equal(rig->stuck_told, 1);
    assert_int_equal(rig->stuck, daemon);
    assert_int_equal(rig->swept, 0);
    fate->scans_in_vain = false;
    RIG_UNTIL(rig, rig->swept);
    assert_true(rig_is_gone(daemon));
}

TEST_IN(guard, end_is_reported_despite_unkillable_session_members)
{
    struct rig *rig = *state;
    fate->scans_in_vain = true;
    RIG_RUN(rig, 0, "bash", "-c", "sleep 1000 & echo $!; exit 3");
    pid_t other = rig_pid(rig);
    RIG_UNTIL(rig, rig->slots[0].exited);
    assert_int_equal(WEXITSTATUS(rig->slots[0].status), 3);
    assert_false(rig_is_gone(other));
}

TEST_IN(guard, end_of_the_last_session_member_is_reported_at_once)
{
    struct rig *rig = *state;
    int64_t shortest = RIG_PATIENCE_MS;
    for (int i = 0; i < 20 && shortest >= 150; i++) { /* a busy machine may need several attempts */
        int64_t begin = rig_ms();
        orders_taken(rig);
        shortest = rig_ms() - begin < shortest ? rig_ms() - begin : shortest;
    }
    assert_in_range(shortest, 0, 149);
}

TEST_IN(guard, guard_without_survivors_stops_scanning)
{
    struct rig *rig = *state;
    RIG_RUN(rig, 0, "sleep", "1000");
    orders_taken(rig); /* its end causes a scan */
    guard_link_signal(rig->link, 0, SIGCONT);
    RIG_UNTIL(rig, fate->sent[SIGCONT]);
    int scans = fate->scans;
    for (int i = 0; i < 20; i++) {
        guard_link_fence(rig->link, TFE_MONO_NEVER); /* one iteration of the guard's loop */
        rig_turn(rig);
    }
    assert_int_equal(fate->scans, scans);
    orders_taken(rig);
    assert_int_equal(fate->sent[SIGCONT], 1);
}

/* A later fence does not stop a kill that the previous one began. */
TEST_IN(guard, start_during_a_sweep_is_refused)
{
    struct rig *rig = *state;
    pid_t daemon = start_daemon(rig);
    fate->scans_in_vain = true;
    guard_link_fence(rig->link, (struct tfe_mono){.ms = 1});
    RIG_UNTIL(rig, rig->fenced);
    guard_link_fence(rig->link, TFE_MONO_NEVER);
    RIG_RUN(rig, 1, "echo", "started");
    RIG_UNTIL(rig, rig->slots[1].failed);
    assert_int_equal(rig->slots[1].error, EBUSY);
    fate->scans_in_vain = false;
    RIG_UNTIL(rig, rig_is_gone(daemon));
}

TEST_IN(guard, fence_that_passes_between_two_orders_applies_to_the_second)
{
    struct rig *rig = *state;
    kill(rig->guard, SIGSTOP);
    RIG_UNTIL(rig, rig_has_state(rig->guard, 'T'));
    guard_link_fence(rig->link, tfe_mono_add(clock_mono(), 3600000));
    RIG_RUN(rig, 0, "echo", "started");
    fate->step_ms = 7200000;
    kill(rig->guard, SIGCONT);
    RIG_UNTIL(rig, rig->slots[0].failed || rig->slots[0].exited);
    assert_int_equal(rig->slots[0].error, ETIME);
    assert_int_equal(rig->slots[0].spawned, 0);
}

/* The standby sends its last message and ends between two polls of the guard. */
TEST_IN(guard, standby_that_ends_after_its_start_is_not_replaced)
{
    struct rig *rig = *state;
    const char *const argv[] = {"/bin/sh", "-c", "exit 1", NULL};
    struct spawn_spec spec = {.argv = argv, .envp = (const char *const *)environ};
    start_standby(rig, "trap 'printf T >&3; exit 9' USR1; printf W >&3; sleep 1000 & wait");
    pid_t standby = rig->slots[STANDBY].pid;
    assert_int_equal(guard_link_hand_over(rig->link, 0, STANDBY, &spec, rig->out[1], 2), 0);
    RIG_UNTIL(rig, rig->slots[0].spawned);
    fate->ends_before_reap = standby;
    guard_link_fence(rig->link, TFE_MONO_NEVER); /* one iteration of the guard's loop */
    RIG_UNTIL(rig, rig->slots[0].exited);
    assert_int_equal(WEXITSTATUS(rig->slots[0].status), 9);
    assert_int_equal(rig->slots[0].spawned, 1);
}

/* In a control group, the next guard would kill them as well. */
TEST_IN(guard, pdeathsig_kills_the_main_processes)
{
    struct rig *rig = *state;
    RIG_RUN(rig, 0, "sleep", "1000");
    RIG_UNTIL(rig, rig->slots[0].spawned);
    kill(rig->guard, SIGKILL);
    RIG_UNTIL(rig, rig_is_gone(rig->slots[0].pid));
    RIG_UNTIL(rig, rig->lost);
}

TEST_IN(guard, child_that_lost_its_guard_early_starts_nothing)
{
    struct rig *rig = *state;
    struct tfe_reason reason;
    int status = -1;
    assert_int_equal(proc_become_subreaper(&reason), 0);
    fate->is_orphaned = true;
    RIG_RUN(rig, 0, "echo", "started");
    RIG_UNTIL(rig, fate->orphan && rig->lost);
    assert_int_equal(waitpid(fate->orphan, &status, 0), fate->orphan);
    assert_int_equal(status, SIGKILL);
}

TEST_IN(guard, failed_fork_is_reported_without_leaked_descriptor)
{
    struct rig *rig = *state;
    orders_taken(rig);
    const int before = rig_count_descriptors(rig->guard);
    fate->fork_fails = true;
    RIG_RUN(rig, 0, "true");
    RIG_UNTIL(rig, rig->slots[0].failed);
    assert_int_equal(rig->slots[0].error, EAGAIN);
    assert_int_equal(rig_count_descriptors(rig->guard), before);
}

int main(void)
{
    fate = mmap(NULL, sizeof *fate, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return fate == MAP_FAILED ? 1 : stories_run(NULL, NULL);
}
