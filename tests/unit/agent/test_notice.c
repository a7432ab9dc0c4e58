/* tests/unit/agent/test_notice.c: selection of the sources of notices; files, commands and
 * signals; several sources. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/preemption/preemption.h"
#include "tests/unit/agent/watch.h"
#include "tests/unit/folder.h"

static struct watch watch;
static char folder[FOLDER_BYTES];
static char path[128];
static char option[512];

static int make(void **state)
{
    (void)state;
    folder_make(folder);
    (void)snprintf(path, sizeof path, "%s", folder_path(folder, "notice"));
    watch_init(&watch);
    return setenv("NOTICE", path, 1);
}

static int end(void **state)
{
    (void)state;
    watch_done(&watch);
    folder_remove(folder);
    return 0;
}

/* Writes the file atomically, by a rename. */
static void put(const char *text)
{
    folder_write(folder_path(folder, "new"), text);
    assert_int_equal(rename(folder_path(folder, "new"), path), 0);
}

static const struct agent_notice *preempt(void)
{
    return &watch.last[NOTICE_PREEMPT];
}

/* --- selection --- */

static int parse(const char *text)
{
    struct tfe_reason reason;
    return notice_selection_parse(&watch.choice, text, &reason);
}

#define FIXTURE make, end

TEST_IN(choice, sources_are_a_list)
{
    const struct notice_selection *c = &watch.choice;
    assert_int_equal(parse("auto"), 0);
    assert_int_equal(c->modes[FROM_AWS], SOURCE_AUTO);
    assert_int_equal(c->modes[FROM_AZURE], SOURCE_AUTO);
    assert_int_equal(c->modes[FROM_FILE], SOURCE_OFF);
    assert_int_equal(parse("none"), 0);
    assert_int_equal(c->modes[FROM_AWS], SOURCE_OFF);
    assert_int_equal(parse("gce,auto,file:/run/a b"), 0);
    assert_int_equal(c->modes[FROM_GCE], SOURCE_ON);
    assert_int_equal(c->modes[FROM_AWS], SOURCE_AUTO);
    assert_string_equal(c->file, "/run/a b");
}

TEST_IN(choice, commas_belong_to_the_command)
{
    assert_int_equal(parse("aws,cmd:grep -q a,b /x,file:y"), 0);
    assert_string_equal(watch.choice.command, "grep -q a,b /x,file:y");
    assert_int_equal(watch.choice.modes[FROM_FILE], SOURCE_OFF);
}

TEST_IN(choice, invalid_choice_is_refused)
{
    static const char *const bad[] = {"",          "aws,",          ",aws", "Aws",
                                      "none,aws",  "cmd:",          "file", "file:",
                                      "file:,aws", "file:a,file:b", "all"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(parse(bad[i]), TFE_EINVAL);
    }
}

TEST_IN(choice, signal_with_another_meaning_is_refused)
{
    struct tfe_reason reason;
    assert_int_equal(notice_selection_signal(&watch.choice, "SIGUSR1", &reason), 0);
    assert_int_equal(watch.choice.signo, SIGUSR1);
    /* Independent of the order of the options. */
    assert_int_equal(parse("none"), 0);
    assert_int_equal(watch.choice.modes[FROM_SIGNAL], SOURCE_ON);
    static const char *const bad[] = {"TERM", "SIGKILL", "CHLD", "10", "", "usr1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(notice_selection_signal(&watch.choice, bad[i], &reason), TFE_EINVAL);
    }
}

TEST_IN(choice, default_address_is_that_of_all_clouds)
{
    struct tfe_reason reason;
    assert_int_equal(parse("gce"), 0);
    notice_selection_complete(&watch.choice, "/");
    assert_string_equal(watch.choice.place, "http://169.254.169.254:80");
    assert_int_equal(notice_selection_place(&watch.choice, "https://x/y", &reason), TFE_EINVAL);
    assert_string_equal(reason.text, "expected http://HOST[:PORT], found \"https://x/y\"");
}

/* In either order of the options. */
TEST_IN(choice, auto_with_an_address_queries_all_clouds_there)
{
    struct tfe_reason reason;
    assert_int_equal(notice_selection_place(&watch.choice, "http://127.0.0.1:1338", &reason), 0);
    assert_int_equal(parse("auto"), 0);
    notice_selection_complete(&watch.choice, "/");
    for (unsigned from = FROM_AWS; from <= FROM_AZURE; from++) {
        assert_int_equal(watch.choice.modes[from], SOURCE_AUTO);
    }
    assert_string_equal(watch.choice.place, "http://127.0.0.1:1338");
}

/* On a rented or foreign network, any machine may have the addresses of the
 * other clouds' services. */
TEST_IN(choice, auto_selects_the_cloud_of_the_firmware)
{
    static const struct {
        const char *file;
        const char *text;
        enum notice_from cloud;
    } machines[] = {
        {"class/dmi/id/sys_vendor", "Amazon EC2\n", FROM_AWS},
        {"class/dmi/id/board_asset_tag", "i-0123456789abcdef0\n", FROM_AWS},
        {"hypervisor/uuid", "EC2e1916-9099-7caf-fd21-012345abcdef\n", FROM_AWS},
        {"class/dmi/id/product_name", "Google Compute Engine\n", FROM_GCE},
        {"class/dmi/id/chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n", FROM_AZURE},
        {"class/dmi/id/sys_vendor", "Microsoft Corporation\n", FROM__COUNT},
    };
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        char sys[FOLDER_BYTES];
        folder_make(sys);
        assert_int_equal(mkdir(folder_path(sys, "class"), 0700), 0);
        assert_int_equal(mkdir(folder_path(sys, "class/dmi"), 0700), 0);
        assert_int_equal(mkdir(folder_path(sys, "class/dmi/id"), 0700), 0);
        assert_int_equal(mkdir(folder_path(sys, "hypervisor"), 0700), 0);
        folder_write(folder_path(sys, machines[i].file), machines[i].text);
        watch.choice = (struct notice_selection){0};
        assert_int_equal(parse("auto"), 0);
        notice_selection_complete(&watch.choice, sys);
        for (unsigned from = FROM_AWS; from <= FROM_AZURE; from++) {
            assert_int_equal(watch.choice.modes[from],
                             from == machines[i].cloud ? SOURCE_ON : SOURCE_OFF);
        }
        watch.choice = (struct notice_selection){0};
        assert_int_equal(parse("auto,gce"), 0);
        notice_selection_complete(&watch.choice, sys);
        assert_int_equal(watch.choice.modes[FROM_GCE], SOURCE_ON);
        folder_remove(sys);
    }
}

TEST_IN(choice, address_is_a_host_with_an_optional_port)
{
    static const char *const good[][2] = {
        {"http://localhost:1338/", "http://localhost:1338"},
        {"http://[fd00:ec2::254]:8080", "http://[fd00:ec2::254]:8080"},
        {"fd00:ec2::254", "http://[fd00:ec2::254]:80"},
        {"metadata.google.internal", "http://metadata.google.internal:80"},
    };
    static const char *const bad[] = {"http://", "http://a//", "http://a/b", "http://a:0", "a:b"};
    struct tfe_reason reason;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(notice_selection_place(&watch.choice, good[i][0], &reason), 0);
        assert_string_equal(watch.choice.place, good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(notice_selection_place(&watch.choice, bad[i], &reason), TFE_EINVAL);
    }
}

/* --- file --- */

static void watch_file(void)
{
    (void)snprintf(option, sizeof option, "file:%s", path);
    watch_start(&watch, option);
}

TEST_IN(file, existing_file_is_a_notice_until_removed)
{
    watch_file();
    watch_for(&watch, 60);
    assert_int_equal(watch.told, 0);
    put("");
    watch_until(&watch, watch.told == 1);
    assert_false(preempt()->withdrawn);
    assert_true(preempt()->uncertain);
    assert_true(watch_is_ahead(preempt()->deadline, GRACE_MS));
    assert_string_equal(watch.from, "file");
    watch_for(&watch, 60);
    assert_int_equal(watch.told, 1);
    assert_int_equal(unlink(path), 0);
    watch_until(&watch, watch.told == 2);
    assert_true(preempt()->withdrawn);
}

TEST_IN(file, content_is_seconds_or_gives_no_time)
{
    static const struct {
        const char *text;
        int64_t ms;
        bool is_uncertain;
    } rows[] = {
        {" 300\n", 300000, false},
        {"90", 90000, false},
        {"999999999999999999999", 86400000, false},
        {"soon", GRACE_MS, true},
        {"-5", GRACE_MS, true},
        {"1e3", GRACE_MS, true},
        {"30 40", GRACE_MS, true},
        {"99999999999999999999x", GRACE_MS, true},
    };
    watch_file();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put(rows[i].text);
        watch_until(&watch, watch.told == (i < 3 ? i + 1 : 4));
        watch_for(&watch, 40);
        assert_true(watch_is_ahead(preempt()->deadline, rows[i].ms));
        assert_int_equal(preempt()->uncertain, rows[i].is_uncertain);
    }
    assert_int_equal(watch.told, 4); /* the last five are the same notice */
}

TEST_IN(file, directory_or_pipe_counts_as_a_file)
{
    watch_file();
    assert_int_equal(mkdir(path, 0700), 0);
    watch_until(&watch, watch.told == 1);
    assert_int_equal(rmdir(path), 0);
    watch_until(&watch, watch.told == 2);
    assert_int_equal(mkfifo(path, 0600), 0);
    watch_until(&watch, watch.told == 3);
}

TEST_IN(file, missing_directory_is_no_notice)
{
    watch_start(&watch, "file:/nonexistent/x/y");
    watch_for(&watch, 60);
    assert_int_equal(watch.told, 0);
}

/* Returns how often the event occurs in the log, to which stderr is redirected. */
static unsigned times_logged(FILE *log, const char *event)
{
    char line[1024];
    unsigned n = 0;
    rewind(log);
    while (fgets(line, sizeof line, log)) {
        n += strstr(line, event) != NULL;
    }
    return n;
}

TEST_IN(file, recovery_is_logged_once)
{
    FILE *log = tmpfile();
    const int was = dup(STDERR_FILENO);
    assert_true(dup2(fileno(log), STDERR_FILENO) >= 0);
    watch_file();
    put("soon");
    watch_until(&watch, watch.told == 1);
    put("90");
    watch_until(&watch, watch.told == 2);
    watch_for(&watch, 100);
    assert_true(dup2(was, STDERR_FILENO) >= 0);
    assert_int_equal(times_logged(log, "event=notice_source_fails"), 1);
    assert_int_equal(times_logged(log, "event=notice_source_works_again"), 1);
    (void)fclose(log);
    close(was);
}

/* --- command --- */

static void watch_command(const char *command)
{
    (void)snprintf(option, sizeof option, "cmd:%s", command);
    watch_start(&watch, option);
}

TEST_IN(command, exit_0_is_a_notice)
{
    watch_command("test -e $NOTICE");
    watch_for(&watch, 100);
    assert_int_equal(watch.told, 0);
    put("");
    watch_until(&watch, watch.told == 1);
    assert_true(watch_is_ahead(preempt()->deadline, GRACE_MS));
    assert_string_equal(watch.from, "command");
    assert_int_equal(unlink(path), 0);
    watch_until(&watch, watch.told == 2);
    assert_true(preempt()->withdrawn);
}

TEST_IN(command, printed_seconds_may_count_down)
{
    watch_command("cat $NOTICE");
    put("100");
    watch_until(&watch, watch.told == 1);
    assert_true(watch_is_ahead(preempt()->deadline, 100000));
    put("50");
    watch_for(&watch, 150);
    assert_int_equal(watch.told, 1);
}

TEST_IN(command, hanging_or_failing_command_is_no_notice)
{
    static const char *const commands[] = {"sleep 100", "/nonexistent", "exit 126", "kill -9 $$",
                                           "exit 1"};
    watch.intervals.command_within_ms = 300;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        watch_command(commands[i]);
        watch_for(&watch, i == 0 ? 700 : 60);
        notice_watch_free(watch.notices);
        watch.notices = NULL;
    }
    assert_int_equal(watch.told, 0);
    /* None of them is left; the last killed one may still have to be reaped. */
    watch_until(&watch, waitpid(-1, NULL, WNOHANG) == -1);
}

TEST_IN(command, command_leaves_no_process)
{
    watch_command("sleep 1000 & echo $! >$NOTICE; exit 0");
    watch_until(&watch, watch.told == 1);
    FILE *file = fopen(path, "r");
    int pid = 0;
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    assert_int_equal(fclose(file), 0);
    watch_until(&watch, rig_is_gone(pid));
}

TEST_IN(command, command_inherits_no_token_descriptor_or_stdin)
{
    struct tfe_reason reason;
    setenv("TFE_TOKEN", "secret", 1);
    setenv("HARMLESS", "1", 1);
    assert_int_equal(notice_selection_place(&watch.choice, "127.0.0.1:1", &reason), 0);
    watch_start(&watch, "aws,cmd:test -z \"$TFE_TOKEN\" && test -n \"$HARMLESS\" && ! read x && "
                        "test \"$(echo $(ls /proc/self/fd))\" = '0 1 2 3'");
    watch_until(&watch, watch.told == 1);
    unsetenv("TFE_TOKEN");
}

TEST_IN(command, long_output_is_accepted)
{
    watch_command("head -c 1000000 /dev/zero; exit 0");
    watch_until(&watch, watch.told == 1);
    assert_true(preempt()->uncertain);
}

/* --- signal, several sources, end --- */

TEST_IN(signal, each_signal_is_a_new_notice)
{
    struct tfe_reason reason;
    assert_int_equal(notice_selection_signal(&watch.choice, "USR1", &reason), 0);
    watch_start(&watch, "none");
    assert_int_equal(raise(SIGUSR1), 0);
    watch_until(&watch, watch.n[NOTICE_SIGNAL] == 1);
    const struct tfe_mono first = watch.last[NOTICE_SIGNAL].deadline;
    assert_true(watch_is_ahead(first, GRACE_MS));
    watch_for(&watch, 20);
    assert_int_equal(raise(SIGUSR1), 0);
    watch_until(&watch, watch.n[NOTICE_SIGNAL] == 2);
    assert_true(tfe_mono_before(first, watch.last[NOTICE_SIGNAL].deadline));
}

TEST_IN(notices, notices_of_several_sources_have_the_earliest_deadline)
{
    (void)snprintf(option, sizeof option, "file:%s,cmd:echo 500; test -e %s", path, path);
    watch_start(&watch, option);
    put("100");
    watch_until(&watch, watch.told && watch_is_ahead(preempt()->deadline, 100000));
    watch_for(&watch, 100);
    const unsigned told = watch.told;
    assert_in_range(told, 1, 2); /* depends on which source is polled first */
    assert_string_equal(watch.from, "file");
    put("600");
    watch_until(&watch, watch_is_ahead(preempt()->deadline, 500000));
    assert_string_equal(watch.from, "command");
    assert_int_equal(unlink(path), 0);
    watch_until(&watch, preempt()->withdrawn);
}

TEST_IN(notices, withdrawn_notice_leaves_those_of_other_sources)
{
    struct tfe_reason reason;
    assert_int_equal(notice_selection_signal(&watch.choice, "USR1", &reason), 0);
    watch_file();
    put("10");
    watch_until(&watch, watch.n[NOTICE_PREEMPT] == 1);
    assert_int_equal(raise(SIGUSR1), 0);
    watch_until(&watch, watch.n[NOTICE_SIGNAL] == 1);
    assert_int_equal(unlink(path), 0);
    watch_until(&watch, preempt()->withdrawn);
    assert_false(watch.last[NOTICE_SIGNAL].withdrawn);
    assert_int_equal(watch.told, 3);
}

TEST_IN(notices, no_source_starts_nothing)
{
    watch_start(&watch, "none");
    watch_for(&watch, 10);
    assert_int_equal(watch.told, 0);
}
