/* agent/guard/guard.c: forks tfe-guard and prepares the forked process. */
#include "agent/guard/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/core/proof_condition.h"
#include "agent/guard/guard_proof.h"
#include "agent/guard/guard_state.h"
#include "agent/os/private_dir.h"
#include "agent/os/proc.h"
#include "common/cli/secret_mem.h"
#include "common/credentials/enrollment.h"
#include "common/credentials/join.h"

/* Number of 1 ms waits for the agent to die. A killed agent closes its end of the pair
 * before it disappears. */
#define ORPHAN_WAITS 1000
/* Number of attempts to remove the directory; a server of the agent dies after it and may
 * still create a file. */
#define REMOVE_ATTEMPTS 1000
#define PAUSE_NS 1000000

/* Location of main's argv, see guard_title_area. */
static struct {
    char *start;
    size_t n;
} title;

/* Directory to remove, see guard_remove_at_end. */
static char removal_path[PRIVATE_DIR_MAX + 1];

void guard_remove_at_end(const char *path)
{
    snprintf(removal_path, sizeof removal_path, "%s", path);
}

void guard_title_area(int argc, char **argv)
{
    if (argc < 1) {
        return;
    }
    char *end = argv[0] + strlen(argv[0]) + 1;
    for (int i = 1; i < argc && argv[i] == end; i++) {
        end += strlen(argv[i]) + 1;
    }
    title.start = argv[0];
    title.n = (size_t)(end - argv[0]);
}

static void title_set(const char *name)
{
    prctl(PR_SET_NAME, name, 0, 0, 0);
    if (title.n > strlen(name)) {
        /* also erases a token given on the command line */
        memset(title.start, 0, title.n);
        memcpy(title.start, name, strlen(name));
    }
}

static void fail(const char *what)
{
    ssize_t ignored = write(STDERR_FILENO, what, strlen(what));
    (void)ignored;
    _exit(1);
}

/* Blocks all signals except faults, so that none interrupts a child between fork and exec;
 * SIGCHLD is read from a signalfd. Signals for the agent or the terminal are also ignored, and
 * the agent's handlers are removed. */
static void signals_set_up(void)
{
    static const int dropped[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGPIPE, SIGTSTP,
                                  SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2, SIGALRM};
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++) {
        sigaction(dropped[i], &ignore, NULL);
    }
    struct sigaction child = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP};
    sigaction(SIGCHLD, &child, NULL);
    sigset_t mask;
    sigfillset(&mask);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        sigdelset(&mask, faults[i]);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
}

/* Moves fd to the fixed descriptor number `at`. */
static void move_fd(int fd, int at, const char *what)
{
    if (fd < 0 || (fd != at && dup3(fd, at, O_CLOEXEC) < 0)) {
        fail(what);
    }
    if (fd != at && fd >= PAIR_FD) {
        close(fd);
    }
}

/* Waits until the killed agent is gone, then removes its directories. */
static void directories_remove(pid_t agent)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    for (int i = 0; getppid() == agent && i < ORPHAN_WAITS; i++) {
        nanosleep(&pause, NULL);
    }
    for (int i = 0; removal_path[0] && !private_dir_remove(removal_path) && i < REMOVE_ATTEMPTS;
         i++) {
        nanosleep(&pause, NULL);
    }
    private_dir_clean_up();
}

/* Cleans up after a dead agent and serves the proof of termination; death is
 * NULL if there is none. */
static void guard_finish(const struct guard_end *end, const struct guard_proof *proof, pid_t agent)
{
    const struct proof_condition condition = {.is_first = proof != NULL,
                                              .agent_is_gone = end->agent_is_gone,
                                              .is_childless = end->is_childless};
    if (end->agent_left) {
        return; /* the agent has reported its end to the server; otherwise the server waits for the
                   lease to end */
    }
    bool reveals = proof && end->fence_ms != GUARD_NEVER && agent_proof_is_allowed(&condition);
    int fd = reveals && proof->port != 0 ? PROOF_FD : -1;
    if (reveals) {
        guard_proof_reveal(proof, fd);
    }
    directories_remove(agent);
    if (reveals) {
        guard_proof_serve(proof, fd, end->fence_ms);
    }
}

static _Noreturn void guard_run(int pair, const struct guard_proof *proof, pid_t agent)
{
    struct tfe_reason reason;
    setsid();
    title_set("tfe-guard");
    join_forget(NULL);
    secret_mem_wipe_variable(ENROLLMENT_VARIABLE);
    signals_set_up();
    if (proc_become_subreaper(&reason) != 0) {
        fail("tfe-guard: cannot become a subreaper\n");
    }
    /* Move the pair away from the fixed descriptor numbers. */
    int high = fcntl(pair, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (high < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        (fcntl(STDERR_FILENO, F_GETFD) < 0 && dup2(null, STDERR_FILENO) < 0)) {
        fail("tfe-guard: cannot arrange its descriptors\n");
    }
    bool has_port = proof && proof->port != 0;
    int port = has_port ? fcntl(proof->fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD) : -1;
    move_fd(high, PAIR_FD, "tfe-guard: cannot keep its pipe\n");
    if (has_port) {
        move_fd(port, PROOF_FD, "tfe-guard: cannot keep its port\n");
    } else {
        close(PROOF_FD);
    }
    closefrom(CHILD_FD);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    move_fd(signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK), CHILD_FD,
            "tfe-guard: cannot make a signalfd\n");
    move_fd(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK), FENCE_FD,
            "tfe-guard: cannot make a timer on CLOCK_BOOTTIME\n");
    struct guard_end end = guard_serve();
    guard_finish(&end, proof, agent);
    _exit(0);
}

int guard_fork(struct guard_process *ret, struct guard_proof *proof, struct tfe_reason *reason)
{
    if (access("/proc/self/stat", R_OK) != 0) {
        reason_errno(reason, "guard: /proc is required to find the processes that trainers start");
        return TFE_ESYS;
    }
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        reason_errno(reason, "guard: socketpair");
        return TFE_ESYS;
    }
    pid_t agent = getpid();
    pid_t pid = proc_fork_blocked();
    if (pid == 0) {
        guard_run(pair[1], proof, agent);
    }
    int error = errno;
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        errno = error;
        reason_errno(reason, "guard: fork");
        return TFE_ESYS;
    }
    *ret = (struct guard_process){.pid = pid, .fd = pair[0]};
    if (proof) {
        ret->proof_hash = proof->hash;
        ret->proof_port = proof->port;
        guard_proof_erase(proof);
    }
    return 0;
}
