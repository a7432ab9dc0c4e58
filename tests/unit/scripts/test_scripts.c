/* tests/unit/scripts/test_scripts.c: the channel, with sockets as a script has them. */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "agent/scripts/scripts.h"
#include "common/net/clock.h"
#include "common/net/log.h"
#include "tests/unit/folder.h"

#define NPROC 2
#define EPOCH 5
#define RANK 4 /* of this node's first trainer */

struct stage {
    struct event_base *base;
    struct scripts *scripts;
    char folder[FOLDER_BYTES];
    int told;
    struct agent_progress news[NPROC];
};

static void on_news(void *ctx, uint64_t epoch, uint32_t local,
                    const struct agent_progress *progress)
{
    struct stage *stage = ctx;
    assert_in_range(local, 0, NPROC - 1);
    assert_int_equal(epoch, EPOCH);
    stage->told++;
    stage->news[local] = *progress;
}

static int setup(void **state)
{
    struct stage *stage = calloc(1, sizeof(*stage));
    stage->base = event_base_new();
    folder_make(stage->folder);
    struct scripts_wish wish = {.base = stage->base,
                                .nproc = NPROC,
                                .private_base = stage->folder,
                                .checkpoint_dir = folder_path(stage->folder, "model"),
                                .on_news = on_news,
                                .ctx = stage};
    assert_int_equal(scripts_new(&wish, &stage->scripts), 0);
    scripts_begin(stage->scripts, EPOCH, RANK);
    *state = stage;
    return 0;
}

static int teardown(void **state)
{
    struct stage *stage = *state;
    scripts_free(stage->scripts);
    event_base_free(stage->base);
    /* Nothing is left of it. */
    rmdir(folder_path(stage->folder, "model"));
    assert_int_equal(rmdir(stage->folder), 0);
    free(stage);
    return 0;
}

/* The name of a script's socket beside the agent's. */
static struct sockaddr_un address_of(const struct stage *stage, int pid)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *agent = scripts_socket(stage->scripts);
    snprintf(at.sun_path, sizeof(at.sun_path), "%.*s/script-%d", (int)(strrchr(agent, '/') - agent),
             agent, pid);
    return at;
}

/* A script's socket, connected to the agent's, bound as script-PID. */
static int script_open(const struct stage *stage, int pid)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un own = address_of(stage, pid);
    struct sockaddr_un agent = {.sun_family = AF_UNIX};
    snprintf(agent.sun_path, sizeof(agent.sun_path), "%s", scripts_socket(stage->scripts));
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&agent, sizeof(agent)), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
}

static void say_hello(int fd, int rank, int pid, bool listens)
{
    char text[128];
    snprintf(text, sizeof(text),
             "{\"type\":\"hello\",\"epoch\":%d,\"rank\":%d,\"pid\":%d,\"listens\":%s}", EPOCH, rank,
             pid, listens ? "true" : "false");
    say(fd, text);
}

/* What the script was sent last, "" nothing. */
static const char *heard(int fd)
{
    static char text[512];
    ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

TEST(scripts, hello_progress_and_checkpoint_reach_the_core)
{
    struct stage *stage = *state;
    int fd = script_open(stage, 77);
    say_hello(fd, RANK + 1, 77, true);
    TURN_UNTIL(stage->base, stage->told == 1);
    assert_true(stage->news[1].listens);
    assert_false(stage->news[1].has_step);
    assert_int_equal(scripts_listeners(stage->scripts), 1);
    say(fd, "{\"type\":\"progress\",\"epoch\":5,\"rank\":5,\"step\":119,\"restored\":true}");
    TURN_UNTIL(stage->base, stage->told == 2);
    assert_int_equal(stage->news[1].step, 119);
    assert_false(stage->news[1].has_trained);
    say(fd, "{\"type\":\"progress\",\"epoch\":5,\"rank\":5,\"step\":120,\"samples\":7}");
    TURN_UNTIL(stage->base, stage->told == 3);
    assert_int_equal(stage->news[1].step, 120);
    assert_true(stage->news[1].has_trained);
    assert_false(stage->news[1].has_saved);
    say(fd,
        "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":5,\"step\":120,\"path\":\"/c/ckpt-120\"}");
    TURN_UNTIL(stage->base, stage->told == 4);
    assert_true(stage->news[1].has_saved);
    assert_int_equal(stage->news[1].saved_step, 120);
    assert_int_equal(stage->news[1].saves, 1);
    assert_int_equal(scripts_refused(stage->scripts), 0);
    close(fd);
}

TEST(scripts, a_checkpoint_that_every_rank_tells_is_one)
{
    struct stage *stage = *state;
    int fd = script_open(stage, 77);
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":9}");
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":5,\"step\":9}");
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":5,\"step\":10}");
    TURN_UNTIL(stage->base, stage->news[1].saved_step == 10);
    assert_int_equal(stage->news[1].saves, 2);
    close(fd);
}

TEST(scripts, many_words_of_one_turn_are_one_piece_of_news)
{
    struct stage *stage = *state;
    int fd = script_open(stage, 77);
    for (int i = 1; i <= 5; i++) {
        char text[96];
        snprintf(text, sizeof(text), "{\"type\":\"progress\",\"epoch\":5,\"rank\":4,\"step\":%d}",
                 i);
        say(fd, text);
    }
    TURN_UNTIL(stage->base, stage->told > 0);
    assert_int_equal(stage->told, 1);
    assert_int_equal(stage->news[0].step, 5);
    close(fd);
}

TEST(scripts, save_reaches_all_that_listen_and_those_that_come_later)
{
    struct stage *stage = *state;
    int fd = script_open(stage, 77);
    say_hello(fd, RANK, 77, true);
    TURN_UNTIL(stage->base, stage->told == 1);
    const char *file = scripts_preempt_file(stage->scripts);
    assert_int_equal(access(file, F_OK), -1);
    scripts_save(stage->scripts, EPOCH + 1, 1, TFE_MONO_NEVER); /* not our epoch */
    assert_string_equal(heard(fd), "");
    scripts_save(stage->scripts, EPOCH, 3, TFE_MONO_NEVER);
    assert_string_equal(heard(fd),
                        "{\"type\":\"save\",\"epoch\":5,\"number\":3,\"within_ms\":null}");
    assert_int_equal(access(file, F_OK), 0);
    int late = script_open(stage, 78);
    say_hello(late, RANK + 1, 78, true);
    TURN_UNTIL(stage->base, scripts_listeners(stage->scripts) == 2);
    assert_string_equal(heard(late),
                        "{\"type\":\"save\",\"epoch\":5,\"number\":3,\"within_ms\":null}");
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":1,\"answers\":3}");
    TURN_UNTIL(stage->base, stage->news[0].answers == 3);
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":2,\"answers\":4}");
    TURN_UNTIL(stage->base, scripts_refused(stage->scripts) == 1); /* nobody asked for a fourth */
    scripts_end(stage->scripts);
    assert_int_equal(access(file, F_OK), -1);
    assert_int_equal(scripts_listeners(stage->scripts), 0);
    close(fd);
    close(late);
}

TEST(scripts, a_save_has_the_time_that_is_left)
{
    struct stage *stage = *state;
    int fd = script_open(stage, 77);
    say_hello(fd, RANK, 77, true);
    TURN_UNTIL(stage->base, stage->told == 1);
    scripts_save(stage->scripts, EPOCH, 1, tfe_mono_add(clock_mono(), 60000));
    unsigned ms = 0;
    assert_int_equal(
        sscanf(heard(fd), "{\"type\":\"save\",\"epoch\":5,\"number\":1,\"within_ms\":%u}", &ms), 1);
    assert_in_range(ms, 30000, 60000);
    close(fd);
}

TEST(scripts, stop_tells_whether_anybody_listens)
{
    struct stage *stage = *state;
    assert_int_equal(scripts_stop(stage->scripts, EPOCH, 5000), 0);
    scripts_end(stage->scripts);
    scripts_begin(stage->scripts, EPOCH, RANK);
    int fd = script_open(stage, 77);
    int deaf = script_open(stage, 78);
    say_hello(fd, RANK, 77, true);
    say_hello(deaf, RANK + 1, 78, false);
    TURN_UNTIL(stage->base, stage->told == 2);
    assert_int_equal(scripts_stop(stage->scripts, EPOCH, 5000), 1);
    assert_non_null(strstr(heard(fd), "\"type\":\"stop\",\"epoch\":5,\"grace_ms\":"));
    assert_string_equal(heard(deaf), "");
    scripts_trainer_ended(stage->scripts, 0);
    assert_int_equal(scripts_listeners(stage->scripts), 0);
    assert_false(stage->news[0].listens);
    close(fd);
    close(deaf);
}

TEST(scripts, a_listener_that_is_gone_is_found_out)
{
    struct stage *stage = *state;
    int fd = script_open(stage, 77);
    say_hello(fd, RANK, 77, true);
    TURN_UNTIL(stage->base, stage->told == 1);
    close(fd);
    assert_int_equal(scripts_stop(stage->scripts, EPOCH, 5000), 0);
    assert_false(stage->news[0].listens);
}

/* Its queue is full, so what it is told waits; training goes on meanwhile. */
TEST(scripts, a_listener_that_does_not_read_blocks_nobody_and_hears_it_later)
{
    struct stage *stage = *state;
    int fd = script_open(stage, 77);
    say_hello(fd, RANK, 77, true);
    TURN_UNTIL(stage->base, stage->told == 1);
    enum { MANY = 3000 }; /* more than any queue holds (net.unix.max_dgram_qlen) */
    for (uint64_t i = 1; i <= MANY; i++) {
        scripts_save(stage->scripts, EPOCH, i, TFE_MONO_NEVER);
    }
    assert_int_equal(scripts_stop(stage->scripts, EPOCH, 60000), 1);
    char last[512] = "";
    for (const char *text; *(text = heard(fd));) {
        snprintf(last, sizeof(last), "%s", text);
    }
    assert_null(strstr(last, "\"number\":3000,"));
    TURN_UNTIL(stage->base, *strcpy(last, heard(fd)));
    assert_non_null(strstr(last, "\"number\":3000,")); /* the newest, and only that */
    TURN_UNTIL(stage->base, *strcpy(last, heard(fd)));
    assert_non_null(strstr(last, "stop"));
    close(fd);
}

TEST(scripts, what_makes_no_sense_is_counted_and_changes_nothing)
{
    struct stage *stage = *state;
    int fd = script_open(stage, 77);
    static const char *const wrong[] = {
        "nonsense",
        "{\"type\":\"progress\",\"epoch\":5,\"rank\":6,\"step\":1}",
        "{\"type\":\"progress\",\"epoch\":5,\"rank\":3,\"step\":1}",
        "{\"type\":\"progress\",\"epoch\":6,\"rank\":4,\"step\":1}",
        "{\"type\":\"hello\",\"epoch\":5,\"rank\":4,\"pid\":-1,\"listens\":true}",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        say(fd, wrong[i]);
        TURN_UNTIL(stage->base, scripts_refused(stage->scripts) == i + 1);
    }
    static char big[9000];
    memset(big, ' ', sizeof(big));
    assert_int_equal(send(fd, big, sizeof(big), 0), sizeof(big));
    TURN_UNTIL(stage->base, scripts_refused(stage->scripts) == 6);
    assert_int_equal(send(fd, "", 0, 0), 0);
    TURN_UNTIL(stage->base, scripts_refused(stage->scripts) == 7);
    /* The last words of an older epoch are no mistake. */
    say(fd, "{\"type\":\"progress\",\"epoch\":4,\"rank\":4,\"step\":1}");
    turn_a_while(stage->base);
    assert_int_equal(scripts_refused(stage->scripts), 7);
    assert_int_equal(stage->told, 0);
    close(fd);
}

TEST(scripts, a_flood_gets_a_small_share_of_the_loop)
{
    struct stage *stage = *state;
    int fd = script_open(stage, 77);
    const char *text = "{\"type\":\"progress\",\"epoch\":5,\"rank\":4,\"step\":1}";
    while (send(fd, text, strlen(text), 0) > 0) {
    }
    long began = folder_ms();
    int sent = 0;
    while (folder_ms() - began < 200) {
        event_base_loop(stage->base, EVLOOP_NONBLOCK);
        while (send(fd, text, strlen(text), 0) > 0) {
            sent++;
        }
    }
    /* 32 in 5 ms, and not one more. */
    assert_in_range(sent, 32, (folder_ms() - began) / 5 * 32 + 64);
    close(fd);
}

/* A process that is no descendant of the agent, although of the same user. */
TEST(scripts, strangers_of_the_same_user_are_refused)
{
    struct stage *stage = *state;
    int fd = script_open(stage, 77);
    int life[2]; /* ends with the test */
    assert_int_equal(pipe(life), 0);
    pid_t pid = fork();
    if (pid == 0) {
        pid_t parent = getpid();
        close(life[1]);
        if (fork() == 0) {
            while (getppid() == parent) { /* until it is an orphan */
                usleep(1000);
            }
            const char *text = "{\"type\":\"progress\",\"epoch\":5,\"rank\":4,\"step\":1}";
            (void)!send(fd, text, strlen(text), 0);
            (void)!read(life[0], &(char){0}, 1); /* still there when its parents are looked at */
        }
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    TURN_UNTIL(stage->base, scripts_refused(stage->scripts) == 1 || stage->told);
    assert_int_equal(stage->told, 0);
    close(life[0]);
    close(life[1]);
    close(fd);
}

TEST(scripts, the_last_words_of_a_trainer_count_before_its_end)
{
    struct stage *stage = *state;
    int fd = script_open(stage, 77);
    say_hello(fd, RANK, 77, true);
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":31}");
    close(fd);
    scripts_trainer_ended(stage->scripts, 0); /* the loop did not turn in between */
    assert_int_equal(stage->news[0].saved_step, 31);
    assert_false(stage->news[0].listens);
}

static void see_save(struct stage *stage, const char *name)
{
    char dir[128];
    char text[128];
    snprintf(dir, sizeof(dir), "%s", folder_path(stage->folder, "model"));
    mkdir(dir, 0755);
    snprintf(text, sizeof(text), "model_checkpoint_path: \"%s\"\n", name);
    folder_write(folder_path(dir, "checkpoint.tmp"), text);
    assert_int_equal(rename(folder_path(dir, "checkpoint.tmp"), folder_path(dir, "checkpoint")), 0);
}

TEST(scripts, saves_in_the_watched_directory_count_until_a_script_tells_its_own)
{
    struct stage *stage = *state;
    see_save(stage, "ckpt-3");
    TURN_UNTIL(stage->base, stage->told == 1);
    assert_int_equal(stage->news[0].saved_step, 3);
    assert_int_equal(stage->news[0].saves, 1);
    assert_false(stage->news[0].listens);
    int fd = script_open(stage, 77);
    say(fd, "{\"type\":\"checkpoint\",\"epoch\":5,\"rank\":4,\"step\":400}");
    TURN_UNTIL(stage->base, stage->told == 2);
    see_save(stage, "ckpt-4"); /* numbered by saves, not by steps: the script knows better */
    turn_a_while(stage->base);
    assert_int_equal(stage->told, 2);
    assert_int_equal(stage->news[0].saved_step, 400);
    unlink(folder_path(stage->folder, "model/checkpoint"));
    close(fd);
}

TEST(scripts, without_a_directory_there_is_no_channel_and_no_harm)
{
    struct stage *stage = *state;
    struct scripts_wish wish = {.base = stage->base,
                                .nproc = NPROC,
                                .private_base = "/proc/nowhere",
                                .on_news = on_news,
                                .ctx = stage};
    struct scripts *none;
    assert_int_equal(scripts_new(&wish, &none), 0);
    assert_null(scripts_socket(none));
    assert_null(scripts_preempt_file(none));
    scripts_begin(none, EPOCH, RANK);
    scripts_save(none, EPOCH, 1, TFE_MONO_NEVER);
    assert_int_equal(scripts_stop(none, EPOCH, 1), 0);
    scripts_trainer_ended(none, 0);
    scripts_end(none);
    scripts_free(none);
    scripts_free(NULL);
}

#define CHANNEL_STORY(name) cmocka_unit_test_setup_teardown(scripts__##name, setup, teardown)

int main(void)
{
    log_init("unit", LOG_ERROR_, LOG_LOGFMT);
    const struct CMUnitTest tests[] = {
        CHANNEL_STORY(hello_progress_and_checkpoint_reach_the_core),
        CHANNEL_STORY(a_checkpoint_that_every_rank_tells_is_one),
        CHANNEL_STORY(many_words_of_one_turn_are_one_piece_of_news),
        CHANNEL_STORY(save_reaches_all_that_listen_and_those_that_come_later),
        CHANNEL_STORY(a_save_has_the_time_that_is_left),
        CHANNEL_STORY(stop_tells_whether_anybody_listens),
        CHANNEL_STORY(a_listener_that_is_gone_is_found_out),
        CHANNEL_STORY(a_listener_that_does_not_read_blocks_nobody_and_hears_it_later),
        CHANNEL_STORY(what_makes_no_sense_is_counted_and_changes_nothing),
        CHANNEL_STORY(a_flood_gets_a_small_share_of_the_loop),
        CHANNEL_STORY(strangers_of_the_same_user_are_refused),
        CHANNEL_STORY(the_last_words_of_a_trainer_count_before_its_end),
        CHANNEL_STORY(saves_in_the_watched_directory_count_until_a_script_tells_its_own),
        CHANNEL_STORY(without_a_directory_there_is_no_channel_and_no_harm),
    };
    return cmocka_run_group_tests_name("scripts", tests, NULL, NULL);
}
