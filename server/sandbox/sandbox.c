/* server/sandbox/sandbox.c: restricts file access by Landlock and system calls by seccomp. */
#include "server/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cli/log.h"

/* --- file access ------------------------------------------------------------------------------ */

#define READ_FILES (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE_FILES                                                                                \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE |                              \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR)
/* The rights of Landlock's first version, known to every kernel with Landlock. */
#define ALL_RIGHTS                                                                                 \
    (READ_FILES | WRITE_FILES | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_REMOVE_DIR |       \
     LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |  \
     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

/* Adds a path to the rules. For a file, drops the rights that only directories have. */
static bool allow_path(int rules, const char *path, uint64_t rights)
{
    struct landlock_path_beneath_attr below = {.allowed_access = rights};
    struct stat file;
    below.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (below.parent_fd < 0) {
        return false;
    }
    if (fstat(below.parent_fd, &file) == 0 && !S_ISDIR(file.st_mode)) {
        below.allowed_access &= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;
    }
    const bool allowed =
        syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0) == 0;
    (void)close(below.parent_fd);
    return allowed;
}

static int close_paths(const struct sandbox *sandbox, struct tfe_reason *reason)
{
    const struct landlock_ruleset_attr all = {.handled_access_fs = ALL_RIGHTS};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof(all), 0);
    if (rules < 0) {
        log_warn(
            "no_landlock",
            LOG_S("effect", "file system access is not restricted: the kernel lacks Landlock"));
        return 0;
    }
    bool done = true;
    for (size_t i = 0; done && i < sandbox->n_writable; i++) {
        done = allow_path(rules, sandbox->writable[i], READ_FILES | WRITE_FILES);
    }
    for (size_t i = 0; done && i < sandbox->n_readable; i++) {
        done = allow_path(rules, sandbox->readable[i], READ_FILES) || errno == ENOENT ||
               errno == EACCES;
    }
    done = done && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    if (!done) {
        reason_errno(reason, "restrict the file system (--no-sandbox disables this)");
    }
    (void)close(rules);
    return done ? 0 : TFE_ESYS;
}

/* --- system calls ----------------------------------------------------------------------------- */

/* System calls of libc, libevent, SQLite and the server itself. Unknown ones are skipped. */
static const char *const calls[] = {
    /* open files and sockets */
    "read", "write", "readv", "writev", "pread64", "preadv", "lseek", "close", "close_range", "dup",
    "dup2", "dup3", "fstat", "fstatfs", "fadvise64", "sendfile",
    /* paths, restricted by Landlock */
    "open", "openat", "stat", "lstat", "newfstatat", "statx", "statfs", "access", "faccessat",
    "faccessat2", "readlink", "readlinkat", "getcwd", "getdents64",
    /* network */
    "accept", "accept4", "bind", "connect", "listen", "getsockname", "getpeername", "getsockopt",
    "setsockopt", "shutdown", "send", "sendto", "sendmsg", "sendmmsg", "recv", "recvfrom",
    "recvmsg", "socketpair", "pipe", "pipe2", "eventfd2", "signalfd4", "timerfd_create",
    "timerfd_settime", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
    "epoll_pwait2", "poll", "ppoll", "select", "pselect6",
    /* memory, threads, time */
    "brk", "munmap", "mremap", "madvise", "mlock", "mlock2", "munlock", "msync", "futex",
    "set_robust_list", "rseq", "membarrier", "sched_yield", "sched_getaffinity", "prctl", "exit",
    "exit_group", "gettid", "getpid", "getppid", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
    "rt_sigtimedwait", "sigaltstack", "restart_syscall", "clock_gettime", "clock_getres",
    "clock_nanosleep", "nanosleep", "gettimeofday", "time", "getrandom", "uname", "sysinfo",
    "getrusage", "getrlimit", "getuid", "geteuid", "getgid", "getegid"};

/* System calls that change files. */
static const char *const file_calls[] = {
    "pwrite64", "pwritev", "fsync",    "fdatasync", "ftruncate", "fallocate",
    "flock",    "fchmod",  "fchown",   "futimens",  "utimensat", "unlink",
    "unlinkat", "rename",  "renameat", "renameat2", "link",      "linkat",
    "mkdir",    "mkdirat", "rmdir",    "umask"};

/* A system call that is allowed only with certain arguments: each masked argument must equal the
 * value. */
struct partly {
    const char *call;
    unsigned n;
    struct scmp_arg_cmp when[2];
};

#define IS(argument, mask, value) SCMP_CMP64(argument, SCMP_CMP_MASKED_EQ, mask, value)
#define IF(call, ...)                                                                              \
    {                                                                                              \
        (call), sizeof((struct scmp_arg_cmp[]){__VA_ARGS__}) / sizeof(struct scmp_arg_cmp),        \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define OF_32(argument, value) IS(argument, UINT32_MAX, (uint32_t)(value))
#define NULL_POINTER(argument) IS(argument, UINT64_MAX, 0)
/* Flags that create namespaces. */
#define NEW_SPACES                                                                                 \
    (CLONE_NEWCGROUP | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUSER |  \
     CLONE_NEWUTS)

static int allow_call(scmp_filter_ctx filter, const struct partly *p)
{
    const int number = seccomp_syscall_resolve_name(p->call);
    return number < 0 ? 0 : seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, p->n, p->when);
}

/* Allows calls with restricted arguments. No other process can be affected: signals only reach this
 * process (F_SETOWN, which would let a descriptor's owner receive one, is excluded), and limits can
 * only be read. */
static int allow_some(scmp_filter_ctx filter)
{
    static const int fcntls[] = {F_DUPFD,     F_DUPFD_CLOEXEC, F_GETFD,     F_SETFD,    F_GETFL,
                                 F_SETFL,     F_GETLK,         F_SETLK,     F_SETLKW,   F_OFD_GETLK,
                                 F_OFD_SETLK, F_OFD_SETLKW,    F_GET_SEALS, F_ADD_SEALS};
    const struct partly partly[] = {
        IF("socket", OF_32(0, AF_INET)),
        IF("socket", OF_32(0, AF_INET6)),
        IF("socket", OF_32(0, AF_UNIX)),
        IF("socket", OF_32(0, AF_NETLINK)), /* for getifaddrs */
        IF("mmap", IS(2, PROT_EXEC, 0)),
        IF("mprotect", IS(2, PROT_EXEC, 0)),
        IF("clone", IS(0, NEW_SPACES, 0)),
        IF("kill", OF_32(1, 0)), /* existence check of a process */
        IF("kill", OF_32(0, getpid())),
        IF("tgkill", OF_32(0, getpid())),
        IF("prlimit64", OF_32(0, 0), NULL_POINTER(2)),
        IF("prlimit64", OF_32(0, getpid()), NULL_POINTER(2)),
        IF("ioctl", OF_32(1, FIONREAD)),
        IF("ioctl", OF_32(1, FIONBIO)),
        IF("ioctl", OF_32(1, TCGETS)), /* for stdio */
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(partly) / sizeof(partly[0]); i++) {
        rc = allow_call(filter, &partly[i]);
    }
    for (size_t i = 0; rc == 0 && i < sizeof(fcntls) / sizeof(fcntls[0]); i++) {
        const struct partly p = IF("fcntl", OF_32(1, fcntls[i]));
        rc = allow_call(filter, &p);
    }
    return rc;
}

static int allow_each(scmp_filter_ctx filter, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int number = seccomp_syscall_resolve_name(names[i]);
        int rc = number < 0 ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int allow_calls(scmp_filter_ctx filter, bool writes)
{
    int rc = allow_each(filter, calls, sizeof(calls) / sizeof(calls[0]));
    if (rc == 0 && writes) {
        rc = allow_each(filter, file_calls, sizeof(file_calls) / sizeof(file_calls[0]));
    }
    /* A filter cannot read clone3's flags in memory. ENOSYS makes libc use clone(2). */
    const int clone3 = seccomp_syscall_resolve_name("clone3");
    if (rc == 0 && clone3 >= 0) {
        rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), clone3, 0);
    }
    return rc != 0 ? rc : allow_some(filter);
}

static int close_calls(bool writes, struct tfe_reason *reason)
{
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) {
        log_warn("no_seccomp",
                 LOG_S("effect", "system calls are not restricted: the kernel lacks seccomp"));
        return 0;
    }
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int rc = filter ? allow_calls(filter, writes) : -ENOMEM;
    rc = rc != 0 ? rc : seccomp_load(filter);
    seccomp_release(filter);
    if (rc != 0) {
        errno = -rc;
        reason_errno(reason, "set the system call filter (--no-sandbox disables this)");
        return TFE_ESYS;
    }
    return 0;
}

int sandbox_enter(const struct sandbox *sandbox, struct tfe_reason *reason)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        reason_errno(reason, "give up new privileges");
        return TFE_ESYS;
    }
    int rc = close_paths(sandbox, reason);
    return rc != 0 ? rc : close_calls(sandbox->n_writable > 0, reason);
}
