/* agent/guard/guard_spawn.c: a trainer as one block of memory, and the child that turns into it. */
#include "agent/guard/guard_spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Between fork and exec the report pipe lives here, behind stdin, stdout, stderr and a standby's
 * socket. */
#define REPORT_FD (GUARD_CONTROL_FD + 1)

/* How much nicer a process in the background is. */
#define BACKGROUND_NICE 10

static uint32_t strings_count(const char *const *strings, uint64_t *bytes)
{
    uint32_t n = 0;
    for (; strings[n]; n++) {
        *bytes += strlen(strings[n]) + 1;
    }
    return n;
}

static char *string_append(char *at, const char *text)
{
    size_t n = strlen(text) + 1;
    memcpy(at, text, n);
    return at + n;
}

static int block_write(int fd, const struct spawn_spec *spec, uint64_t bytes)
{
    if (ftruncate(fd, (off_t)bytes) != 0) {
        return TFE_ESYS;
    }
    char *text = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (text == MAP_FAILED) {
        return TFE_ESYS;
    }
    char *at = text;
    for (const char *const *arg = spec->argv; *arg; arg++) {
        at = string_append(at, *arg);
    }
    for (const char *const *variable = spec->envp; *variable; variable++) {
        at = string_append(at, *variable);
    }
    if (spec->directory) {
        string_append(at, spec->directory);
    }
    munmap(text, bytes);
    /* The child maps it and must not be able to meet a SIGBUS there. */
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0
               ? 0
               : TFE_ESYS;
}

int guard_block_new(const struct spawn_spec *spec, struct guard_order *order, int *ret_fd)
{
    uint64_t bytes = 0;
    uint32_t n_args = strings_count(spec->argv, &bytes);
    uint32_t n_env = strings_count(spec->envp, &bytes);
    if (n_args == 0) {
        errno = EINVAL;
        return TFE_ESYS;
    }
    if (spec->directory) {
        bytes += strlen(spec->directory) + 1;
    }
    int fd = memfd_create("tfe-spawn", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return TFE_ESYS;
    }
    int rc = block_write(fd, spec, bytes);
    if (rc != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return rc;
    }
    order->block_bytes = bytes;
    order->n_args = n_args;
    order->n_env = n_env;
    order->has_directory = spec->directory != NULL;
    *ret_fd = fd;
    return 0;
}

void guard_close_from(unsigned first)
{
    if (syscall(SYS_close_range, first, ~0U, 0) == 0) {
        return;
    }
    /* Before Linux 5.9, or in a sandbox that does not know the call. */
    DIR *dir = opendir("/proc/self/fd");
    if (!dir) {
        struct rlimit limit;
        getrlimit(RLIMIT_NOFILE, &limit);
        for (rlim_t fd = first; fd < limit.rlim_cur; fd++) {
            close((int)fd);
        }
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd >= (int)first && fd != dirfd(dir)) {
            close(fd);
        }
    }
    closedir(dir);
}

/* argv, environment and directory as execve(2) wants them. */
struct program {
    char **argv;
    char **envp;
    const char *directory;
};

/* Lays pointers over the block. Memory of a process that is about to exec: never freed. */
static bool block_open(const struct guard_order *order, int fd, struct program *ret)
{
    struct stat st;
    if (order->n_args == 0 || fstat(fd, &st) != 0 || (uint64_t)st.st_size != order->block_bytes) {
        errno = EINVAL;
        return false;
    }
    char *text = mmap(NULL, order->block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    size_t pointers = (size_t)order->n_args + order->n_env + 2;
    char **strings = mmap(NULL, pointers * sizeof *strings, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (text == MAP_FAILED || strings == MAP_FAILED) {
        return false;
    }
    char *end = text + order->block_bytes;
    char *at = text;
    size_t wanted = (size_t)order->n_args + order->n_env + (order->has_directory ? 1 : 0);
    ret->argv = strings;
    ret->envp = strings + order->n_args + 1;
    ret->directory = NULL;
    for (size_t i = 0; i < wanted; i++) {
        char *next = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;
        if (!next) {
            errno = EINVAL;
            return false;
        }
        if (i < order->n_args) {
            ret->argv[i] = at;
        } else if (i - order->n_args < order->n_env) {
            ret->envp[i - order->n_args] = at;
        } else {
            ret->directory = at;
        }
        at = next + 1;
    }
    return true;
}

/* Everything that execve would otherwise hand on. */
static void signals_reset(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int signo = 1; signo < NSIG; signo++) {
        sigaction(signo, &standard, NULL);
    }
    sigset_t none;
    sigemptyset(&none);
    /* A signal that came since the fork was blocked until here and now finds the default. */
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* stdin from /dev/null, the order's two descriptors, a standby's socket, the report pipe, nothing
 * else. *report follows the pipe to where nothing else comes, then to its number. */
static bool descriptors_arrange(const int fds[GUARD_FDS], int control, int *report)
{
    /* Out of the way of the fixed numbers first. */
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
    guard_close_from(REPORT_FD + 1);
    return true;
}

/* The last of what a process in the background may take from the others. Refused means only that it
 * takes more. */
static void priorities_lower(bool may_renice)
{
    syscall(SYS_ioprio_set, GUARD_IOPRIO_WHO_PROCESS, 0, GUARD_IOPRIO_IDLE);
    if (may_renice) {
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + BACKGROUND_NICE);
    }
}

/* Returns only if it failed, with errno; *report follows the pipe to its new number. */
static void child_become(const struct guard_order *order, const int fds[GUARD_FDS], int control,
                         bool may_renice, int *report, pid_t guard)
{
    struct program program;
    setsid();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
        return;
    }
    if (getppid() != guard) {
        /* The guard died before it could be said: nobody would ever kill us. (No raise(3): after
         * clone3 the C library believes that this thread is its parent's.) */
        kill(getpid(), SIGKILL);
    }
    if (!block_open(order, fds[GUARD_FD_BLOCK], &program) ||
        !descriptors_arrange(fds, control, report)) {
        return;
    }
    if (program.directory && chdir(program.directory) != 0) {
        if (errno == ENOENT) {
            errno = ENOTDIR; /* ENOENT means that there is no such command */
        }
        return;
    }
    if (order->flags & GUARD_IN_BACKGROUND) {
        priorities_lower(may_renice);
    }
    signals_reset();
    /* The search must use the trainer's PATH, not the agent's. */
    environ = program.envp;
    execvp(program.argv[0], program.argv);
}

/* As fork(2), but into the group from the start: to move a process later takes the kernel 10 ms. */
static pid_t fork_into(int group, bool *ret_is_in_group)
{
    struct clone_args args = {
        .flags = (__u64)CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (__u64)group};
    pid_t pid = group < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof args);
    *ret_is_in_group = pid >= 0;
    /* A kernel before 5.7, a sandbox that does not know the call, a group that takes no process. */
    return pid >= 0 ? pid : fork();
}

pid_t guard_spawn(const struct guard_order *order, const int fds[GUARD_FDS], bool may_renice,
                  int group, struct guard_child *ret)
{
    int report[2];
    int control[2] = {-1, -1};
    if (pipe2(report, O_CLOEXEC) != 0) {
        return -1;
    }
    if ((order->flags & GUARD_AS_STANDBY) &&
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0) {
        int error = errno;
        close(report[0]);
        close(report[1]);
        errno = error;
        return -1;
    }
    pid_t guard = getpid();
    bool is_in_group;
    pid_t pid = fork_into(group, &is_in_group);
    if (pid == 0) {
        child_become(order, fds, control[1], may_renice, &report[1], guard);
        int error = errno;
        while (write(report[1], &error, sizeof error) < 0 && errno == EINTR) {
        }
        _exit(127);
    }
    int error = errno;
    close(report[1]);
    if (control[1] >= 0) {
        close(control[1]);
    }
    if (pid < 0) {
        close(report[0]);
        if (control[0] >= 0) {
            close(control[0]);
        }
        errno = error;
        return -1;
    }
    fcntl(report[0], F_SETFL, O_NONBLOCK);
    *ret = (struct guard_child){
        .report = report[0], .control = control[0], .is_in_group = is_in_group};
    return pid;
}
