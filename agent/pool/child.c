/* agent/pool/child.c: see child.h. */
#include "agent/pool/child.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/core/agent.h"
#include "agent/guard/guard_block.h"
#include "agent/output/log_prune.h"
#include "agent/pool/await.h"
#include "agent/pool/scratch.h"
#include "agent/reach/proc.h"
#include "agent/reach/trainer_user.h"
#include "common/base/backoff.h"
#include "common/net/fd.h"
#include "common/net/heap.h"
#include "common/net/log.h"
#include "common/net/stdio.h"
#include "common/net/timer.h"

/* An agent that is told to end at once kills what it has and says goodbye: two seconds, design 9;
 * its guard ends by itself when this one is killed. */
#define AT_ONCE_MS 10000
/* What an agent that was killed has left is looked for so often. */
#define LOOK_FIRST_MS 10
#define LOOK_LAST_MS 500
#define LOOKS_BEFORE_WORDS 16 /* some five seconds */

struct pool_child {
    struct pool_child_wish wish;
    pid_t pid;                      /* 0: reaped */
    bool clears;                    /* that is a process that clears away behind the agent */
    int words;                      /* what it says at its end comes here */
    const char *log_root, *log_job; /* NULL: see pool_child_log */
    bool is_over;                   /* the job, by the server's word */
    int job;                        /* what it works for goes there, while it waits; -1 */
    struct event *died, *stop, *look;
    struct event *hear; /* of job, until that has gone there */
    uint32_t look_ms, looked;
    bool is_asked, is_hurried; /* SIGTERM, SIGINT are sent */
    struct pool_end end;
};

/* --- starting --------------------------------------------------------------------------------- */

static _Noreturn void give_up(int words, const char *what, const char *name)
{
    struct tfe_why why;
    why_errno(&why, "%s %s", what, name);
    (void)!write(words, why.text, strlen(why.text));
    _exit(POOL_NOT_STARTED);
}

/* Descriptors that exec leaves to it. */
struct handed {
    int words, job; /* job -1: none */
};

/* In the child. */
static _Noreturn void become(const struct pool_child_wish *wish, const struct handed *handed,
                             pid_t parent)
{
    static const int handled[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD};
    const int words = handed->words;
    const int kept = handed->job >= 0 ? handed->job : scratch_fd(wish->scratch);
    sigset_t none;
    if (wish->directory && trainer_user_enter(wish->directory)) {
        give_up(words, "enter", wish->directory);
    }
    setsid(); /* the terminal's Ctrl-C is for the pool, which hands it on */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) != 0 || getppid() != parent) {
        _exit(POOL_NOT_STARTED);
    }
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++) {
        (void)signal(handled[i], SIG_DFL);
    }
    sigemptyset(&none);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || sigprocmask(SIG_SETMASK, &none, NULL) != 0 ||
        fcntl(words, F_SETFD, 0) != 0 || fcntl(kept, F_SETFD, 0) != 0 ||
        (wish->container && fcntl(wish->container, F_SETFD, 0) != 0)) {
        give_up(words, "start", wish->argv[0]);
    }
    (void)setrlimit(RLIMIT_CORE, wish->cores);
    execve(wish->argv[0], wish->argv, wish->envp);
    give_up(words, "start", wish->argv[0]);
}

/* The list and one more. */
static char **with_one(char *const *list, char *one)
{
    size_t n = 0;
    while (list[n]) {
        n++;
    }
    char **all = part_new((n + 2) * sizeof *all);
    memcpy(all, list, n * sizeof *all);
    all[n] = one;
    return all;
}

/* --- ending ----------------------------------------------------------------------------------- */

static void take_words(struct pool_child *c)
{
    ssize_t n = read(c->words, c->end.says, sizeof c->end.says - 1);
    c->end.says[n > 0 ? n : 0] = '\0';
    c->end.says[strcspn(c->end.says, "\n")] = '\0';
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

/* … or it is that one. */
static bool is_below(pid_t pid, pid_t root)
{
    while (pid > 1 && pid != root) {
        pid = proc_parent(pid);
    }
    return pid == root;
}

static bool is_left(void *ctx, pid_t pid, pid_t session)
{
    const struct pool_child *c = ctx;
    const pid_t beside = c->wish.beside(c->wish.ctx);
    return !(beside && (session == beside || is_below(pid, beside))) && !is_guard(pid);
}

/* What an agent and its guard, both killed, have left: it is this process's now. A guard that
 * lives ends what is below it by itself. */
static bool is_orphan(void *ctx, pid_t pid, pid_t session)
{
    return is_left(ctx, pid, session) && proc_parent(pid) == getpid();
}

/* How the one beside has ended is its owner's to ask: until then others stay, too. */
static void reap_left(const struct pool_child *c)
{
    siginfo_t info = {.si_pid = 0};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid &&
           info.si_pid != c->wish.beside(c->wish.ctx)) {
        (void)waitpid(info.si_pid, NULL, 0);
        info.si_pid = 0;
    }
}

/* In a process of its own, as files may be many. */
static void clear_away(struct pool_child *c)
{
    c->clears = true;
    c->pid = c->wish.scratch ? proc_fork_blocked() : -1;
    if (c->pid == 0) {
        if (c->log_root && (c->is_over || c->end.code <= AGENT_EXIT_FAILED)) { /* the job is over */
            log_prune_job(c->log_root, c->log_job);
        }
        scratch_clear(c->wish.scratch);
        _exit(0);
    }
    if (c->pid < 0) {
        c->pid = 0;
        c->wish.ended(c->wish.ctx, &c->end);
    }
}

static void on_look(evutil_socket_t fd, short what, void *ctx)
{
    struct pool_child *c = ctx;
    size_t n = 0;
    size_t killed;
    pid_t stuck = 0;
    pid_t unasked;
    reap_left(c);
    int rc = proc_signal_descendants(getpid(), SIGKILL, is_orphan, c, &killed, &stuck);
    rc = rc ? rc : proc_signal_descendants(getpid(), 0, is_left, c, &n, &unasked);
    if (rc == 0 && n == 0) {
        clear_away(c);
        return;
    }
    c->looked++;
    if (c->looked == LOOKS_BEFORE_WORDS) {
        log_warn("descendants_left", LOG_S("of", "an agent that has ended"), LOG_U("n", n),
                 LOG_I("stuck", stuck));
        c->wish.stuck(c->wish.ctx);
    }
    c->look_ms = backoff_next(c->look_ms, LOOK_FIRST_MS, LOOK_LAST_MS);
    timer_after(c->look, c->look_ms);
}

static void on_died(evutil_socket_t fd, short what, void *ctx)
{
    struct pool_child *c = ctx;
    int status;
    if (!c->pid || waitpid(c->pid, &status, WNOHANG) != c->pid) {
        return;
    }
    if (c->clears) {
        c->pid = 0;
        c->wish.ended(c->wish.ctx, &c->end);
        return;
    }
    c->end.code =
        WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 128 + (uint32_t)WTERMSIG(status);
    c->pid = 0;
    evtimer_del(c->stop);
    take_words(c);
    on_look(-1, 0, c);
}

static void on_stop(evutil_socket_t fd, short what, void *ctx)
{
    struct pool_child *c = ctx;
    kill(c->pid, c->is_hurried ? SIGKILL : SIGINT);
    if (!c->is_hurried) {
        c->is_hurried = true;
        timer_after(c->stop, AT_ONCE_MS);
    }
}

static void on_hear(evutil_socket_t fd, short what, void *ctx)
{
    struct pool_child *c = ctx;
    struct await_said said;
    ssize_t n = recv(fd, &said, sizeof said, MSG_DONTWAIT);
    if (n == (ssize_t)sizeof said) {
        c->wish.said(c->wish.ctx, &said);
    } else if (n >= 0 || (errno != EAGAIN && errno != EINTR)) {
        event_drop(&c->hear); /* it ends */
        fd_drop(&c->job);
    }
}

int pool_child_give(struct pool_child *c, char *const *argv, char *const *envp,
                    const char *directory, const struct scratch *scratch)
{
    const struct spawn_spec spec = {.argv = (const char *const *)argv,
                                    .envp = (const char *const *)envp,
                                    .directory = directory};
    struct guard_words words;
    int fds[GUARD_FDS] = {-1, scratch_fd(scratch), scratch_fd(scratch)};
    if (c->job < 0 || !c->pid || guard_block_new(&spec, &words, &fds[GUARD_FD_BLOCK])) {
        return TFE_ESYS;
    }
    bool is_given = guard_send(c->job, &words, sizeof words, fds);
    fd_drop(&fds[GUARD_FD_BLOCK]);
    c->wish.scratch = is_given ? scratch : NULL;
    if (is_given) {
        /* What it has said meanwhile is of the past. The socket stays: were it closed with that
         * unread, the job could be lost on its way. */
        event_drop(&c->hear);
    }
    return is_given ? 0 : TFE_ESYS;
}

void pool_child_stop(struct pool_child *c, uint32_t within_ms)
{
    if (!c->pid || c->clears) {
        return;
    }
    if (!c->is_asked) {
        kill(c->pid, SIGTERM);
    }
    if (!c->is_hurried) {
        timer_after(c->stop, c->is_asked ? 0 : within_ms);
    }
    c->is_asked = true;
}

/* --- from start to end ------------------------------------------------------------------------ */

int pool_child_start(const struct pool_child_wish *wish, struct pool_child **ret,
                     struct tfe_why *why)
{
    struct pool_child *c = part_new(sizeof *c);
    int ends[2] = {-1, -1};
    int jobs[2] = {-1, -1};
    char variable[40];
    char option[40];
    *c = (struct pool_child){.wish = *wish,
                             .words = -1,
                             .job = -1,
                             .stop = evtimer_new(wish->base, on_stop, c),
                             .look = evtimer_new(wish->base, on_look, c),
                             .died = evsignal_new(wish->base, SIGCHLD, on_died, c)};
    part_must(c->stop && c->look && c->died && event_add(c->died, NULL) == 0);
    bool is_open =
        pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 &&
        (wish->scratch || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, jobs) == 0);
    snprintf(variable, sizeof variable, STDIO_WORDS "=%d", ends[1]);
    snprintf(option, sizeof option, "--await=%d", jobs[1]);
    char **envp = with_one(wish->envp, variable);
    char **argv = with_one(wish->argv, wish->scratch ? NULL : option);
    const struct handed handed = {.words = ends[1], .job = jobs[1]};
    pid_t parent = getpid();
    c->wish.envp = envp;
    c->wish.argv = argv;
    c->pid = is_open ? proc_fork_blocked() : -1;
    if (c->pid == 0) {
        become(&c->wish, &handed, parent);
    }
    free(envp);
    free(argv);
    c->words = ends[0];
    c->job = jobs[0];
    fd_drop(&ends[1]);
    fd_drop(&jobs[1]);
    if (c->job >= 0) {
        c->hear = event_new(wish->base, c->job, EV_READ | EV_PERSIST, on_hear, c);
        part_must(c->hear && event_add(c->hear, NULL) == 0);
    }
    if (c->pid < 0) {
        why_errno(why, "start an agent");
        pool_child_free(c);
        return TFE_ESYS;
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
    return !c->pid && c->looked >= LOOKS_BEFORE_WORDS;
}

void pool_child_free(struct pool_child *c)
{
    if (c) {
        event_drop(&c->stop);
        event_drop(&c->look);
        event_drop(&c->died);
        event_drop(&c->hear);
        fd_drop(&c->job);
        fd_drop(&c->words);
        free(c);
    }
}
