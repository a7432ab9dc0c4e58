/* tests/unit/agent/test_guard_group.c: control groups of trainers, on machines where
 * they can be created. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_group.h"
#include "agent/os/cgroup.h"
#include "agent/os/proc.h"
#include "tests/unit/agent/agent_fixture.h"

/* Group of this test, in which every process of a test starts. */
static char home[PATH_MAX];
static char before[PATH_MAX];

#define GROUP_MAX (PATH_MAX + 64)

static bool move_to(const char *directory)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/cgroup.procs", directory);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool is_moved = fd >= 0 && dprintf(fd, "%d", (int)getpid()) > 0;
    if (fd >= 0) {
        close(fd);
    }
    return is_moved;
}

static bool home_make(void)
{
    char kill_file[PATH_MAX + 32];
    if (!cgroup_own(NULL, before)) {
        return false;
    }
    int n = snprintf(home, sizeof home, "%s/tfe-unit-%d", before, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof home || mkdir(home, 0755) != 0) {
        return false;
    }
    snprintf(kill_file, sizeof kill_file, "%s/cgroup.kill", home);
    if (access(kill_file, W_OK) != 0 || !move_to(home)) {
        rmdir(home);
        return false;
    }
    return true;
}

/* Counts the directories below a group: those of guards, or of one guard's processes. */
static int count_below(const char *directory, char ret_last[NAME_MAX + 1])
{
    DIR *entries = opendir(directory);
    int n = 0;
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            n++;
            snprintf(ret_last, NAME_MAX + 1, "%s", entry->d_name);
        }
    }
    if (entries) {
        closedir(entries);
    }
    return n;
}

/* Returns the number of groups of the only guard, or -1 if there is not exactly one
 * guard with groups. */
static int groups_of_guard(void)
{
    char name[NAME_MAX + 1];
    char path[2 * PATH_MAX];
    if (count_below(home, name) != 1) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/%s", home, name);
    return count_below(path, name);
}

/* Stores the process's group of version 2 as the kernel writes it. */
static void group_of(pid_t pid, char *ret, size_t cap)
{
    char path[64];
    char line[GROUP_MAX];
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    FILE *file = fopen(path, "re");
    ret[0] = '\0';
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "0::", 3) == 0) {
            snprintf(ret, cap, "%s", line + 3);
        }
    }
    if (file) {
        fclose(file);
    }
}

static int setup(void **state)
{
    struct rig *rig = malloc(sizeof *rig);
    rig_init(rig);
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    char name[NAME_MAX + 1];
    rig_done(*state);
    free(*state);
    assert_int_equal(count_below(home, name), 0);
    return 0;
}

#define FIXTURE setup, teardown

TEST_IN(group, each_trainer_has_its_own_group)
{
    struct rig *rig = *state;
    char of[3][GROUP_MAX];
    RIG_RUN(rig, 0, "sh", "-c", "sleep 1000 & echo $!; echo $$; wait");
    pid_t child = rig_pid(rig);
    pid_t first = rig_pid(rig);
    RIG_RUN(rig, 1, "sh", "-c", "echo $$; exec sleep 1000");
    pid_t second = rig_pid(rig);
    group_of(first, of[0], sizeof of[0]);
    group_of(second, of[1], sizeof of[1]);
    assert_non_null(strstr(of[0], "/tfe-guard-"));
    assert_non_null(strstr(of[1], "/tfe-guard-"));
    assert_string_not_equal(of[0], of[1]);
    group_of(child, of[2], sizeof of[2]);
    assert_string_equal(of[2], of[0]);
    group_of(rig->guard, of[2], sizeof of[2]);
    assert_null(strstr(of[2], "/tfe-guard-"));
    assert_int_equal(groups_of_guard(), 2);
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept);
    RIG_UNTIL(rig, groups_of_guard() == 0);
}

TEST_IN(group, standby_keeps_its_group_as_a_trainer)
{
    struct rig *rig = *state;
    char was[GROUP_MAX];
    char now[GROUP_MAX];
    const char *const argv[] = {"sh", "-c", "sleep 1000", NULL};
    struct spawn_spec spec = {.argv = argv,
                              .envp = (const char *const[]){"PATH=/usr/bin:/bin", NULL}};
    assert_int_equal(guard_link_spawn_standby(rig->link, GUARD_STANDBY_SLOT, &spec, false), 0);
    RIG_UNTIL(rig, rig->slots[GUARD_STANDBY_SLOT].spawned);
    pid_t pid = rig->slots[GUARD_STANDBY_SLOT].pid;
    group_of(pid, was, sizeof was);
    assert_non_null(strstr(was, "/tfe-guard-"));
    RIG_RUN(rig, 1, "sleep", "1000");
    RIG_UNTIL(rig, rig->slots[1].spawned);
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept == 1);
    assert_false(rig_is_gone(pid)); /* a sweep does not affect standbys */
    assert_int_equal(
        guard_link_hand_over(rig->link, 0, GUARD_STANDBY_SLOT, &spec, rig->out[1], STDERR_FILENO),
        0);
    RIG_UNTIL(rig, rig->slots[0].spawned);
    group_of(pid, now, sizeof now);
    assert_string_equal(now, was);
    assert_int_equal(groups_of_guard(), 1);
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept == 2);
    assert_true(rig_is_gone(pid));
    RIG_UNTIL(rig, groups_of_guard() == 0);
}

/* The group is removed when the last process that the trainer left in it ends. */
TEST_IN(group, group_is_removed_with_the_last_descendant)
{
    struct rig *rig = *state;
    for (int round = 1; round <= 3; round++) {
        RIG_RUN(rig, 1, "true");
        RIG_UNTIL(rig, rig->slots[1].exited == round);
    }
    RIG_UNTIL(rig, groups_of_guard() == 0);
    const int first = rig_count_descriptors(rig->guard);
    RIG_RUN(rig, 0, "sh", "-c", "setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000");
    pid_t left = rig_pid(rig);
    guard_link_signal(rig->link, 0, SIGTERM);
    RIG_UNTIL(rig, rig->slots[0].exited);
    assert_false(rig_is_gone(left));
    assert_int_equal(groups_of_guard(), 1);
    guard_link_sweep(rig->link);
    RIG_UNTIL(rig, rig->swept);
    assert_int_equal(groups_of_guard(), 0);
    assert_int_equal(rig_count_descriptors(rig->guard), first);
}

TEST(group, number_of_groups_is_limited_per_slot_and_for_leftovers)
{
    static struct guard_groups groups;
    int fd = -1;
    guard_groups_open(&groups);
    for (unsigned i = 1; i <= GUARD_GROUPS; i++) {
        assert_int_equal(guard_group_new(&groups, &fd), i);
        close(fd);
    }
    assert_int_equal(guard_group_new(&groups, &fd), GUARD_NO_GROUP);
    guard_group_release(&groups, 7);
    assert_int_equal(guard_group_new(&groups, &fd), 7);
    close(fd);
    guard_groups_close(&groups);
}

/* Guard and agent are killed together, so the kernel kills none of the trainer's descendants.
 * The next guard in the same group kills them. */
TEST_IN(group, leftovers_of_a_dead_guard_are_killed_by_the_next)
{
    struct rig *rig = *state;
    RIG_RUN(rig, 0, "sh", "-c",
            "setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000; :' & echo $$; sleep 1000; :");
    pid_t a = rig_pid(rig);
    pid_t b = rig_pid(rig);
    kill(rig->guard, SIGKILL);
    RIG_UNTIL(rig, rig->lost);
    /* Without proc_kill_all_descendants_and_reap(), which a surviving agent would call first. */
    RIG_UNTIL(rig, rig_is_gone(a) != rig_is_gone(b)); /* the trainer itself died with its guard */
    pid_t left = rig_is_gone(a) ? b : a;
    struct guard_process next;
    struct tfe_reason reason;
    assert_int_equal(guard_fork(&next, NULL, &reason), 0);
    RIG_UNTIL(rig, rig_is_gone(left));
    close(next.fd);
    assert_int_equal(waitpid(next.pid, NULL, 0), next.pid);
    (void)proc_kill_all_descendants_and_reap(getpid());
}

TEST_IN(group, running_guard_keeps_its_groups)
{
    struct rig *rig = *state;
    RIG_RUN(rig, 0, "sleep", "1000");
    RIG_UNTIL(rig, rig->slots[0].spawned);
    struct rig second;
    rig_init(&second);
    RIG_RUN(&second, 0, "true");
    RIG_UNTIL(&second, second.slots[0].exited);
    assert_false(rig_is_gone(rig->slots[0].pid));
    rig_done(&second);
    assert_int_equal(groups_of_guard(), 1);
}

/* As a user who owns no group: everything works, in the group of the agent. */
TEST(group, trainer_stays_in_the_agents_group_without_permission)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct rig rig;
        char own[GROUP_MAX];
        char of[GROUP_MAX];
        if (setgid(65534) != 0 || setuid(65534) != 0) {
            _exit(2);
        }
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* otherwise /proc/self belongs to root */
        rig_init(&rig);
        RIG_RUN(&rig, 0, "sleep", "1000");
        RIG_UNTIL(&rig, rig.slots[0].spawned);
        group_of(getpid(), own, sizeof own);
        group_of(rig.slots[0].pid, of, sizeof of);
        guard_link_sweep(rig.link);
        RIG_UNTIL(&rig, rig.swept);
        rig_done(&rig);
        _exit(own[0] && strcmp(own, of) == 0 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Creates a group that is delegated to a user, as systemd does. */
static bool delegate(const char *directory, uid_t user)
{
    static const char *const files[] = {"", "/cgroup.procs", "/cgroup.subtree_control",
                                        "/cgroup.threads"};
    char path[2 * PATH_MAX];
    bool is_done = mkdir(directory, 0755) == 0;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s%s", directory, files[i]);
        is_done = is_done && chown(path, user, user) == 0;
    }
    return is_done;
}

/* Bug: a descendant that had become another user's could not be killed by its guard. In a group
 * the kernel kills it. */
TEST(group, descendant_of_another_user_is_killed)
{
    enum { NOBODY = 65534 };
    char folder[FOLDER_BYTES];
    char helper[64];
    char mine[PATH_MAX + 16];
    snprintf(mine, sizeof mine, "%s/mine", home);
    if (!rig_root_helper(folder, helper, sizeof helper) || !delegate(mine, NOBODY)) {
        folder_remove(folder);
        SKIP("it takes root, a cgroup to delegate and a /tmp without nosuid");
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct rig rig;
        if (!move_to(mine) || setgid(NOBODY) != 0 || setuid(NOBODY) != 0) {
            _exit(2);
        }
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        rig_init(&rig);
        RIG_RUN(&rig, 0, "sh", "-c", "\"$0\" --become-root & sleep 1000; :", helper);
        pid_t other = rig_pid(&rig);
        if (kill(other, 0) == 0 || errno != EPERM) {
            _exit(3);
        }
        guard_link_sweep(rig.link);
        RIG_UNTIL(&rig, rig.swept || rig.stuck_told > 3);
        int code = rig.swept && rig_is_gone(other) ? 0 : 1;
        /* Also if its trainer ended before. */
        RIG_RUN(&rig, 1, "sh", "-c", "setsid \"$0\" --become-root & exec sleep 1000", helper);
        other = rig_pid(&rig);
        guard_link_signal(rig.link, 1, SIGTERM);
        RIG_UNTIL(&rig, rig.slots[1].exited);
        guard_link_sweep(rig.link);
        RIG_UNTIL(&rig, rig.swept == 2 || rig.stuck_told > 3);
        code |= rig.swept == 2 && rig_is_gone(other) ? 0 : 1;
        rig_done(&rig);
        _exit(code);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    folder_remove(folder);
    assert_int_equal(rmdir(mine), 0);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--become-root") == 0) {
        return rig_become_root();
    }
    signal(SIGPIPE, SIG_IGN);
    struct tfe_reason reason;
    if (proc_become_subreaper(&reason) != 0) {
        return 1;
    }
    if (!home_make()) {
        printf("skipped: no control groups of version 2 can be made here\n");
        return 77;
    }
    int failed = stories_run(NULL, NULL);
    if (!move_to(before) || rmdir(home) != 0) {
        perror("the test's own group is left");
        failed++;
    }
    return failed;
}
