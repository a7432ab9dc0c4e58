/* server/web_beside.c: see web_beside.h. */
#include "server/web_beside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/backoff.h"
#include "common/net/beside.h"
#include "common/net/clock.h"
#include "common/net/state_dir.h"

extern char **environ;

#define PROGRAM "tfe-web"
/* Between its end and its next start. */
#define AGAIN_FIRST_MS 1000
#define AGAIN_MAX_MS 30000
/* One that was there for so long starts again without a longer pause. */
#define WELL_MS 60000
/* From SIGTERM to SIGKILL, and what the server waits for. */
#define END_MS 1000
#define WAIT_MS 1500

/* Of the process that watches. */
struct keeper {
    char program[PATH_MAX];
    char token[PATH_MAX];
    char port[12];
    const char *state_dir;
    const char *level, *format;
    int server;  /* closed by the server's end */
    int signals; /* signalfd: SIGCHLD */
};

/* What the server's own options may have been given by: tfe-web would take them for its own, and
 * would tell systemd that the service is ready, or stops, when only it is or does. */
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

static _Noreturn void run_program(const struct keeper *k, pid_t keeper)
{
    const char *argv[] = {PROGRAM,       "--port",       k->port,        "--bind", "127.0.0.1",
                          "--state-dir", k->state_dir,   "--token-file", k->token, "--log-level",
                          k->level,      "--log-format", k->format,      NULL};
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == keeper) {
        union {
            const char **from;
            char *const *to;
        } words = {.from = argv}; /* execvp writes to none of them */
        (void)execvp(k->program, words.to);
        log_error("web_not_started", LOG_S("program", k->program), LOG_S("why", strerror(errno)));
    }
    _exit(127);
}

/* Whether the server is still there after so long, or, with a child (0: none), when that has
 * ended. */
static bool server_stays(const struct keeper *k, pid_t child, int64_t ms, int *ret_status)
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

static void end_program(const struct keeper *k, pid_t child)
{
    struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    struct tfe_mono until = tfe_mono_add(clock_mono(), END_MS);
    (void)kill(child, SIGTERM);
    while (waitpid(child, NULL, WNOHANG) == 0) {
        if (!tfe_mono_before(clock_mono(), until)) {
            (void)kill(child, SIGKILL);
            (void)waitpid(child, NULL, 0);
            return;
        }
        (void)nanosleep(&pause, NULL);
    }
}

/* Until the server is gone. */
static void keep(const struct keeper *k)
{
    uint32_t again_ms = 0;
    int status;
    char word;
    if (recv(k->server, &word, 1, 0) <= 0) {
        return; /* it never listened */
    }
    for (;;) {
        struct tfe_mono began = clock_mono();
        pid_t self = getpid();
        pid_t child = fork();
        if (child == 0) {
            run_program(k, self);
        }
        if (child > 0 && !server_stays(k, child, -1, &status)) {
            end_program(k, child);
            return;
        }
        bool was_well = tfe_mono_sub(clock_mono(), began) >= WELL_MS;
        again_ms = backoff_next(was_well ? 0 : again_ms, AGAIN_FIRST_MS, AGAIN_MAX_MS);
        log_warn("web_ended",
                 LOG_I("status", child > 0 && WIFEXITED(status) ? WEXITSTATUS(status)
                                 : child > 0                    ? 128 + WTERMSIG(status)
                                                                : -1),
                 LOG_U("again_ms", again_ms));
        if (!server_stays(k, 0, again_ms, &status)) {
            return;
        }
    }
}

static _Noreturn void run_keeper(struct keeper *k)
{
    sigset_t signals;
    (void)setsid();                 /* a terminal's Ctrl-C is the server's to hear */
    (void)signal(SIGCHLD, SIG_DFL); /* who starts a server may ignore it: no end is told then */
    (void)prctl(PR_SET_NAME, "tfe-rdzv-web");
    (void)sigfillset(&signals);
    (void)sigdelset(&signals, SIGSEGV);
    (void)sigprocmask(SIG_SETMASK, &signals, NULL);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGCHLD);
    k->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    forget_options();
    beside_find(PROGRAM, k->program);
    if (k->signals >= 0) {
        keep(k);
    }
    _exit(0);
}

int web_beside_start(struct web_beside *ret, uint32_t port, const char *state_dir,
                     enum log_level level, enum log_format format, struct tfe_why *why)
{
    struct keeper k = {
        .state_dir = state_dir, .level = log_levels[level], .format = log_formats[format]};
    int pair[2];
    int rc = state_dir_path(k.token, state_dir, state_dir_token_name(PRINCIPAL_OBSERVER), why);
    (void)snprintf(k.port, sizeof(k.port), "%u", port);
    if (rc != 0) {
        return rc;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        why_errno(why, "start a page beside this server");
        return TFE_ESYS;
    }
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(pair[0]);
        k.server = pair[1];
        run_keeper(&k);
    }
    (void)close(pair[1]);
    ret->fd = pair[0];
    if (pid < 0) {
        why_errno(why, "start a page beside this server");
        (void)close(pair[0]);
        ret->fd = -1;
        return TFE_ESYS;
    }
    return 0;
}

void web_beside_begin(const struct web_beside *web)
{
    if (web->fd >= 0 && send(web->fd, "", 1, MSG_NOSIGNAL) != 1) {
        log_warn("web_not_started", LOG_S("why", strerror(errno)));
    }
}

void web_beside_end(struct web_beside *web)
{
    if (web->fd >= 0) {
        struct pollfd end = {.fd = web->fd, .events = POLLIN};
        (void)shutdown(web->fd, SHUT_WR);
        (void)poll(&end, 1, WAIT_MS); /* its end of file */
        (void)close(web->fd);
        web->fd = -1;
    }
}
