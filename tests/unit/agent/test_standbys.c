/* tests/unit/agent/test_standbys.c: when standbys are started and stopped, with a simulated
 * clock. The guard and the processes are real; a shell stands in for the interpreter. */
#include <event2/event.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_state.h"
#include "agent/os/memory.h"
#include "agent/trainer/command.h"
#include "agent/trainer/standby.h"
#include "tests/unit/agent/agent_fixture.h"
#include "tests/unit/fake_clock.h"
#include "tests/unit/fake_memory.h"
#include "tests/unit/folder.h"

#define WARM_AND_WAIT "printf W >&3; while :; do sleep 1000; done"
extern char **environ;

static struct {
    struct rig rig; /* its event loop */
    struct guard_process guard;
    struct guard_link *link;
    struct standbys *standbys;
    char folder[FOLDER_BYTES]; /* the interpreter, "script" of the next standby, and "preload" of
                                  the last; $D in their environment */
    char interpreter[512];
    uint32_t pid; /* process id of the warm standby, as reported */
    int gone;     /* number of reports that a standby is gone */
    int settled;
    int starts;
    pid_t last;  /* started last */
    int ordered; /* number of ends in slot 0 */
} now;

static void set_free_percent(uint64_t percent)
{
    fake_memory_set(100000, 1000 * percent);
}

static void on_event(void *ctx, const struct guard_event *event)
{
    (void)ctx;
    if (event->slot >= GUARD_STANDBY_SLOT && event->type == GUARD_SPAWNED) {
        now.starts++;
        now.last = event->pid;
    }
    now.ordered += event->slot == 0 && event->type == GUARD_EXITED;
    if (event->slot >= GUARD_STANDBY_SLOT || event->type == GUARD_COLD) {
        standbys_event(now.standbys, event);
    }
}

static void on_changed(void *ctx, uint32_t local, uint32_t pid, const char *tensorflow)
{
    (void)ctx;
    (void)local;
    (void)tensorflow;
    now.pid = pid;
    now.gone += pid == 0;
}

static void on_settled(void *ctx)
{
    (void)ctx;
    now.settled++;
}

enum { IOPRIO_BEST_EFFORT = 2 << 13 | 4 };

static int setup(void **state)
{
    static char script[] = "train.py";
    static char *argv[] = {now.interpreter, script, NULL};
    static const struct command command = {.argv = argv, .is_python = true};
    static const struct standby_settings settings = {
        .no_hooks = true, .framework = FRAMEWORK_JAX, .min_free_percent = 10};
    struct tfe_reason reason;
    (void)state;
    memset(&now, 0, sizeof now);
    folder_make(now.folder);
    assert_int_equal(setenv("D", now.folder, 1), 0);
    (void)snprintf(now.interpreter, sizeof now.interpreter, "%s",
                   folder_path(now.folder, "python"));
    folder_write(now.interpreter, "#!/bin/bash\nprintf %s \"$3\" >$D/preload\n. $D/script\n");
    assert_int_equal(chmod(now.interpreter, 0700), 0);
    folder_write(folder_path(now.folder, "script"), WARM_AND_WAIT);
    set_free_percent(50);
    /* The caller may run the tests in the idle class, which standbys would inherit. */
    assert_int_equal(syscall(SYS_ioprio_set, GUARD_IOPRIO_WHO_PROCESS, 0, (long)IOPRIO_BEST_EFFORT),
                     0);
    fake_clock_init();
    assert_int_equal(guard_fork(&now.guard, NULL, &reason), 0);
    now.rig.base = event_base_new();
    now.link = guard_link_new(now.rig.base, &now.guard, on_event, NULL);
    now.standbys = standbys_new(&(struct standbys_options){.base = now.rig.base,
                                                           .command = &command,
                                                           .settings = &settings,
                                                           .nproc = 1,
                                                           .changed = on_changed,
                                                           .settled = on_settled});
    standbys_guard(now.standbys, now.link);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    standbys_free(now.standbys);
    guard_link_free(now.link);
    assert_int_equal(waitpid(now.guard.pid, NULL, 0), now.guard.pid);
    event_base_free(now.rig.base);
    folder_remove(now.folder);
    return 0;
}

#define FIXTURE setup, teardown

static void pass(int64_t ms)
{
    fake_clock_pass(now.rig.base, ms);
}

static void preload_is(const char *expected)
{
    char text[128] = "";
    FILE *file = fopen(folder_path(now.folder, "preload"), "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, expected);
}

static bool is_in_background(pid_t pid)
{
    return syscall(SYS_ioprio_get, GUARD_IOPRIO_WHO_PROCESS, pid) >> 13 == GUARD_IOPRIO_IDLE >> 13;
}

/* Runs the event loop until the guard has handled all requests so far. */
static void orders_taken(void)
{
    const char *const argv[] = {"true", NULL};
    const struct spawn_spec spec = {.argv = argv, .envp = (const char *const *)environ};
    const int before = now.ordered;
    assert_int_equal(guard_link_spawn(now.link, 0, &spec, 1, 2), 0);
    RIG_UNTIL(&now.rig, now.ordered > before);
}

/* Starts trainer 0 and returns how it was started. */
static const char *give_start(void)
{
    const char *const argv[] = {"sleep", "1000", NULL};
    const struct spawn_spec spec = {.argv = argv, .envp = (const char *const *)environ};
    const char *how = NULL;
    assert_int_equal(standbys_spawn(now.standbys, 0, &spec, 1, 2, &how), 0);
    return how;
}

TEST_IN(standbys, dead_warm_standby_is_reported_and_replaced_after_a_second)
{
    standbys_begin(now.standbys);
    pass(0);
    RIG_UNTIL(&now.rig, now.pid);
    kill((pid_t)now.pid, SIGKILL);
    RIG_UNTIL(&now.rig, now.gone);
    pass(999);
    orders_taken();
    assert_int_equal(now.starts, 1);
    pass(1);
    RIG_UNTIL(&now.rig, now.pid);
    assert_int_equal(now.starts, 2);
}

TEST_IN(standbys, imports_of_the_script_are_preloaded_next_time)
{
    standbys_begin(now.standbys);
    pass(0);
    RIG_UNTIL(&now.rig, now.pid);
    preload_is(":jax");
    standbys_note_import(now.standbys, "numpy");
    standbys_note_import(now.standbys, "keras");
    standbys_note_import(now.standbys, "keras");
    standbys_note_import(now.standbys, "evil,module");
    kill((pid_t)now.pid, SIGKILL);
    RIG_UNTIL(&now.rig, now.gone);
    pass(1000);
    RIG_UNTIL(&now.rig, now.pid);
    preload_is(":jax+keras,numpy");
}

TEST_IN(standbys, low_memory_disables_standbys_without_a_wait)
{
    set_free_percent(1);
    standbys_begin(now.standbys);
    assert_false(standbys_are_settled(now.standbys));
    pass(0);
    orders_taken();
    assert_int_equal(now.starts, 0);
    assert_int_equal(now.settled, 1);
    set_free_percent(50);
    pass(5000);
    RIG_UNTIL(&now.rig, now.pid);
    set_free_percent(1);
    pass(5000);
    RIG_UNTIL(&now.rig, now.gone);
    assert_string_equal(give_start(), "exec");
}

TEST_IN(standbys, standby_after_low_memory_is_used)
{
    standbys_begin(now.standbys);
    pass(0);
    RIG_UNTIL(&now.rig, now.pid);
    set_free_percent(1);
    pass(5000);
    RIG_UNTIL(&now.rig, now.gone);
    set_free_percent(50);
    pass(1000);
    RIG_UNTIL(&now.rig, now.pid);
    assert_string_equal(give_start(), "standby");
}

TEST_IN(standbys, warm_standby_resets_the_failure_of_an_earlier_one)
{
    folder_write(folder_path(now.folder, "script"), "kill -9 $$");
    standbys_begin(now.standbys);
    pass(0);
    RIG_UNTIL(&now.rig, now.settled); /* no longer a reason to wait */
    folder_write(folder_path(now.folder, "script"), WARM_AND_WAIT);
    pass(1000);
    RIG_UNTIL(&now.rig, now.pid);
    assert_string_equal(give_start(), "standby");
    standbys_trainers_began(now.standbys);
    pass(100);
    assert_int_equal(now.starts, 2);
    standbys_trainers_stepped(now.standbys);
    pass(0);
    RIG_UNTIL(&now.rig, now.starts == 3);
}

TEST_IN(standbys, background_priority_applies_only_while_trainers_run)
{
    standbys_trainers_began(now.standbys);
    pass(5000);
    RIG_UNTIL(&now.rig, now.pid);
    assert_true(is_in_background(now.last));
    standbys_trainers_ended(now.standbys);
    kill((pid_t)now.pid, SIGKILL);
    RIG_UNTIL(&now.rig, now.gone);
    pass(1000);
    RIG_UNTIL(&now.rig, now.pid);
    assert_false(is_in_background(now.last));
}
