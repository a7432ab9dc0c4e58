/* agent/pool/await.c: see await.h. */
#include "agent/pool/await.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/guard/guard_block.h"
#include "agent/guard/guard_death.h"
#include "agent/reach/proc.h"
#include "agent/reach/trainer_user.h"
#include "common/net/fd.h"
#include "common/net/heap.h"
#include "common/net/stdio.h"
#include "common/net/timer.h"

extern char **environ;

struct wait {
    struct event_base *base;
    struct standbys *standbys;
    int fd;
    int kept; /* see awaited; -1 */
    bool has_come;
    struct guard_program job;
};

static void say_standby(struct wait *w, const char *tensorflow)
{
    struct await_said said = {.standby = standbys_state(w->standbys)};
    (void)id_set(&said.tensorflow, tensorflow ? tensorflow : "");
    (void)send(w->fd, &said, sizeof said, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void on_told(void *ctx, uint32_t local, uint32_t pid, const char *tensorflow)
{
    say_standby(ctx, tensorflow);
}

static void on_settled(void *ctx)
{
    say_standby(ctx, NULL);
}

static void on_guard_event(void *ctx, const struct guard_event *event)
{
    struct wait *w = ctx;
    if (event->word == GUARD_LOST) {
        event_base_loopbreak(w->base);
    } else {
        standbys_event(w->standbys, event);
    }
}

/* One packet: the block, and what keeps the job's directory, which is this process's from now on.
 */
static void on_job(evutil_socket_t fd, short what, void *ctx)
{
    struct wait *w = ctx;
    struct guard_words words;
    int fds[GUARD_FDS];
    size_t n_fds;
    ssize_t n = guard_receive(fd, &words, sizeof words, fds, &n_fds);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    w->has_come = n == (ssize_t)sizeof words && n_fds == GUARD_FDS &&
                  guard_block_open(&words, fds[GUARD_FD_BLOCK], &w->job);
    for (size_t i = 0; i < n_fds; i++) {
        if (i == GUARD_FD_STDOUT) {
            w->kept = fds[i];
        } else {
            close(fds[i]);
        }
    }
    event_base_loopbreak(w->base);
}

/* As if the agent had been started with them. */
static int become(const struct wait *w, struct awaited *ret, struct tfe_why *why)
{
    const char *variable = getenv(STDIO_WORDS);
    char *words = variable ? strdup(variable) : NULL;
    part_must(words || !variable);
    environ = w->job.envp;
    if (words && setenv(STDIO_WORDS, words, 1) != 0) {
        why_errno(why, "setenv");
        free(words);
        return TFE_ESYS;
    }
    free(words);
    if (!w->job.directory || trainer_user_enter(w->job.directory)) {
        why_errno(why, "enter %s", w->job.directory ? w->job.directory : "no directory");
        return TFE_ESYS;
    }
    ret->argv = w->job.argv;
    for (ret->argc = 0; ret->argv[ret->argc];) {
        ret->argc++;
    }
    ret->directory = w->job.directory;
    return 0;
}

static int prepare(const struct agent_settings *settings, struct awaited *ret, struct tfe_why *why)
{
    struct guard_death death;
    if (sodium_init() < 0) {
        why_set(why, "libsodium cannot be used");
        return TFE_ESYS;
    }
    int rc = settings->trainer_user ? trainer_user_set(settings->trainer_user, why) : 0;
    rc = rc ? rc : proc_become_subreaper(why);
    if (rc) {
        return rc;
    }
    guard_death_make(&death, ""); /* its job comes later */
    rc = guard_fork(&ret->guard, &death, why);
    if (rc == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0}); /* the guard was forked before */
        signal(SIGPIPE, SIG_IGN);
    }
    return rc;
}

void awaited_let_go(struct awaited *a)
{
    if (!a->is_taken) {
        fd_drop(&a->kept);
        trainers_ready_free(&a->ready);
        event_base_free(a->base);
    }
}

int await_job(const struct agent_settings *settings, struct awaited *ret, struct tfe_why *why)
{
    struct wait w = {.fd = (int)settings->await_fd, .kept = -1};
    struct command python;
    why->text[0] = '\0';
    (void)fcntl(w.fd, F_SETFD, FD_CLOEXEC);
    int rc = command_new_python(settings->python, &python, why);
    if (rc) {
        return rc;
    }
    rc = prepare(settings, ret, why);
    if (rc) {
        command_done(&python);
        return rc;
    }
    w.base = event_base_new();
    part_must(w.base);
    ret->is_taken = false;
    struct event *job = event_new(w.base, w.fd, EV_READ | EV_PERSIST, on_job, &w);
    part_must(job && event_add(job, NULL) == 0);
    ret->base = w.base;
    ret->ready.guard = guard_link_new(w.base, &ret->guard, on_guard_event, &w);
    w.standbys = standbys_new(&(struct standbys_wish){.base = w.base,
                                                      .command = &python,
                                                      .settings = &settings->standby,
                                                      .nproc = 1,
                                                      .told = on_told,
                                                      .settled = on_settled,
                                                      .ctx = &w});
    ret->ready.standbys = w.standbys;
    standbys_guard(w.standbys, ret->ready.guard);
    standbys_begin(w.standbys);
    event_base_dispatch(w.base);
    event_drop(&job);
    fd_drop(&w.fd); /* its peer sees that the job has come */
    ret->kept = w.kept;
    rc = w.has_come ? become(&w, ret, why) : TFE_ESYS;
    if (rc) {
        awaited_let_go(ret);
    }
    command_done(&python); /* nothing begins until the script's takes its place */
    return rc;
}
