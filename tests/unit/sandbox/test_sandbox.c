/* tests/unit/sandbox/test_sandbox.c: the sandbox allows the server's system calls and no others. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/cli/log.h"
#include "server/sandbox/sandbox.h"
#include "tests/unit/folder.h"

static char folder[FOLDER_BYTES];

/* Makes the call in a sandboxed process. Returns its errno, or 0 if it succeeds. */
static int outcome_in(const struct sandbox *sandbox, int (*call)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        struct tfe_reason reason;
        if (sandbox_enter(sandbox, &reason) != 0) {
            _exit(255);
        }
        errno = 0;
        _exit(call() >= 0 ? 0 : errno);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Makes the call in the server's sandbox for this directory. */
static int outcome(int (*call)(void))
{
    const char *const folders[] = {folder};
    return outcome_in(&(struct sandbox){.writable = folders, .n_writable = 1}, call);
}

/* Makes the call in tfe-web's sandbox, which can read this file and the directory. */
static int outcome_of_reader(int (*call)(void))
{
    const char *const paths[] = {"/nonexistent", "/etc/passwd", folder};
    return outcome_in(&(struct sandbox){.readable = paths, .n_readable = 3}, call);
}

static int run_program(void)
{
    char *const argv[] = {(char[]){"true"}, NULL};
    return execv("/bin/true", argv);
}

static int trace_parent(void)
{
    return (int)ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
}

static int signal_parent(void)
{
    return kill(getppid(), SIGTERM);
}

/* Other calls than kill(2) also reach processes of the same user. */
static int signal_parents_thread(void)
{
    return (int)syscall(SYS_tgkill, getppid(), getppid(), SIGTERM);
}

static int signal_some_thread(void)
{
    return (int)syscall(SYS_tkill, getppid(), SIGTERM);
}

static int queue_for_parent(void)
{
    return sigqueue(getppid(), SIGTERM, (union sigval){0});
}

static int signal_by_descriptor(void)
{
    int fds[2];
    return pipe(fds) != 0 ? 0 : fcntl(fds[0], F_SETOWN, getppid());
}

static int limit_parent(void)
{
    const struct rlimit none = {0, 0};
    return prlimit(getppid(), RLIMIT_CPU, &none, NULL);
}

static int limits_of_parent(void)
{
    struct rlimit now;
    return prlimit(getppid(), RLIMIT_CPU, NULL, &now);
}

static int own_limits(void)
{
    struct rlimit now;
    return getrlimit(RLIMIT_NOFILE, &now);
}

static int signal_itself(void)
{
    (void)signal(SIGUSR1, SIG_IGN);
    return raise(SIGUSR1);
}

static int new_namespace(void)
{
    return (int)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
}

static void *return_it(void *ctx)
{
    return ctx;
}

static int one_more_thread(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, return_it, NULL) == 0 && pthread_join(thread, NULL) == 0
               ? 0
               : -1;
}

static int ask_for_parent(void)
{
    return kill(getppid(), 0);
}

static int raw_socket(void)
{
    return socket(AF_PACKET, SOCK_RAW, 0);
}

static int tcp_socket(void)
{
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static int map(int protection)
{
    return mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}

static int executable_memory(void)
{
    return map(PROT_READ | PROT_WRITE | PROT_EXEC);
}

static int plain_memory(void)
{
    return map(PROT_READ | PROT_WRITE);
}

static int become_root(void)
{
    return setuid(0);
}

static int read_passwords(void)
{
    return open("/etc/passwd", O_RDONLY | O_CLOEXEC);
}

static int write_elsewhere(void)
{
    return open("/tmp/tfe-unit-outside", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
}

static int write_here(void)
{
    return open(folder_path(folder, "new"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
}

static int name_here(void)
{
    return write_here() < 0 ? -1 : link(folder_path(folder, "new"), folder_path(folder, "other"));
}

static int read_groups(void)
{
    return open("/etc/group", O_RDONLY | O_CLOEXEC);
}

static int list_here(void)
{
    return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int make_folder(void)
{
    return mkdir(folder_path(folder, "sub"), 0700);
}

static int setup(void **state)
{
    (void)state;
    folder_make(folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}
#define FIXTURE setup, teardown

TEST_IN(sandbox, refuses_what_no_server_does)
{
    assert_int_equal(outcome(run_program), EPERM);
    assert_int_equal(outcome(trace_parent), EPERM);
    assert_int_equal(outcome(signal_parent), EPERM);
    assert_int_equal(outcome(signal_parents_thread), EPERM);
    assert_int_equal(outcome(signal_some_thread), EPERM);
    assert_int_equal(outcome(queue_for_parent), EPERM);
    assert_int_equal(outcome(signal_by_descriptor), EPERM);
    assert_int_equal(outcome(limit_parent), EPERM);
    assert_int_equal(outcome(limits_of_parent), EPERM);
    assert_int_equal(outcome(new_namespace), EPERM);
    assert_int_equal(outcome(raw_socket), EPERM);
    assert_int_equal(outcome(executable_memory), EPERM);
    assert_int_equal(outcome(become_root), EPERM);
}

TEST_IN(sandbox, leaves_what_a_server_does)
{
    assert_int_equal(outcome(ask_for_parent), 0);
    assert_int_equal(outcome(signal_itself), 0);
    assert_int_equal(outcome(own_limits), 0);
    assert_int_equal(outcome(one_more_thread), 0);
    assert_int_equal(outcome(tcp_socket), 0);
    assert_int_equal(outcome(plain_memory), 0);
    assert_int_equal(outcome(write_here), 0);
}

TEST_IN(sandbox, closes_paths_where_the_kernel_can)
{
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 0) {
        SKIP("this kernel has no Landlock");
    }
    assert_int_equal(outcome(read_passwords), EACCES);
    assert_int_equal(outcome(write_elsewhere), EACCES);
    assert_int_equal(access("/tmp/tfe-unit-outside", F_OK), -1);
    assert_int_equal(outcome(name_here), 0);
}

TEST_IN(sandbox, reader_changes_no_file_and_reads_what_it_names)
{
    assert_int_equal(outcome_of_reader(tcp_socket), 0);
    assert_int_equal(outcome_of_reader(read_passwords), 0);
    assert_int_equal(outcome_of_reader(list_here), 0);
    assert_int_equal(outcome_of_reader(make_folder), EPERM);
    assert_int_equal(outcome_of_reader(run_program), EPERM);
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 0) {
        SKIP("this kernel has no Landlock");
    }
    assert_int_equal(outcome_of_reader(read_groups), EACCES);
    assert_int_equal(outcome_of_reader(write_here), EACCES);
}
