/* tests/unit/agent/test_command.c: commands that are rejected before the node
 * joins, and the digest. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/trainer/command.h"
#include "tests/unit/test_runner.h"

struct place {
    char dir[64];
    char script[128];
    char copy[128];
    char other[128];
    char python[128];
    char tool[128];
};

static void file_write(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    strcpy(place->dir, "/tmp/tfe-agent-XXXXXX");
    assert_non_null(mkdtemp(place->dir));
    snprintf(place->script, sizeof place->script, "%s/train.py", place->dir);
    snprintf(place->copy, sizeof place->copy, "%s/renamed.py", place->dir);
    snprintf(place->other, sizeof place->other, "%s/other.py", place->dir);
    snprintf(place->python, sizeof place->python, "%s/python-x", place->dir);
    snprintf(place->tool, sizeof place->tool, "%s/run.sh", place->dir);
    file_write(place->script, "print(1)\n", 0644);
    file_write(place->copy, "print(1)\n", 0644);
    file_write(place->other, "print(2)\n", 0644);
    file_write(place->python, "not really", 0755);
    file_write(place->tool, "#!/bin/sh\nexit 0\n", 0755);
    unsetenv("PYTHON_EXEC");
    *state = place;
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;
    unlink(place->script);
    unlink(place->copy);
    unlink(place->other);
    unlink(place->python);
    unlink(place->tool);
    assert_int_equal(rmdir(place->dir), 0);
    free(place);
    return 0;
}

enum how { SCRIPT, MODULE, COMMAND };

static int try(struct command *ret, struct tfe_reason *reason, const char *python, enum how how,
               const char *const *operands)
{
    int n = 0;
    char *words[16];
    for (; operands[n]; n++) {
        words[n] = (char *)(uintptr_t)operands[n];
    }
    reason->text[0] = '\0';
    return command_new(words, n, python, how == MODULE, how == COMMAND, ret, reason);
}
#define TRY(ret, reason, python, how, ...)                                                         \
    try((ret), (reason), (python), (how), (const char *const[]){__VA_ARGS__, NULL})

static uint64_t digest_of(const char *python, enum how how, const char *const *operands)
{
    struct command command;
    struct tfe_reason reason;
    assert_int_equal(try(&command, &reason, python, how, operands), 0);
    uint64_t digest = command.digest;
    command_done(&command);
    return digest;
}
#define DIGEST(python, how, ...)                                                                   \
    digest_of((python), (how), (const char *const[]){__VA_ARGS__, NULL})

#define FIXTURE setup, teardown

TEST_IN(command, script_is_run_by_python)
{
    struct place *place = *state;
    struct command command;
    struct tfe_reason reason;
    assert_int_equal(TRY(&command, &reason, place->python, SCRIPT, place->script, "--lr", "0.1"),
                     0);
    assert_string_equal(command.argv[0], place->python);
    assert_string_equal(command.argv[1], place->script);
    assert_string_equal(command.argv[2], "--lr");
    assert_string_equal(command.argv[3], "0.1");
    assert_null(command.argv[4]);
    command_done(&command);

    setenv("PYTHON_EXEC", place->python, 1);
    assert_int_equal(TRY(&command, &reason, NULL, SCRIPT, place->script), 0);
    assert_string_equal(command.argv[0], place->python);
    command_done(&command);
    unsetenv("PYTHON_EXEC");

    assert_int_equal(TRY(&command, &reason, "sh", SCRIPT, place->script), 0); /* found in PATH */
    assert_string_equal(strrchr(command.argv[0], '/'), "/sh");
    command_done(&command);
}

TEST_IN(command, module_is_run_by_python_m)
{
    struct place *place = *state;
    struct command command;
    struct tfe_reason reason;
    assert_int_equal(TRY(&command, &reason, place->python, MODULE, "pkg.train", "-x"), 0);
    assert_string_equal(command.argv[0], place->python);
    assert_string_equal(command.argv[1], "-m");
    assert_string_equal(command.argv[2], "pkg.train");
    assert_string_equal(command.argv[3], "-x");
    assert_null(command.argv[4]);
    command_done(&command);
}

TEST_IN(command, command_is_run_unchanged)
{
    struct place *place = *state;
    struct command command;
    struct tfe_reason reason;
    assert_int_equal(TRY(&command, &reason, NULL, COMMAND, place->tool, "a", ""), 0);
    assert_string_equal(command.argv[0], place->tool);
    assert_string_equal(command.argv[1], "a");
    assert_string_equal(command.argv[2], "");
    assert_null(command.argv[3]);
    command_done(&command);
    assert_int_equal(TRY(&command, &reason, NULL, COMMAND, "sh"), 0);
    assert_int_equal(command.argv[0][0], '/');
    command_done(&command);
}

TEST_IN(command, command_that_cannot_run_is_named)
{
    struct place *place = *state;
    struct command command;
    struct tfe_reason reason;
    char wanted[256];
    assert_int_equal(TRY(&command, &reason, place->python, SCRIPT, "no-such.py"), TFE_EINVAL);
    assert_non_null(strstr(reason.text, "script no-such.py: "));
    assert_int_equal(TRY(&command, &reason, place->python, SCRIPT, place->dir), TFE_EINVAL);
    snprintf(wanted, sizeof wanted, "script %s is a directory", place->dir);
    assert_string_equal(reason.text, wanted);
    assert_int_equal(TRY(&command, &reason, place->python, SCRIPT, "/dev/null"), TFE_EINVAL);
    assert_string_equal(reason.text, "script /dev/null is not a regular file");
    assert_int_equal(try(&command, &reason, NULL, SCRIPT, (const char *const[]){NULL}), TFE_EINVAL);
    assert_int_equal(TRY(&command, &reason, NULL, SCRIPT, ""), TFE_EINVAL);
    assert_int_equal(TRY(&command, &reason, NULL, COMMAND, ""), TFE_EINVAL);
    /* A path through a file: an error other than ENOENT, also for root. */
    snprintf(wanted, sizeof wanted, "%s/x.py", place->script);
    assert_int_equal(TRY(&command, &reason, place->python, SCRIPT, wanted), TFE_EINVAL);
    assert_non_null(strstr(reason.text, "x.py: "));
}

TEST_IN(command, unreadable_script_is_refused)
{
    struct place *place = *state;
    struct command command;
    struct tfe_reason reason;
    if (geteuid() == 0) {
        SKIP("root reads everything");
    }
    assert_int_equal(chmod(place->script, 0), 0);
    assert_int_equal(TRY(&command, &reason, place->python, SCRIPT, place->script), TFE_EINVAL);
    assert_non_null(strcasestr(reason.text, strerror(EACCES)));
}

TEST_IN(command, missing_command_has_its_own_error)
{
    struct place *place = *state;
    struct command command;
    struct tfe_reason reason;
    assert_int_equal(TRY(&command, &reason, NULL, COMMAND, "no-such-command"), TFE_ENOENT);
    assert_string_equal(reason.text, "command no-such-command was not found");
    assert_int_equal(TRY(&command, &reason, NULL, COMMAND, "/no/such"), TFE_ENOENT);
    assert_int_equal(TRY(&command, &reason, NULL, COMMAND, place->script), TFE_ENOENT);
    assert_non_null(strstr(reason.text, "is not executable"));
    assert_int_equal(TRY(&command, &reason, NULL, COMMAND, place->dir), TFE_ENOENT);
    assert_int_equal(TRY(&command, &reason, "no-such-python", SCRIPT, place->script), TFE_ENOENT);
    assert_string_equal(reason.text, "python no-such-python was not found");
}

TEST_IN(command, launcher_that_uses_a_daemon_is_refused)
{
    static const char *const names[] = {"docker", "podman",      "nerdctl",        "srun",
                                        "sbatch", "ssh",         "kubectl",        "systemd-run",
                                        "rsh",    "/bin/docker", "./somewhere/ssh"};
    struct place *place = *state;
    struct command command;
    struct tfe_reason reason;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(TRY(&command, &reason, NULL, COMMAND, names[i], "run", "image"),
                         TFE_EINVAL);
        assert_non_null(strstr(reason.text, "run tfe-agent inside"));
    }
    /* As an argument or a script, the same names are accepted. */
    assert_int_equal(TRY(&command, &reason, NULL, COMMAND, "sh", "docker"), 0);
    command_done(&command);
    assert_int_equal(TRY(&command, &reason, place->python, SCRIPT, place->script, "ssh"), 0);
    command_done(&command);
}

TEST_IN(command, digest_covers_content_and_arguments_but_no_paths)
{
    struct place *place = *state;
    uint64_t digest = DIGEST(place->python, SCRIPT, place->script, "a", "b");
    assert_true(digest == DIGEST(place->python, SCRIPT, place->script, "a", "b"));
    assert_true(digest == DIGEST("sh", SCRIPT, place->copy, "a", "b"));
    assert_true(digest != DIGEST(place->python, SCRIPT, place->other, "a", "b"));
    assert_true(digest != DIGEST(place->python, SCRIPT, place->script, "a"));
    assert_true(digest != DIGEST(place->python, SCRIPT, place->script, "b", "a"));
    assert_true(digest != DIGEST(place->python, SCRIPT, place->script, "ab", ""));
    assert_true(digest != DIGEST(place->python, SCRIPT, place->script, "a", "b", ""));
    assert_true(DIGEST(place->python, MODULE, "sh", "a") != DIGEST(NULL, COMMAND, "sh", "a"));
    assert_true(DIGEST(place->python, MODULE, "m", "a") != DIGEST(place->python, MODULE, "n", "a"));
    assert_true(DIGEST(NULL, COMMAND, "sh") == DIGEST(NULL, COMMAND, "/bin/sh"));
    assert_true(DIGEST(NULL, COMMAND, "sh") != DIGEST(NULL, COMMAND, "ls"));
    /* A command that is itself a script is identified by its contents. */
    uint64_t before = DIGEST(NULL, COMMAND, place->tool);
    file_write(place->tool, "#!/bin/sh\nexit 1\n", 0755);
    assert_true(before != DIGEST(NULL, COMMAND, place->tool));
}
