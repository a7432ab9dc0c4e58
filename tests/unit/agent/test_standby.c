/* tests/unit/agent/test_standby.c: handing a trainer's start over to a process that
 * is already running. */
#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/guard/guard_state.h"
#include "agent/trainer/environment.h"
#include "agent/trainer/standby.h"
#include "tests/unit/agent/agent_fixture.h"

#define STANDBY GUARD_STANDBY_SLOT
extern char **environ;

static void start_standby(struct rig *rig, const char *script)
{
    rig_start_standby(rig, script, true);
}

static int give_start(struct rig *rig, const char *script)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct spawn_spec spec = {.argv = argv, .envp = (const char *const *)environ};
    return guard_link_hand_over(rig->link, 0, STANDBY, &spec, rig->out[1], STDERR_FILENO);
}

#define WARM_AND_WAIT "printf W >&3; while :; do sleep 1000; done"

#define FIXTURE rig_setup, rig_teardown

TEST_IN(standby, sweep_spares_the_standby)
{
    struct rig *rig = *state;
    start_standby(rig, WARM_AND_WAIT);
    RIG_UNTIL(rig, rig->slots[STANDBY].warm);
    RIG_RUN(rig, 0, "/bin/sh", "-c", "setsid sleep 1000 & echo $!; exec sleep 1000");
    pid_t escaped = rig_pid(rig);
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept);
    assert_true(rig_is_gone(escaped));
    assert_int_equal(rig->slots[0].exited, 1);
    assert_int_equal(rig->slots[STANDBY].exited, 0);
    assert_false(rig_is_gone(rig->slots[STANDBY].pid));
    guard_link_fence(rig->link, (struct tfe_mono){.ms = 1});
    RIG_UNTIL(rig, rig->fenced);
    assert_false(rig_is_gone(rig->slots[STANDBY].pid));
    /* During a fence no start can be handed over. */
    assert_int_equal(give_start(rig, "echo started"), 0);
    RIG_UNTIL(rig, rig->slots[0].failed);
    assert_int_equal(rig->slots[0].error, ETIME);
}

TEST_IN(standby, sweep_ends_a_standby_that_became_a_trainer)
{
    struct rig *rig = *state;
    start_standby(rig, "printf W >&3; sleep 0.2; printf T >&3; while :; do sleep 1000; done");
    RIG_UNTIL(rig, rig->slots[STANDBY].warm);
    pid_t pid = rig->slots[STANDBY].pid;
    assert_int_equal(give_start(rig, "exit 3"), 0);
    RIG_UNTIL(rig, rig->slots[0].spawned);
    assert_int_equal(rig->slots[0].pid, pid);
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept);
    assert_true(rig_is_gone(pid));
    assert_int_equal(rig->slots[0].exited, 1);
    assert_int_equal(rig->slots[STANDBY].exited, 0);
}

TEST_IN(standby, standby_killed_by_a_sweep_before_its_start_is_not_replaced)
{
    struct rig *rig = *state;
    start_standby(rig, WARM_AND_WAIT);
    RIG_UNTIL(rig, rig->slots[STANDBY].warm);
    assert_int_equal(give_start(rig, "echo started"), 0);
    RIG_UNTIL(rig, rig->slots[0].spawned);
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept);
    assert_int_equal(rig->slots[0].spawned, 1);
    assert_int_equal(rig->slots[0].exited, 1);
}

TEST_IN(standby, next_standby_starts_in_the_slot_and_after_the_fence)
{
    struct rig *rig = *state;
    for (int round = 1; round <= 2; round++) {
        start_standby(rig, "printf W >&3; sleep 0.01; printf T >&3; exit 0");
        RIG_UNTIL(rig, rig->slots[STANDBY].warm == round);
        assert_int_equal(give_start(rig, "exit 0"), 0);
        RIG_UNTIL(rig, rig->slots[0].exited == round);
    }
    guard_link_fence(rig->link, (struct tfe_mono){.ms = 1});
    guard_link_sweep(rig->link); /* otherwise it would start while the fence still kills */
    RIG_UNTIL(rig, rig->fenced && rig->swept);
    start_standby(rig, WARM_AND_WAIT);
    RIG_UNTIL(rig, rig->slots[STANDBY].warm == 3);
    assert_int_equal(rig->slots[STANDBY].failed, 0);
}

TEST_IN(standby, unusable_standby_is_replaced_by_a_new_process)
{
    struct rig *rig = *state;
    start_standby(rig, WARM_AND_WAIT);
    RIG_UNTIL(rig, rig->slots[STANDBY].warm == 1);
    pid_t pid = rig->slots[STANDBY].pid;
    kill(pid, SIGSTOP); /* it dies before it takes the start */
    assert_int_equal(give_start(rig, "echo $$; exit 5"), 0);
    RIG_UNTIL(rig, rig->slots[0].spawned);
    kill(pid, SIGKILL);
    assert_true(rig_pid(rig) != pid);
    RIG_UNTIL(rig, rig->slots[0].exited == 1);
    assert_int_equal(WEXITSTATUS(rig->slots[0].status), 5);

    start_standby(rig, WARM_AND_WAIT);
    RIG_UNTIL(rig, rig->slots[STANDBY].warm == 2);
    kill(rig->slots[STANDBY].pid, SIGKILL); /* it is dead already */
    assert_int_equal(give_start(rig, "exit 6"), 0);
    RIG_UNTIL(rig, rig->slots[0].exited == 2);
    assert_int_equal(WEXITSTATUS(rig->slots[0].status), 6);

    const int spawned = rig->slots[STANDBY].spawned;
    start_standby(rig, "sleep 0.1; printf 'Cno such module' >&3; exit 0");
    RIG_UNTIL(rig, rig->slots[STANDBY].spawned > spawned);
    assert_int_equal(give_start(rig, "exit 7"), 0);
    RIG_UNTIL(rig, rig->slots[0].exited == 3);
    assert_int_equal(WEXITSTATUS(rig->slots[0].status), 7);
    assert_int_equal(rig->slots[0].cold, 1);
    assert_string_equal(rig->slots[0].reason, "no such module");
}

TEST_IN(standby, output_before_the_start_is_discarded)
{
    struct rig *rig = *state;
    start_standby(rig, "printf 'Ca long sentence' >&3; sleep 0.05; printf 'Cno' >&3; sleep 1000");
    RIG_UNTIL(rig, rig->slots[STANDBY].cold && strcmp(rig->slots[STANDBY].reason, "no") == 0);
}

/* Otherwise the trainer would be in a group that counts as left behind. */
TEST(standby, group_of_a_standby_follows_it)
{
    static struct guard g = {
        .slots[STANDBY] = {.state = SLOT_RUNNING, .report = -1, .group = 5, .is_standby = true},
        .groups = {.dir = -1, .state[4] = GROUP_OWNED}};
    struct guard_order order = {.type = GUARD_SPAWN};
    const int fds[GUARD_FDS] = {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    g.slots[STANDBY].pid = getpid();
    g.slots[STANDBY].control = pair[0];
    standby_hand_over(&g, &g.slots[0], &g.slots[STANDBY], &order, fds);
    assert_int_equal(g.slots[0].group, 5);
    assert_int_equal(g.slots[STANDBY].state, SLOT_EMPTY);
    assert_int_equal(g.groups.state[4], GROUP_OWNED);
    slot_reset(&g, &g.slots[0]);
    assert_int_equal(g.groups.state[4], GROUP_RELEASED);
    close(pair[1]);
}

TEST_IN(standby, failure_after_the_start_is_a_trainers_failure)
{
    struct rig *rig = *state;
    start_standby(rig, "printf W >&3; sleep 0.2; printf T >&3; exit 9");
    RIG_UNTIL(rig, rig->slots[STANDBY].warm);
    assert_int_equal(give_start(rig, "exit 1"), 0);
    RIG_UNTIL(rig, rig->slots[0].exited);
    assert_int_equal(WEXITSTATUS(rig->slots[0].status), 9);
}

/* Checks the priorities of all threads and returns their number. */
static int check_threads(pid_t pid, int nice, bool is_idle)
{
    char path[32];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        int thread = atoi(entry->d_name);
        if (thread > 0) {
            long ioprio = syscall(SYS_ioprio_get, GUARD_IOPRIO_WHO_PROCESS, thread);
            assert_int_equal(getpriority(PRIO_PROCESS, (id_t)thread), nice);
            assert_int_equal(ioprio >> 13 == GUARD_IOPRIO_IDLE >> 13, is_idle);
            n++;
        }
    }
    closedir(dir);
    return n;
}

TEST_IN(standby, background_priority_ends_for_all_threads_at_the_start)
{
    struct rig *rig = *state;
    int own = getpriority(PRIO_PROCESS, 0);
    int nicer = own + 10 < 19 ? own + 10 : 19;
    start_standby(rig, "exec python3 -c 'import os, threading, time\n"
                       "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
                       "os.write(3, b\"W\")\n"
                       "time.sleep(1000)'");
    RIG_UNTIL(rig, rig->slots[STANDBY].warm);
    pid_t pid = rig->slots[STANDBY].pid;
    /* A guard that could not restore the priority must not lower it. */
    assert_int_equal(check_threads(pid, guard_can_renice() ? nicer : own, true), 2);
    assert_int_equal(give_start(rig, "exit 0"), 0);
    RIG_UNTIL(rig, rig->slots[0].spawned);
    assert_int_equal(rig->slots[0].pid, pid);
    assert_int_equal(check_threads(pid, own, false), 2);
}

/* --- with the real bootstrap and Python --- */

static void nothing_changed(void *ctx, uint32_t local, uint32_t pid, const char *tensorflow)
{
    (void)ctx;
    (void)local;
    (void)pid;
}

static void nothing_settled(void *ctx)
{
    (void)ctx;
}

TEST_IN(standby, tf_config_of_10000_members_is_passed)
{
    enum { MEMBERS = 10000 };
    struct rig *rig = *state;
    char folder[FOLDER_BYTES];
    char script[64];
    folder_make(folder);
    snprintf(script, sizeof script, "%s", folder_path(folder, "script.py"));
    folder_write(script,
                 "import json, os\n"
                 "c = json.loads(os.environ['TF_CONFIG'])\n"
                 "print(len(c['cluster']['worker']), len(os.environ['TF_CONFIG']) > 131072)\n");
    char *operands[] = {script, NULL};
    struct command command;
    struct tfe_reason reason;
    assert_int_equal(command_new(operands, 1, NULL, false, false, &command, &reason), 0);
    struct standby_settings settings = {.is_off = true};
    struct standbys_options options = {.base = rig->base,
                                       .command = &command,
                                       .settings = &settings,
                                       .nproc = 1,
                                       .changed = nothing_changed,
                                       .settled = nothing_settled};
    struct standbys *standbys = standbys_new(&options);
    standbys_guard(standbys, rig->link);
    struct msg_row *rows = calloc(MEMBERS, sizeof *rows);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        rows[i] = (struct msg_row){.host = "worker.example.org", .port = 40000};
    }
    struct agent_place node = {.run = 1, .epoch = 1, .rows = rows, .n_rows = MEMBERS};
    struct trainer_place place = {.node = &node, .nproc = 1, .job = "j", .node_id = "n"};
    char **env;
    assert_int_equal(environment_new((const char *const *)environ, &place, &env), 0);
    struct spawn_spec spec = {.argv = (const char *const *)command.argv,
                              .envp = (const char *const *)env};
    const char *how;
    assert_int_equal(standbys_spawn(standbys, 0, &spec, rig->out[1], STDERR_FILENO, &how), 0);
    char line[64];
    rig_line(rig, line, sizeof line);
    assert_string_equal(line, "10000 True");
    RIG_UNTIL(rig, rig->slots[0].exited);
    assert_int_equal(rig->slots[0].status, 0);
    environment_free(env);
    free(rows);
    standbys_free(standbys);
    command_done(&command);
    folder_remove(folder);
}
