/* agent/git_source.c: implementation of git_source.h. */
#include "agent/git_source.h"

#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/child_process.h"
#include "agent/os/git_checkout.h"
#include "agent/pool/scratch.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/cli/signals.h"

struct git_source {
    struct agent_settings *settings;
    struct scratch *scratch;
    struct git_checkout checkout;
    char url[PATH_MAX], ref[MSG_WORD_MAX + 1];
    char directory[PATH_MAX];          /* working directory of the trainers */
    char python[PATH_MAX];             /* --python, if that is a relative path */
    char commit[GIT_COMMIT_SHORT + 1]; /* argument of git_source_change() */
    struct child_process *process;
    struct event *late; /* calls done if git could not be started */
    int rc;             /* result of the last run: 0, or an error with reason */
    struct tfe_reason reason;
    void (*done)(void *ctx, const char *reason);
    void *ctx;
};

static void run(void *ctx)
{
    const struct git_source *s = ctx;
    const struct rlimit none = {0};
    (void)setrlimit(RLIMIT_CORE, &none);
    umask(022);
    git_checkout_run(&s->checkout);
}

/* Stores the commit that is checked out in the settings. */
static int accept_commit(struct git_source *s, struct tfe_reason *reason)
{
    char commit[GIT_COMMIT_MAX + 1];
    char url[PATH_MAX];
    struct stat st;
    int rc = git_checkout_head(scratch_path(s->scratch), commit, reason);
    if (rc == 0 && (stat(s->directory, &st) != 0 || !S_ISDIR(st.st_mode))) {
        reason_set(reason, "--git-path: commit %.*s has no directory %s", GIT_COMMIT_SHORT, commit,
                   s->settings->git_path);
        rc = TFE_EINVAL;
    }
    if (rc == 0) {
        s->settings->agent.spec.commit = git_commit_number(commit);
        git_url_mask(url, sizeof url, s->url);
        log_info("checked_out", LOG_S("url", url), LOG_S("ref", s->ref), LOG_S("commit", commit));
    }
    return rc;
}

static void on_ended(void *ctx, const struct child_process_result *result)
{
    struct git_source *s = ctx;
    char url[PATH_MAX];
    git_url_mask(url, sizeof url, s->url);
    s->rc = TFE_ESYS;
    if (child_process_succeeded(result)) {
        s->rc = accept_commit(s, &s->reason);
    } else if (result->is_late) {
        reason_set(&s->reason, "--git: %.300s was not fetched within %d s", url,
                   GIT_CHECKOUT_LIMIT_MS / 1000);
    } else if (s->commit[0]) {
        reason_set(&s->reason,
                   "--git: the job runs git commit %s, which is not in the history of the branch "
                   "%.100s of %.300s: %s (name that commit as REF)",
                   s->commit, s->ref, url, result->line);
    } else {
        reason_set(&s->reason, "--git: %.300s, %.100s: %s", url, s->ref,
                   result->line[0] ? result->line : "git has failed");
        s->rc = strstr(result->line, "find remote ref") ? TFE_EINVAL : TFE_ESYS;
    }
    s->done(s->ctx, s->rc ? s->reason.text : NULL);
}

static int begin(struct git_source *s, struct event_base *base, struct tfe_reason *reason)
{
    const struct child_process_config config = {.base = base,
                                                .run = run,
                                                .as_trainer = true,
                                                .directory = scratch_path(s->scratch),
                                                .line_prefix = GIT_CHECKOUT_ERROR,
                                                .limit_ms = GIT_CHECKOUT_LIMIT_MS,
                                                .ended = on_ended,
                                                .ctx = s};
    s->reason.text[0] = '\0';
    return child_process_start(&config, &s->process, reason);
}

/* --- start of the agent --- */

static void on_first(void *ctx, const char *reason)
{
    event_base_loopbreak(ctx);
}

struct interruption {
    struct event_base *base;
    int signo;
};

static void on_signal(evutil_socket_t signo, short what, void *ctx)
{
    struct interruption *interruption = ctx;
    interruption->signo = (int)signo;
    event_base_loopbreak(interruption->base);
}

/* Runs git to its end in an event loop of its own: the agent's loop begins after the guard is
 * forked, which needs the command. */
static int check_out_now(struct git_source *s, struct tfe_reason *reason)
{
    struct interruption interruption = {.base = event_base_new()};
    struct event *quit[TERMINATION_SIGNALS];
    must_succeed(interruption.base);
    signals_watch_termination(interruption.base, on_signal, &interruption, 0, quit);
    s->done = on_first;
    s->ctx = interruption.base;
    int rc = begin(s, interruption.base, reason);
    if (rc == 0) {
        (void)event_base_dispatch(interruption.base);
        *reason = s->reason;
        rc = s->rc;
    }
    child_process_free(s->process);
    s->process = NULL;
    signals_unwatch(quit);
    event_base_free(interruption.base);
    if (interruption.signo) {
        git_source_free(s);
        exit(AGENT_EXIT_SIGNAL + interruption.signo);
    }
    return rc;
}

/* Returns true if REF is a commit, possibly abbreviated. */
static bool names_commit(const char *ref)
{
    return strlen(ref) >= GIT_ABBREVIATION_MIN && ref[strspn(ref, "0123456789abcdef")] == '\0';
}

/* Erases a URL with a password from the command line, which other users of this machine can see. */
static void erase_secret(char *url, size_t n)
{
    char masked[PATH_MAX];
    git_url_mask(masked, sizeof masked, url);
    if (strncmp(masked, url, n) != 0) {
        memset(url, '*', n);
    }
}

/* Splits URL@REF. */
static int parse(struct git_source *s, struct tfe_reason *reason)
{
    char *text = s->settings->git;
    const size_t n = git_url_length(text);
    const char *ref = text[n] != '\0' && text[n + 1] != '\0' ? text + n + 1 : "HEAD";
    if (n >= sizeof s->url || strlen(ref) >= sizeof s->ref) {
        reason_set(reason, "--git: the URL or the REF is too long");
        return TFE_EINVAL;
    }
    (void)snprintf(s->url, sizeof s->url, "%.*s", (int)n, text);
    (void)snprintf(s->ref, sizeof s->ref, "%s", ref);
    erase_secret(text, n);
    char path[PATH_MAX];
    if (!strstr(s->url, "://") && realpath(s->url, path)) {
        (void)snprintf(s->url, sizeof s->url, "%s", path);
    }
    if (s->url[0] == '\0' || s->url[0] == '-' || s->ref[0] == '-' ||
        s->ref[strcspn(s->ref, ":+^~?*[\\ ")] != '\0') {
        reason_set(reason, "--git: expected URL@REF with a branch, tag or commit as REF");
        return TFE_EINVAL;
    }
    return 0;
}

int git_source_new(struct agent_settings *settings, struct git_source **ret,
                   struct tfe_reason *reason)
{
    struct git_source *s = must_alloc(sizeof *s);
    *s = (struct git_source){.settings = settings};
    s->checkout = (struct git_checkout){.url = s->url, .ref = s->ref};
    int rc = parse(s, reason);
    rc = rc == 0 ? scratch_new(true, &s->scratch, reason) : rc;
    if (rc) {
        git_source_free(s);
        return rc;
    }
    const char *path = settings->git_path;
    (void)snprintf(s->directory, sizeof s->directory, "%s%s%s", scratch_path(s->scratch),
                   path ? "/" : "", path ? path : "");
    const char *python = settings->python;
    if (python && strchr(python, '/') && python[0] != '/') {
        char *here = getcwd(s->python, sizeof s->python);
        const size_t n = here ? strlen(here) : 0;
        (void)snprintf(s->python + n, sizeof s->python - n, "/%s", python);
        settings->python = s->python;
    }
    rc = check_out_now(s, reason);
    if (rc) {
        git_source_free(s);
        return rc;
    }
    settings->agent.follows_commit = !names_commit(s->ref);
    *ret = s;
    return 0;
}

void git_source_free(struct git_source *s)
{
    if (s) {
        child_process_free(s->process);
        event_drop(&s->late);
        scratch_free(s->scratch);
        free(s);
    }
}

int git_source_command(const struct git_source *s, const struct agent_settings *settings,
                       char **operands, int n_operands, struct command *ret,
                       struct tfe_reason *reason)
{
    int here = -1;
    if (s) {
        here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (here < 0 || chdir(s->directory) != 0) {
            reason_errno(reason, "enter %s", s->directory);
            fd_close(&here);
            return TFE_EINVAL;
        }
    }
    int rc = command_new(operands, n_operands, settings->python, settings->module,
                         settings->no_python, ret, reason);
    if (!s) {
        return rc;
    }
    const bool is_back = fchdir(here) == 0;
    if (rc == 0 && !is_back) {
        reason_errno(reason, "return to the working directory");
        command_done(ret);
        rc = TFE_EINVAL;
    }
    fd_close(&here);
    if (rc == 0) {
        ret->directory = s->directory;
    }
    return rc;
}

/* --- change of the commit --- */

static void on_late(evutil_socket_t fd, short what, void *ctx)
{
    struct git_source *s = ctx;
    s->done(s->ctx, s->reason.text);
}

void git_source_change(struct git_source *s, struct event_base *base, uint64_t commit,
                       void (*done)(void *ctx, const char *reason), void *ctx)
{
    struct tfe_reason reason;
    (void)snprintf(s->commit, sizeof s->commit, "%0*" PRIx64, GIT_COMMIT_SHORT, commit);
    s->checkout.commit = s->commit;
    s->done = done;
    s->ctx = ctx;
    if (begin(s, base, &reason)) {
        s->reason = reason;
        s->late = evtimer_new(base, on_late, s);
        must_succeed(s->late);
        timer_after(s->late, 0);
    }
}
