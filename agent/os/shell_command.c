/* agent/os/shell_command.c: runs a user's command with sh, with a time limit. */
#include "agent/os/shell_command.h"

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
/* Maximum number of reads per turn of the event loop, so that endless output delays nothing. */
#define READS_PER_TURN 16

extern char **environ;

struct shell_command {
    struct shell_command_config config;
    pid_t group;            /* process id of the command, and id of its process group */
    bool is_reaped;         /* the command itself has been reaped */
    bool has_orphans;       /* other children of this process exist in the group */
    int pid_fd, out;        /* pidfd of the command; read end of its output */
    struct event *ended;    /* event on pid_fd, with the time limit */
    struct event *readable; /* event on out */
    char line[LINE_MAX_BYTES + 1], last[LINE_MAX_BYTES + 1];
    size_t n_line;
};

char **shell_command_env(const struct option_table *options)
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

static _Noreturn void become(const struct shell_command_config *config, int out)
{
    const char *const argv[] = {"sh", "-c", config->command, NULL};
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;
    sigemptyset(&none);
    (void)setpgid(0, 0);
    if (config->as_trainer && trainer_user_become() != 0) {
        _exit(126);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of the user would clear it */
    for (int signo = 1; signo < NSIG; signo++) {
        (void)signal(signo, SIG_DFL);
    }
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* Libraries may have opened descriptors without close-on-exec. */
    (void)syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
    if (null >= 0 && dup2(null, 0) == 0 && dup2(out, 1) == 1 &&
        dup2(config->ignores_stderr ? null : out, 2) == 2) {
        execve("/bin/sh", (char *const *)(uintptr_t)argv, config->env);
    }
    _exit(127);
}

static void end_line(struct shell_command *c)
{
    c->line[c->n_line] = '\0';
    if (c->line[strspn(c->line, " \t\r")] != '\0') {
        memcpy(c->last, c->line, c->n_line + 1);
    }
    c->n_line = 0;
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    struct shell_command *c = ctx;
    char bytes[4096];
    for (int i = 0; i < READS_PER_TURN; i++) {
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

/* Kills the process group and reaps what has ended. Returns the wait status of the command; -1 if
 * it has not ended yet, or if another part of this process reaped it. */
static int stop(struct shell_command *c)
{
    int status = -1;
    pid_t reaped = 0;
    if (!c->is_reaped || c->has_orphans) { /* so the id of the group is not reused */
        (void)kill(-c->group, SIGKILL);
    }
    if (!c->is_reaped) {
        (void)kill(c->group, SIGKILL);
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
    struct shell_command *c = ctx;
    struct shell_command_result result = {.is_late = (what & EV_TIMEOUT) != 0};
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

int shell_command_start(const struct shell_command_config *config, struct shell_command **ret,
                        struct tfe_reason *reason)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        reason_errno(reason, "pipe");
        return TFE_ESYS;
    }
    struct shell_command *c = must_alloc(sizeof *c);
    *c = (struct shell_command){.config = *config, .is_reaped = true, .pid_fd = -1, .out = ends[0]};
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK); /* the command's end stays blocking */
    const pid_t pid = proc_fork_blocked();
    if (pid == 0) {
        become(&c->config, ends[1]);
    }
    if (pid < 0) {
        reason_errno(reason, "start a process");
    }
    fd_close(&ends[1]);
    c->is_reaped = pid < 0; /* there is no process */
    if (pid > 0) {
        c->group = pid;
        (void)setpgid(pid, pid); /* called in parent and child, because either may run first */
        c->pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (c->pid_fd < 0) {
            reason_errno(reason, "pidfd_open");
        }
    }
    if (c->pid_fd < 0) {
        shell_command_free(c);
        return TFE_ESYS;
    }
    c->ended = event_new(config->base, c->pid_fd, EV_READ, on_ended, c);
    c->readable = event_new(config->base, c->out, EV_READ | EV_PERSIST, on_readable, c);
    must_succeed(c->ended && c->readable && event_add(c->readable, NULL) == 0);
    timer_after(c->ended, config->limit_ms);
    *ret = c;
    return 0;
}

bool shell_command_is_gone(struct shell_command *c)
{
    if (!c->is_reaped || c->has_orphans) {
        (void)stop(c);
    }
    return c->is_reaped && !c->has_orphans;
}

void shell_command_free(struct shell_command *c)
{
    if (c) {
        (void)shell_command_is_gone(c);
        event_drop(&c->readable);
        event_drop(&c->ended);
        fd_close(&c->pid_fd);
        fd_close(&c->out);
        free(c);
    }
}

bool shell_command_succeeded(const struct shell_command_result *result)
{
    return result->status >= 0 && WIFEXITED(result->status) && WEXITSTATUS(result->status) == 0;
}
