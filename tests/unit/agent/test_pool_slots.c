/* tests/unit/agent/test_pool_slots.c: several pool nodes on one machine, each in a process
 * below a common parent. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/pool/slots.h"
#include "common/base/fd.h"
#include "tests/unit/test_runner.h"

#define TIMEOUT_MS 30000

static struct {
    pid_t keeper;
    int words[2]; /* pipe with messages of the slots: "SLOT PID\n" */
} f;

static int begin(void **state)
{
    f.keeper = 0;
    assert_int_equal(pipe(f.words), 0);
    return 0;
}

static int end(void **state)
{
    if (f.keeper > 0) {
        (void)kill(f.keeper, SIGKILL); /* its slots die with it */
    }
    fd_close(&f.words[0]);
    fd_close(&f.words[1]);
    return 0;
}

#define FIXTURE begin, end

static void on_signal(int signo)
{
    _exit(128 + signo);
}

/* Starts the parent with two slots, each of which reports its start and then calls the function. */
static void keep(void (*slot_does)(uint32_t slot))
{
    f.keeper = fork();
    assert_true(f.keeper >= 0);
    if (f.keeper == 0) {
        uint32_t slot;
        int code;
        if (slots_fork(2, &slot, &code)) {
            (void)signal(SIGTERM, on_signal);
            (void)signal(SIGINT, on_signal);
            (void)dprintf(f.words[1], "%u %d\n", (unsigned)slot, (int)getpid());
            slot_does(slot);
            _exit(0);
        }
        _exit(code);
    }
}

/* Returns the next slot that reports its start. */
static uint32_t next(pid_t *ret_pid)
{
    char line[32] = "";
    unsigned slot;
    int pid;
    for (size_t n = 0; n < sizeof line - 1 && !strchr(line, '\n'); n++) {
        struct pollfd from = {.fd = f.words[0], .events = POLLIN};
        assert_int_equal(poll(&from, 1, TIMEOUT_MS), 1);
        assert_int_equal(read(f.words[0], &line[n], 1), 1);
    }
    assert_int_equal(sscanf(line, "%u %d", &slot, &pid), 2);
    *ret_pid = pid;
    return slot;
}

/* Stores the pids of both slots, which may start in any order. */
static void both(pid_t pids[2])
{
    for (int i = 0; i < 2; i++) {
        pid_t pid;
        const uint32_t slot = next(&pid);
        assert_in_range(slot, 0, 1);
        pids[slot] = pid;
    }
    assert_true(pids[0] > 0 && pids[1] > 0);
}

/* Returns the parent's exit code. */
static int ends(void)
{
    int status = 0;
    for (int ms = 0; waitpid(f.keeper, &status, WNOHANG) == 0; ms += 2) {
        assert_true(ms < TIMEOUT_MS);
        (void)usleep(2000);
    }
    f.keeper = 0;
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void goes(pid_t pid)
{
    for (int ms = 0; kill(pid, 0) == 0; ms += 2) {
        assert_true(ms < TIMEOUT_MS);
        (void)usleep(2000);
    }
    assert_int_equal(errno, ESRCH);
}

static void waits(uint32_t slot)
{
    for (;;) {
        (void)pause();
    }
}

TEST_IN(pool_slots, signal_to_the_keeper_ends_all_slots)
{
    pid_t pids[2] = {0};
    keep(waits);
    both(pids);
    /* so that signals of the terminal arrive once */
    assert_int_not_equal(getsid(pids[0]), getsid(0));
    assert_int_equal(kill(f.keeper, SIGINT), 0);
    assert_int_equal(ends(), 128 + SIGINT);
    goes(pids[0]);
    goes(pids[1]);
}

TEST_IN(pool_slots, dead_slot_restarts_alone)
{
    pid_t pids[2] = {0};
    pid_t again;
    keep(waits);
    both(pids);
    assert_int_equal(kill(pids[1], SIGKILL), 0);
    assert_int_equal(next(&again), 1);
    assert_int_not_equal(again, pids[1]);
    assert_int_equal(kill(pids[0], 0), 0);
    assert_int_equal(kill(f.keeper, SIGTERM), 0);
    assert_int_equal(ends(), 128 + SIGTERM);
    goes(pids[0]);
    goes(again);
}

static void exits_if_it_is_the_first(uint32_t slot)
{
    if (slot == 0) {
        _exit(3);
    }
    waits(slot);
}

TEST_IN(pool_slots, exit_code_of_a_slot_is_that_of_the_keeper)
{
    pid_t pids[2] = {0};
    pid_t again;
    keep(exits_if_it_is_the_first);
    both(pids);
    goes(pids[0]);
    assert_int_equal(kill(pids[1], SIGKILL), 0);
    assert_int_equal(next(&again), 1); /* not slot 0, which has ended */
    assert_int_equal(kill(f.keeper, SIGTERM), 0);
    assert_int_equal(ends(), 3); /* more specific than a signal's number */
    goes(again);
}

TEST_IN(pool_slots, dead_keeper_ends_the_slots)
{
    pid_t pids[2] = {0};
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    keep(waits);
    both(pids);
    assert_int_equal(kill(f.keeper, SIGKILL), 0);
    assert_int_equal(waitpid(f.keeper, NULL, 0), f.keeper);
    f.keeper = 0;
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM);
    }
}
