/* agent/os/child_process.c: implementation of child_process.h. */
#include "agent/os/child_process.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/proc.h"
#include "agent/os/trainer_user.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/text/escape.h"

/* Maximum length of a line; the rest of a longer one is discarded. */
#define LINE_MAX_BYTES 512
/* Maximum number of reads per iteration of the event loop, so that endless output delays nothing.
 */
#define READS_PER_ITERATION 16

extern char **environ;

/* Directory in which commands run; -1 for the working directory. */
static int home = -1;

struct child_process {
    struct child_process_config config;
    pid_t group;            /* process id of the child, and id of its session and process group */
    bool is_reaped;         /* the child itself has been reaped */
    bool has_orphans;       /* other children of this process exist in the group */
    int pid_fd, out;        /* pidfd of the child; read end of its output */
    struct event *ended;    /* event on pid_fd, with the time limit */
    struct event *readable; /* event on out */
    char line[LINE_MAX_BYTES + 1], last[LINE_MAX_BYTES + 1];
    size_t n_line;
};

void child_process_stay(void)
{
    home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

char **child_process_env(const struct option_table *options)
{
    size_t n = 0;
    size_t n_kept = 0;
    while (environ[n]) {
        n++;
    }
    char **env = must_alloc((n + 1) * sizeof *env);
    for (size_t i = 0; i < n; i++) {
        char name[64];
        const size_t length = strcspn(environ[i], "=");
        snprintf(name, sizeof name, "%.*s", (int)length, environ[i]);
        if (strncmp(name, "TFE_", 4) != 0 && !options_is_variable(options, name)) {
            env[n_kept++] = environ[i];
        }
    }
    return env;
}

/* --- the process ------------------------------------------------------------------------------ */

static _Noreturn void become(const struct child_process_config *config, int out, pid_t parent)
{
    const char *const argv[] = {"sh", "-c", config->command, NULL};
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;
    sigemptyset(&none);
    (void)setsid();
    if (null < 0 || dup2(null, 0) != 0 || dup2(out, 1) != 1 ||
        (!config->shares_stderr && dup2(config->ignores_stderr ? null : out, 2) != 2)) {
        _exit(127);
    }
    if (config->command && home >= 0 && fchdir(home) != 0) {
        _exit(127);
    }
    if ((config->directory && trainer_user_enter(config->directory) != 0) ||
        (config->as_trainer && trainer_user_become() != 0)) {
        (void)dprintf(1, "enter %s: %s\n", config->directory ? config->directory : ".",
                      strerror(errno));
        _exit(126);
    }
    /* A change of the user clears it. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(127);
    }
    for (int signo = 1; signo < NSIG; signo++) {
        (void)signal(signo, SIG_DFL);
    }
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (config->run) {
        config->run(config->ctx);
    }
    /* Libraries may have opened descriptors without close-on-exec. */
    (void)syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
    execve("/bin/sh", (char *const *)(uintptr_t)argv, config->env);
    _exit(127);
}

static bool has_prefix(const struct child_process *c, const char *line)
{
    const char *prefix = c->config.line_prefix;
    return prefix && strncmp(line, prefix, strlen(prefix)) == 0;
}

static void end_line(struct child_process *c)
{
    c->line[c->n_line] = '\0';
    if (c->line[strspn(c->line, " \t\r")] != '\0' &&
        (has_prefix(c, c->line) || !has_prefix(c, c->last))) {
        memcpy(c->last, c->line, c->n_line + 1);
    }
    c->n_line = 0;
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    struct child_process *c = ctx;
    char bytes[4096];
    for (int i = 0; i < READS_PER_ITERATION; i++) {
        const ssize_t n = read(c->out, bytes, sizeof bytes);
        if (n <= 0) {
            if (n == 0) {
                event_drop(&c->readable);
            }
            return;
        }
        for (ssize_t at = 0; at < n; at++) {
            if (bytes[at] == '\n') {
                end_line(c);
            } else if (c->n_line < LINE_MAX_BYTES) {
                c->line[c->n_line++] = bytes[at];
            }
        }
    }
}

void child_process_kill(struct child_process *c)
{
    if (!c->is_reaped || c->has_orphans) { /* so the id of the group is not reused */
        (void)kill(-c->group, SIGKILL);
    }
    if (!c->is_reaped) {
        (void)kill(c->group, SIGKILL);
    }
}

/* Kills the process group and reaps what has ended. Returns the wait status of the child; -1 if
 * it has not ended yet, or if another part of this process reaped it. */
static int stop(struct child_process *c)
{
    int status = -1;
    pid_t reaped = 0;
    child_process_kill(c);
    if (!c->is_reaped) {
        reaped = waitpid(c->group, &status, WNOHANG);
        c->is_reaped = reaped != 0;
    }
    const bool has_status = reaped == c->group;
    /* Orphans of the group are children of this process while it is their subreaper. */
    while ((reaped = waitpid(-c->group, NULL, WNOHANG)) > 0) {
    }
    c->has_orphans = reaped == 0;
    event_drop(&c->ended);
    return has_status ? status : -1;
}

static void on_ended(evutil_socket_t fd, short what, void *ctx)
{
    struct child_process *c = ctx;
    struct child_process_result result = {.is_late = (what & EV_TIMEOUT) != 0};
    if (c->readable) {
        on_readable(c->out, EV_READ, c);
    }
    const int status = stop(c);
    end_line(c);
    result.status = result.is_late ? -1 : status;
    (void)escape_text(c->last, result.line, sizeof result.line);
    c->config.ended(c->config.ctx, &result);
}

/* --- start and end ---------------------------------------------------------------------------- */

/* Returns false while a killed process of the child still exists: a driver or a network file system
 * may block its end. */
static bool is_gone(struct child_process *c)
{
    if (!c->is_reaped || c->has_orphans) {
        (void)stop(c);
    }
    return c->is_reaped && !c->has_orphans;
}

int child_process_start(const struct child_process_config *config, struct child_process **ret,
                        struct tfe_reason *reason)
{
    int ends[2];
    if (*ret && !is_gone(*ret)) {
        reason_set(reason, "processes of its last run still exist: a driver or file system blocks "
                           "their end");
        return TFE_ESYS;
    }
    child_process_free(*ret);
    *ret = NULL;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        reason_errno(reason, "pipe");
        return TFE_ESYS;
    }
    struct child_process *c = must_alloc(sizeof *c);
    *c = (struct child_process){.config = *config, .is_reaped = true, .pid_fd = -1, .out = ends[0]};
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK); /* the child's end stays blocking */
    const pid_t parent = getpid();
    const pid_t pid = proc_fork_blocked();
    if (pid == 0) {
        become(&c->config, ends[1], parent);
    }
    if (pid < 0) {
        reason_errno(reason, "start a process");
    }
    fd_close(&ends[1]);
    c->is_reaped = pid < 0; /* there is no process */
    if (pid > 0) {
        c->group = pid;
        c->pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (c->pid_fd < 0) {
            reason_errno(reason, "pidfd_open");
        }
    }
    if (c->pid_fd < 0) {
        child_process_free(c);
        return TFE_ESYS;
    }
    c->ended = event_new(config->base, c->pid_fd, EV_READ, on_ended, c);
    c->readable = event_new(config->base, c->out, EV_READ | EV_PERSIST, on_readable, c);
    must_succeed(c->ended && c->readable && event_add(c->readable, NULL) == 0);
    if (config->limit_ms) {
        timer_after(c->ended, config->limit_ms);
    } else {
        must_succeed(event_add(c->ended, NULL) == 0);
    }
    *ret = c;
    return 0;
}

void child_process_free(struct child_process *c)
{
    if (c) {
        (void)is_gone(c);
        event_drop(&c->readable);
        event_drop(&c->ended);
        fd_close(&c->pid_fd);
        fd_close(&c->out);
        free(c);
    }
}

bool child_process_succeeded(const struct child_process_result *result)
{
    return result->status >= 0 && WIFEXITED(result->status) && WEXITSTATUS(result->status) == 0;
}
