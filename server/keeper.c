/* server/keeper.c: see keeper.h. */
#include "server/keeper.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/net/clock.h"

extern char **environ;

/* From SIGTERM to SIGKILL. */
#define END_MS 1000

/* What the server's own options may have been given by: programs would take them for their own, and
 * would tell systemd that the service is ready, or stops, when only they are or do. */
static void forget_options(void)
{
    (void)unsetenv("NOTIFY_SOCKET");
    for (char **at = environ; *at;) {
        char name[64];
        const char *equals = strchr(*at, '=');
        size_t n = equals ? (size_t)(equals - *at) : 0;
        if (strncmp(*at, "TFE_", 4) != 0 || n == 0 || n >= sizeof(name)) {
            at++;
            continue;
        }
        memcpy(name, *at, n);
        name[n] = '\0';
        (void)unsetenv(name);
    }
}

int keeper_start(const char *name, int type, void (*keep)(const struct keeper *k, void *ctx),
                 void *ctx, int *ret, struct tfe_why *why)
{
    int pair[2];
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) != 0) {
        why_errno(why, "start %s", name);
        return TFE_ESYS;
    }
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t signals;
        struct keeper k = {.server = pair[1]};
        /* Another keeper's end tells that one of the server's: nobody else may hold it. */
        if (pair[1] > 3) {
            (void)close_range(3, (unsigned)pair[1] - 1, 0);
        }
        (void)close_range((unsigned)pair[1] + 1, UINT_MAX, 0);
        (void)setsid();                 /* a terminal's Ctrl-C is the server's to hear */
        (void)signal(SIGCHLD, SIG_DFL); /* who starts a server may ignore it: no end is told then */
        (void)prctl(PR_SET_NAME, name);
        (void)sigfillset(&signals);
        (void)sigdelset(&signals, SIGSEGV);
        (void)sigprocmask(SIG_SETMASK, &signals, NULL);
        (void)sigemptyset(&signals);
        (void)sigaddset(&signals, SIGCHLD);
        k.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
        forget_options();
        if (k.signals >= 0) {
            keep(&k, ctx);
        }
        _exit(0);
    }
    (void)close(pair[1]);
    *ret = pair[0];
    if (pid < 0) {
        why_errno(why, "start %s", name);
        (void)close(pair[0]);
        *ret = -1;
        return TFE_ESYS;
    }
    return 0;
}

void keeper_bid(int fd)
{
    if (fd >= 0) {
        (void)shutdown(fd, SHUT_WR);
    }
}

void keeper_await(int *fd, struct tfe_mono until)
{
    char rest[256];
    ssize_t n = *fd >= 0 ? 1 : 0;
    while (n > 0) { /* an answer may come first */
        struct pollfd end = {.fd = *fd, .events = POLLIN};
        int64_t left = tfe_mono_sub(until, clock_mono());
        n = left > 0 && poll(&end, 1, (int)left) > 0 ? recv(*fd, rest, sizeof(rest), MSG_DONTWAIT)
                                                     : 0;
    }
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

/* --- in that process -------------------------------------------------------------------------- */

pid_t keeper_spawn(int end, void (*run)(void *ctx), void *ctx)
{
    pid_t keeper = getpid();
    pid_t child = fork();
    if (child == 0) {
        sigset_t none;
        (void)setpgid(0, 0);
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)prctl(PR_SET_PDEATHSIG, end);
        if (getppid() == keeper) {
            run(ctx);
        }
        _exit(127);
    }
    if (child > 0) {
        (void)setpgid(child, child); /* whoever comes first */
    }
    return child;
}

bool keeper_waits(const struct keeper *k, pid_t child, int64_t ms, int *ret_status)
{
    struct tfe_mono until = tfe_mono_add(clock_mono(), ms);
    *ret_status = -1;
    for (;;) {
        struct pollfd fds[] = {{.fd = k->server, .events = POLLIN},
                               {.fd = k->signals, .events = POLLIN}};
        int64_t left = ms < 0 ? -1 : tfe_mono_sub(until, clock_mono());
        if (ms >= 0 && left <= 0) {
            return true;
        }
        (void)poll(fds, 2, (int)left);
        char word;
        ssize_t n = fds[0].revents ? recv(k->server, &word, 1, MSG_DONTWAIT) : -1;
        if (n == 0 || (n < 0 && fds[0].revents && errno != EAGAIN && errno != EINTR)) {
            return false;
        }
        struct signalfd_siginfo told;
        if (fds[1].revents && read(k->signals, &told, sizeof(told)) > 0 && child > 0 &&
            waitpid(child, ret_status, WNOHANG) == child) {
            return true;
        }
    }
}

void keeper_end(pid_t child)
{
    struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    struct tfe_mono until = tfe_mono_add(clock_mono(), END_MS);
    (void)kill(-child, SIGTERM);
    while (waitpid(child, NULL, WNOHANG) == 0) {
        if (!tfe_mono_before(clock_mono(), until)) {
            (void)kill(-child, SIGKILL);
            (void)waitpid(child, NULL, 0);
            return;
        }
        (void)nanosleep(&pause, NULL);
    }
    (void)kill(-child, SIGKILL); /* whom it left behind */
}
