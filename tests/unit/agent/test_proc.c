/* tests/unit/agent/test_proc.c: descendants and listeners of processes, read from /proc. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/proc.h"
#include "tests/unit/agent/agent_fixture.h"

/* Below the range of the kernel's own choice (ip_local_port_range(7)). */
#define FIRST_PORT 12000
#define PORTS 20000

/* Starts a process that listens on a port, or on none with AF_UNSPEC, and reports the port. The
 * port is chosen here, because the kernel would also give one of its own choice to connections
 * of other processes, which would be counted. */
static pid_t child(int family, uint16_t *ret_port, const char *name)
{
    int pipe_fds[2];
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends with a failed test */
        struct sockaddr_in6 any = {.sin6_family = (sa_family_t)family};
        socklen_t n = sizeof any;
        uint16_t port = 0;
        if (strcmp(name, "elsewhere") == 0 && unshare(CLONE_NEWNET) != 0) {
            family = AF_UNSPEC;
        }
        prctl(PR_SET_NAME, name, 0, 0, 0);
        if (family != AF_UNSPEC) {
            int fd = socket(family, SOCK_STREAM, 0);
            uint16_t wanted = (uint16_t)(FIRST_PORT + getpid() % PORTS);
            for (int i = 0; i < PORTS && port == 0; i++) {
                wanted = (uint16_t)(wanted == FIRST_PORT + PORTS - 1 ? FIRST_PORT : wanted + 1);
                any.sin6_port = htons(wanted); /* at the same offset in both families */
                if (bind(fd, (struct sockaddr *)&any, n) == 0 && listen(fd, 4) == 0) {
                    port = wanted;
                }
            }
        }
        (void)!write(pipe_fds[1], &port, sizeof port);
        for (;;) {
            pause();
        }
    }
    uint16_t port = 0;
    assert_int_equal(read(pipe_fds[0], &port, sizeof port), sizeof port);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    if (ret_port) {
        *ret_port = port;
    }
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* The same, with a netlink socket of its own. */
static bool listens(pid_t root, uint16_t port)
{
    int diag = -1;
    bool does = proc_descendant_listens(root, port, &diag);
    if (diag >= 0) {
        close(diag);
    }
    return does;
}

TEST(proc, only_listening_descendants_are_found)
{
    uint16_t v4;
    uint16_t v6;
    uint16_t strange;
    pid_t root = child(AF_UNSPEC, NULL, "root");
    pid_t a = child(AF_INET, &v4, "a");
    pid_t b = child(AF_INET6, &v6, "b");
    pid_t c = child(AF_INET, &strange, "c");
    assert_int_not_equal(v4, 0);
    assert_true(listens(getpid(), v4));
    assert_true(listens(a, v4));
    assert_false(listens(a, strange));
    assert_false(listens(root, v4));
    assert_false(listens(root, strange));
    assert_true(proc_port_listens(v4));
    assert_true(proc_port_listens(strange));
    if (v6) { /* otherwise this machine has no IPv6 */
        assert_true(listens(getpid(), v6));
        assert_false(listens(root, v6));
        assert_true(proc_port_listens(v6));
        end(b);
        assert_false(proc_port_listens(v6));
    } else {
        end(b);
    }
    end(a);
    assert_false(listens(getpid(), v4));
    assert_false(proc_port_listens(v4));
    end(c);
    end(root);
}

TEST(proc, one_netlink_socket_serves_all_queries)
{
    uint16_t port;
    pid_t pid = child(AF_INET, &port, "a");
    int diag = -1;
    struct stat first;
    struct stat now;
    assert_true(proc_descendant_listens(getpid(), port, &diag));
    assert_true(diag >= 0);
    assert_int_equal(fstat(diag, &first), 0);
    assert_true(proc_descendant_listens(getpid(), port, &diag));
    end(pid);
    assert_false(proc_descendant_listens(getpid(), port, &diag));
    assert_int_equal(fstat(diag, &now), 0);
    assert_int_equal(now.st_ino, first.st_ino);
    close(diag);
}

TEST(proc, bound_or_connected_socket_does_not_count_as_listening)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &n), 0);
    uint16_t port = ntohs(name.sin_port);
    assert_false(proc_port_listens(port));
    assert_int_equal(listen(fd, 4), 0);
    assert_true(proc_port_listens(port));
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&name, n), 0);
    int conn = accept(fd, NULL, NULL);
    close(fd);
    assert_false(proc_port_listens(port)); /* a connection on the port, but no listener */
    close(conn);
    close(client);
}

TEST(proc, listener_is_found_among_a_hundred)
{
    enum { MANY = 300 };
    int fds[MANY];
    uint16_t ports[MANY];
    for (int i = 0; i < MANY; i++) {
        struct sockaddr_in6 name = {.sin6_family = i % 2 ? AF_INET6 : AF_INET};
        socklen_t n = sizeof name;
        fds[i] = socket(name.sin6_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[i] < 0) { /* no IPv6 */
            ports[i] = 0;
            continue;
        }
        assert_int_equal(bind(fds[i], (struct sockaddr *)&name, n), 0);
        assert_int_equal(listen(fds[i], 1), 0);
        assert_int_equal(getsockname(fds[i], (struct sockaddr *)&name, &n), 0);
        ports[i] = ntohs(name.sin6_port);
    }
    for (int i = 0; i < MANY; i++) {
        if (ports[i]) {
            assert_true(listens(getpid(), ports[i]));
        }
        close(fds[i]);
    }
    assert_false(listens(getpid(), ports[0]));
}

/* Its sockets are in another table, which only its own /proc/PID/net shows. */
TEST(proc, listener_in_its_own_network_namespace_is_found)
{
    uint16_t port;
    pid_t pid = child(AF_INET, &port, "elsewhere");
    bool there = port && listens(pid, port);
    bool here = port && (proc_port_listens(port) || listens(getpid(), port));
    end(pid);
    if (!port) {
        SKIP("making a network namespace takes privileges");
    }
    assert_true(there);
    assert_false(here);
}

static void count_loopback(void *ctx, struct in_addr remote)
{
    size_t *n = ctx;
    *n += remote.s_addr == htonl(INADDR_LOOPBACK) ? 1 : 0;
}

/* Starts a process that connects to the port of 127.0.0.host by a socket of this
 * family, and reports it. */
static pid_t caller(int family, uint8_t host, uint16_t port)
{
    int pipe_fds[2];
    char c = 0;
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends with a failed test */
        struct sockaddr_in v4 = {.sin_family = AF_INET,
                                 .sin_port = htons(port),
                                 .sin_addr.s_addr = htonl(0x7F000000u + host)};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                                  .sin6_port = htons(port),
                                  .sin6_addr.s6_addr = {[10] = 0xFF, 0xFF, 127, 0, 0, host}};
        int fd = socket(family, SOCK_STREAM, 0);
        int rc = family == AF_INET ? connect(fd, (struct sockaddr *)&v4, sizeof v4)
                                   : connect(fd, (struct sockaddr *)&v6, sizeof v6);
        c = rc == 0 ? 'y' : 'n';
        (void)!write(pipe_fds[1], &c, 1);
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(pipe_fds[0], &c, 1), 1);
    assert_int_equal(c, 'y');
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    return pid;
}

TEST(proc, connections_are_filtered_by_ends_and_owner)
{
    uint16_t port;
    uint16_t other;
    pid_t listener = child(AF_INET, &port, "listener");
    pid_t elsewhere = child(AF_INET, &other, "elsewhere too");
    struct in_addr second = {.s_addr = htonl(0x7F000002u)};
    const struct proc_connections to_it = {.local_port = port};
    const struct proc_connections from_it = {.remote_port = port};
    const struct proc_connections to_second = {.remote_port = port, .remote = second};
    const struct proc_connections to_self = {.remote_port = port, .is_to_self = true};
    assert_int_equal(proc_connections(&to_it, NULL, NULL), 0);
    pid_t a = caller(AF_INET, 1, port);
    pid_t b = caller(AF_INET, 2, port);
    pid_t c = caller(AF_INET, 1, other);
    /* The local end of a connection to any address of 127.0.0.0/8 is 127.0.0.1. */
    size_t loopback = 0;
    assert_int_equal(proc_connections(&to_it, count_loopback, &loopback), 2);
    assert_int_equal(loopback, 2);
    assert_int_equal(proc_connections(&from_it, NULL, NULL), 2);
    assert_int_equal(proc_connections(&to_second, NULL, NULL), 1);
    assert_int_equal(proc_connections(&to_self, NULL, NULL), 1);
    assert_int_equal(proc_connections_of(getpid(), &from_it), 2);
    assert_int_equal(proc_connections_of(a, &from_it), 1);
    assert_int_equal(proc_connections_of(a, &to_second), 0);
    assert_int_equal(proc_connections_of(b, &to_second), 1);
    assert_int_equal(proc_connections_of(c, &from_it), 0);
    assert_int_equal(proc_connections_of(listener, &from_it), 0);
    end(c);
    end(b);
    end(a);
    end(elsewhere);
    end(listener);
}

TEST(proc, ipv4_connection_of_an_ipv6_socket_counts)
{
    uint16_t port;
    int v6 = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (v6 < 0) {
        SKIP("this machine has no IPv6");
    }
    close(v6);
    pid_t listener = child(AF_INET, &port, "listener");
    pid_t pid = caller(AF_INET6, 2, port);
    const struct proc_connections which = {.remote_port = port,
                                           .remote.s_addr = htonl(0x7F000002u)};
    assert_int_equal(proc_connections_of(pid, &which), 1);
    end(pid);
    end(listener);
}

static bool collect(void *ctx, pid_t pid, pid_t session)
{
    pid_t *wanted = ctx;
    (void)session;
    if (*wanted == pid) {
        *wanted = 0;
    }
    return false;
}

/* Returns the number of processes found alive. */
static size_t kill_below(pid_t root, pid_t *ret_stuck)
{
    size_t alive;
    assert_int_equal(proc_signal_descendants(root, SIGKILL, NULL, NULL, &alive, ret_stuck), 0);
    return alive;
}

TEST(proc, process_names_with_blanks_and_parentheses_are_parsed)
{
    static const char *const names[] = {"a b", ") S 1 1 1", "((", "x) Z 0 (", ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        pid_t pid = child(AF_UNSPEC, NULL, names[i]);
        pid_t wanted = pid;
        size_t alive = 9;
        pid_t stuck;
        assert_int_equal(proc_signal_descendants(getpid(), 0, collect, &wanted, &alive, &stuck), 0);
        assert_int_equal(wanted, 0);
        assert_int_equal(alive, 0); /* no process was selected */
        assert_int_equal(kill_below(getpid(), &stuck), 1);
        assert_int_equal(stuck, 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
}

TEST(proc, zombies_are_ignored_and_other_processes_survive)
{
    pid_t stuck;
    pid_t root = child(AF_UNSPEC, NULL, "root");
    pid_t stranger = child(AF_UNSPEC, NULL, "stranger");
    assert_int_equal(kill_below(root, &stuck), 0);
    assert_false(rig_is_gone(stranger));
    kill(root, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)root, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(kill_below(getpid(), &stuck), 1); /* the unrelated process */
    assert_int_equal(waitpid(root, NULL, 0), root);
    assert_int_equal(waitpid(stranger, NULL, 0), stranger);
    assert_int_equal(kill_below(getpid(), &stuck), 0);
}

/* Simulated contents of /proc: this process, repeated. */
static struct {
    size_t left;
    pid_t pid;
} listed;

ssize_t __real_getdents64(int fd, void *buffer, size_t n);
ssize_t __wrap_getdents64(int fd, void *buffer, size_t n);
ssize_t __wrap_getdents64(int fd, void *buffer, size_t n)
{
    struct dirent64 entry = {.d_reclen = 40};
    size_t at = 0;
    if (!listed.pid) {
        return __real_getdents64(fd, buffer, n);
    }
    snprintf(entry.d_name, 16, "%d", (int)listed.pid);
    for (; listed.left > 0 && at + entry.d_reclen <= n; listed.left--, at += entry.d_reclen) {
        memcpy((char *)buffer + at, &entry, entry.d_reclen);
    }
    return (ssize_t)at;
}

TEST(proc, processes_above_the_initial_capacity_are_found)
{
    enum { COUNT = 5000 };
    pid_t stuck;
    size_t alive = 0;
    pid_t pid = child(AF_UNSPEC, NULL, "a");
    listed.pid = pid;
    listed.left = COUNT;
    assert_int_equal(proc_signal_descendants(getpid(), 0, NULL, NULL, &alive, &stuck), 0);
    listed.pid = 0;
    assert_int_equal(alive, COUNT);
    end(pid);
}

/* Returns a waiting child with this pid, or -1. */
static pid_t child_numbered(pid_t pid)
{
    struct clone_args args = {
        .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&pid, .set_tid_size = 1};
    pid_t made = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (made == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            pause();
        }
    }
    return made;
}

/* After the pids have wrapped around, a child may have a lower pid than its parent. */
TEST(proc, child_with_a_lower_pid_is_found)
{
    int made[2];
    pid_t lower = -1;
    pid_t stuck;
    assert_int_equal(pipe2(made, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int below = 1; lower < 0 && below < 300; below++) {
            lower = child_numbered(getpid() - below);
        }
        (void)!write(made[1], &lower, sizeof lower);
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(made[0], &lower, sizeof lower), sizeof lower);
    size_t n = kill_below(getpid(), &stuck);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(made[0]);
    close(made[1]);
    if (lower < 0) {
        SKIP("it takes root to choose the number of a process");
    }
    assert_int_equal(n, 2);
}

/* The pid is reused by another process before the signal is sent. */
static bool replace(void *ctx, pid_t pid, pid_t session)
{
    (void)session;
    end(pid);
    nanosleep(&(struct timespec){.tv_nsec = 30000000},
              NULL); /* start times have a resolution of 10 ms */
    *(pid_t *)ctx = child_numbered(pid);
    return true;
}

TEST(proc, process_with_a_reused_pid_is_not_signalled)
{
    pid_t other = 0;
    pid_t stuck;
    size_t alive;
    (void)child(AF_UNSPEC, NULL, "a");
    assert_int_equal(proc_signal_descendants(getpid(), SIGKILL, replace, &other, &alive, &stuck),
                     0);
    if (other < 0) {
        SKIP("it takes root to choose the number of a process");
    }
    assert_int_equal(alive, 1);
    int status = -1;
    kill(other, SIGTERM);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, SIGTERM);
}

static void *wait_for_ever(void *arg)
{
    for (;;) {
        pause();
    }
    return arg;
}

/* The first thread has ended and is shown as a zombie, but other threads run. */
TEST(proc, process_without_its_main_thread_is_alive)
{
    pid_t stuck;
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)pthread_create(&thread, NULL, wait_for_ever, NULL);
        syscall(SYS_exit, 0); /* of this thread only */
    }
    int64_t give_up = rig_ms() + RIG_PATIENCE_MS;
    while (!rig_has_state(pid, 'Z') && rig_ms() < give_up) {
        sched_yield();
    }
    assert_int_equal(kill_below(getpid(), &stuck), 1);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Ten nested sessions with thirty processes each. */
TEST(proc, deep_and_wide_tree_is_killed)
{
    struct tfe_reason reason;
    assert_int_equal(proc_become_subreaper(&reason), 0);
    int done[2];
    assert_int_equal(pipe2(done, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (int level = 0; level < 10; level++) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); /* ends with a failed test */
            for (int i = 0; i < 30; i++) {
                if (fork() == 0) {
                    prctl(PR_SET_PDEATHSIG, SIGKILL);
                    (void)!write(done[1], "x", 1);
                    for (;;) {
                        pause();
                    }
                }
            }
            if (fork() != 0) {
                for (;;) {
                    pause();
                }
            }
            setsid();
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!write(done[1], "x", 1);
        for (;;) {
            pause();
        }
    }
    for (int i = 0; i < 301; i++) {
        char c;
        assert_int_equal(read(done[0], &c, 1), 1);
    }
    pid_t stuck;
    struct timespec begin;
    struct timespec end_of_pass;
    size_t alive = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_int_equal(proc_signal_descendants(getpid(), 0, NULL, NULL, &alive, &stuck), 0);
    clock_gettime(CLOCK_MONOTONIC, &end_of_pass);
    assert_int_equal(alive, 311);
    print_message("           a look at the tree with %zu descendants: %ld us\n", alive,
                  (end_of_pass.tv_sec - begin.tv_sec) * 1000000 +
                      (end_of_pass.tv_nsec - begin.tv_nsec) / 1000);
    int64_t start = rig_ms();
    assert_true(proc_kill_all_descendants_and_reap(getpid()));
    print_message("           killed and reaped: %d ms\n", (int)(rig_ms() - start));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    close(done[0]);
    close(done[1]);
}
