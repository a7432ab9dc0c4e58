/* tests/unit/limbs/test_notice.c: which sources are watched; files, commands and signals; several
 * at once. */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/notice/notice.h"
#include "tests/unit/limbs/watch.h"

static struct watch watch;
static char folder[] = "/tmp/tfe-notice-XXXXXX";
static char path[128];
static char option[512];

static int make(void **state)
{
    (void)state;
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/notice", folder);
    watch_init(&watch);
    return 0;
}

static int end(void **state)
{
    (void)state;
    watch_done(&watch);
    if (unlink(path)) {
        (void)rmdir(path);
    }
    return rmdir(folder);
}

/* Appears whole, as a rename does. */
static void put(const char *text)
{
    char hidden[160];
    (void)snprintf(hidden, sizeof hidden, "%s.new", path);
    FILE *file = fopen(hidden, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(hidden, path), 0);
}

static const struct agent_notice *preempt(void)
{
    return &watch.last[NOTICE_PREEMPT];
}

/* --- the choice ------------------------------------------------------------------------------- */

static int parse(const char *text)
{
    struct tfe_why why;
    return notice_choice_parse(&watch.choice, text, &why);
}

TEST(choice, of_sources_is_a_list)
{
    NO_FIXTURE;
    const struct notice_choice *c = &watch.choice;
    assert_int_equal(parse("auto"), 0);
    assert_int_equal(c->wanted[FROM_AWS], WANTED_AUTO);
    assert_int_equal(c->wanted[FROM_AZURE], WANTED_AUTO);
    assert_int_equal(c->wanted[FROM_FILE], WANTED_NEVER);
    assert_int_equal(parse("none"), 0);
    assert_int_equal(c->wanted[FROM_AWS], WANTED_NEVER);
    assert_int_equal(parse("gce,auto,file:/run/a b"), 0);
    assert_int_equal(c->wanted[FROM_GCE], WANTED_ASKED);
    assert_int_equal(c->wanted[FROM_AWS], WANTED_AUTO);
    assert_string_equal(c->file, "/run/a b");
}

TEST(choice, commands_commas_are_its_own)
{
    NO_FIXTURE;
    assert_int_equal(parse("aws,cmd:grep -q a,b /x,file:y"), 0);
    assert_string_equal(watch.choice.command, "grep -q a,b /x,file:y");
    assert_int_equal(watch.choice.wanted[FROM_FILE], WANTED_NEVER);
}

TEST(choice, that_means_nothing_is_refused)
{
    NO_FIXTURE;
    static const char *const bad[] = {"",          "aws,",          ",aws", "Aws",
                                      "none,aws",  "cmd:",          "file", "file:",
                                      "file:,aws", "file:a,file:b", "all"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(parse(bad[i]), TFE_EINVAL);
    }
}

TEST(choice, of_a_signal_is_one_that_means_nothing_else)
{
    NO_FIXTURE;
    struct tfe_why why;
    assert_int_equal(notice_choice_signal(&watch.choice, "SIGUSR1", &why), 0);
    assert_int_equal(watch.choice.signo, SIGUSR1);
    /* Whatever the order of the options. */
    assert_int_equal(parse("none"), 0);
    assert_int_equal(watch.choice.wanted[FROM_SIGNAL], WANTED_ASKED);
    static const char *const bad[] = {"TERM", "SIGKILL", "CHLD", "10", "", "usr1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(notice_choice_signal(&watch.choice, bad[i], &why), TFE_EINVAL);
    }
}

TEST(choice, of_a_place_that_is_none_names_the_variable)
{
    NO_FIXTURE;
    struct tfe_why why;
    setenv("TFE_AWS_IMDS_URL", "https://x/y", 1);
    assert_int_equal(parse("gce"), 0);
    assert_int_equal(notice_choice_places(&watch.choice, &why), 0);
    assert_string_equal(watch.choice.places[FROM_GCE].host, "169.254.169.254");
    assert_int_equal(parse("auto"), 0);
    assert_int_equal(notice_choice_places(&watch.choice, &why), TFE_EINVAL);
    assert_string_equal(why.text, "TFE_AWS_IMDS_URL: \"https://x/y\" is not http://HOST[:PORT]");
    unsetenv("TFE_AWS_IMDS_URL");
}

/* --- a file ----------------------------------------------------------------------------------- */

static void watch_file(void)
{
    (void)snprintf(option, sizeof option, "file:%s", path);
    watch_start(&watch, option);
}

TEST(file, that_appears_is_a_warning_and_goes_with_it)
{
    NO_FIXTURE;
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

TEST(file, may_hold_the_seconds_that_are_left)
{
    NO_FIXTURE;
    watch_file();
    put(" 300\n");
    watch_until(&watch, watch.told == 1);
    assert_false(preempt()->uncertain);
    assert_true(watch_is_ahead(preempt()->deadline, 300000));
    put("90");
    watch_until(&watch, watch.told == 2);
    assert_true(watch_is_ahead(preempt()->deadline, 90000));
}

TEST(file, with_anything_else_in_it_is_a_warning_without_a_time)
{
    NO_FIXTURE;
    static const char *const texts[] = {"soon", "-5", "1e3", "30 40", "99999999999999999999x"};
    watch_file();
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put(texts[i]);
        watch_for(&watch, 40);
    }
    assert_int_equal(watch.told, 1);
    assert_true(watch_is_ahead(preempt()->deadline, GRACE_MS));
}

TEST(file, may_be_a_folder_or_a_pipe)
{
    NO_FIXTURE;
    watch_file();
    assert_int_equal(mkdir(path, 0700), 0);
    watch_until(&watch, watch.told == 1);
    assert_int_equal(rmdir(path), 0);
    watch_until(&watch, watch.told == 2);
    assert_int_equal(mkfifo(path, 0600), 0);
    watch_until(&watch, watch.told == 3);
}

TEST(file, whose_folder_is_not_there_is_no_warning)
{
    NO_FIXTURE;
    watch_start(&watch, "file:/nonexistent/x/y");
    watch_for(&watch, 60);
    assert_int_equal(watch.told, 0);
}

TEST(file, may_hold_a_huge_number)
{
    NO_FIXTURE;
    watch_file();
    put("999999999999999999999");
    watch_until(&watch, watch.told == 1);
    assert_true(watch_is_ahead(preempt()->deadline, 86400000));
}

/* --- a command -------------------------------------------------------------------------------- */

static void watch_command(const char *format)
{
    char command[256];
    /* The path for each %s, of which there are two at most. */
    (void)snprintf(command, sizeof command, "%.*s%s%s", (int)strcspn(format, "@"), format,
                   strchr(format, '@') ? path : "",
                   strchr(format, '@') ? strchr(format, '@') + 1 : "");
    (void)snprintf(option, sizeof option, "cmd:%s", command);
    watch_start(&watch, option);
}

TEST(command, whose_exit_is_0_is_a_warning)
{
    NO_FIXTURE;
    watch_command("test -e @");
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

TEST(command, may_print_seconds_which_may_count_down)
{
    NO_FIXTURE;
    watch_command("cat @");
    put("100");
    watch_until(&watch, watch.told == 1);
    assert_true(watch_is_ahead(preempt()->deadline, 100000));
    put("50");
    watch_for(&watch, 150);
    assert_int_equal(watch.told, 1);
}

TEST(command, that_hangs_or_cannot_run_is_no_warning)
{
    NO_FIXTURE;
    static const char *const commands[] = {"sleep 100", "/nonexistent", "exit 126", "kill -9 $$",
                                           "exit 1"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        watch_command(commands[i]);
        watch_for(&watch, i == 0 ? 700 : 60);
        notices_free(watch.notices);
        watch.notices = NULL;
    }
    assert_int_equal(watch.told, 0);
    /* Not one of them is left; the one that was killed last may still be on its way. */
    watch_until(&watch, waitpid(-1, NULL, WNOHANG) == -1);
}

TEST(command, leaves_nothing_behind)
{
    NO_FIXTURE;
    watch_command("sleep 1000 & echo $! >@; exit 0");
    watch_until(&watch, watch.told == 1);
    FILE *file = fopen(path, "r");
    int pid = 0;
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    assert_int_equal(fclose(file), 0);
    watch_until(&watch, rig_is_gone(pid));
}

TEST(command, inherits_no_token_and_reads_nothing)
{
    NO_FIXTURE;
    setenv("TFE_TOKEN", "secret", 1);
    setenv("HARMLESS", "1", 1);
    watch_command("test -z \"$TFE_TOKEN\" && test -n \"$HARMLESS\" && ! read x");
    watch_until(&watch, watch.told == 1);
    unsetenv("TFE_TOKEN");
}

TEST(command, may_print_a_lot)
{
    NO_FIXTURE;
    watch_command("head -c 1000000 /dev/zero; exit 0");
    watch_until(&watch, watch.told == 1);
    assert_true(preempt()->uncertain);
}

/* --- a signal, several sources, the end ------------------------------------------------------- */

TEST(signal, warns_anew_each_time)
{
    NO_FIXTURE;
    struct tfe_why why;
    assert_int_equal(notice_choice_signal(&watch.choice, "USR1", &why), 0);
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

TEST(notices, of_several_sources_are_told_with_the_earliest_deadline)
{
    NO_FIXTURE;
    (void)snprintf(option, sizeof option, "file:%s,cmd:echo 500; test -e %s", path, path);
    watch_start(&watch, option);
    put("100");
    watch_until(&watch, watch.told && watch_is_ahead(preempt()->deadline, 100000));
    watch_for(&watch, 100);
    const unsigned told = watch.told;
    assert_in_range(told, 1, 2); /* whichever looked first */
    assert_string_equal(watch.from, "file");
    put("600");
    watch_until(&watch, watch_is_ahead(preempt()->deadline, 500000));
    assert_string_equal(watch.from, "command");
    assert_int_equal(unlink(path), 0);
    watch_until(&watch, preempt()->withdrawn);
}

TEST(notices, that_are_taken_back_leave_what_else_was_said)
{
    NO_FIXTURE;
    struct tfe_why why;
    assert_int_equal(notice_choice_signal(&watch.choice, "USR1", &why), 0);
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

TEST(notices, none_at_all_cost_nothing)
{
    NO_FIXTURE;
    watch_start(&watch, "none");
    watch_for(&watch, 10);
    assert_int_equal(watch.told, 0);
}

int main(void)
{
#define WITH_WATCH(story) cmocka_unit_test_setup_teardown(story, make, end)
    const struct CMUnitTest tests[] = {
        WITH_WATCH(choice__of_sources_is_a_list),
        WITH_WATCH(choice__commands_commas_are_its_own),
        WITH_WATCH(choice__that_means_nothing_is_refused),
        WITH_WATCH(choice__of_a_signal_is_one_that_means_nothing_else),
        WITH_WATCH(choice__of_a_place_that_is_none_names_the_variable),
        WITH_WATCH(file__that_appears_is_a_warning_and_goes_with_it),
        WITH_WATCH(file__may_hold_the_seconds_that_are_left),
        WITH_WATCH(file__with_anything_else_in_it_is_a_warning_without_a_time),
        WITH_WATCH(file__may_be_a_folder_or_a_pipe),
        WITH_WATCH(file__whose_folder_is_not_there_is_no_warning),
        WITH_WATCH(file__may_hold_a_huge_number),
        WITH_WATCH(command__whose_exit_is_0_is_a_warning),
        WITH_WATCH(command__may_print_seconds_which_may_count_down),
        WITH_WATCH(command__that_hangs_or_cannot_run_is_no_warning),
        WITH_WATCH(command__leaves_nothing_behind),
        WITH_WATCH(command__inherits_no_token_and_reads_nothing),
        WITH_WATCH(command__may_print_a_lot),
        WITH_WATCH(signal__warns_anew_each_time),
        WITH_WATCH(notices__of_several_sources_are_told_with_the_earliest_deadline),
        WITH_WATCH(notices__that_are_taken_back_leave_what_else_was_said),
        WITH_WATCH(notices__none_at_all_cost_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
