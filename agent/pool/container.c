/* agent/pool/container.c: see container.h. */
#include "agent/pool/container.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/reach/proc.h"
#include "common/net/fd.h"
#include "common/net/heap.h"
#include "common/net/timer.h"

struct container {
    struct container_wish wish;
    pid_t pid;
    int lifeline;       /* -1: it was stopped */
    int words;          /* -1: all has been said */
    struct event *hear; /* NULL: likewise */
    struct event *died;
    bool is_up;
    struct tfe_why why; /* what was said of a failure */
    size_t n;
    char says[ENGINE_SAYS_MAX + 1];
};

/* --- what it says ----------------------------------------------------------------------------- */

static void tell_ready(struct container *c)
{
    const char *at = c->says + 1;
    const char *last = c->says + c->n;
    size_t n = 0;
    struct container_facts facts = {.pid = (pid_t)strtol(at, NULL, 10)};
    const char **envp = part_new((c->n + 1) * sizeof *envp);
    at += strlen(at) + 1;
    facts.directory = at < last ? at : "";
    for (at += strlen(facts.directory) + 1; at < last; at += strlen(at) + 1) {
        envp[n++] = at;
    }
    facts.envp = envp;
    c->is_up = true;
    c->wish.ready(c->wish.ctx, &facts);
    free(envp);
}

static void take_words(struct container *c)
{
    c->says[c->n] = '\0';
    event_drop(&c->hear);
    fd_drop(&c->words);
    if (c->says[0] == ENGINE_FAILED) {
        why_set(&c->why, "%s", c->says + 1);
    } else if (c->says[0] == ENGINE_UP && c->lifeline >= 0) {
        tell_ready(c);
    }
}

/* False: more is to come. */
static bool read_words(struct container *c)
{
    ssize_t got = 1;
    while (got > 0) {
        got = read(c->words, c->says + c->n, ENGINE_SAYS_MAX - c->n);
        c->n += got > 0 ? (size_t)got : 0;
    }
    return got == 0 || (errno != EAGAIN && errno != EINTR);
}

static void on_hear(evutil_socket_t fd, short what, void *ctx)
{
    struct container *c = ctx;
    if (read_words(c)) {
        take_words(c);
    }
}

/* --- its life --------------------------------------------------------------------------------- */

static void on_died(evutil_socket_t fd, short what, void *ctx)
{
    struct container *c = ctx;
    if (!c->pid || waitpid(c->pid, NULL, WNOHANG) == 0) {
        return;
    }
    c->pid = 0;
    if (c->hear) {
        (void)read_words(c);
        c->says[0] = c->says[0] == ENGINE_UP ? '\0' : c->says[0]; /* it is over already */
        take_words(c);
    }
    const bool is_stopped = c->lifeline < 0;
    if (!is_stopped && !c->why.text[0]) {
        why_set(&c->why, "its container has ended");
    }
    c->wish.ended(c->wish.ctx, c->is_up && is_stopped ? "" : c->why.text);
}

int container_new(const struct container_wish *wish, struct container **ret, struct tfe_why *why)
{
    int lifeline[2] = {-1, -1};
    int words[2] = {-1, -1};
    struct container *c = part_new(sizeof *c);
    *c = (struct container){.wish = *wish, .lifeline = -1, .words = -1};
    c->died = evsignal_new(wish->base, SIGCHLD, on_died, c);
    part_must(c->died && event_add(c->died, NULL) == 0); /* it may die before the next line */
    bool is_open = pipe2(lifeline, O_CLOEXEC) == 0 && pipe2(words, O_CLOEXEC) == 0;
    c->pid = is_open ? proc_fork_blocked() : -1;
    if (c->pid == 0) {
        engine_keep(wish->engine, lifeline[0], words[1]);
    }
    fd_drop(&lifeline[0]);
    fd_drop(&words[1]);
    c->lifeline = lifeline[1];
    c->words = words[0];
    if (c->pid < 0) {
        why_errno(why, "start a container");
        container_free(c);
        return TFE_ESYS;
    }
    (void)fcntl(c->words, F_SETFL, O_NONBLOCK);
    c->hear = event_new(wish->base, c->words, EV_READ | EV_PERSIST, on_hear, c);
    part_must(c->hear && event_add(c->hear, NULL) == 0);
    *ret = c;
    return 0;
}

void container_free(struct container *c)
{
    if (c) {
        event_drop(&c->hear);
        event_drop(&c->died);
        fd_drop(&c->words);
        fd_drop(&c->lifeline);
        free(c);
    }
}

bool container_is_up(const struct container *c)
{
    return c->is_up;
}

pid_t container_pid(const struct container *c)
{
    return c->pid;
}

int container_fd(const struct container *c)
{
    return c->lifeline;
}

void container_stop(struct container *c)
{
    fd_drop(&c->lifeline);
}
