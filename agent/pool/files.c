/* agent/pool/files.c: implementation of files.h. */
#include "agent/pool/files.h"

#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/proc.h"
#include "agent/os/trainer_user.h"
#include "agent/pool/fetch.h"
#include "agent/pool/scratch.h"
#include "agent/pool/unpack.h"
#include "common/archive/archive.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/handshake/seal.h"
#include "common/message/codec.h"

/* Timeouts for a clone of a large repository over a slow line, and for unpacking. */
#define GIT_MS 600000
#define UNPACK_MS 300000
#define WORDS_MAX 512

struct files {
    struct files_options options;
    uint8_t *assign; /* the encoded ASSIGN */
    size_t n_assign;
    char digest[MSG_BUNDLE_HEX + 1];
    struct fetch *fetch; /* NULL if the job has no bundle */
    pid_t pid;           /* 0 if no process runs */
    int error_fd;        /* read end of the pipe for the process's error message */
    struct event *died, *late;
    bool is_clearing; /* the process clears the directory */
    bool is_ready;
    struct tfe_reason reason; /* error, or "" if none so far */
};

/* --- child process --- */

/* $1 is the repository, $2 the commit. Fetches everything if the server does not support
 * fetching a single commit. */
static const char git_script[] =
    "git init -q --template= . && "
    "{ git fetch -q --depth 1 --no-tags --no-recurse-submodules -- \"$1\" \"$2\" || "
    "git fetch -q --no-tags --no-recurse-submodules -- \"$1\" '+refs/*:refs/origin/*'; } && "
    "git checkout -q --detach \"$2\" --";

/* Returns true for variables by which this machine reaches repositories; nothing of the agent's
 * own environment is passed on. */
static bool is_for_git(const char *entry)
{
    static const char *const fronts[] = {
        "PATH=",        "LANG=",       "LC_",          "SSH_",       "GIT_SSH",
        "GIT_SSL_",     "http_proxy=", "https_proxy=", "all_proxy=", "no_proxy=",
        "HTTPS_PROXY=", "ALL_PROXY=",  "NO_PROXY=",    "SSL_CERT_"};
    for (size_t i = 0; i < sizeof fronts / sizeof fronts[0]; i++) {
        if (strncmp(entry, fronts[i], strlen(fronts[i])) == 0) {
            return true;
        }
    }
    return strncmp(entry, "HOME=", 5) == 0 && !trainer_user()->name;
}

static _Noreturn void become_git(const char *source, const char *commit)
{
    static const char *const own[] = {
        "GIT_TERMINAL_PROMPT=0",
        "GIT_ASKPASS=true",
        "GIT_ALLOW_PROTOCOL=https:http:ssh:file",
        "GIT_LFS_SKIP_SMUDGE=1",
        "GIT_CONFIG_COUNT=4",
        "GIT_CONFIG_KEY_0=core.hooksPath",
        "GIT_CONFIG_VALUE_0=/dev/null",
        "GIT_CONFIG_KEY_1=submodule.recurse",
        "GIT_CONFIG_VALUE_1=false",
        "GIT_CONFIG_KEY_2=gc.auto",
        "GIT_CONFIG_VALUE_2=0",
        "GIT_CONFIG_KEY_3=maintenance.auto",
        "GIT_CONFIG_VALUE_3=false",
    };
    enum { N_OWN = sizeof own / sizeof own[0], OTHERS_MAX = 64 };
    extern char **environ;
    char *envp[N_OWN + OTHERS_MAX + 2] = {NULL};
    char home[PATH_MAX];
    size_t n = 0;
    for (; n < N_OWN; n++) {
        envp[n] = (char *)(uintptr_t)own[n];
    }
    if (trainer_user()->name) {
        snprintf(home, sizeof home, "HOME=%s", trainer_user()->home);
        envp[n++] = home;
    }
    for (char **entry = environ; *entry && n < N_OWN + OTHERS_MAX; entry++) {
        if (is_for_git(*entry)) {
            envp[n++] = *entry;
        }
    }
    char *url = strndup(source, (size_t)(commit - 1 - source));
    char *const argv[] = {
        "sh", "-c", (char *)(uintptr_t)git_script, "git", url, (char *)(uintptr_t)commit, NULL};
    execve("/bin/sh", argv, envp);
    _exit(127);
}

static _Noreturn void lay_out(const struct files *f, const struct msg_spec *spec, int bundle,
                              int error_fd, pid_t parent)
{
    const struct rlimit none = {0};
    const struct rlimit size = {.rlim_cur = ARCHIVE_UNPACKED_MAX, .rlim_max = ARCHIVE_UNPACKED_MAX};
    struct tfe_reason reason = {.text = ""};
    static const int handled[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    sigset_t signals;
    setsid();
    if (trainer_user_enter(scratch_path(f->options.scratch)) || trainer_user_become() ||
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent) {
        reason_errno(&reason, "enter the job's directory");
        (void)!write(error_fd, reason.text, strlen(reason.text));
        _exit(1);
    }
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++) {
        (void)signal(handled[i], SIG_DFL);
    }
    sigemptyset(&signals);
    (void)sigprocmask(SIG_SETMASK, &signals, NULL);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)setrlimit(RLIMIT_FSIZE, &size);
    umask(022);
    if (spec->source_kind == SOURCE_GIT) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
            dup2(error_fd, STDERR_FILENO) < 0) {
            _exit(1);
        }
        become_git(spec->source, submission_commit(spec->source));
    }
    int rc = unpack(bundle, f->digest, &reason);
    (void)!write(error_fd, reason.text, strlen(reason.text));
    _exit(rc ? 1 : 0);
}

/* --- lifetime --- */

static void finish_failed(struct files *f)
{
    f->options.failed(f->options.ctx, f->reason.text);
}

/* Clears the directory in a child process, because there may be many files. */
static void fail(struct files *f)
{
    fetch_free(f->fetch);
    f->fetch = NULL;
    f->is_clearing = true;
    f->pid = proc_fork_blocked();
    if (f->pid == 0) {
        scratch_clear(f->options.scratch);
        _exit(0);
    }
    if (f->pid < 0) {
        f->pid = 0;
        finish_failed(f);
    }
}

/* Decodes the assignment. The caller ends the arena. */
static bool read_assign(const struct files *f, struct arena *arena, struct tfe_msg *ret)
{
    if (arena_init(arena, ARENA_CAP) != 0) {
        return false;
    }
    return codec_decode(arena, f->assign, f->n_assign, ret) == 0;
}

static void begin_process(struct files *f, int bundle)
{
    struct arena arena = {0};
    struct tfe_msg msg;
    int ends[2] = {-1, -1};
    pid_t parent = getpid();
    bool is_begun = read_assign(f, &arena, &msg) && pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0;
    f->pid = is_begun ? proc_fork_blocked() : -1;
    if (f->pid == 0) {
        lay_out(f, &msg.u.assign.spec, bundle, ends[1], parent);
    }
    arena_done(&arena);
    fd_close(&ends[1]);
    f->error_fd = ends[0];
    if (f->pid < 0) {
        reason_errno(&f->reason, "start a process");
        f->pid = 0;
        fail(f);
        return;
    }
    timer_after(f->late, bundle < 0 ? GIT_MS : UNPACK_MS);
}

static void finish_ready(struct files *f)
{
    struct arena arena = {0};
    struct tfe_msg msg;
    f->is_ready = true;
    fetch_free(f->fetch);
    f->fetch = NULL;
    if (read_assign(f, &arena, &msg)) {
        f->options.ready(f->options.ctx, &msg.u.assign);
    } else {
        reason_set(&f->reason, "out of memory");
        fail(f);
    }
    arena_done(&arena);
}

/* Reads the child's error message: for git its last "fatal: " line, because
 * advice may follow that. */
static void read_error(struct files *f, int status)
{
    char text[WORDS_MAX] = "";
    char line[WORDS_MAX];
    char c;
    size_t n = 0;
    while (read(f->error_fd, &c, 1) == 1) {
        if (c != '\n') {
            line[n] = c;
            n += n < sizeof line - 1;
            continue;
        }
        line[n] = '\0';
        if (strncmp(text, "fatal: ", 7) != 0 || strncmp(line, "fatal: ", 7) == 0) {
            memcpy(text, line, n + 1);
        }
        n = 0;
    }
    line[n] = '\0';
    if (n > 0) {
        memcpy(text, line, n + 1);
    }
    if (f->reason.text[0] == '\0' && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        reason_set(&f->reason, "%s", text[0] ? text : "its files could not be laid out");
        if (!f->digest[0]) {
            reason_prefix(&f->reason, "git");
        }
    }
}

static void on_died(evutil_socket_t fd, short what, void *ctx)
{
    struct files *f = ctx;
    siginfo_t info = {.si_pid = 0};
    int status = 0;
    if (!f->pid ||
        (waitid(P_PID, (id_t)f->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && !info.si_pid)) {
        return;
    }
    const pid_t group = f->pid;
    kill(-group, SIGKILL); /* kill its descendants while its pid is still reserved */
    if (waitpid(f->pid, &status, 0) != f->pid) {
        status = SIGKILL; /* another part has reaped it, so the status is unknown */
    }
    while (waitpid(-group, NULL, WNOHANG) > 0) {
    }
    f->pid = 0;
    evtimer_del(f->late);
    if (f->is_clearing) {
        finish_failed(f);
        return;
    }
    read_error(f, status);
    fd_close(&f->error_fd);
    if (f->reason.text[0]) {
        fail(f);
    } else {
        finish_ready(f);
    }
}

static void on_late(evutil_socket_t fd, short what, void *ctx)
{
    struct files *f = ctx;
    if (f->pid && !f->is_clearing) {
        reason_set(&f->reason, "%s took longer than %d s", f->digest[0] ? "unpacking" : "git",
                   (f->digest[0] ? UNPACK_MS : GIT_MS) / 1000);
        kill(-f->pid, SIGKILL);
        kill(f->pid, SIGKILL);
    }
}

static void on_fetched(void *ctx, int bundle)
{
    begin_process(ctx, bundle);
}

bool files_are_wanted(const struct msg_spec *spec)
{
    return spec->source_kind == SOURCE_BUNDLE || spec->source_kind == SOURCE_GIT;
}

static int store_assign(struct files *f, const struct msg_assign *assign, struct tfe_reason *reason)
{
    uint8_t bytes[SEAL_PLAIN_MAX];
    const struct msg_spec *spec = &assign->spec;
    const struct tfe_msg msg = {.type = MSG_ASSIGN, .u.assign = *assign};
    if (codec_encode(&msg, bytes, sizeof bytes, &f->n_assign) != 0 ||
        (spec->source_kind == SOURCE_GIT && !submission_commit(spec->source)) ||
        (spec->source_kind == SOURCE_BUNDLE && !submission_is_digest(spec->source))) {
        reason_set(reason, "the job's files have a name that makes no sense");
        return TFE_EINVAL;
    }
    f->assign = must_alloc(f->n_assign);
    memcpy(f->assign, bytes, f->n_assign);
    if (spec->source_kind == SOURCE_BUNDLE) {
        snprintf(f->digest, sizeof f->digest, "%s", spec->source);
    }
    return 0;
}

int files_new(const struct files_options *options, struct files **ret, struct tfe_reason *reason)
{
    struct files *f = must_alloc(sizeof *f);
    *f = (struct files){.options = *options, .error_fd = -1};
    f->died = evsignal_new(options->base, SIGCHLD, on_died, f);
    f->late = evtimer_new(options->base, on_late, f);
    must_succeed(f->died && f->late && event_add(f->died, NULL) == 0);
    int rc = store_assign(f, options->assign, reason);
    f->options.assign = NULL;
    if (rc == 0 && f->digest[0]) {
        const struct fetch_options fetch = {.base = options->base,
                                            .digest = f->digest,
                                            .state_dir = options->state_dir,
                                            .send = options->send,
                                            .send_ctx = options->ctx,
                                            .ended = on_fetched,
                                            .ctx = f};
        f->fetch = fetch_new(&fetch);
    }
    if (rc) {
        files_free(f);
        return rc;
    }
    *ret = f;
    if (!f->digest[0]) {
        begin_process(f, -1);
    }
    return 0;
}

void files_free(struct files *f)
{
    if (f) {
        fetch_free(f->fetch);
        event_drop(&f->died);
        event_drop(&f->late);
        fd_close(&f->error_fd);
        free(f->assign);
        free(f);
    }
}

void files_welcome(struct files *f)
{
    if (f->fetch) {
        fetch_welcome(f->fetch);
    }
}

void files_handle_chunk(struct files *f, const struct msg_chunk *chunk)
{
    if (f->fetch) {
        fetch_handle_chunk(f->fetch, chunk);
    }
}

void files_stop(struct files *f)
{
    if (f->is_clearing || f->is_ready) {
        return;
    }
    if (!f->reason.text[0]) {
        reason_set(&f->reason, "it was released while its files were fetched");
    }
    if (f->pid) {
        kill(-f->pid, SIGKILL);
        kill(f->pid, SIGKILL);
    } else {
        fail(f);
    }
}
