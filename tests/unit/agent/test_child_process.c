/* tests/unit/agent/test_child_process.c: where the output of a child goes that runs a function. */
#include "agent/os/child_process.h"
#include "tests/unit/folder.h"

static struct event_base *base;
static struct child_process *child;
static struct child_process_result result;

static void on_ended(void *ctx, const struct child_process_result *how)
{
    result = *how;
}

static void run(void *ctx)
{
    (void)!write(STDOUT_FILENO, "out\n", 4);
    (void)!write(STDERR_FILENO, "err\n", 4);
    _exit(0);
}

/* Runs the function and returns what this process's stderr has received. */
static const char *run_with(bool shares_stderr)
{
    static char text[64];
    struct tfe_reason reason;
    int ends[2];
    const int own = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    const struct child_process_config config = {
        .base = base, .run = run, .shares_stderr = shares_stderr, .ended = on_ended};
    assert_true(own >= 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    const int rc = child_process_start(&config, &child, &reason);
    assert_int_equal(dup2(own, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(rc, 0);
    assert_int_equal(event_base_dispatch(base), 1);
    assert_true(child_process_succeeded(&result));
    const ssize_t n = read(ends[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    (void)close(own);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return text;
}

TEST(child_process, log_entries_of_a_function_go_to_a_shared_stderr)
{
    base = event_base_new();
    assert_non_null(base);
    assert_string_equal(run_with(true), "err\n");
    assert_string_equal(result.line, "out");
    assert_string_equal(run_with(false), "");
    assert_string_equal(result.line, "err");
    child_process_free(child);
    event_base_free(base);
}
