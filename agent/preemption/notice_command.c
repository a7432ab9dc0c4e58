/* agent/preemption/notice_command.c: runs a user's command every few seconds. Exit status 0 is
 * a notice; its output may be the number of seconds left.
 *
 * The command runs in its own process group, which is killed when the command ends or
 * exceeds its timeout. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/shell_command.h"
#include "agent/preemption/source.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"

/* Fits a number of seconds and some blanks; further output is discarded. */
#define SAYS_MAX 64

struct command_source {
    struct event *ended; /* event on pid_fd */
    char **env;
    pid_t pid; /* 0 if no command runs */
    int pid_fd;
    int out;             /* read end of the command's stdout */
    struct event *heard; /* event on out */
    char says[SAYS_MAX + 1];
    size_t says_n;
    bool is_late;
    pid_t group;     /* process group of the last command */
    bool has_strays; /* processes of the last group may be unreaped */
};

/* --- end of a run --- */

static void reap_strays(struct command_source *own)
{
    pid_t pid = own->has_strays ? waitpid(-own->group, NULL, WNOHANG) : -1;
    while (pid > 0) {
        pid = waitpid(-own->group, NULL, WNOHANG);
    }
    own->has_strays = pid == 0;
}

/* Kills the command and its group. Returns the wait status, or -1 if it is not available yet or
 * another caller has reaped the process. */
static int end(struct command_source *own)
{
    int status = -1;
    kill(-own->pid, SIGKILL); /* the group exists at least until its leader is reaped */
    kill(own->pid, SIGKILL);
    if (waitpid(own->pid, &status, WNOHANG) != own->pid) {
        status = -1;
    }
    own->group = own->pid;
    own->has_strays = true;
    own->pid = 0;
    event_drop(&own->ended);
    event_drop(&own->heard);
    fd_close(&own->pid_fd);
    fd_close(&own->out);
    reap_strays(own);
    return status;
}

static void judge(struct source *s, int status)
{
    struct tfe_mono deadline;
    char reason[64];
    const struct command_source *own = s->own;
    if (own->is_late) {
        source_failed(s, s->options->choice->command, "it did not end in time and was killed");
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127) {
        snprintf(reason, sizeof reason,
                 WIFEXITED(status) ? "exit %d: it cannot be run" : "signal %d",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        source_failed(s, s->options->choice->command, reason);
    } else if (WEXITSTATUS(status) != 0) {
        source_works(s);
        source_withdraw(s, NOTICE_PREEMPT);
    } else {
        const bool is_number = source_seconds(own->says, &deadline);
        source_works(s);
        /* The first number sets the deadline; later ones may count down. */
        source_set(s, NOTICE_PREEMPT, "", is_number ? deadline : source_grace(s), !is_number);
    }
}

/* Stores the beginning of the output and discards the rest, so that the command never blocks. */
static void hear(evutil_socket_t fd, short what, void *ctx)
{
    struct command_source *own = ctx;
    char rest[4096];
    for (int i = 0; i < 16; i++) { /* limits the time in the event loop */
        const size_t room = SAYS_MAX - own->says_n;
        const ssize_t n = room > 0 ? read(own->out, own->says + own->says_n, room)
                                   : read(own->out, rest, sizeof rest);
        if (n <= 0) {
            if (n == 0) {
                event_del(own->heard);
            }
            return;
        }
        own->says_n += room > 0 ? (size_t)n : 0;
        own->says[own->says_n] = '\0';
    }
}

static void finish(struct source *s)
{
    struct command_source *own = s->own;
    hear(own->out, 0, own);
    int status = end(own);
    if (status >= 0 || own->is_late) {
        judge(s, status);
    }
    source_poll_after(&s->poll, s->options->intervals->command_ms);
}

static void on_ended(evutil_socket_t fd, short what, void *ctx)
{
    struct source *s = ctx;
    struct command_source *own = s->own;
    own->is_late = (what & EV_TIMEOUT) != 0;
    finish(s);
}

/* --- start of a run --- */

static void become_command(const struct source *s, int out)
{
    const struct command_source *own = s->own;
    const char *const argv[] = {"sh", "-c", s->options->choice->command, NULL};
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Libraries may have opened descriptors without close-on-exec. */
    syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
    if (null >= 0 && dup2(null, 0) == 0 && dup2(out, 1) == 1 && dup2(null, 2) == 2) {
        execve("/bin/sh", (char *const *)(uintptr_t)argv, own->env);
    }
    _exit(127);
}

static bool run(struct source *s)
{
    struct command_source *own = s->own;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) {
        return false;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* the command's end stays blocking */
    own->says_n = 0;
    own->says[0] = '\0';
    own->pid = fork();
    if (own->pid == 0) {
        become_command(s, ends[1]);
    }
    close(ends[1]);
    own->out = ends[0];
    if (own->pid < 0) {
        own->pid = 0;
        close(ends[0]);
        return false;
    }
    setpgid(own->pid, own->pid); /* called in parent and child, because either may run first */
    own->pid_fd = (int)syscall(SYS_pidfd_open, own->pid, 0);
    own->ended = own->pid_fd < 0 ? NULL : event_new(s->base, own->pid_fd, EV_READ, on_ended, s);
    own->heard = event_new(s->base, own->out, EV_READ | EV_PERSIST, hear, own);
    if (!own->ended || !own->heard ||
        timer_after(own->ended, s->options->intervals->command_within_ms) ||
        event_add(own->heard, NULL)) {
        end(own);
        return false;
    }
    return true;
}

static void turn(struct source_poll *poll)
{
    struct source *s = poll->source;
    struct command_source *own = s->own;
    reap_strays(own);
    if (own->has_strays) {
        kill(-own->group, SIGKILL);
        source_failed(s, s->options->choice->command, "what it started before cannot be ended yet");
    } else if (run(s)) {
        return;
    } else {
        source_failed(s, s->options->choice->command, strerror(errno));
    }
    source_poll_after(poll, s->options->intervals->command_ms);
}

static void start(struct source *s)
{
    ((struct command_source *)s->own)->env = shell_command_env(s->options->options);
}

static void stop(struct source *s)
{
    struct command_source *own = s->own;
    if (own->pid > 0) {
        end(own);
    }
    free(own->env);
    own->env = NULL;
}

const struct source_ops source_command = {.name = "command",
                                          .size = sizeof(struct command_source),
                                          .turn = turn,
                                          .start = start,
                                          .stop = stop};
