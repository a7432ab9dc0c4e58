/* tests/unit/script_channel/test_scripts.c: the script channel, with sockets in
 * the role of scripts. */
#include "tests/unit/script_channel/stage.h"

TEST_IN(scripts, hello_progress_and_checkpoint_reach_the_core)
{
    int fd = script_open(77);
    say_hello(fd, RANK + 1, 77, true);
    TURN_UNTIL(stage.base, stage.told == 1);
    assert_true(stage.news[1].listens);
    assert_false(stage.news[1].has_step);
    say(fd, "{\"type\":\"progress\",\"epoch\":5,\"rank\":5,\"step\":119,\"restored\":true}");
    TURN_UNTIL(stage.base, stage.told == 2);
    assert_int_equal(stage.news[1].step, 119);
    assert_false(stage.has_trained[1]);
    say(fd, "{\"type\":\"progress\",\"epoch\":5,\"rank\":5,\"step\":120,\"samples\":7}");
    TURN_UNTIL(stage.base, stage.told == 3);
    assert_int_equal(stage.news[1].step, 120);
    assert_true(stage.has_trained[1]);
    assert_false(stage.news[1].has_saved);
    say(fd,
        "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":5,\"step\":120,\"path\":\"/c/ckpt-120\"}");
    TURN_UNTIL(stage.base, stage.told == 4);
    assert_true(stage.news[1].has_saved);
    assert_int_equal(stage.news[1].saved_step, 120);
    assert_int_equal(stage.news[1].saves, 1);
}

TEST_IN(scripts, a_checkpoint_that_every_rank_tells_is_one)
{
    int fd = script_open(77);
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":9}");
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":5,\"step\":9}");
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":5,\"step\":10}");
    TURN_UNTIL(stage.base, stage.news[1].saved_step == 10);
    assert_int_equal(stage.news[1].saves, 2);
}

TEST_IN(scripts, many_words_of_one_turn_are_one_piece_of_news)
{
    int fd = script_open(77);
    for (int i = 1; i <= 5; i++) {
        char text[96];
        snprintf(text, sizeof(text), "{\"type\":\"progress\",\"epoch\":5,\"rank\":4,\"step\":%d}",
                 i);
        say(fd, text);
    }
    TURN_UNTIL(stage.base, stage.told > 0);
    assert_int_equal(stage.told, 1);
    assert_int_equal(stage.news[0].step, 5);
}

TEST_IN(scripts, save_reaches_all_that_listen_and_those_that_come_later)
{
    int fd = script_open(77);
    say_hello(fd, RANK, 77, true);
    TURN_UNTIL(stage.base, stage.told == 1);
    const char *file = scripts_preempt_file(stage.scripts);
    assert_int_equal(access(file, F_OK), -1);
    scripts_save(stage.scripts, EPOCH + 1, 1, TFE_MONO_NEVER, false); /* of another epoch */
    assert_string_equal(heard(fd), "");
    scripts_save(stage.scripts, EPOCH, 3, TFE_MONO_NEVER, true);
    assert_string_equal(heard(fd), "{\"type\":\"save\",\"epoch\":5,\"number\":3,\"within_ms\":null,"
                                   "\"in_memory\":true}");
    assert_int_equal(access(file, F_OK), 0);
    int late = script_open(78);
    say_hello(late, RANK + 1, 78, true);
    TURN_UNTIL(stage.base, stage.news[1].listens);
    assert_string_equal(heard(late),
                        "{\"type\":\"save\",\"epoch\":5,\"number\":3,\"within_ms\":null,"
                        "\"in_memory\":true}");
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":1,\"answers\":3}");
    TURN_UNTIL(stage.base, stage.news[0].answers == 3);
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":2,\"answers\":4}");
    say_step(fd, 9);
    assert_int_equal(stage.news[0].answers, 3); /* answer to a request that was never made */
    scripts_end(stage.scripts);
    assert_int_equal(access(file, F_OK), -1);
    scripts_begin(stage.scripts, EPOCH + 1, RANK);
    /* the listeners of the previous epoch are forgotten */
    assert_int_equal(stop(stage.scripts, EPOCH + 1, 5000), 0);
}

TEST_IN(scripts, a_save_has_the_time_that_is_left)
{
    int fd = script_open(77);
    say_hello(fd, RANK, 77, true);
    TURN_UNTIL(stage.base, stage.told == 1);
    scripts_save(stage.scripts, EPOCH, 1, tfe_mono_add(clock_mono(), 60000), false);
    unsigned ms = 0;
    assert_int_equal(
        sscanf(heard(fd), "{\"type\":\"save\",\"epoch\":5,\"number\":1,\"within_ms\":%u}", &ms), 1);
    assert_in_range(ms, 30000, 60000);
}

TEST_IN(scripts, stop_tells_whether_anybody_listens)
{
    assert_int_equal(stop(stage.scripts, EPOCH, 5000), 0);
    scripts_end(stage.scripts);
    scripts_begin(stage.scripts, EPOCH, RANK);
    int fd = script_open(77);
    int deaf = script_open(78);
    say_hello(fd, RANK, 77, true);
    say_hello(deaf, RANK + 1, 78, false);
    TURN_UNTIL(stage.base, stage.told == 2);
    assert_int_equal(stop(stage.scripts, EPOCH, 5000), 1);
    const char *said = heard(fd);
    assert_non_null(strstr(said, "\"type\":\"stop\",\"epoch\":5,\"grace_ms\":"));
    assert_non_null(strstr(said, ",\"in_memory\":false}"));
    assert_string_equal(heard(deaf), "");
    scripts_trainer_ended(stage.scripts, 0);
    assert_false(stage.news[0].listens);
}

TEST_IN(scripts, stop_names_who_handles_sigterm_and_does_not_listen)
{
    uint64_t handlers = 0;
    int fd = script_open(77);
    say(fd, "{\"type\":\"handler\",\"epoch\":5,\"rank\":4,\"pid\":77,\"term\":true}");
    say(fd, "{\"type\":\"handler\",\"epoch\":5,\"rank\":5,\"pid\":78,\"term\":true}");
    say_hello(fd, RANK, 77, true);
    assert_int_equal(scripts_stop(stage.scripts, EPOCH, 5000, false, &handlers), 1);
    assert_int_equal(handlers, 2); /* the listening script gets a message instead of a signal */
    say(fd, "{\"type\":\"handler\",\"epoch\":5,\"rank\":5,\"pid\":78,\"term\":false}");
    assert_int_equal(scripts_stop(stage.scripts, EPOCH, 5000, false, &handlers), 1);
    assert_int_equal(handlers, 0);
    scripts_end(stage.scripts);
    scripts_begin(stage.scripts, EPOCH + 1, RANK);
    assert_int_equal(scripts_stop(stage.scripts, EPOCH + 1, 5000, false, &handlers), 0);
    assert_int_equal(handlers, 0);
}

TEST_IN(scripts, what_a_hook_sees_counts_where_the_script_tells_nothing_itself)
{
    int fd = script_open(77);
    say(fd,
        "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"seen\":true,\"path\":\"/data/best\"}");
    say(fd, "{\"type\":\"progress\",\"epoch\":5,\"rank\":4,\"step\":3,\"seen\":true}");
    TURN_UNTIL(stage.base, stage.news[0].step == 3);
    assert_int_equal(stage.news[0].saves, 1);
    assert_false(stage.news[0].has_saved); /* the step of an observed save is unknown */
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":4,\"answers\":0}");
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"seen\":true,\"step\":5}");
    say_step(fd, 6);
    say(fd, "{\"type\":\"progress\",\"epoch\":5,\"rank\":4,\"step\":9,\"seen\":true}");
    say_step(fd, 7);
    assert_int_equal(stage.news[0].saves, 2);
    assert_int_equal(stage.news[0].saved_step, 4);
}

TEST_IN(scripts, who_has_begun_to_end_is_told_until_its_epoch_is_over)
{
    int fd = script_open(77);
    say(fd, "{\"type\":\"ends\",\"epoch\":5,\"rank\":5}");
    say_step(fd, 3);
    assert_true(stage.news[1].ends);
    assert_false(stage.news[0].ends);
    scripts_end(stage.scripts);
    scripts_begin(stage.scripts, EPOCH, RANK);
    say(fd, "{\"type\":\"progress\",\"epoch\":5,\"rank\":5,\"step\":1}");
    TURN_UNTIL(stage.base, stage.news[1].step == 1);
    assert_false(stage.news[1].ends);
}

TEST_IN(scripts, a_listener_that_is_gone_is_found_out)
{
    int fd = script_open(77);
    say_hello(fd, RANK, 77, true);
    TURN_UNTIL(stage.base, stage.told == 1);
    close(fd);
    assert_int_equal(stop(stage.scripts, EPOCH, 5000), 0);
    assert_false(stage.news[0].listens);
}

/* The script's queue is full, so messages wait; training continues. */
TEST_IN(scripts, a_listener_that_does_not_read_blocks_nobody_and_hears_it_later)
{
    int fd = script_open(77);
    say_hello(fd, RANK, 77, true);
    TURN_UNTIL(stage.base, stage.told == 1);
    enum { MANY = 3000 }; /* more than any queue holds (net.unix.max_dgram_qlen) */
    for (uint64_t i = 1; i <= MANY; i++) {
        scripts_save(stage.scripts, EPOCH, i, TFE_MONO_NEVER, false);
    }
    assert_int_equal(stop(stage.scripts, EPOCH, 60000), 1);
    char last[512] = "";
    for (const char *text; *(text = heard(fd));) {
        snprintf(last, sizeof(last), "%s", text);
    }
    assert_null(strstr(last, "\"number\":3000,"));
    TURN_UNTIL(stage.base, *strcpy(last, heard(fd)));
    assert_non_null(strstr(last, "\"number\":3000,")); /* only the newest request */
    TURN_UNTIL(stage.base, *strcpy(last, heard(fd)));
    assert_non_null(strstr(last, "stop"));
}

TEST_IN(scripts, what_makes_no_sense_changes_nothing)
{
    int fd = script_open(77);
    static char big[9000];
    memset(big, ' ', sizeof(big) - 1);
    const char *const wrong[] = {
        "nonsense",
        "",
        big,
        "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":6,\"step\":1}",
        "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":3,\"step\":1}",
        "{\"type\":\"checkpoint\",\"epoch\":6,\"rank\":4,\"step\":1}",
        "{\"type\":\"checkpoint\",\"epoch\":4,\"rank\":4,\"step\":1}",
        "{\"type\":\"hello\",\"epoch\":5,\"rank\":4,\"pid\":-1,\"listens\":true}",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        say(fd, wrong[i]);
        say_step(fd, (int)i + 1);
        assert_false(stage.news[0].listens);
        /* sum over the node, so messages of any rank would count */
        assert_int_equal(stage.news[0].saves, 0);
    }
}

TEST_IN(scripts, a_flood_gets_a_small_share_of_the_loop)
{
    int fd = script_open(77);
    const char *text = "{\"type\":\"progress\",\"epoch\":5,\"rank\":4,\"step\":1}";
    while (send(fd, text, strlen(text), 0) > 0) {
    }
    long began = folder_ms();
    int sent = 0;
    while (folder_ms() - began < 200) {
        event_base_loop(stage.base, EVLOOP_NONBLOCK);
        while (send(fd, text, strlen(text), 0) > 0) {
            sent++;
        }
    }
    /* At most 32 messages per 5 ms are received. */
    assert_in_range(sent, 32, (folder_ms() - began) / 5 * 32 + 64);
}

/* A process of the same user that is no descendant of the agent. */
TEST_IN(scripts, strangers_of_the_same_user_are_refused)
{
    int fd = script_open(77);
    int life[2]; /* killed when the test ends */
    int told[2];
    assert_int_equal(pipe(life), 0);
    assert_int_equal(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        pid_t parent = getpid();
        close(life[1]);
        if (fork() == 0) {
            while (getppid() == parent) { /* wait until it is an orphan */
                usleep(1000);
            }
            const char *text = "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":1}";
            (void)!send(fd, text, strlen(text), 0);
            (void)!write(told[1], "x", 1);
            (void)!read(life[0], &(char){0}, 1); /* alive while the agent checks its parents */
        }
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(read(told[0], &(char){0}, 1), 1);
    say_step(fd, 1);
    assert_int_equal(stage.news[0].saves, 0);
    close(told[0]);
    close(told[1]);
    close(life[0]);
    close(life[1]);
}

TEST_IN(scripts, the_last_words_of_a_trainer_count_before_its_end)
{
    int fd = script_open(77);
    say_hello(fd, RANK, 77, true);
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":31}");
    close(fd);
    scripts_trainer_ended(stage.scripts, 0); /* before the event loop has handled the message */
    assert_int_equal(stage.news[0].saved_step, 31);
    assert_false(stage.news[0].listens);
}

TEST_IN(scripts, saves_in_the_watched_directory_count_until_a_script_tells_its_own)
{
    see_save("ckpt-3");
    TURN_UNTIL(stage.base, stage.told == 1);
    assert_int_equal(stage.news[0].saved_step, 3);
    assert_int_equal(stage.news[0].saves, 1);
    assert_false(stage.news[0].listens);
    int fd = script_open(77);
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":400}");
    TURN_UNTIL(stage.base, stage.told == 2);
    see_save("ckpt-4"); /* the number counts saves; the script has reported the step */
    turn_a_while(stage.base);
    assert_int_equal(stage.told, 2);
    assert_int_equal(stage.news[0].saved_step, 400);
    unlink(folder_path(stage.folder, "model/checkpoint"));
}

TEST_IN(scripts, memory_outlives_the_trainer_and_cannot_be_resized)
{
    enum { SIZE = 40 << 20 }; /* more than one chunk */
    char text[512];
    int fd = next_trainer(77);
    assert_int_equal(ask_memory(fd, 0, text), -1);
    assert_non_null(strstr(text, "\"bytes\":0,\"why\":\"\""));
    int file = ask_memory(fd, SIZE, text);
    assert_non_null(strstr(text, "\"bytes\":41943040"));
    struct stat st;
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(st.st_size, SIZE);
    assert_true((uint64_t)st.st_blocks * 512 >= SIZE);
    assert_true(ftruncate(file, 1) != 0 && errno == EPERM);
    assert_true(ftruncate(file, SIZE + 1) != 0 && errno == EPERM);
    assert_int_equal(pwrite(file, "state", 5, SIZE - 5), 5);
    close(file);
    close(fd);

    fd = next_trainer(78);
    file = ask_memory(fd, 0, text);
    char left[6] = "";
    assert_int_equal(pread(file, left, 5, SIZE - 5), 5);
    assert_string_equal(left, "state");
    close(file);
    /* A larger memory replaces it. */
    file = ask_memory(fd, SIZE + 1, text);
    assert_int_equal(pread(file, left, 5, SIZE - 5), 5);
    assert_memory_equal(left, "\0\0\0\0\0", 5);
    close(file);
}

TEST_IN(scripts, what_memory_keeps_is_told_over_all_places_and_epochs)
{
    char text[512];
    int fd = next_trainer(77);
    /* no memory has been provided */
    say(fd, "{\"type\":\"snapshot\",\"epoch\":5,\"rank\":4,\"step\":9}");
    close(ask_memory(fd, 4096, text));
    say(fd, "{\"type\":\"progress\",\"epoch\":5,\"rank\":4,\"step\":7,\"restored\":true}");
    TURN_UNTIL(stage.base, stage.news[0].has_from);
    assert_int_equal(stage.news[0].from_step, 7);
    assert_int_equal(stage.news[0].memory.bytes, 4096);
    assert_false(stage.news[0].memory.has_snapshot);
    say(fd, "{\"type\":\"snapshot\",\"epoch\":5,\"rank\":4,\"step\":8}");
    TURN_UNTIL(stage.base, stage.news[0].memory.has_snapshot);
    assert_int_equal(stage.news[0].memory.epoch, 5);
    assert_int_equal(stage.news[0].memory.step, 8);
    say(fd, "{\"type\":\"snapshot\",\"epoch\":5,\"rank\":4,\"step\":9,\"answers\":1}"); /* no such
                                                                                       request was
                                                                                       made */
    scripts_save(stage.scripts, EPOCH, 2, TFE_MONO_NEVER, true);
    assert_non_null(strstr(heard(fd), "\"number\":2"));
    say(fd, "{\"type\":\"snapshot\",\"epoch\":5,\"rank\":4,\"step\":8,\"answers\":2}");
    TURN_UNTIL(stage.base, stage.news[0].snapshot_answers == 2);
    assert_int_equal(stage.news[0].memory.step, 8);
    assert_int_equal(stage.news[0].answers, 0);
    assert_int_equal(scripts_stop(stage.scripts, EPOCH, 5000, true, &(uint64_t){0}), 1);
    assert_non_null(strstr(heard(fd), "\"in_memory\":true}"));
    close(fd);

    fd = next_trainer(78);
    assert_true(stage.news[0].memory.has_snapshot);
    assert_int_equal(stage.news[0].snapshot_answers, 0);
    assert_false(stage.news[0].has_from);
    assert_int_equal(stage.news[0].memory.step, 8);
    close(ask_memory(fd, 8192, text)); /* the contents of the smaller one are lost */
    say(fd, "{\"type\":\"progress\",\"epoch\":5,\"rank\":4,\"step\":7,\"restored\":true,"
            "\"seen\":true}");
    TURN_UNTIL(stage.base, stage.news[0].memory.bytes == 8192);
    assert_false(stage.news[0].memory.has_snapshot);
    assert_false(stage.news[0].has_from); /* a hook cannot know which model it is */
}

TEST_IN(scripts, memory_that_is_not_there_is_refused_in_a_sentence)
{
    char text[512];
    int fd = next_trainer(77);
    int file = ask_memory(fd, 4096, text);
    assert_int_equal(ask_memory(fd, UINT64_C(1) << 60, text), -1);
    assert_non_null(strstr(text, "the state needs 1099511627777 MiB of memory; "));
    /* The previous memory stays available. */
    int again = ask_memory(fd, 0, text);
    struct stat st[2];
    assert_true(fstat(file, &st[0]) == 0 && fstat(again, &st[1]) == 0);
    assert_int_equal(st[0].st_ino, st[1].st_ino);
    close(again);
    close(file);
}

TEST_IN(scripts, without_a_directory_there_is_no_channel_and_no_harm)
{
    struct scripts_options options = {.base = stage.base,
                                      .nproc = NPROC,
                                      .private_base = "/proc/nowhere",
                                      .on_progress = on_progress};
    struct scripts *none = scripts_new(&options);
    assert_null(scripts_socket(none));
    assert_null(scripts_preempt_file(none));
    scripts_begin(none, EPOCH, RANK);
    scripts_save(none, EPOCH, 1, TFE_MONO_NEVER, false);
    assert_int_equal(stop(none, EPOCH, 1), 0);
    scripts_trainer_ended(none, 0);
    scripts_end(none);
    scripts_free(none);
    scripts_free(NULL);
}

int main(void)
{
    (void)unsetenv("TMPDIR"); /* otherwise trainers would use that directory */
    log_init("unit", LOG_ERROR_, LOG_LOGFMT);
    return stories_run(NULL, NULL);
}
