/* tests/unit/agent/test_inside.c: into another process's files, and no further. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/reach/inside.h"
#include "agent/trainers/image_command.h"
#include "tests/unit/story.h"

static bool is_killed; /* the next child, as it begins */

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    pid_t pid = __real_fork();
    if (pid == 0 && is_killed) {
        raise(SIGKILL);
    }
    return pid;
}

/* A process in a root of its own, with a directory "/work" there; 0: it may not. */
static pid_t stand_elsewhere(void)
{
    int up[2];
    char word = 0;
    assert_int_equal(pipe(up), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool is_there = unshare(CLONE_NEWNS) == 0 &&
                        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                        mount("tmpfs", "/mnt", "tmpfs", 0, NULL) == 0 && chdir("/mnt") == 0 &&
                        mkdir("work", 0755) == 0 && chroot(".") == 0;
        word = is_there ? 'y' : 'n';
        assert_int_equal(write(up[1], &word, 1), 1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(up[0], &word, 1), 1);
    close(up[0]);
    close(up[1]);
    if (word == 'n') {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return word == 'y' ? pid : 0;
}

/* Of a process that has done it: its exit status. */
static int does(int (*what)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(what());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static int goes_in(void)
{
    char here[64];
    return inside_enter() != 0                           ? 1
           : !getcwd(here, sizeof here)                  ? 2
           : strcmp(here, "/work") != 0                  ? 3
           : access("/mnt", F_OK) == 0                   ? 4
           : prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 ? 5
           : access("/proc", F_OK) == 0                  ? 6
                                                         : 0;
}

/* As a guard has it: on numbers of its own, and all else closed. */
static int goes_in_as_a_guard(void)
{
    enum { AT = 7 };
    inside_keep(AT);
    closefrom(AT + INSIDE_FDS);
    return fcntl(AT, F_GETFD) == FD_CLOEXEC && fcntl(AT + 1, F_GETFD) == FD_CLOEXEC ? goes_in() : 9;
}

static int closes_both(void)
{
    enum { AT = 7 };
    (void)dup2(0, AT);
    (void)dup2(0, AT + 1);
    inside_keep(AT);
    return fcntl(AT, F_GETFD) < 0 && fcntl(AT + 1, F_GETFD) < 0 && inside_enter() == 0 ? 0 : 1;
}

TEST(inside, who_goes_in_sees_what_stands_there)
{
    struct tfe_why why;
    pid_t pid = stand_elsewhere();
    if (!pid) {
        SKIP("no mount namespace of its own");
    }
    assert_int_equal(inside_set(pid, "/work", &why), 0);
    assert_true(inside_is_set());
    assert_int_equal(does(goes_in), 0);
    assert_int_equal(does(goes_in_as_a_guard), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(does(goes_in), 0); /* the files stay for who holds them */
    inside_leave();
    assert_false(inside_is_set());
    assert_int_equal(access("/proc", F_OK), 0);
}

TEST(inside, without_a_container_nothing_changes)
{
    assert_false(inside_is_set());
    assert_int_equal(does(closes_both), 0);
}

TEST(inside, a_process_that_is_gone_leads_nowhere)
{
    struct tfe_why why;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    assert_int_equal(inside_set(pid, "/work", &why), TFE_ESYS);
    assert_string_equal(why.text, "find the container's files: no such file or directory");
    assert_false(inside_is_set());
}

TEST(inside, who_looks_for_a_command_may_be_killed)
{
    static char *operands[] = {"true", NULL};
    struct tfe_why why;
    struct command command;
    const struct image_command wish = {
        .operands = operands, .count = 1, .no_python = true, .directory = "/", .shared = "/"};
    is_killed = true;
    assert_int_equal(image_command_new(&wish, &command, &why), TFE_ESYS);
    is_killed = false;
    assert_string_equal(why.text, "look into the container: who did was killed");
}
