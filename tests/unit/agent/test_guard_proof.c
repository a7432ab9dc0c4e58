/* tests/unit/agent/test_guard_proof.c: no trainer survives the death of the agent or the
 * guard, or the fence. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_proof.h"
#include "agent/os/proc.h"
#include "common/base/clock.h"
#include "tests/unit/agent/agent_fixture.h"

/* Process trees that killing a single process does not end. Each prints all its process ids. */
#define FAMILY_BACKGROUND "sleep 1000 & echo $!; sleep 1000 & echo $!; echo $$; wait"
#define FAMILY_DEAF                                                                                \
    "trap '' TERM INT HUP; sleep 1000 & echo $!; sleep 1000 & echo $!; echo $$; wait"
/* A daemon: a new session whose parents have ended. */
#define FAMILY_DAEMON                                                                              \
    "(setsid sh -c 'echo $$; exec sleep 1000' &); (setsid sh -c 'trap \"\" TERM; echo $$; sleep "  \
    "1000; :' &); echo $$; sleep 1000; :"

enum { FAMILIES = 3, MEMBERS = 3 };
static const char *const families[FAMILIES] = {FAMILY_BACKGROUND, FAMILY_DEAF, FAMILY_DAEMON};

static void families_start(struct rig *rig, pid_t pids[FAMILIES * MEMBERS])
{
    for (int f = 0; f < FAMILIES; f++) {
        RIG_RUN(rig, (uint32_t)f, "bash", "-c", families[f]);
        for (int m = 0; m < MEMBERS; m++) {
            pids[f * MEMBERS + m] = rig_pid(rig);
        }
    }
}

static bool all_gone(const pid_t pids[FAMILIES * MEMBERS])
{
    for (int i = 0; i < FAMILIES * MEMBERS; i++) {
        if (!rig_is_gone(pids[i])) {
            return false;
        }
    }
    return true;
}

static void assert_none_gone(const pid_t pids[FAMILIES * MEMBERS])
{
    for (int i = 0; i < FAMILIES * MEMBERS; i++) {
        assert_false(rig_is_gone(pids[i]));
    }
}

#define FIXTURE rig_setup, rig_teardown

TEST_IN(guard, sweep_kills_every_descendant_and_reports_after_their_ends)
{
    struct rig *rig = *state;
    pid_t pids[FAMILIES * MEMBERS];
    families_start(rig, pids);
    RIG_UNTIL(rig, rig->slots[2].spawned);
    assert_none_gone(pids);
    guard_link_sweep(rig->link);
    const char *const argv[] = {"true", NULL};
    assert_int_equal(rig_run(rig, 9, argv), TFE_ESTATE); /* the sweep would kill it */
    RIG_UNTIL(rig, rig->swept);
    assert_true(all_gone(pids));
    assert_string_equal(rig->order, "SSSEEEW");
    for (int f = 0; f < FAMILIES; f++) {
        /* TERM and KILL arrive together, and the kernel chooses which one ends it. */
        assert_true(rig->slots[f].status == SIGKILL || rig->slots[f].status == SIGTERM);
    }
    RIG_RUN(rig, 0, "/bin/true"); /* and the guard continues */
    RIG_UNTIL(rig, rig->slots[0].exited == 2);
}

TEST_IN(guard, overlapping_sweeps_get_one_response_and_empty_ones_at_once)
{
    struct rig *rig = *state;
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept == 1);
    RIG_RUN(rig, 0, "sleep", "1000");
    RIG_UNTIL(rig, rig->slots[0].spawned);
    guard_link_sweep(rig->link);
    guard_link_sweep(rig->link);
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept == 2);
    RIG_RUN(rig, 0, "/bin/true");
    RIG_UNTIL(rig, rig->slots[0].exited == 2);
    assert_int_equal(rig->swept, 2);
    assert_int_equal(rig->slots[0].status, 0);
}

/* The response to the first sweep arrives after the second request, so it does not count. */
TEST_IN(guard, response_that_crossed_a_new_sweep_is_not_its_response)
{
    struct rig *rig = *state;
    struct pollfd answer = {.fd = rig->pair, .events = POLLIN};
    guard_link_sweep(rig->link);
    assert_int_equal(poll(&answer, 1, RIG_PATIENCE_MS), 1);
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept);
    RIG_RUN(rig, 0, "/bin/true");
    RIG_UNTIL(rig, rig->slots[0].exited);
    assert_string_equal(rig->order, "WSE");
}

/* Each process starts the next one and ends at once, so killing those found by
 * one scan never ends. */
TEST_IN(guard, sweep_ends_a_forking_chain)
{
    struct rig *rig = *state;
    RIG_RUN(rig, 0, "bash", "-c",
            "f() { sleep 0.01; f & }; for i in 1 2 3 4; do f & done; echo 2; sleep 1000; :");
    rig_pid(rig);
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept);
}

TEST_IN(guard, closed_pipe_kills_all_and_ends_the_guard)
{
    struct rig *rig = *state;
    pid_t pids[FAMILIES * MEMBERS];
    families_start(rig, pids);
    assert_none_gone(pids);
    guard_link_free(rig->link);
    rig->link = NULL;
    int status = -1;
    assert_int_equal(waitpid(rig->guard, &status, 0), rig->guard);
    assert_int_equal(status, 0);
    assert_true(all_gone(pids));
    rig->lost = 1; /* rig_done: the guard is reaped already */
}

TEST_IN(guard, order_of_a_dead_agent_starts_nothing)
{
    struct rig *rig = *state;
    struct pollfd out = {.fd = rig->out[0], .events = POLLIN};
    kill(rig->guard, SIGSTOP);
    RIG_UNTIL(rig, rig_has_state(rig->guard, 'T'));
    for (uint32_t i = 0; i < 64; i++) { /* so many that the first would have time to print */
        RIG_RUN(rig, i, "/bin/echo", "started");
    }
    guard_link_free(rig->link);
    rig->link = NULL;
    kill(rig->guard, SIGCONT);
    assert_int_equal(waitpid(rig->guard, NULL, 0), rig->guard);
    rig->lost = 1; /* rig_done: the guard is reaped already */
    assert_int_equal(poll(&out, 1, 0), 0);
}

TEST_IN(guard, fence_kills_all_and_prevents_starts_until_the_next)
{
    struct rig *rig = *state;
    pid_t pids[FAMILIES * MEMBERS];
    families_start(rig, pids);
    RIG_UNTIL(rig, rig->slots[2].spawned);
    guard_link_fence(rig->link, tfe_mono_add(clock_mono(), 3600000));
    guard_link_fence(rig->link, tfe_mono_add(clock_mono(), 100));
    RIG_UNTIL(rig, rig->slots[0].exited && rig->slots[1].exited && rig->slots[2].exited);
    assert_string_equal(rig->order, "SSSXEEE");
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept);
    assert_true(all_gone(pids));
    RIG_RUN(rig, 0, "/bin/true");
    RIG_UNTIL(rig, rig->slots[0].failed);
    assert_int_equal(rig->slots[0].error, ETIME);
    guard_link_fence(rig->link, tfe_mono_add(clock_mono(), 3600000));
    RIG_RUN(rig, 0, "/bin/true");
    RIG_UNTIL(rig, rig->slots[0].exited == 2);
    assert_int_equal(rig->fenced, 1);
}

TEST_IN(guard, moved_or_disarmed_fence_does_not_kill)
{
    struct rig *rig = *state;
    RIG_RUN(rig, 0, "sleep", "1000");
    RIG_UNTIL(rig, rig->slots[0].spawned);
    struct tfe_mono old = tfe_mono_add(clock_mono(), 100);
    guard_link_fence(rig->link, old);
    guard_link_fence(rig->link, TFE_MONO_NEVER);
    RIG_UNTIL(rig, tfe_mono_sub(clock_mono(), old) > 50); /* the old deadline is long past */
    guard_link_fence(rig->link, tfe_mono_add(clock_mono(), 3600000));
    RIG_RUN(rig, 1, "/bin/true");
    RIG_UNTIL(rig, rig->slots[1].exited);
    assert_int_equal(rig->fenced, 0);
    assert_int_equal(rig->slots[0].exited, 0);
}

/* Starts an agent in a separate process and calls `how` when its process trees run. The pids
 * arrive through rig->out, the guard's first. */
static pid_t agent_fork(struct rig *rig, void (*how)(struct rig *agent), pid_t *ret_guard,
                        pid_t pids[FAMILIES * MEMBERS])
{
    pid_t pid = fork();
    if (pid == 0) {
        struct rig agent;
        char line[32];
        guard_link_free(rig->link); /* this process's copy of the other guard's pipe */
        rig_init(&agent);
        snprintf(line, sizeof line, "%d\n", (int)agent.guard);
        assert_true(write(rig->out[1], line, strlen(line)) > 0);
        int own = agent.out[1];
        agent.out[1] = rig->out[1];
        for (int f = 0; f < FAMILIES; f++) {
            RIG_RUN(&agent, (uint32_t)f, "bash", "-c", families[f]);
            RIG_UNTIL(&agent, agent.slots[f].spawned);
        }
        agent.out[1] = own;
        how(&agent);
        for (;;) {
            pause();
        }
    }
    *ret_guard = rig_pid(rig);
    for (int i = 0; i < FAMILIES * MEMBERS; i++) {
        pids[i] = rig_pid(rig);
    }
    return pid;
}

static void agent_waits(struct rig *agent)
{
    (void)agent;
}

static void agent_stops_behind_a_fence(struct rig *agent)
{
    guard_link_fence(agent->link, tfe_mono_add(clock_mono(), 300));
    raise(SIGSTOP);
}

static void agent_falls_silent_behind_a_fence(struct rig *agent)
{
    guard_link_fence(agent->link, tfe_mono_add(clock_mono(), 300));
}

TEST_IN(guard, sigkill_of_the_agent_leaves_no_trainer_and_no_guard)
{
    struct rig *rig = *state;
    pid_t pids[FAMILIES * MEMBERS];
    pid_t guard;
    char own[FOLDER_BYTES]; /* the agent's directory, which it cannot remove any more */
    folder_make(own);
    guard_remove_at_end(own);
    pid_t agent = agent_fork(rig, agent_waits, &guard, pids);
    guard_remove_at_end("");
    assert_none_gone(pids);
    kill(agent, SIGKILL);
    RIG_UNTIL(rig, all_gone(pids));
    RIG_UNTIL(rig, rig_is_gone(guard));
    assert_int_equal(waitpid(agent, NULL, 0), agent);
    assert_int_equal(access(own, F_OK), -1);
}

TEST_IN(guard, fence_passes_for_an_agent_that_is_stopped_or_sends_nothing)
{
    struct rig *rig = *state;
    for (int i = 0; i < 2; i++) {
        pid_t pids[FAMILIES * MEMBERS];
        pid_t guard;
        const bool is_stopped = i == 0;
        pid_t agent = agent_fork(
            rig, is_stopped ? agent_stops_behind_a_fence : agent_falls_silent_behind_a_fence,
            &guard, pids);
        RIG_UNTIL(rig, all_gone(pids));
        RIG_UNTIL(rig, !is_stopped || rig_has_state(agent, 'T')); /* the fence may come first */
        assert_false(rig_is_gone(guard));
        assert_false(rig_is_gone(agent));
        kill(agent, SIGKILL);
        RIG_UNTIL(rig, rig_is_gone(guard));
        assert_int_equal(waitpid(agent, NULL, 0), agent);
    }
}

TEST_IN(guard, sigkill_of_the_guard_ends_children_and_the_agent_the_rest)
{
    struct rig *rig = *state;
    pid_t pids[FAMILIES * MEMBERS];
    struct tfe_reason reason;
    assert_int_equal(proc_become_subreaper(&reason), 0);
    families_start(rig, pids);
    RIG_UNTIL(rig, rig->slots[2].spawned);
    assert_none_gone(pids);
    kill(rig->guard, SIGKILL);
    RIG_UNTIL(rig, rig->lost);
    /* PDEATHSIG reaches only the direct children; their descendants now belong to this process. */
    assert_int_equal(waitpid(rig->guard, NULL, WNOHANG), -1);
    const char *const argv[] = {"true", NULL};
    assert_int_equal(rig_run(rig, 5, argv), TFE_ESYS);
    guard_link_signal(rig->link, 0, SIGTERM);
    guard_link_sweep(rig->link);
    assert_true(proc_kill_all_descendants_and_reap(getpid()));
    assert_true(all_gone(pids));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(rig->lost, 1);
}

/* The callback may free the link together with unread events. */
static void on_first(void *ctx, const struct guard_event *event)
{
    struct guard_link **link = ctx;
    assert_int_equal(event->type, GUARD_SPAWNED);
    assert_non_null(*link);
    guard_link_free(*link);
    *link = NULL;
}

TEST(guard, a_callback_may_free_the_link)
{
    struct guard_process process;
    struct guard_link *link;
    struct tfe_reason reason;
    const char *const argv[] = {"/bin/true", NULL};
    const char *const envp[] = {NULL};
    struct spawn_spec spec = {.argv = argv, .envp = envp};
    struct event_base *base = event_base_new();
    assert_int_equal(guard_fork(&process, NULL, &reason), 0);
    link = guard_link_new(base, &process, on_first, &link);
    assert_int_equal(guard_link_spawn(link, 0, &spec, 1, 2), 0);
    event_base_dispatch(base);
    assert_null(link);
    event_base_free(base);
    assert_int_equal(waitpid(process.pid, NULL, 0), process.pid);
}

/* An agent that has left needs no proof, so its guard must not wait. The kernel reports the
 * unread data before it delivers what was sent. */
TEST(guard, agent_exit_with_unread_events_is_orderly)
{
    struct guard_process process;
    struct guard_proof death;
    struct guard_link *link;
    struct tfe_reason reason;
    const char *const argv[] = {"/bin/true", NULL};
    const char *const envp[] = {NULL};
    struct spawn_spec spec = {.argv = argv, .envp = envp};
    struct event_base *base = event_base_new();
    assert_true(sodium_init() >= 0);
    guard_proof_make(&death, "job");
    assert_int_equal(guard_fork(&process, &death, &reason), 0);
    struct pollfd word = {.fd = process.fd, .events = POLLIN};
    link = guard_link_new(base, &process, on_first, &link);
    guard_link_fence(link, tfe_mono_add(clock_mono(), 3600000));
    assert_int_equal(guard_link_spawn(link, 0, &spec, 1, 2), 0);
    assert_int_equal(poll(&word, 1, RIG_PATIENCE_MS), 1);
    guard_link_free(link);
    event_base_free(base);
    int64_t give_up = rig_ms() + RIG_PATIENCE_MS;
    pid_t ended;
    while ((ended = waitpid(process.pid, NULL, WNOHANG)) == 0 && rig_ms() < give_up) {
        poll(NULL, 0, 1);
    }
    if (ended == 0) {
        kill(process.pid, SIGTERM); /* otherwise it would serve for an hour */
        fail_msg("the guard gives a certificate of one that has left");
    }
    assert_int_equal(ended, process.pid);
    guard_proof_erase(&death);
}

static int unprivileged_agent(const char *helper)
{
    struct rig rig;
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) {
        return 1;
    }
    rig_init(&rig);
    RIG_RUN(&rig, 0, helper, "--child-root");
    pid_t pid = rig_pid(&rig);
    RIG_RUN(&rig, 1, "sleep", "1000");
    RIG_UNTIL(&rig, rig.slots[1].spawned);
    int64_t begin = rig_ms();
    guard_link_sweep(rig.link);
    RIG_UNTIL(&rig, rig.stuck_told == 1);
    assert_int_equal(rig.stuck, pid);
    RIG_UNTIL(&rig, rig.stuck_told == 3);
    assert_in_range(rig_ms() - begin, 1900, RIG_PATIENCE_MS); /* once per second and no more */
    assert_int_equal(rig.swept, 0);
    assert_int_equal(rig.slots[1].exited, 1);
    printf("%d\n", (int)pid); /* to be killed by a privileged process */
    fflush(stdout);
    RIG_UNTIL(&rig, rig.swept == 1);
    rig_done(&rig);
    return 0;
}

TEST(guard, unkillable_descendant_is_named_and_delays_no_other)
{
    char dir[FOLDER_BYTES];
    char helper[64];
    int out[2];
    if (!rig_root_helper(dir, helper, sizeof helper)) {
        folder_remove(dir);
        SKIP("making a set-user-ID program takes root and a /tmp without nosuid");
    }
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t agent = fork();
    if (agent == 0) {
        dup2(out[1], STDOUT_FILENO);
        execl(helper, helper, "--unprivileged-agent", helper, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    char text[32] = "";
    ssize_t n = read(out[0], text, sizeof text - 1);
    if (n > 0) {
        kill((pid_t)atoi(text), SIGKILL);
    }
    int status = -1;
    assert_int_equal(waitpid(agent, &status, 0), agent);
    folder_remove(dir);
    close(out[0]);
    assert_true(n > 0);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--child-root") == 0) {
        return rig_become_root();
    }
    if (argc > 2 && strcmp(argv[1], "--unprivileged-agent") == 0) {
        return unprivileged_agent(argv[2]);
    }
    return stories_run(NULL, NULL);
}
