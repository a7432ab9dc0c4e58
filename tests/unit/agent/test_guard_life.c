/* tests/unit/agent/test_guard_life.c: start of trainers and reports of their end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/guard/guard.h"
#include "agent/guard/spawn_block.h"
#include "tests/unit/agent/agent_fixture.h"

#define FIXTURE rig_setup, rig_teardown

TEST_IN(guard, exit_codes_and_signals_are_reported_unchanged)
{
    static const int codes[] = {0, 1, 2, 42, 126, 127, 128, 137, 143, 255};
    static const int signals[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGPIPE,
                                  SIGUSR1, SIGABRT, SIGSEGV, SIGKILL, SIGALRM};
    enum { N = sizeof codes / sizeof codes[0] };
    struct rig *rig = *state;
    for (uint32_t i = 0; i < N; i++) {
        char script[32];
        snprintf(script, sizeof script, "exit %d", codes[i]);
        RIG_RUN(rig, i, "/bin/sh", "-c", script);
        RIG_RUN(rig, N + i, "sleep", "1000");
        RIG_UNTIL(rig, rig->slots[N + i].spawned);
        guard_link_signal(rig->link, N + i, signals[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        RIG_UNTIL(rig, rig->slots[i].exited && rig->slots[N + i].exited);
        assert_int_equal(rig->slots[i].spawned, 1);
        assert_int_equal(rig->slots[i].status, codes[i] << 8);
        assert_int_equal(WTERMSIG(rig->slots[N + i].status), signals[i]);
    }
}

TEST_IN(guard, signal_right_after_spawn_is_not_lost)
{
    struct rig *rig = *state;
    for (int round = 0; round < 20; round++) {
        memset(rig->slots, 0, sizeof rig->slots);
        RIG_RUN(rig, 0, "sleep", "1000");
        guard_link_signal(rig->link, 0, SIGTERM);
        RIG_UNTIL(rig, rig->slots[0].exited);
        assert_int_equal(rig->slots[0].spawned, 1);
        assert_int_equal(rig->slots[0].status, SIGTERM);
    }
}

TEST_IN(guard, slot_is_free_after_its_end_is_reported)
{
    struct rig *rig = *state;
    for (int round = 1; round <= 5; round++) {
        RIG_RUN(rig, 3, "/bin/true");
        assert_int_equal(rig_run(rig, 3, (const char *const[]){"/bin/true", NULL}), TFE_ESTATE);
        RIG_UNTIL(rig, rig->slots[3].exited == round);
    }
    assert_int_equal(rig_run(rig, GUARD_SLOTS, (const char *const[]){"true", NULL}), TFE_EINVAL);
    guard_link_signal(rig->link, 3, SIGTERM); /* an empty slot is ignored */
}

TEST_IN(guard, missing_command_is_a_spawn_error)
{
    struct rig *rig = *state;
    RIG_RUN(rig, 0, "no-such-command-anywhere");
    RIG_RUN(rig, 1, "/no/such/command");
    RIG_RUN(rig, 2, "/etc/passwd");
    RIG_RUN(rig, 3, "/");
    RIG_UNTIL(rig, rig->slots[0].failed && rig->slots[1].failed && rig->slots[2].failed &&
                       rig->slots[3].failed);
    assert_int_equal(rig->slots[0].error, ENOENT);
    assert_int_equal(rig->slots[1].error, ENOENT);
    assert_int_equal(rig->slots[2].error, EACCES);
    assert_int_equal(rig->slots[3].error, EACCES);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rig->slots[i].spawned + rig->slots[i].exited, 0);
    }
    RIG_RUN(rig, 0, "/bin/true"); /* the slot is free again */
    RIG_UNTIL(rig, rig->slots[0].exited);
}

TEST_IN(guard, missing_directory_differs_from_missing_command)
{
    struct rig *rig = *state;
    const char *const argv[] = {"/bin/sh", "-c", "pwd", NULL};
    const char *const envp[] = {"PATH=/usr/bin:/bin", NULL};
    struct spawn_spec spec = {.argv = argv, .envp = envp, .directory = "/no/such/directory"};
    assert_int_equal(guard_link_spawn(rig->link, 0, &spec, rig->out[1], 2), 0);
    RIG_UNTIL(rig, rig->slots[0].failed);
    assert_int_equal(rig->slots[0].error, ENOTDIR);

    char line[64];
    spec.directory = "/usr";
    assert_int_equal(guard_link_spawn(rig->link, 0, &spec, rig->out[1], 2), 0);
    rig_line(rig, line, sizeof line);
    assert_string_equal(line, "/usr");
    RIG_UNTIL(rig, rig->slots[0].exited);
}

TEST_IN(guard, command_is_searched_in_the_trainers_path)
{
    struct rig *rig = *state;
    char dir[FOLDER_BYTES];
    char path[64];
    folder_make(dir);
    folder_write(folder_path(dir, "only-here"), "#!/bin/sh\necho found\n");
    assert_int_equal(chmod(folder_path(dir, "only-here"), 0755), 0);
    snprintf(path, sizeof path, "PATH=%s", dir);
    const char *const argv[] = {"only-here", NULL};
    const char *const envp[] = {path, NULL};
    struct spawn_spec spec = {.argv = argv, .envp = envp};
    char line[64];
    assert_int_equal(guard_link_spawn(rig->link, 0, &spec, rig->out[1], 2), 0);
    rig_line(rig, line, sizeof line);
    assert_string_equal(line, "found");
    RIG_UNTIL(rig, rig->slots[0].exited);
    RIG_RUN(rig, 0, "only-here"); /* with the PATH of this test */
    RIG_UNTIL(rig, rig->slots[0].failed);
    assert_int_equal(rig->slots[0].error, ENOENT);
    folder_remove(dir);
}

TEST_IN(guard, environment_of_two_megabytes_arrives)
{
    enum { COUNT = 20, SIZE = 100000 };
    struct rig *rig = *state;
    char *strings[COUNT + 2];
    for (int i = 0; i < COUNT; i++) {
        strings[i] = malloc(SIZE);
        memset(strings[i], 'a' + i, SIZE - 1);
        strings[i][SIZE - 1] = '\0';
        strings[i][0] = 'V';
        strings[i][1] = (char)('a' + i);
        strings[i][2] = '=';
    }
    strings[COUNT] = strdup("PATH=/usr/bin:/bin");
    strings[COUNT + 1] = NULL;
    const char *const argv[] = {"/bin/sh", "-c", "echo ${#Va} ${#Vt}", NULL};
    struct spawn_spec spec = {.argv = argv, .envp = (const char *const *)strings};
    char line[64];
    assert_int_equal(guard_link_spawn(rig->link, 0, &spec, rig->out[1], 2), 0);
    RIG_UNTIL(rig, rig->slots[0].spawned || rig->slots[0].failed);
    assert_int_equal(rig->slots[0].error, 0);
    rig_line(rig, line, sizeof line);
    assert_string_equal(line, "99996 99996");
    RIG_UNTIL(rig, rig->slots[0].exited);

    /* The kernel's limit for one string, 128 KiB, is reported as such. */
    free(strings[0]);
    strings[0] = calloc(1, 140000);
    memset(strings[0], 'x', 139999);
    assert_int_equal(guard_link_spawn(rig->link, 0, &spec, rig->out[1], 2), 0);
    RIG_UNTIL(rig, rig->slots[0].failed);
    assert_int_equal(rig->slots[0].error, E2BIG);
    for (int i = 0; i <= COUNT; i++) {
        free(strings[i]);
    }
}

TEST_IN(guard, stopped_trainer_handles_sigterm)
{
    struct rig *rig = *state;
    RIG_RUN(rig, 0, "/bin/sh", "-c", "trap 'exit 7' TERM; echo $$; kill -STOP $$; sleep 1000");
    pid_t pid = rig_pid(rig);
    RIG_UNTIL(rig, rig_has_state(pid, 'T'));
    guard_link_signal(rig->link, 0, SIGTERM);
    RIG_UNTIL(rig, rig->slots[0].exited);
    assert_int_equal(WEXITSTATUS(rig->slots[0].status), 7);
}

TEST_IN(guard, signal_reaches_every_process_group_of_the_session_only)
{
    struct rig *rig = *state;
    RIG_RUN(rig, 1, "sleep", "1000");
    RIG_UNTIL(rig, rig->slots[1].spawned);
    RIG_RUN(rig, 0, "bash", "-c", "set -m; sleep 1000 & echo $!; echo $$; wait; exit 5");
    pid_t other_group = rig_pid(rig);
    pid_t main_process = rig_pid(rig);
    assert_int_not_equal(getpgid(other_group), getpgid(main_process));
    assert_int_equal(getsid(other_group), main_process);
    guard_link_signal(rig->link, 0, SIGUSR1);
    RIG_UNTIL(rig, rig_is_gone(other_group) && rig->slots[0].exited);
    assert_int_equal(rig->slots[1].exited, 0);
    assert_false(rig_is_gone(rig->slots[1].pid));
}

/* A process forked by the trainer inherits the handler, and would save a second time. */
TEST_IN(guard, sigterm_reaches_only_the_main_process)
{
    struct rig *rig = *state;
    RIG_RUN(rig, 0, "bash", "-c",
            "sleep 1000 & echo $!; trap 'kill -0 %1 && exit 6' TERM; echo $$; wait; exit 5");
    (void)rig_pid(rig);
    (void)rig_pid(rig);
    guard_link_signal(rig->link, 0, SIGTERM);
    RIG_UNTIL(rig, rig->slots[0].exited);
    assert_int_equal(WEXITSTATUS(rig->slots[0].status), 6);
}

/* The child maps the arguments, so truncating them could cause SIGBUS. */
TEST(guard, start_data_is_sealed_and_its_length_checked)
{
    const char *const argv[] = {"true", "once", NULL};
    const struct spawn_spec spec = {.argv = argv, .envp = (const char *const[]){"A=1", NULL}};
    struct spawn_block_header block;
    struct spawn_program program;
    int fd;
    assert_int_equal(spawn_block_new(&spec, &block, &fd), 0);
    assert_int_equal(fcntl(fd, F_GET_SEALS),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    assert_true(spawn_block_map(&block, fd, &program));
    assert_string_equal(program.argv[1], "once");
    block.block_bytes += 65536;
    assert_false(spawn_block_map(&block, fd, &program));
    assert_int_equal(errno, EINVAL);
    close(fd);
}

TEST_IN(guard, guard_inherits_no_descriptor_of_the_agent)
{
    struct rig *rig = *state;
    RIG_RUN(rig, 0, "/bin/true");
    RIG_UNTIL(rig, rig->slots[0].exited);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)rig->guard);
    DIR *dir = opendir(path);
    int count = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        char target[PATH_MAX] = "";
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        /* The guard's group holds its lock; there is no other group below it. */
        const char *group = strstr(target, "/tfe-guard-");
        count += entry->d_name[0] != '.' && (!group || strchr(group + 1, '/'));
    }
    closedir(dir);
    assert_int_equal(count, 6); /* two of /dev/null, stderr, pair, signalfd, timerfd */
    assert_int_equal(getsid(rig->guard), rig->guard);
}

static void file_read(pid_t pid, const char *name, char *ret, size_t cap)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, ret, cap - 1);
    close(fd);
    assert_true(n > 0);
    ret[n] = '\0';
}

TEST_IN(guard, guard_has_its_own_name_and_no_command_line)
{
    struct rig *rig = *state;
    char text[256];
    RIG_RUN(rig, 0, "/bin/true"); /* the guard is initialised when it has done this */
    RIG_UNTIL(rig, rig->slots[0].exited);
    file_read(rig->guard, "comm", text, sizeof text);
    assert_string_equal(text, "tfe-guard\n");
    file_read(rig->guard, "cmdline", text, sizeof text);
    assert_string_equal(text, "tfe-guard");
    file_read(getpid(), "cmdline", text, sizeof text);
    assert_string_not_equal(text, "tfe-guard");
}

TEST_IN(guard, fork_preserves_the_agents_signal_mask)
{
    sigset_t now;
    assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &now), 0);
    for (int signo = 1; signo < NSIG; signo++) {
        assert_int_not_equal(sigismember(&now, signo), 1);
    }
}

/* CLOCK_MONOTONIC stops during a suspend, but the trainers must be gone when the machine
 * resumes after the fence. */
TEST_IN(guard, fence_counts_suspended_time)
{
    struct rig *rig = *state;
    char path[64];
    char text[1024];
    int timers = 0;
    RIG_RUN(rig, 0, "/bin/true");
    RIG_UNTIL(rig, rig->slots[0].exited);
    for (int fd = 0; fd < 64; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)rig->guard, fd);
        FILE *file = fopen(path, "r");
        size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
        text[n] = '\0';
        const char *clock = strstr(text, "clockid:");
        if (clock) {
            timers++;
            assert_int_equal(strtol(clock + strlen("clockid:"), NULL, 10), CLOCK_BOOTTIME);
        }
        if (file) {
            fclose(file);
        }
    }
    assert_int_equal(timers, 1);
}

TEST_IN(guard, terminal_signals_and_sigterm_do_not_end_it)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGTTIN};
    struct rig *rig = *state;
    RIG_RUN(rig, 0, "sleep", "1000");
    RIG_UNTIL(rig, rig->slots[0].spawned);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        kill(rig->guard, signals[i]);
    }
    RIG_RUN(rig, 1, "/bin/true");
    RIG_UNTIL(rig, rig->slots[1].exited);
    assert_int_equal(rig->slots[0].exited, 0);
}

/* More events than the pipe holds, and no reader: the guard must continue and lose no event. */
TEST_IN(guard, agent_that_does_not_read_blocks_nothing)
{
    enum { FENCES = 500 };
    struct rig *rig = *state;
    for (uint32_t i = 0; i < GUARD_SLOTS; i++) {
        RIG_RUN(rig, i, "/bin/sh", "-c", "echo; exit 9");
    }
    /* Do not run the event loop: read from the trainers' own pipe. */
    for (uint32_t i = 0; i < GUARD_SLOTS; i++) {
        char c;
        assert_int_equal(read(rig->out[0], &c, 1), 1);
    }
    /* Each fence expires at once and is reported; the pipe holds about 300 reports. Each also
     * costs a scan of /proc and two context switches, tens of milliseconds on a busy machine, so
     * use as few as needed. */
    for (int i = 0; i < FENCES; i++) {
        int unread = 1;
        guard_link_fence(rig->link, (struct tfe_mono){.ms = 1});
        while (unread) {
            sched_yield();
            assert_int_equal(ioctl(rig->pair, SIOCOUTQ, &unread), 0);
        }
    }
    for (uint32_t i = 0; i < GUARD_SLOTS; i++) {
        RIG_UNTIL(rig, rig->slots[i].exited);
        assert_int_equal(rig->slots[i].spawned, 1);
    }
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept);
    assert_in_range(rig->fenced, 1, FENCES - 50); /* the pipe was full for the other reports */
    RIG_RUN(rig, 0, "/bin/true");
    RIG_UNTIL(rig, rig->slots[0].failed);
    assert_int_equal(rig->slots[0].error, ETIME);
    guard_link_fence(rig->link, TFE_MONO_NEVER);
    RIG_RUN(rig, 0, "/bin/true");
    RIG_UNTIL(rig, rig->slots[0].exited == 2);
}

TEST_IN(guard, orders_to_a_stopped_guard_are_queued)
{
    struct rig *rig = *state;
    RIG_RUN(rig, 0, "sleep", "1000");
    RIG_UNTIL(rig, rig->slots[0].spawned);
    kill(rig->guard, SIGSTOP);
    RIG_UNTIL(rig, rig_has_state(rig->guard, 'T'));
    for (int i = 0; i < 5000; i++) { /* far more than the pipe holds */
        guard_link_fence(rig->link, (struct tfe_mono){.ms = INT64_MAX - 1 - i});
    }
    guard_link_signal(rig->link, 0, SIGTERM);
    guard_link_sweep(rig->link);
    kill(rig->guard, SIGCONT);
    RIG_UNTIL(rig, rig->swept == 1);
    assert_int_equal(rig->slots[0].exited, 1);
    assert_true(WIFSIGNALED(rig->slots[0].status));
    assert_int_equal(rig->fenced, 0);
}

/* Sends requests to a stopped guard until its pipe is full; slot 1 is in use and ignores them. */
static void pipe_fill(struct rig *rig)
{
    int was = -1;
    int unread = 0;
    kill(rig->guard, SIGSTOP);
    while (!rig_has_state(rig->guard, 'T')) { /* without running the event loop */
        sched_yield();
    }
    while (unread > was) {
        was = unread;
        guard_link_signal(rig->link, 1, SIGCONT);
        assert_int_equal(ioctl(rig->pair, SIOCOUTQ, &unread), 0);
    }
}

TEST_IN(guard, unsent_fence_precedes_any_start)
{
    struct rig *rig = *state;
    int unread = 1;
    RIG_RUN(rig, 1, "sleep", "1000");
    RIG_UNTIL(rig, rig->slots[1].spawned);
    pipe_fill(rig);
    guard_link_fence(rig->link, (struct tfe_mono){.ms = 1});
    kill(rig->guard, SIGCONT);
    while (unread) { /* without running the event loop: the fence is still set */
        sched_yield();
        assert_int_equal(ioctl(rig->pair, SIOCOUTQ, &unread), 0);
    }
    assert_int_equal(rig_run(rig, 0, (const char *const[]){"true", NULL}), TFE_ESYS);
    RIG_UNTIL(rig, rig->fenced && rig->slots[1].exited);
}

TEST_IN(guard, unsent_signal_does_not_reach_the_next_trainer)
{
    struct rig *rig = *state;
    struct pollfd end = {.fd = rig->pair, .events = POLLIN};
    RIG_RUN(rig, 1, "sleep", "1000");
    RIG_RUN(rig, 0, "sh", "-c", "echo $$; exec sleep 1000");
    pid_t first = rig_pid(rig);
    RIG_UNTIL(rig, rig->slots[0].spawned && rig->slots[1].spawned);
    kill(first, SIGKILL);
    /* it has ended, and the agent has not read that yet */
    assert_int_equal(poll(&end, 1, RIG_PATIENCE_MS), 1);
    pipe_fill(rig);
    guard_link_signal(rig->link, 0, SIGTERM);
    RIG_UNTIL(rig, rig->slots[0].exited);
    kill(rig->guard, SIGCONT);
    while (rig_run(rig, 0, (const char *const[]){"sleep", "1000", NULL}) != 0) {
        sched_yield(); /* without running the event loop: pending events come afterwards */
    }
    RIG_UNTIL(rig, rig->slots[0].spawned == 2);
    RIG_RUN(rig, 2, "true");
    RIG_UNTIL(rig, rig->slots[2].exited);
    assert_int_equal(rig->slots[0].exited, 1);
    assert_false(rig_is_gone(rig->slots[0].pid));
}

TEST_IN(guard, invalid_order_is_ignored)
{
    struct rig *rig = *state;
    const struct guard_order orders[] = {
        {.type = GUARD_SIGNAL, .slot = 0, .signo = 65},
        {.type = GUARD_SIGNAL, .slot = 0, .signo = 0},
        {.type = GUARD_SIGNAL, .slot = GUARD_SLOTS, .signo = SIGTERM},
        {.type = GUARD_SPAWN, .slot = 2, .from = GUARD_NO_SLOT}, /* without descriptors */
        {.type = 99},
    };
    RIG_RUN(rig, 0, "sleep", "1000");
    RIG_UNTIL(rig, rig->slots[0].spawned);
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        assert_int_equal(send(rig->pair, &orders[i], sizeof orders[i], 0), sizeof orders[i]);
    }
    assert_int_equal(send(rig->pair, &orders[0], 1, 0), 1);
    RIG_RUN(rig, 1, "true");
    RIG_UNTIL(rig, rig->slots[1].exited);
    assert_string_equal(rig->order, "SSE");
}

int main(int argc, char **argv)
{
    guard_title_area(argc, argv);
    signal(SIGPIPE, SIG_IGN); /* as the agent does; trainers must not inherit it */
    return stories_run(NULL, NULL);
}
