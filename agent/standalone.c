/* agent/standalone.c: implementation of standalone.h. */
#include "agent/standalone.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/guard/guard.h"
#include "agent/os/private_dir.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/find_program.h"
#include "common/cli/log.h"
#include "common/credentials/state_dir.h"

#define PROGRAM "tfe-rdzv"
/* Exit status of a child whose program was not found. */
#define NOT_FOUND 127

/* Start timeout: the server creates keys and a database, which takes seconds on a slow disk. */
#define START_MS 10000
/* Stop timeout; the server promises 2 s (design 9). */
#define STOP_MS 3000
#define STOP_POLL_US 2000
/* Delays before a restart. */
#define RESTART_FIRST_MS 50
#define RESTART_LAST_MS 5000

struct standalone {
    const struct agent_settings *settings;
    struct private_dir dir;
    char program[PATH_MAX];
    char state_dir[PRIVATE_DIR_MAX + sizeof PRIVATE_DIR_SERVER + 1];
    char token_file[PATH_MAX];
    char endpoint[TFE_HOST_MAX + 16]; /* set once the server has listened */
    pid_t pid;                        /* 0 if no server runs */
    int stdout_fd; /* its stdout, whose EOF means that it has ended; -1 if closed */
    struct event *readable;
    struct event *restart_timer;
    uint32_t restart_ms;
};

/* --- option check --- */

static bool is_on_command_line(const char *value, const char *variable)
{
    return value && value != getenv(variable);
}

int standalone_check(const struct agent_settings *s, struct tfe_reason *reason)
{
    const struct {
        const char *option;
        bool is_given;
    } others[] = {
        {"rdzv-endpoint", is_on_command_line(s->endpoint, "TFE_RDZV_ENDPOINT")},
        {"token", is_on_command_line(s->token, "TFE_TOKEN")},
        {"token-file", is_on_command_line(s->token_file, "TFE_TOKEN_FILE")},
        {"state-dir", is_on_command_line(s->state_dir, "TFE_STATE_DIR")},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i].is_given) {
            reason_set(reason,
                       "--standalone starts a private server and cannot be combined with --%s",
                       others[i].option);
            return TFE_EINVAL;
        }
    }
    if (s->agent.spec.max_nodes > 1) {
        reason_set(reason,
                   "--standalone uses this machine only and cannot be combined with --nnodes=%u:%u",
                   s->agent.spec.min_nodes, s->agent.spec.max_nodes);
        return TFE_EINVAL;
    }
    if (s->agent.spec.chief || s->agent.spec.evaluator || s->agent.spec.n_ps > 0) {
        reason_set(reason, "--standalone uses one node only and cannot be combined with --ps, "
                           "--chief or --evaluator");
        return TFE_EINVAL;
    }
    return 0;
}

/* --- process --- */

/* Returns the server's log level: only warnings, because users read the agent's log. */
static const char *level_of(const struct agent_settings *settings)
{
    return log_levels[settings->log_level == LOG_INFO_ ? LOG_WARN_ : settings->log_level];
}

static _Noreturn void child_run(const struct standalone *s, int out, pid_t agent)
{
    const char *port = strrchr(s->endpoint, ':');
    const char *argv[] = {s->program,
                          "--bind",
                          "127.0.0.1",
                          "--port",
                          port ? port + 1 : "0",
                          "--state-dir",
                          s->state_dir,
                          "--log-level",
                          level_of(s->settings),
                          "--log-format",
                          log_formats[s->settings->log_format],
                          geteuid() == 0 ? "--user" : NULL, /* the directory belongs to root */
                          "root",
                          NULL};
    char *copy[sizeof argv / sizeof argv[0]];
    memcpy(copy, argv, sizeof copy);
    /* A new session, so that Ctrl-C in the terminal does not reach the server before the
     * agent has sent GOODBYE. */
    setsid();
    /* SIGKILL, because the guard does not wait before it removes the directory. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != agent) {
        _exit(1);
    }
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t none;
    sigemptyset(&none);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        sigprocmask(SIG_SETMASK, &none, NULL) != 0) {
        _exit(1);
    }
    execvp(copy[0], copy);
    _exit(NOT_FOUND);
}

/* Starts the server. Returns TFE_ESYS with errno set. */
static int process_start(struct standalone *s)
{
    int out[2];
    if (pipe2(out, O_CLOEXEC | O_NONBLOCK) != 0) {
        return TFE_ESYS;
    }
    pid_t agent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        child_run(s, out[1], agent);
    }
    fd_close(&out[1]);
    if (pid < 0) {
        fd_close(&out[0]);
        return TFE_ESYS;
    }
    s->pid = pid;
    s->stdout_fd = out[0];
    return 0;
}

static void process_forget(struct standalone *s)
{
    fd_close(&s->stdout_fd);
    s->pid = 0;
}

/* Parses the first line of output: "listening on 127.0.0.1:PORT". */
static bool parse_endpoint(struct standalone *s, const char *text)
{
    char end;
    _Static_assert(sizeof s->endpoint > TFE_HOST_MAX, "as long as the format says");
    return sscanf(text, "listening on %253[^\n]%c", s->endpoint, &end) == 2;
}

/* Explains why the server ended before it listened. The server itself has printed a reason,
 * unless the program does not exist. */
static void set_end_reason(struct standalone *s, struct tfe_reason *reason)
{
    int status = 0;
    (void)waitpid(s->pid, &status, 0);
    process_forget(s);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND) {
        reason_set(reason,
                   "--standalone: " PROGRAM " was not found beside this program or in PATH");
    } else {
        reason_set(reason, "--standalone: %s exited before it listened", s->program);
    }
}

int standalone_start(struct standalone *s, struct tfe_reason *reason)
{
    if (process_start(s)) {
        reason_errno(reason, "--standalone: start %s", s->program);
        return TFE_ESYS;
    }
    char text[512] = "";
    size_t held = 0;
    int64_t end = clock_mono().ms + START_MS;
    while (!parse_endpoint(s, text)) {
        int64_t left = end - clock_mono().ms;
        struct pollfd ready = {.fd = s->stdout_fd, .events = POLLIN};
        ssize_t n = -1;
        errno = held < sizeof text - 1 ? EAGAIN : EMSGSIZE;
        if (left > 0 && held < sizeof text - 1 && poll(&ready, 1, (int)left) > 0) {
            n = read(s->stdout_fd, text + held, sizeof text - 1 - held);
        }
        if (n == 0) {
            set_end_reason(s, reason);
            return TFE_ESYS;
        }
        if (n < 0 && (left <= 0 || (errno != EINTR && errno != EAGAIN))) {
            reason_set(reason, "--standalone: %s did not print the address at which it listens",
                       s->program);
            return TFE_ESYS;
        }
        held += n > 0 ? (size_t)n : 0;
        text[held] = '\0';
    }
    log_info("private_server", LOG_S("endpoint", s->endpoint), LOG_I("pid", s->pid),
             LOG_S("state_dir", s->state_dir));
    return 0;
}

int standalone_find(const struct standalone *s, struct join_info *ret, struct tfe_reason *reason)
{
    struct join_config config = {.endpoint = s->endpoint,
                                 .token_file = s->token_file,
                                 .state_dir = s->state_dir,
                                 .roles = {PRINCIPAL_AGENT},
                                 .n_roles = 1};
    return join_find(&config, ret, reason);
}

/* --- restart --- */

static void server_watch(struct standalone *s);

static void restart_later(struct standalone *s)
{
    timer_after(s->restart_timer, s->restart_ms);
    s->restart_ms = backoff_next(s->restart_ms, RESTART_FIRST_MS, RESTART_LAST_MS);
}

static void on_restart_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct standalone *s = ctx;
    if (process_start(s)) {
        log_warn("server_not_started", LOG_S("reason", strerror(errno)));
        restart_later(s);
    } else {
        server_watch(s);
    }
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    struct standalone *s = ctx;
    char text[512];
    ssize_t n = read(fd, text, sizeof text);
    if (n > 0) {
        s->restart_ms = RESTART_FIRST_MS; /* the server listens */
        return;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    /* The server has ended or is about to. After the loss of the guard it may have
     * been reaped already. */
    int status = 0;
    pid_t reaped = waitpid(s->pid, &status, WNOHANG);
    if (reaped == 0) {
        kill(s->pid, SIGKILL);
        reaped = waitpid(s->pid, &status, 0);
    }
    bool is_known = reaped == s->pid;
    log_warn("server_died", LOG_I("pid", s->pid),
             LOG_I("signal", is_known && WIFSIGNALED(status) ? WTERMSIG(status) : 0),
             LOG_I("status", is_known && WIFEXITED(status) ? WEXITSTATUS(status) : 0));
    event_drop(&s->readable);
    process_forget(s);
    restart_later(s);
}

static void server_watch(struct standalone *s)
{
    s->readable = event_new(event_get_base(s->restart_timer), s->stdout_fd, EV_READ | EV_PERSIST,
                            on_readable, s);
    must_succeed(s->readable && event_add(s->readable, NULL) == 0);
}

void standalone_watch(struct standalone *s, struct event_base *base)
{
    s->restart_ms = RESTART_FIRST_MS;
    s->restart_timer = evtimer_new(base, on_restart_timer, s);
    must_succeed(s->restart_timer);
    server_watch(s);
}

void standalone_unwatch(struct standalone *s)
{
    if (!s) {
        return;
    }
    event_drop(&s->readable);
    event_drop(&s->restart_timer);
}

/* --- lifetime --- */

int standalone_new(const struct agent_settings *settings, struct standalone **ret,
                   struct tfe_reason *reason)
{
    struct standalone *s = must_alloc(sizeof *s);
    s->settings = settings;
    s->stdout_fd = -1;
    int rc = private_dir_new(NULL, &s->dir, reason);
    if (rc) {
        free(s);
        return rc;
    }
    find_program(PROGRAM, s->program);
    snprintf(s->state_dir, sizeof s->state_dir, "%s/%s", s->dir.path, PRIVATE_DIR_SERVER);
    snprintf(s->token_file, sizeof s->token_file, "%s/%s", s->state_dir,
             state_dir_token_name(PRINCIPAL_AGENT));
    guard_remove_at_end(s->dir.path);
    *ret = s;
    return 0;
}

static void process_end(struct standalone *s)
{
    kill(s->pid, SIGTERM);
    for (int64_t end = clock_mono().ms + STOP_MS; clock_mono().ms < end;) {
        pid_t pid = waitpid(s->pid, NULL, WNOHANG);
        if (pid == s->pid || (pid < 0 && errno == ECHILD)) {
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = STOP_POLL_US * 1000}, NULL);
    }
    kill(s->pid, SIGKILL);
    (void)waitpid(s->pid, NULL, 0);
}

void standalone_free(struct standalone *s)
{
    if (!s) {
        return;
    }
    standalone_unwatch(s);
    if (s->pid) {
        process_end(s);
    }
    process_forget(s);
    private_dir_done(&s->dir);
    free(s);
}
