/* tests/unit/server/test_trace_log.c: peers cannot fill the disk with log lines or hide the lines
 * of a running job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cli/log.h"
#include "server/events/trace_log.h"
#include "tests/unit/test_runner.h"

#define AT_ONCE 50

struct place {
    struct trace_log *log;
    FILE *file;
    int was;
};

static struct place *open_log(void)
{
    static struct place place;
    place.log = trace_log_new(AT_ONCE);
    place.file = tmpfile();
    place.was = dup(STDERR_FILENO);
    assert_non_null(place.log);
    assert_non_null(place.file);
    assert_true(place.was >= 0);
    assert_true(dup2(fileno(place.file), STDERR_FILENO) >= 0);
    return &place;
}

/* Closes the log. Returns the number of lines and the sum of lines that they report as suppressed.
 */
static void close_log(struct place *place, unsigned *ret_lines, unsigned *ret_hidden)
{
    char line[512];
    *ret_lines = *ret_hidden = 0;
    assert_true(dup2(place->was, STDERR_FILENO) >= 0);
    close(place->was);
    rewind(place->file);
    while (fgets(line, sizeof(line), place->file)) {
        const char *hidden = strstr(line, "not_logged=");
        *ret_lines += 1;
        *ret_hidden += hidden ? (unsigned)atoi(hidden + strlen("not_logged=")) : 0;
    }
    (void)fclose(place->file);
    trace_log_free(place->log);
}

static void say(struct place *place, const char *job, unsigned node, uint64_t epoch)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "n%u", node);
    trace_log(place->log,
              &(struct rdzv_trace){
                  .kind = TRACE_NODE_JOINED, .job = job, .node = name, .epoch = epoch, .text = ""});
}

/* Regression: a member that opened one job per millisecond caused 390 KB of log per second. */
TEST(trace_log, events_of_many_new_jobs_are_rate_limited_together)
{
    struct place *place = open_log();
    unsigned lines, hidden;
    char job[16];
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(job, sizeof(job), "j%u", i);
        say(place, job, i, 0);
    }
    say(place, "real", 1, 7);
    close_log(place, &lines, &hidden);
    assert_in_range(lines, AT_ONCE + 1, AT_ONCE + 60);
    assert_int_equal(lines + hidden, 1001);
}

TEST(trace_log, burst_of_one_job_hides_no_event_of_another)
{
    struct place *place = open_log();
    unsigned lines, hidden;
    for (unsigned i = 0; i < 1000; i++) {
        say(place, "loud", i, 7);
    }
    for (unsigned i = 0; i < 20; i++) {
        say(place, "real", i, 7);
    }
    close_log(place, &lines, &hidden);
    assert_in_range(lines, AT_ONCE + 20, AT_ONCE + 80);
    assert_int_equal(lines + hidden, 1020);
}
