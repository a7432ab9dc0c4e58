/* tests/unit/agent/test_files.c: a job's files, where the machine cannot start a process. */
#include <sys/resource.h>

#include "agent/pool/files.h"
#include "agent/pool/scratch.h"
#include "common/text/reason.h"
#include "tests/unit/folder.h"

static struct event_base *base;
static struct scratch *scratch;
static struct files *files;
static json_t *job;
static unsigned n_failed;

static int begin(void **state)
{
    struct tfe_reason reason;
    base = event_base_new();
    assert_non_null(base);
    assert_int_equal(scratch_new(true, &scratch, &reason), 0);
    job = json_pack("{s:{s:s, s:s}}", "source", "git", "file:///none", "ref",
                    "0123456789012345678901234567890123456789");
    assert_non_null(job);
    files = NULL;
    n_failed = 0;
    return 0;
}

static int end(void **state)
{
    files_free(files);
    scratch_free(scratch);
    json_decref(job);
    event_base_free(base);
    return 0;
}

#define FIXTURE begin, end

static void on_ready(void *ctx)
{
    fail_msg("the files are ready");
}

/* Frees the files, as a pool node does. */
static void on_failed(void *ctx, const char *reason)
{
    n_failed++;
    assert_non_null(strstr(reason, "pipe"));
    files_free(files);
    files = NULL;
}

TEST_IN(files, missing_descriptor_fails_from_the_event_loop)
{
    const struct files_options options = {
        .base = base, .job = job, .scratch = scratch, .ready = on_ready, .failed = on_failed};
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    files = files_new(&options);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(n_failed, 0);
    assert_non_null(files);
    assert_int_equal(event_base_dispatch(base), 1); /* no event is left */
    assert_int_equal(n_failed, 1);
    assert_null(files);
}
