/* agent/guard/guard_spawn.c: forks and executes the program of a spawn order; manages its slot. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/guard/guard_state.h"
#include "agent/guard/spawn_block.h"
#include "agent/os/trainer_user.h"
#include "common/base/fd.h"

/* Descriptor of the report pipe between fork and exec, after stdin, stdout, stderr and
 * a standby's socket. */
#define REPORT_FD (GUARD_CONTROL_FD + 1)

/* Increase of the nice value for a background process. */
#define BACKGROUND_NICE 10

/* Resets all signal handlers and the signal mask, which execve would otherwise inherit. */
static void signals_reset(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int signo = 1; signo < NSIG; signo++) {
        sigaction(signo, &standard, NULL);
    }
    sigset_t none;
    sigemptyset(&none);
    /* A signal that arrived since the fork was blocked until here and now takes
     * its default action. */
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Sets up stdin from /dev/null, the order's two descriptors, a standby's socket and the report
 * pipe, and closes all others. *report is updated whenever the pipe moves. */
static bool descriptors_set_up(const int fds[GUARD_FDS], int control, int *report)
{
    /* Move all descriptors away from the fixed numbers first. */
    int high[GUARD_FDS + 2];
    const int from[GUARD_FDS + 2] = {fds[0], fds[1], fds[2], control, *report};
    for (size_t i = 0; i < GUARD_FDS + 2; i++) {
        high[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, REPORT_FD + 1);
        if (high[i] < 0 && from[i] >= 0) {
            return false;
        }
    }
    *report = high[GUARD_FDS + 1];
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(high[GUARD_FD_STDOUT], STDOUT_FILENO) < 0 ||
        dup2(high[GUARD_FD_STDERR], STDERR_FILENO) < 0 ||
        (control >= 0 && dup2(high[GUARD_FDS], GUARD_CONTROL_FD) < 0) ||
        dup3(*report, REPORT_FD, O_CLOEXEC) < 0) {
        return false;
    }
    *report = REPORT_FD;
    if (control < 0) {
        close(GUARD_CONTROL_FD);
    }
    closefrom(REPORT_FD + 1);
    return true;
}

/* Lowers the priorities of a background process. A failure is harmless: the process only
 * takes more resources. */
static void priorities_lower(bool may_renice)
{
    syscall(SYS_ioprio_set, GUARD_IOPRIO_WHO_PROCESS, 0, GUARD_IOPRIO_IDLE);
    if (may_renice) {
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + BACKGROUND_NICE);
    }
}

/* Executes the program. Returns only on failure, with errno set; *report is updated
 * when the pipe moves. */
static void child_become(const struct guard_order *order, const int fds[GUARD_FDS], int control,
                         bool may_renice, int *report, pid_t guard)
{
    struct spawn_program program;
    setsid();
    if (trainer_user_become() != 0) {
        return;
    }
    /* Set after the change of user, which clears it. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
        return;
    }
    if (getppid() != guard) {
        /* The guard died before PDEATHSIG was set, so nothing would ever kill this
         * process. raise(3) does not work after clone3, because the C library still has
         * the parent's thread id. */
        kill(getpid(), SIGKILL);
    }
    if (!spawn_block_map(&order->block, fds[GUARD_FD_BLOCK], &program) ||
        !descriptors_set_up(fds, control, report)) {
        return;
    }
    if (program.directory && chdir(program.directory) != 0) {
        if (errno == ENOENT) {
            errno = ENOTDIR; /* ENOENT is reserved for "no such command" */
        }
        return;
    }
    if (order->flags & GUARD_IN_BACKGROUND) {
        priorities_lower(may_renice);
    }
    signals_reset();
    /* execvp must search the trainer's PATH, not the agent's. */
    environ = program.envp;
    execvp(program.argv[0], program.argv);
}

/* Forks directly into the cgroup, because moving a process later takes the kernel 10 ms. */
static pid_t fork_into(int group, bool *ret_is_in_group)
{
    struct clone_args args = {
        .flags = (__u64)CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (__u64)group};
    pid_t pid = group < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof args);
    *ret_is_in_group = pid >= 0;
    /* Fall back if the kernel is older than 5.7, a sandbox blocks clone3, or the group
     * accepts no process. */
    return pid >= 0 ? pid : fork();
}

/* Returns the child's pid, or -1 with errno set. */
static pid_t child_start(struct slot *slot, const struct guard_order *order,
                         const int fds[GUARD_FDS], bool may_renice, int group,
                         bool *ret_is_in_group)
{
    int report[2];
    int control[2] = {-1, -1};
    if (pipe2(report, O_CLOEXEC) != 0) {
        return -1;
    }
    if (slot->is_standby && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0) {
        fd_close(&report[0]);
        fd_close(&report[1]);
        return -1;
    }
    pid_t guard = getpid();
    pid_t pid = fork_into(group, ret_is_in_group);
    if (pid == 0) {
        child_become(order, fds, control[1], may_renice, &report[1], guard);
        int error = errno;
        while (write(report[1], &error, sizeof error) < 0 && errno == EINTR) {
        }
        _exit(127);
    }
    fd_close(&report[1]);
    fd_close(&control[1]);
    if (pid < 0) {
        fd_close(&report[0]);
        fd_close(&control[0]);
        return -1;
    }
    fcntl(report[0], F_SETFL, O_NONBLOCK);
    slot->report = report[0];
    slot->control = control[0];
    return pid;
}

void slot_spawn(struct guard *g, struct slot *slot, const struct guard_order *order,
                const int fds[GUARD_FDS])
{
    int group_fd = -1;
    bool is_in_group = false;
    slot->is_standby = order->flags & GUARD_AS_STANDBY;
    slot->group = guard_group_new(&g->groups, &group_fd);
    slot->pid = child_start(slot, order, fds, g->may_renice, group_fd, &is_in_group);
    slot->state = slot->pid > 0 ? SLOT_STARTING : SLOT_FAILED;
    slot->value = slot->pid > 0 ? 0 : errno;
    fd_close(&group_fd);
    if (slot->group != GUARD_NO_GROUP && !is_in_group) {
        guard_group_release(&g->groups, slot->group);
        slot->group = GUARD_NO_GROUP;
    }
    g->childless = g->childless && slot->pid < 0;
}

/* --- slots --- */

bool slot_has_process(const struct slot *slot)
{
    return slot->state == SLOT_STARTING || slot->state == SLOT_RUNNING;
}

void pending_handover_close(struct pending_handover *handover)
{
    for (size_t i = 0; handover->is_open && i < GUARD_FDS; i++) {
        fd_close(&handover->fds[i]);
    }
    handover->is_open = false;
}

void slot_reset(struct guard *g, struct slot *slot)
{
    fd_close(&slot->control);
    fd_close(&slot->report);
    guard_group_release(&g->groups, slot->group);
    pending_handover_close(
        &slot->handover); /* open if the process was killed before it confirmed a hand-over */
    memset(slot, 0, sizeof *slot);
    slot->control = -1;
    slot->report = -1;
}
