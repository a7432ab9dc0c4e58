/* tests/unit/script_channel/test_checkpoints.c: detecting saves in a directory that may be
 * created, removed or replaced. */
#include <pthread.h>
#include <stdatomic.h>

#include "agent/script_channel/checkpoint_name.h"
#include "agent/script_channel/checkpoints.h"
#include "tests/unit/folder.h"

static struct {
    struct event_base *base;
    struct checkpoints *watch;
    char folder[FOLDER_BYTES];
    char dir[64];
    int seen;
    bool has_step;
    uint64_t step;
    uint64_t answers;
} stage;

static void on_checkpoint(void *ctx, bool has_step, uint64_t step, uint64_t answers)
{
    stage.seen++;
    stage.has_step = has_step;
    stage.step = step;
    stage.answers = answers;
}

static int setup(void **state)
{
    memset(&stage, 0, sizeof stage);
    stage.base = event_base_new();
    folder_make(stage.folder);
    snprintf(stage.dir, sizeof(stage.dir), "%s/run/model", stage.folder);
    return 0;
}

static int teardown(void **state)
{
    checkpoints_free(stage.watch);
    event_base_free(stage.base);
    folder_remove(stage.folder);
    return 0;
}

static void make_dirs(void)
{
    mkdir(folder_path(stage.folder, "run"), 0755);
    assert_int_equal(mkdir(stage.dir, 0755), 0);
}

static void start(void)
{
    stage.watch = checkpoints_new(stage.base, stage.dir, on_checkpoint, NULL);
    checkpoints_begin(stage.watch);
}

/* Saves as TensorFlow does: writes the files, then the state file under a temporary
 * name, then renames it. */
static void begin_save(const char *name)
{
    char file[128];
    snprintf(file, sizeof(file), "%s.data-00000-of-00001", name);
    folder_write(folder_path(stage.dir, file), "weights");
    snprintf(file, sizeof(file), "%s.index", name);
    folder_write(folder_path(stage.dir, file), "index");
}

static void end_save(const char *name)
{
    char text[256];
    snprintf(text, sizeof(text),
             "model_checkpoint_path: \"%s\"\nall_model_checkpoint_paths: \"%s\"\n", name, name);
    folder_write(folder_path(stage.dir, "checkpoint.tmp0815"), text);
    assert_int_equal(
        rename(folder_path(stage.dir, "checkpoint.tmp0815"), folder_path(stage.dir, "checkpoint")),
        0);
}

static void save(const char *name)
{
    begin_save(name);
    end_save(name);
}

TEST(checkpoint_name, the_newest_stands_first_in_the_state_file)
{
    static const struct {
        const char *text, *name;
    } rows[] = {
        {"model_checkpoint_path: \"ckpt-3\"\nall_model_checkpoint_paths: \"ckpt-2\"\n", "ckpt-3"},
        {"model_checkpoint_path: \"/data/run 1/ckpt-4\"", "ckpt-4"},
        {"model_checkpoint_path:\"a\\\"b\\303\\274\\\\-5\"\n", "a\"b\xc3\xbc\\-5"},
        {"all_model_checkpoint_paths: \"x\"\nmodel_checkpoint_path: 'y-1'\n", "y-1"},
        {"model_checkpoint_path: \"ckpt-", NULL},
        {"model_checkpoint_path: \"ckpt\\", NULL},
        {"model_checkpoint_path: \"\"", NULL},
        {"model_checkpoint_path: \"dir/\"", NULL},
        {"model_checkpoint_path: ", NULL},
        {"model_checkpoint_path:", NULL},
        {"", NULL},
        {"all_model_checkpoint_paths: \"x\"\n", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char name[CHECKPOINT_NAME_MAX + 1];
        bool found = checkpoint_state_newest(rows[i].text, strlen(rows[i].text), name);
        assert_int_equal(found, rows[i].name != NULL);
        if (found) {
            assert_string_equal(name, rows[i].name);
        }
    }
    char text[400] = "model_checkpoint_path: \"";
    struct {
        char name[CHECKPOINT_NAME_MAX + 1];
        char behind;
    } room = {.behind = 'b'};
    memset(text + strlen(text), 'x', CHECKPOINT_NAME_MAX);
    strcat(text, "\"");
    assert_true(checkpoint_state_newest(text, strlen(text), room.name));
    strcpy(text + strlen(text) - 1, "x\"");
    assert_false(checkpoint_state_newest(text, strlen(text), room.name));
    assert_int_equal(room.behind, 'b');
}

TEST(checkpoint_name, a_step_is_the_digits_behind_the_last_hyphen)
{
    uint64_t step = 0;
    assert_true(checkpoint_name_step("ckpt-0", &step));
    assert_int_equal(step, 0);
    assert_true(checkpoint_name_step("ckpt-e12-345", &step));
    assert_int_equal(step, 345);
    static const char *const none[] = {"ckpt", "ckpt-",   "ckpt-1x", "model-best",
                                       "7",    "ckpt- 1", "ckpt-+1", "c-99999999999999999999"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_false(checkpoint_name_step(none[i], &step));
    }
    assert_int_equal(checkpoint_name_stem("ckpt-5.data-00000-of-00001"), 6);
    assert_int_equal(checkpoint_name_stem("ckpt-5_temp"), 6);
    assert_int_equal(checkpoint_name_stem("ckpt-5.index"), 6);
    assert_int_equal(checkpoint_name_stem("checkpoint"), 0);
    assert_int_equal(checkpoint_name_stem(".index"), 0);
}

TEST(checkpoint_name, an_epoch_is_in_names_that_tfe_has_given)
{
    static const struct {
        const char *file;
        uint64_t epoch;
    } rows[] = {
        {"tfe-epoch-7", 7},
        {"ckpt-12-345.index", 12},
        {"tfe-epoch-4503599627370495", UINT64_C(4503599627370495)},
        /* larger than the protocol allows, so a server would reject the JOIN */
        {"tfe-epoch-4503599627370496", 0},
        {"tfe-epoch-99999999999999999999999", 0},
        {"tfe-epoch-", 0},
        {"tfe-epoch-7x", 0},
        {"tfe-epoch--7", 0},
        {"ckpt-12.index", 0}, /* TensorFlow's own name: 12 is the step */
        {"ckpt-12-.index", 0},
        {"ckpt-12-3.data-00000-of-00001", 0}, /* incomplete */
        {"ckpt-x-3.index", 0},
        {"checkpoint", 0},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(checkpoint_name_epoch(rows[i].file), rows[i].epoch);
    }
}

#define FIXTURE setup, teardown

TEST_IN(checkpoints, the_highest_epoch_that_has_saved_is_found)
{
    assert_int_equal(checkpoints_epoch(stage.dir), 0); /* does not exist yet */
    make_dirs();
    assert_int_equal(checkpoints_epoch(stage.dir), 0);
    static const char *const files[] = {"ckpt-3-9.index", "tfe-epoch-4",
                                        "ckpt-5-10.data-00000-of-00001"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", stage.dir, files[i]);
        int fd = open(path, O_CREAT | O_WRONLY, 0644);
        assert_true(fd >= 0);
        close(fd);
    }
    assert_int_equal(checkpoints_epoch(stage.dir), 4);
}

TEST_IN(checkpoints, a_save_is_seen_with_its_step)
{
    make_dirs();
    save("ckpt-1"); /* existed before the agent, so it is not reported */
    start();
    turn_a_while(stage.base);
    assert_int_equal(stage.seen, 0);
    save("ckpt-20");
    TURN_UNTIL(stage.base, stage.seen == 1);
    assert_true(stage.has_step);
    assert_int_equal(stage.step, 20);
    assert_int_equal(stage.answers, 0);
    save("best"); /* counts as a save although the name contains no step */
    TURN_UNTIL(stage.base, stage.seen == 2);
    assert_false(stage.has_step);
}

TEST_IN(checkpoints, a_directory_may_come_later_go_and_come_back)
{
    start();
    make_dirs();
    save("ckpt-1"); /* all of it before the event loop handles an event */
    TURN_UNTIL(stage.base, stage.seen == 1);
    save("ckpt-2");
    TURN_UNTIL(stage.base, stage.seen == 2);
    folder_remove(stage.dir);
    turn_a_while(stage.base);
    assert_int_equal(mkdir(stage.dir, 0755), 0);
    turn_a_while(stage.base);
    save("ckpt-3");
    TURN_UNTIL(stage.base, stage.seen == 3);
    /* The directory was renamed and another one created in its place; changes in the
     * old one are ignored. */
    char away[128];
    snprintf(away, sizeof(away), "%s", folder_path(stage.folder, "away"));
    assert_int_equal(rename(stage.dir, away), 0);
    assert_int_equal(mkdir(stage.dir, 0755), 0);
    turn_a_while(stage.base);
    folder_write(folder_path(away, "checkpoint"), "model_checkpoint_path: \"ckpt-99\"\n");
    save("ckpt-4");
    TURN_UNTIL(stage.base, stage.seen == 4);
    assert_int_equal(stage.step, 4);
    /* The directory and its parents are removed. */
    folder_remove(folder_path(stage.folder, "run"));
    turn_a_while(stage.base);
    make_dirs();
    turn_a_while(stage.base);
    save("ckpt-5");
    TURN_UNTIL(stage.base, stage.seen == 5);
}

TEST_IN(checkpoints, only_a_save_that_began_after_the_ask_answers_it)
{
    make_dirs();
    start();
    begin_save("ckpt-1");
    checkpoints_request_save(stage.watch,
                             7); /* handled only after the request, but the save began before it */
    end_save("ckpt-1");
    TURN_UNTIL(stage.base, stage.seen == 1);
    assert_int_equal(stage.answers, 0);
    begin_save("ckpt-2");
    turn_a_while(stage.base);
    checkpoints_request_save(stage.watch, 8);
    end_save("ckpt-2");
    TURN_UNTIL(stage.base, stage.seen == 2);
    assert_int_equal(stage.answers, 7);
    /* A state file whose data files were not seen being written. */
    end_save("ckpt-0");
    TURN_UNTIL(stage.base, stage.seen == 3);
    assert_int_equal(stage.answers, 0);
    checkpoints_begin(stage.watch); /* no save is requested in the next epoch */
    save("ckpt-9");
    TURN_UNTIL(stage.base, stage.seen == 4);
    assert_int_equal(stage.answers, 0);
}

TEST_IN(checkpoints, a_save_answers_what_was_asked_before_its_first_file)
{
    make_dirs();
    start();
    /* If every file counted as a save, the next but one would replace the first in
     * the fixed-size list. */
    folder_write(folder_path(stage.dir, "ckpt-0.index"), "index");
    for (int i = 1; i <= 3; i++) {
        char name[16];
        snprintf(name, sizeof(name), "ckpt-%d", i);
        begin_save(name);
    }
    folder_write(folder_path(stage.dir, "ckpt-8.data-00000-of-00001"), "weights");
    checkpoints_request_save(stage.watch, 7);
    folder_write(folder_path(stage.dir, "ckpt-8.index"), "index");
    end_save("ckpt-8");
    TURN_UNTIL(stage.base, stage.seen == 1);
    assert_int_equal(stage.answers, 0);
    /* The same name again is a new save. */
    unlink(folder_path(stage.dir, "ckpt-8.data-00000-of-00001"));
    unlink(folder_path(stage.dir, "ckpt-8.index"));
    save("ckpt-8");
    TURN_UNTIL(stage.base, stage.seen == 2);
    assert_int_equal(stage.answers, 7);
    /* Begun in one epoch and ended in the next. */
    begin_save("ckpt-9");
    turn_a_while(stage.base);
    checkpoints_begin(stage.watch);
    end_save("ckpt-9");
    TURN_UNTIL(stage.base, stage.seen == 3);
    assert_int_equal(stage.answers, 0);
}

TEST_IN(checkpoints, what_has_not_changed_is_no_save)
{
    make_dirs();
    start();
    save("ckpt-3");
    TURN_UNTIL(stage.base, stage.seen == 1);
    close(open(folder_path(stage.dir, "checkpoint"), O_WRONLY | O_CLOEXEC));
    turn_a_while(stage.base);
    assert_int_equal(stage.seen, 1);
    /* Symbolic links are ignored too, because they may lead anywhere. */
    folder_write(folder_path(stage.folder, "elsewhere"), "model_checkpoint_path: \"ckpt-4\"\n");
    unlink(folder_path(stage.dir, "checkpoint"));
    assert_int_equal(symlink("../../elsewhere", folder_path(stage.dir, "checkpoint")), 0);
    turn_a_while(stage.base);
    assert_int_equal(stage.seen, 1);
}

/* The kernel's queue overflows, and the relevant event is lost. */
TEST_IN(checkpoints, a_save_amid_more_than_the_kernel_remembers_is_seen)
{
    char names[2][128];
    make_dirs();
    start();
    turn_a_while(stage.base);
    for (int i = 0; i < 2; i++) {
        snprintf(names[i], sizeof(names[i]), "%s/other-%d", stage.dir, i);
    }
    folder_write(names[0], "");
    int max = 0;
    FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "r");
    assert_int_equal(fscanf(file, "%d", &max), 1);
    fclose(file);
    if (max > 100000) {
        SKIP("the kernel remembers too much here");
    }
    for (int i = 0; i <= max; i++) {
        assert_int_equal(rename(names[i % 2], names[(i + 1) % 2]), 0);
    }
    save("ckpt-3");
    TURN_UNTIL(stage.base, stage.seen == 1);
    assert_int_equal(stage.step, 3);
}

/* Returns the number of inotify watches of this process. */
static int count_watches(void)
{
    int n = 0;
    for (int fd = 0; fd < 64; fd++) {
        char line[256];
        snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", fd);
        FILE *file = fopen(line, "r");
        while (file && fgets(line, sizeof(line), file)) {
            n += strncmp(line, "inotify wd:", 11) == 0;
        }
        if (file) {
            fclose(file);
        }
    }
    return n;
}

TEST_IN(checkpoints, one_thing_is_watched_at_a_time)
{
    start();
    assert_int_equal(count_watches(), 1);
    for (int i = 1; i <= 3; i++) {
        make_dirs();
        save("ckpt-1");
        TURN_UNTIL(stage.base, stage.seen == i);
        assert_int_equal(count_watches(), 1);
        folder_remove(folder_path(stage.folder, "run"));
        turn_a_while(stage.base);
        assert_int_equal(count_watches(), 1);
    }
}

static atomic_bool starts;

static void *make_dirs_later(void *arg)
{
    while (!starts) {
    }
    make_dirs();
    return NULL;
}

/* In some of the rounds, the directory is created after the check for it and before the watch on
 * its parent. */
TEST_IN(checkpoints, directory_created_while_it_is_looked_for_is_found)
{
    for (int i = 1; i <= 300; i++) {
        pthread_t thread;
        starts = false;
        assert_int_equal(pthread_create(&thread, NULL, make_dirs_later, NULL), 0);
        starts = true;
        start();
        assert_int_equal(pthread_join(thread, NULL), 0);
        save("ckpt-5");
        TURN_UNTIL(stage.base, stage.seen == i);
        checkpoints_free(stage.watch);
        stage.watch = NULL;
        folder_remove(folder_path(stage.folder, "run"));
    }
}

TEST_IN(checkpoints, a_half_written_state_file_is_read_again_when_it_is_whole)
{
    make_dirs();
    start();
    const char *path = folder_path(stage.dir, "checkpoint");
    folder_write(path, "model_checkpoint_pa");
    turn_a_while(stage.base);
    assert_int_equal(stage.seen, 0);
    folder_write(path, "model_checkpoint_path: \"ckpt-6\"\n");
    TURN_UNTIL(stage.base, stage.seen == 1);
    assert_int_equal(stage.step, 6);
    /* A state file must be a regular file. */
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    turn_a_while(stage.base);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    turn_a_while(stage.base);
    assert_int_equal(stage.seen, 1);
}

TEST_IN(checkpoints, a_save_between_two_epochs_is_no_news_of_the_second)
{
    make_dirs();
    start();
    save("ckpt-1");
    checkpoints_begin(stage.watch);
    turn_a_while(stage.base);
    assert_int_equal(stage.seen, 0);
}
