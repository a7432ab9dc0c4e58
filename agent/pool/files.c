/* agent/pool/files.c: implementation of files.h. */
#include "agent/pool/files.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/child_process.h"
#include "agent/os/git_checkout.h"
#include "agent/pool/fetch.h"
#include "agent/pool/scratch.h"
#include "agent/pool/unpack.h"
#include "common/archive/archive.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/job/job_file.h"

/* Timeout for unpacking. */
#define UNPACK_MS 300000

struct files {
    struct files_options options;
    char digest[MSG_BUNDLE_HEX + 1];
    struct fetch *fetch; /* NULL if the job has no bundle */
    int bundle;          /* descriptor of the bundle, or -1 */
    /* prepares the files, then clears the directory if that failed; NULL before */
    struct child_process *process;
    bool is_clearing;    /* the process clears the directory */
    struct event *fails; /* reports a failure if there is no process to clear the directory */
    bool is_ready;
    struct tfe_reason reason; /* error, or "" if none so far */
};

/* --- child process --- */

/* Prepares the files in the child process. */
static void lay_out(void *ctx)
{
    const struct files *f = ctx;
    const struct rlimit none = {0};
    const struct rlimit size = {.rlim_cur = ARCHIVE_UNPACKED_MAX, .rlim_max = ARCHIVE_UNPACKED_MAX};
    struct tfe_reason reason = {.text = ""};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)setrlimit(RLIMIT_FSIZE, &size);
    umask(022);
    if (!f->digest[0]) {
        git_checkout_run(&(struct git_checkout){.url = job_source(f->options.job, "git"),
                                                .ref = job_source(f->options.job, "ref")});
    }
    int rc = unpack(f->bundle, &reason);
    (void)!write(STDOUT_FILENO, reason.text, strlen(reason.text));
    _exit(rc ? 1 : 0);
}

static void clear(void *ctx)
{
    const struct files *f = ctx;
    scratch_clear(f->options.scratch);
    _exit(0);
}

/* --- lifetime --- */

static void report_failure(struct files *f)
{
    f->options.failed(f->options.ctx, f->reason.text);
}

static void on_cleared(void *ctx, const struct child_process_result *result)
{
    report_failure(ctx);
}

static void on_fails(evutil_socket_t fd, short what, void *ctx)
{
    report_failure(ctx);
}

/* Clears the directory in a child process, because there may be many files. */
static void fail(struct files *f)
{
    struct tfe_reason reason;
    const struct child_process_config config = {.base = f->options.base,
                                                .run = clear,
                                                .shares_stderr = true,
                                                .ended = on_cleared,
                                                .ctx = f};
    fetch_free(f->fetch);
    f->fetch = NULL;
    child_process_free(f->process);
    f->process = NULL;
    f->is_clearing = true;
    if (child_process_start(&config, &f->process, &reason)) {
        timer_after(f->fails, 0); /* not from here, which may be files_new */
    }
}

static void on_laid_out(void *ctx, const struct child_process_result *result);

static void begin_process(struct files *f)
{
    const struct child_process_config config = {.base = f->options.base,
                                                .run = lay_out,
                                                .as_trainer = true,
                                                .directory = scratch_path(f->options.scratch),
                                                .line_prefix = GIT_CHECKOUT_ERROR,
                                                .limit_ms = f->digest[0] ? UNPACK_MS
                                                                         : GIT_CHECKOUT_LIMIT_MS,
                                                .ended = on_laid_out,
                                                .ctx = f};
    if (child_process_start(&config, &f->process, &f->reason)) {
        fail(f);
    }
}

static void finish_ready(struct files *f)
{
    f->is_ready = true;
    fetch_free(f->fetch);
    f->fetch = NULL;
    f->options.ready(f->options.ctx);
}

static void on_laid_out(void *ctx, const struct child_process_result *result)
{
    struct files *f = ctx;
    const char *what = f->digest[0] ? "unpacking" : "git";
    if (!f->reason.text[0] && result->is_late) {
        reason_set(&f->reason, "%s took longer than %d s", what,
                   (f->digest[0] ? UNPACK_MS : GIT_CHECKOUT_LIMIT_MS) / 1000);
    } else if (!f->reason.text[0] && !child_process_succeeded(result)) {
        reason_set(&f->reason, "%s%s", f->digest[0] ? "" : "git: ",
                   result->line[0] ? result->line : "cannot set up the job's files");
    }
    if (f->reason.text[0]) {
        fail(f);
    } else {
        finish_ready(f);
    }
}

static void on_fetched(void *ctx, int bundle)
{
    struct files *f = ctx;
    f->bundle = bundle;
    begin_process(f);
}

bool files_are_needed(const json_t *job)
{
    return job_source(job, "bundle") || job_source(job, "git");
}

struct files *files_new(const struct files_options *options)
{
    const char *digest = job_source(options->job, "bundle");
    struct files *f = must_alloc(sizeof *f);
    *f = (struct files){.options = *options, .bundle = -1};
    f->fails = evtimer_new(options->base, on_fails, f);
    must_succeed(f->fails);
    if (digest) {
        snprintf(f->digest, sizeof f->digest, "%s", digest);
        const struct fetch_options fetch = {.base = options->base,
                                            .digest = f->digest,
                                            .state_dir = options->state_dir,
                                            .send = options->send,
                                            .send_ctx = options->ctx,
                                            .ended = on_fetched,
                                            .ctx = f};
        f->fetch = fetch_new(&fetch);
    } else {
        begin_process(f);
    }
    return f;
}

void files_free(struct files *f)
{
    if (f) {
        fetch_free(f->fetch);
        child_process_free(f->process);
        event_drop(&f->fails);
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
        reason_set(&f->reason, "the node was released while the job's files were fetched");
    }
    if (f->process) {
        child_process_kill(f->process);
    } else {
        fail(f);
    }
}
