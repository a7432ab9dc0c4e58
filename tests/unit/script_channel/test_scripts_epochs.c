/* tests/unit/script_channel/test_scripts_epochs.c: state that a new epoch takes over, and
 * senders that are ignored. */
#include <sched.h>

#include "tests/unit/script_channel/stage.h"

TEST_IN(scripts, nothing_that_was_told_in_one_epoch_is_told_of_the_next)
{
    char text[512];
    int fd = script_open(77);
    say_hello(fd, RANK, 77, true);
    close(ask_memory(fd, 4096, text));
    scripts_save(stage.scripts, EPOCH, 3, TFE_MONO_NEVER, true);
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":9,\"answers\":3}");
    say(fd, "{\"type\":\"snapshot\",\"epoch\":5,\"rank\":4,\"step\":9,\"answers\":3}");
    say_step(fd, 10);
    assert_int_equal(stage.news[0].saves, 1);
    assert_int_equal(stage.news[0].answers, 3);
    assert_int_equal(stage.news[0].snapshot_answers, 3);
    assert_int_equal(access(address_of(77).sun_path, F_OK), 0);
    scripts_end(stage.scripts);
    assert_int_equal(access(address_of(77).sun_path, F_OK), -1);
    close(fd);

    scripts_begin(stage.scripts, EPOCH, RANK);
    fd = script_open(78);
    say_step(fd, 1);
    assert_false(stage.news[0].has_saved);
    assert_int_equal(stage.news[0].saved_step, 0);
    assert_int_equal(stage.news[0].saves, 0);
    assert_int_equal(stage.news[0].answers, 0);
    assert_int_equal(stage.news[0].snapshot_answers, 0);
    /* The script does not report its saves, so observed ones count. */
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"seen\":true,\"step\":2}");
    say_step(fd, 3);
    assert_int_equal(stage.news[0].saves, 1);
    assert_int_equal(stage.news[0].saved_step, 2);
    scripts_end(stage.scripts);
    close(fd);

    /* Here only the directory gives information. */
    scripts_begin(stage.scripts, EPOCH, RANK);
    int told = stage.told;
    see_save("ckpt-30");
    TURN_UNTIL(stage.base, stage.told > told);
    assert_int_equal(stage.news[0].saved_step, 30);
    unlink(folder_path(stage.folder, "model/checkpoint"));
}

TEST_IN(scripts, words_that_come_late_take_nothing_back)
{
    char text[512];
    int fd = next_trainer(77);
    close(ask_memory(fd, 4096, text));
    scripts_save(stage.scripts, EPOCH, 3, TFE_MONO_NEVER, true);
    scripts_save(stage.scripts, EPOCH, 4, TFE_MONO_NEVER, true);
    scripts_save(stage.scripts, EPOCH, 2, TFE_MONO_NEVER, true);
    for (int i = 0; i < 3; i++) {
        assert_non_null(strstr(heard(fd), i == 0 ? "\"number\":3" : "\"number\":4"));
    }
    for (int answers = 4; answers >= 3; answers--) {
        snprintf(text, sizeof(text),
                 "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":%d,\"answers\":%d}",
                 answers, answers);
        say(fd, text);
        snprintf(text, sizeof(text),
                 "{\"type\":\"snapshot\",\"epoch\":5,\"rank\":4,\"step\":%d,\"answers\":%d}",
                 answers, answers);
        say(fd, text);
    }
    say_step(fd, 5);
    assert_int_equal(stage.news[0].answers, 4);
    assert_int_equal(stage.news[0].snapshot_answers, 4);
    /* An observed step is lower than a reported one. */
    say(fd, "{\"type\":\"progress\",\"epoch\":5,\"rank\":4,\"step\":900,\"seen\":true}");
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":6}");
    TURN_UNTIL(stage.base, stage.news[0].saved_step == 6);
    assert_int_equal(stage.news[0].step, 5);
}

TEST_IN(scripts, who_listens_late_hears_of_the_stop_and_a_time_that_is_over_is_none)
{
    assert_int_equal(stop(stage.scripts, EPOCH, 60000), 0);
    int fd = script_open(77);
    say_hello(fd, RANK, 77, true);
    TURN_UNTIL(stage.base, stage.news[0].listens);
    assert_non_null(strstr(heard(fd), "\"type\":\"stop\""));
    scripts_save(stage.scripts, EPOCH, 1, tfe_mono_add(clock_mono(), -1000), false);
    assert_non_null(strstr(heard(fd), "\"within_ms\":0,"));
}

TEST_IN(scripts, a_state_is_kept_only_in_memory_that_was_lent)
{
    int fd = next_trainer(77);
    say(fd, "{\"type\":\"snapshot\",\"epoch\":5,\"rank\":4,\"step\":9}");
    say_step(fd, 1);
    assert_false(stage.news[0].memory.has_snapshot);
}

/* The newest save counts, whichever trainer of the node made it. */
TEST_IN(scripts, a_node_keeps_the_newest_state_of_its_places)
{
    char text[512];
    int fd = next_trainer(77);
    close(ask_memory(fd, 4096, text));
    int other = script_open(78);
    say_hello(other, RANK + 1, 78, true);
    say(other, "{\"type\":\"memory\",\"epoch\":5,\"rank\":5,\"bytes\":8192}");
    TURN_UNTIL(stage.base, *heard(other));
    say(fd, "{\"type\":\"snapshot\",\"epoch\":5,\"rank\":4,\"step\":8}");
    TURN_UNTIL(stage.base, stage.news[0].memory.step == 8);
    say(fd, "{\"type\":\"snapshot\",\"epoch\":5,\"rank\":5,\"step\":7}");
    say(fd, "{\"type\":\"progress\",\"epoch\":5,\"rank\":5,\"step\":7}");
    TURN_UNTIL(stage.base, stage.news[1].has_step);
    assert_int_equal(stage.news[1].memory.step, 8);
    assert_int_equal(stage.news[1].memory.bytes, 12288);
    say(fd, "{\"type\":\"snapshot\",\"epoch\":5,\"rank\":5,\"step\":9}");
    TURN_UNTIL(stage.base, stage.news[1].memory.step == 9);
    close(fd);
    close(other);
}

/* A trainer's user could redirect an agent of root to a foreign socket. */
TEST_IN(scripts, nothing_is_sent_through_a_link)
{
    int fd = script_open(77);
    struct sockaddr_un linked = address_of(78);
    assert_int_equal(symlink(address_of(77).sun_path, linked.sun_path), 0);
    say_hello(fd, RANK, 78, true);
    TURN_UNTIL(stage.base, stage.told == 1);
    scripts_save(stage.scripts, EPOCH, 1, TFE_MONO_NEVER, false);
    assert_string_equal(heard(fd), "");
    assert_false(stage.news[0].listens);
}

TEST_IN(scripts, what_does_not_fit_is_no_message_however_it_begins)
{
    static char text[SCRIPT_MESSAGE_MAX + 2];
    static const char good[] = "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":1}";
    int fd = script_open(77);
    memset(text, ' ', SCRIPT_MESSAGE_MAX + 1);
    memcpy(text, good, sizeof(good) - 1);
    say(fd, text);
    say_step(fd, 1);
    assert_int_equal(stage.news[0].saves, 0);
    text[SCRIPT_MESSAGE_MAX] = '\0';
    say(fd, text);
    say_step(fd, 2);
    assert_int_equal(stage.news[0].saves, 1);
}

TEST_IN(scripts, another_user_is_not_heard)
{
    if (geteuid() != 0) {
        SKIP("being another user takes privileges");
    }
    int fd = script_open(77);
    pid_t pid = fork();
    if (pid == 0) {
        const char *text = "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":1}";
        _exit(setuid(65534) == 0 && send(fd, text, strlen(text), 0) > 0 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    say_step(fd, 1);
    assert_int_equal(stage.news[0].saves, 0);
}

/* A pid checked in one epoch may belong to an orphan or another process in the next. */
TEST_IN(scripts, who_was_ours_in_one_epoch_is_looked_at_again_in_the_next)
{
    static const char text[] = "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":1}";
    int fd = script_open(77);
    int go[2], told[2];
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        pid_t parent = getpid();
        close(go[1]);
        pid_t child = fork();
        if (child == 0) {
            (void)!send(fd, text, strlen(text), 0);
            (void)!write(told[1], "x", 1);
            (void)!read(go[0], &(char){0}, 1);
            while (getppid() == parent) {
                usleep(1000);
            }
            (void)!send(fd, text, strlen(text), 0);
            (void)!write(told[1], "x", 1);
            (void)!read(go[0], &(char){0}, 1); /* alive while the agent checks its parents */
            _exit(0);
        }
        (void)!read(go[0], &(char){0}, 1);
        _exit(0);
    }
    assert_int_equal(read(told[0], &(char){0}, 1), 1);
    say_step(fd, 1);
    assert_int_equal(stage.news[0].saves, 1);
    scripts_end(stage.scripts);
    close(fd); /* the child has it open */
    scripts_begin(stage.scripts, EPOCH, RANK);
    assert_int_equal(write(go[1], "xx", 2), 2);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(read(told[0], &(char){0}, 1), 1);
    fd = script_open(78);
    say_step(fd, 2);
    assert_int_equal(stage.news[0].saves, 0);
    close(go[0]);
    close(go[1]);
    close(told[0]);
    close(told[1]);
}

/* With queues of hundreds, as administrators may configure: 32 messages per event of the loop. */
static int flood_of_hundreds(void)
{
    enum { MANY = 200 };
    int max = open("/proc/sys/net/unix/max_dgram_qlen", O_WRONLY | O_CLOEXEC);
    if (max < 0 || write(max, "500", 3) != 3) {
        return 77;
    }
    close(max);
    setup(NULL);
    int fd = script_open(77);
    for (int i = 0; i < MANY; i++) {
        char text[96];
        snprintf(text, sizeof(text), "{\"type\":\"progress\",\"epoch\":5,\"rank\":4,\"step\":%d}",
                 i);
        say(fd, text);
    }
    event_base_loop(stage.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
    int in_first = (int)stage.news[0].step + 1;
    TURN_UNTIL(stage.base, stage.news[0].step == MANY - 1);
    teardown(NULL);
    return in_first == 32 ? 0 : 1;
}

TEST(scripts, a_long_queue_is_read_a_little_at_a_time)
{
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        _exit(unshare(CLONE_NEWNET) != 0 ? 77 : flood_of_hundreds());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        SKIP("making a network namespace takes privileges");
    }
    assert_int_equal(status, 0);
}

TEST_IN(scripts, what_trainers_leave_in_their_tmp_is_removed_with_them)
{
    char file[256];
    snprintf(file, sizeof(file), "%s/left", scripts_tmp_dir(stage.scripts));
    folder_write(file, "left");
    scripts_end(stage.scripts);
    assert_int_equal(access(file, F_OK), -1);
    event_base_loop(stage.base, EVLOOP_NONBLOCK);
    scripts_begin(stage.scripts, EPOCH, RANK);
    folder_write(file, "in a folder of its own");
}

/* Collects the lines of this event that are logged from now on. */
static int log_file = -1;

static void log_begin(void)
{
    log_file = memfd_create("log", 0);
    assert_true(log_file >= 0 && dup2(log_file, STDERR_FILENO) == STDERR_FILENO);
    log_init("unit", LOG_WARN_, LOG_LOGFMT);
}

static int log_count(const char *event)
{
    static char text[65536];
    ssize_t n = pread(log_file, text, sizeof(text) - 1, 0);
    int found = 0;
    text[n > 0 ? n : 0] = '\0';
    for (const char *at = text; (at = strstr(at, event)) != NULL; at++) {
        found++;
    }
    return found;
}

TEST_IN(scripts, a_warning_comes_once_and_last_words_are_none)
{
    int was = dup(STDERR_FILENO);
    int fd = script_open(77);
    log_begin();
    for (int i = 0; i < 3; i++) {
        say(fd, "{\"type\":\"remark\",\"epoch\":5,\"rank\":4,\"what\":\"keras3_fit\"}");
    }
    /* A message of an earlier epoch is not an error. */
    say(fd, "{\"type\":\"progress\",\"epoch\":4,\"rank\":4,\"step\":1}");
    say_step(fd, 1);
    int warned = log_count("event=keras3_fit ");
    int refused = log_count("event=script_message_refused ");
    say(fd, "{\"type\":\"progress\",\"epoch\":6,\"rank\":4,\"step\":1}");
    say_step(fd, 2);
    int refused_then = log_count("event=script_message_refused ");
    log_init("unit", LOG_ERROR_, LOG_LOGFMT);
    assert_int_equal(dup2(was, STDERR_FILENO), STDERR_FILENO);
    close(was);
    close(log_file);
    assert_int_equal(warned, 1);
    assert_int_equal(refused, 0);
    assert_int_equal(refused_then, 1);
}

int main(void)
{
    (void)unsetenv("TMPDIR"); /* otherwise trainers would use that directory */
    log_init("unit", LOG_ERROR_, LOG_LOGFMT);
    return stories_run(NULL, NULL);
}
