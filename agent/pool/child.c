/* agent/pool/child.c: implementation of child.h. */
#include "agent/pool/child.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/agent.h"
#include "agent/os/child_process.h"
#include "agent/os/proc.h"
#include "agent/os/trainer_user.h"
#include "agent/output/log_prune.h"
#include "agent/pool/handover.h"
#include "agent/pool/scratch.h"
#include "common/base/backoff.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/cli/stdio.h"
#include "common/text/escape.h"

/* Time for an agent to kill its trainers and send GOODBYE after SIGINT; it needs two seconds
 * (design 9). If the agent is killed afterwards, its guard ends by itself. */
#define AT_ONCE_MS 10000
/* Intervals of the search for processes of a killed agent. */
#define POLL_FIRST_MS 10
#define POLL_LAST_MS 500
#define POLLS_BEFORE_WARNING 16 /* about five seconds */
/* Timeout of the engine's removal of a container. */
#define REMOVE_MS 60000
/* Bytes of a container's stderr that are read at a time. */
#define OUTPUT_BYTES 4096

struct pool_child {
    struct pool_child_options options;
    pid_t pid; /* 0 if reaped */
    /* removes the container, then clears the scratch directory; NULL before */
    struct child_process *cleanup;
    int output_fd; /* read end of the pipe for the child's last message or stderr */
    const char *log_root, *log_job; /* see pool_child_log; NULL to keep the log files */
    bool is_over;                   /* the server has reported the end of the job */
    int lifeline; /* write end whose closing tells a container that this process is gone */
    struct event *died, *stop, *poll_timer;
    struct event *output_event;  /* event on output_fd, for a container only */
    char line[MSG_SENTENCE_MAX]; /* unfinished line of the container's stderr */
    size_t n_line;
    uint32_t poll_ms, n_polls;
    bool term_sent, int_sent; /* SIGTERM and SIGINT have been sent */
    struct pool_end end;
};

/* --- start --- */

static _Noreturn void exec_failed(const struct pool_child_options *options, int output_fd,
                                  const char *what, const char *name)
{
    struct tfe_reason reason;
    reason_errno(&reason, "%s%s %s", options->engine ? "Error: " : "", what, name);
    (void)!write(output_fd, reason.text, strlen(reason.text));
    _exit(POOL_NOT_STARTED);
}

/* Sets up the child and executes the program. stdin is the handover; output_fd becomes an
 * engine's stderr, or is inherited by an agent. */
static _Noreturn void exec_agent(const struct pool_child_options *options, int in, int output_fd,
                                 pid_t parent)
{
    static const int handled[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD};
    sigset_t none;
    /* Root executes nothing in another user's directory: libraries are searched there if
     * LD_LIBRARY_PATH has an empty element. The agent enters the directory itself. */
    const int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!options->engine &&
        (trainer_user_enter(options->directory) || (trainer_user()->name && fchdir(here) != 0))) {
        exec_failed(options, output_fd, "enter", options->directory);
    }
    /* An annotation of an image (run.oci.keep_original_groups) gives the engine's groups to it. */
    if (options->engine && setgroups((size_t)trainer_user()->n_groups, trainer_user()->groups)) {
        exec_failed(options, output_fd, "change the groups of", options->engine);
    }
    setsid(); /* terminal signals such as Ctrl-C go to the pool, which forwards them */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) != 0 || getppid() != parent) {
        _exit(POOL_NOT_STARTED);
    }
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++) {
        (void)signal(handled[i], SIG_DFL);
    }
    sigemptyset(&none);
    const bool is_arranged = dup2(in, STDIN_FILENO) == STDIN_FILENO &&
                             sigprocmask(SIG_SETMASK, &none, NULL) == 0 &&
                             (options->engine ? dup2(output_fd, STDERR_FILENO) == STDERR_FILENO
                                              : fcntl(output_fd, F_SETFD, 0) == 0) &&
                             fcntl(scratch_fd(options->scratch), F_SETFD, 0) == 0;
    if (is_arranged) {
        (void)setrlimit(RLIMIT_CORE, options->cores);
        (void)!chdir(options->engine ? "/" : ".");
        execvpe(options->argv[0], options->argv, options->envp);
    }
    exec_failed(options, output_fd, "start", options->argv[0]);
}

/* Opens the channel for the handover, whose write end must never block. A user with many pipes gets
 * further ones of 8 KiB (/proc/sys/fs/pipe-user-pages-soft), so the channel is a socket, except for
 * an engine's stdin. Returns false with errno set. */
static bool open_channel(const struct pool_child_options *options, int ret[2])
{
    if (options->engine) {
        return pipe2(ret, O_CLOEXEC) == 0;
    }
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret) == 0;
}

/* Returns a copy of the list with two more elements. */
static char **with_two_more(char *const *list, char *one, char *other)
{
    size_t n = 0;
    while (list[n]) {
        n++;
    }
    char **all = must_alloc((n + 3) * sizeof *all);
    memcpy(all, list, n * sizeof *all);
    all[n] = one;
    all[n + 1] = other;
    return all;
}

/* --- end --- */

/* Handles a complete line of stderr. Stores the last line that reports an error of the engine or
 * of the agent in the container. */
static void end_line(struct pool_child *c)
{
    static const char *const fronts[] = {"Error: ", "docker: ", "tfe-agent: "};
    c->line[c->n_line] = '\0';
    c->n_line = 0;
    for (size_t i = 0; i < sizeof fronts / sizeof fronts[0]; i++) {
        if (strncmp(c->line, fronts[i], strlen(fronts[i])) == 0) {
            const char *text = i == 2 ? c->line + strlen(fronts[i]) : c->line;
            (void)escape_text(text, c->end.message, sizeof c->end.message);
        }
    }
}

/* Copies text of the engine or the image to stderr, escaped if that is a terminal. */
static void show(const char *bytes, size_t n)
{
    char shown[ESCAPE_LINE_MAX(OUTPUT_BYTES)];
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    size_t length = 0;
    /* otherwise the data is lost, because the event loop must not block */
    if (poll(&out, 1, 0) <= 0) {
        return;
    }
    if (!isatty(STDERR_FILENO)) {
        (void)!write(STDERR_FILENO, bytes, n);
        return;
    }
    for (const char *end = bytes + n; bytes < end;) {
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
        length += escape_line(bytes, (size_t)((newline ? newline : end) - bytes), shown + length);
        bytes = newline ? newline + 1 : end;
        if (newline) {
            shown[length++] = '\n';
        }
    }
    (void)!write(STDERR_FILENO, shown, length);
}

/* Copies the container's stderr to this process's, and collects its lines. */
static void on_output(evutil_socket_t fd, short what, void *ctx)
{
    struct pool_child *c = ctx;
    char bytes[OUTPUT_BYTES];
    const ssize_t n = read(c->output_fd, bytes, sizeof bytes);
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            end_line(c);
        } else if (c->n_line < sizeof c->line - 1) {
            c->line[c->n_line++] = bytes[i];
        }
    }
    if (n > 0) {
        show(bytes, (size_t)n);
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        event_drop(&c->output_event);
    }
}

static void read_last_message(struct pool_child *c)
{
    if (c->options.engine) {
        for (int i = 0; c->output_event && i < 64; i++) { /* 256 KiB, more than a pipe holds */
            on_output(-1, 0, c);
        }
        end_line(c);
        return;
    }
    ssize_t n = read(c->output_fd, c->end.message, sizeof c->end.message - 1);
    c->end.message[n > 0 ? n : 0] = '\0';
    c->end.message[strcspn(c->end.message, "\n")] = '\0';
}

static bool is_guard(pid_t pid)
{
    char path[40];
    char name[16] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    bool is = file && fgets(name, sizeof name, file) && strcmp(name, "tfe-guard\n") == 0;
    if (file) {
        (void)fclose(file);
    }
    return is;
}

static bool is_left(void *ctx, pid_t pid, pid_t session)
{
    return !is_guard(pid);
}

/* Selects children that a killed agent and guard have left to this process. A living guard kills
 * its own descendants. */
static bool is_orphan(void *ctx, pid_t pid, pid_t session)
{
    return is_left(ctx, pid, session) && proc_parent(pid) == getpid();
}

static void on_cleared(void *ctx, const struct child_process_result *result)
{
    struct pool_child *c = ctx;
    c->options.ended(c->options.ctx, &c->end);
}

static void clear(void *ctx)
{
    const struct pool_child *c = ctx;
    /* the job has finished */
    if (c->log_root && (c->is_over || c->end.code <= AGENT_EXIT_FAILED)) {
        log_prune_job(c->log_root, c->log_job);
    }
    scratch_clear(c->options.scratch);
    _exit(0);
}

/* Clears up in a child process, because there may be many files. */
static void clear_away(struct pool_child *c)
{
    struct tfe_reason reason;
    const struct child_process_config config = {.base = c->options.base,
                                                .run = clear,
                                                .shares_stderr = true,
                                                .ended = on_cleared,
                                                .ctx = c};
    child_process_free(c->cleanup);
    c->cleanup = NULL;
    if (child_process_start(&config, &c->cleanup, &reason)) {
        on_cleared(c, NULL);
    }
}

static void on_poll(evutil_socket_t fd, short what, void *ctx);

static void on_removed(void *ctx, const struct child_process_result *result)
{
    on_poll(-1, 0, ctx);
}

static void exec_removal(void *ctx)
{
    const struct pool_child *c = ctx;
    execlp(c->options.engine, c->options.engine, "rm", "--force", "--volumes", c->options.container,
           (char *)NULL);
    _exit(127);
}

/* Terminates and removes the container, whatever happened to the engine's `run` process. The
 * output, an error if the container no longer exists, is ignored. */
static bool remove_container(struct pool_child *c)
{
    struct tfe_reason reason;
    const struct child_process_config config = {.base = c->options.base,
                                                .run = exec_removal,
                                                .limit_ms = REMOVE_MS,
                                                .ended = on_removed,
                                                .ctx = c};
    return child_process_start(&config, &c->cleanup, &reason) == 0;
}

static void on_poll(evutil_socket_t fd, short what, void *ctx)
{
    struct pool_child *c = ctx;
    size_t n = 0;
    size_t killed;
    pid_t stuck = 0;
    pid_t ignored;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    if (proc_signal_descendants(getpid(), SIGKILL, is_orphan, c, &killed, &stuck) == 0 &&
        proc_signal_descendants(getpid(), 0, is_left, c, &n, &ignored) == 0 && n == 0) {
        clear_away(c);
        return;
    }
    c->n_polls++;
    if (c->n_polls == POLLS_BEFORE_WARNING) {
        log_warn("descendants_left", LOG_S("of", "an agent that has ended"), LOG_U("n", n),
                 LOG_I("stuck", stuck));
        c->options.stuck(c->options.ctx);
    }
    c->poll_ms = backoff_next(c->poll_ms, POLL_FIRST_MS, POLL_LAST_MS);
    timer_after(c->poll_timer, c->poll_ms);
}

static void on_died(evutil_socket_t fd, short what, void *ctx)
{
    struct pool_child *c = ctx;
    int status;
    if (!c->pid || waitpid(c->pid, &status, WNOHANG) != c->pid) {
        return;
    }
    c->end.code =
        WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 128 + (uint32_t)WTERMSIG(status);
    c->pid = 0;
    evtimer_del(c->stop);
    read_last_message(c);
    if (!c->options.engine || !remove_container(c)) {
        on_poll(-1, 0, c);
    }
}

static void on_stop(evutil_socket_t fd, short what, void *ctx)
{
    struct pool_child *c = ctx;
    kill(c->pid, c->int_sent ? SIGKILL : SIGINT);
    if (!c->int_sent) {
        c->int_sent = true;
        timer_after(c->stop, AT_ONCE_MS);
    }
}

void pool_child_stop(struct pool_child *c, uint32_t within_ms)
{
    if (!c->pid) {
        return;
    }
    if (!c->term_sent) {
        kill(c->pid, SIGTERM);
    }
    if (!c->int_sent) {
        timer_after(c->stop, c->term_sent ? 0 : within_ms);
    }
    c->term_sent = true;
}

/* --- lifetime --- */

int pool_child_start(const struct pool_child_options *options, struct pool_child **ret,
                     struct tfe_reason *reason)
{
    struct pool_child *c = must_alloc(sizeof *c);
    int output_fd[2] = {-1, -1};
    int in[2] = {-1, -1};
    char messages_variable[40];
    *c = (struct pool_child){.options = *options,
                             .output_fd = -1,
                             .lifeline = -1,
                             .stop = evtimer_new(options->base, on_stop, c),
                             .poll_timer = evtimer_new(options->base, on_poll, c),
                             .died = evsignal_new(options->base, SIGCHLD, on_died, c)};
    must_succeed(c->stop && c->poll_timer && c->died && event_add(c->died, NULL) == 0);
    const bool is_open = pipe2(output_fd, O_CLOEXEC) == 0 && open_channel(options, in) &&
                         fcntl(output_fd[0], F_SETFL, O_NONBLOCK) == 0 &&
                         handover_write(in[1], options->handover) == 0;
    snprintf(messages_variable, sizeof messages_variable, STDIO_MESSAGES_FD "=%d", output_fd[1]);
    char **envp = with_two_more(options->envp, HANDOVER_VARIABLE "=0",
                                options->engine ? NULL : messages_variable);
    pid_t parent = getpid();
    c->options.envp = envp;
    c->pid = is_open ? proc_fork_blocked() : -1;
    if (c->pid == 0) {
        exec_agent(&c->options, in[0], output_fd[1], parent);
    }
    free(envp);
    c->output_fd = output_fd[0];
    c->lifeline = in[1];
    fd_close(&output_fd[1]);
    fd_close(&in[0]);
    if (c->pid < 0) {
        reason_errno(reason, "start an agent");
        pool_child_free(c);
        return TFE_ESYS;
    }
    if (options->engine) {
        c->output_event =
            event_new(options->base, c->output_fd, EV_READ | EV_PERSIST, on_output, c);
        must_succeed(c->output_event && event_add(c->output_event, NULL) == 0);
    }
    *ret = c;
    return 0;
}

void pool_child_log(struct pool_child *c, const char *root, const char *job)
{
    c->log_root = root;
    c->log_job = job;
}

void pool_child_over(struct pool_child *c)
{
    c->is_over = true;
}

pid_t pool_child_pid(const struct pool_child *c)
{
    return c->pid;
}

bool pool_child_is_stuck(const struct pool_child *c)
{
    return !c->pid && c->n_polls >= POLLS_BEFORE_WARNING;
}

void pool_child_free(struct pool_child *c)
{
    if (c) {
        child_process_free(c->cleanup);
        event_drop(&c->stop);
        event_drop(&c->poll_timer);
        event_drop(&c->died);
        event_drop(&c->output_event);
        fd_close(&c->lifeline);
        fd_close(&c->output_fd);
        free(c);
    }
}
