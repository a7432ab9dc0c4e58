/* tests/unit/output/test_logs.c: log files: nothing is overwritten, sizes are bounded, and
 * writing never blocks. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "agent/output/log_file.h"
#include "agent/output/log_prune.h"
#include "agent/output/log_writer.h"
#include "common/base/clock.h"
#include "common/cli/log.h"
#include "tests/unit/folder.h"

static char root[FOLDER_BYTES];

/* Replaces write(2) of the writer's thread (--wrap=write): blocks on a hanging disk,
 * fails on a full one. */
static atomic_bool disk_hangs;
static atomic_bool disk_is_full;
static atomic_uint n_hanging;
static atomic_uint n_failed;
static pthread_t own_thread;

ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    if (fd == STDERR_FILENO || pthread_equal(pthread_self(), own_thread)) {
        return __real_write(fd, bytes, n);
    }
    n_hanging += disk_hangs;
    while (disk_hangs) {
        usleep(1000);
    }
    if (disk_is_full) {
        n_failed++;
        errno = ENOSPC;
        return -1;
    }
    return __real_write(fd, bytes, n);
}

static int setup(void **state)
{
    (void)state;
    folder_make(root);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_remove(root);
    return 0;
}

static struct log_place place_of(uint64_t epoch, uint32_t rank, enum log_stream stream)
{
    struct log_place place = {.run = 2, .epoch = epoch, .rank = rank, .stream = stream};
    assert_int_equal(id_set(&place.job, "mnist"), 0);
    return place;
}

/* Returns the file's text, or "?" if there is none. */
static const char *text_of(const char *name)
{
    static char text[200000];
    int fd = open(folder_path(root, name), O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0) {
        close(fd);
    }
    if (n < 0) {
        return "?";
    }
    text[n] = '\0';
    return text;
}

static struct log_writer *writer(uint64_t max_bytes)
{
    struct log_writer *w;
    struct tfe_reason reason;
    struct log_writer_options options = {.root = root, .max_bytes = max_bytes};
    assert_int_equal(log_writer_new(&options, &w, &reason), 0);
    return w;
}

static void say(struct log_target *file, const char *text)
{
    log_writer_write(file, text, strlen(text), false);
}

/* Waits until the writer's thread has reached this state. */
#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        long give_up_ = folder_ms() + PATIENCE_MS;                                                 \
        while (!(condition)) {                                                                     \
            assert_true(folder_ms() < give_up_);                                                   \
            usleep(1000);                                                                          \
        }                                                                                          \
    } while (0)

#define FIXTURE setup, teardown

TEST_IN(logs, each_stream_has_its_file_and_latest_leads_to_the_newest_epoch)
{
    struct log_writer *w = writer(0);
    for (uint64_t epoch = 7; epoch < 9; epoch++) {
        struct log_place place = place_of(epoch, 3, LOG_STDOUT);
        struct log_target *out = log_writer_open(w, &place);
        place.stream = LOG_STDERR;
        struct log_target *err = log_writer_open(w, &place);
        say(out, "one\ntwo \r\xff");
        say(err, "bad\n");
        log_writer_close(out);
        log_writer_close(err);
    }
    log_writer_free(w, PATIENCE_MS);
    assert_string_equal(text_of("mnist/run-2/epoch-7/rank-3.stdout"), "one\ntwo \r\xff");
    assert_string_equal(text_of("mnist/run-2/epoch-7/rank-3.stderr"), "bad\n");
    assert_string_equal(text_of("mnist/latest/rank-3.stderr"), "bad\n");
    char target[64] = "";
    assert_true(readlink(folder_path(root, "mnist/latest"), target, sizeof(target) - 1) > 0);
    assert_string_equal(target, "run-2/epoch-8");
}

TEST_IN(logs, a_job_whose_name_is_a_path_writes_nothing)
{
    char below[FOLDER_BYTES + 8];
    (void)snprintf(below, sizeof(below), "%s", folder_path(root, "below"));
    static const char *const names[] = {"..", ".", "../up", "/tmp"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct log_place place = place_of(3, 0, LOG_STDOUT);
        struct log_file file;
        struct tfe_reason reason;
        memset(place.job.text, 0, sizeof(place.job.text));
        memcpy(place.job.text, names[i], strlen(names[i]));
        log_file_init(&file);
        assert_false(log_file_write(&file, below, &place, 0, 0, "x\n", 2, &reason));
        log_file_done(&file);
    }
    assert_string_equal(text_of("run-2/epoch-3/rank-0.stdout"), "?");
    assert_string_equal(text_of("below/run-2/epoch-3/rank-0.stdout"), "?");
}

TEST_IN(logs, what_is_there_is_never_written_over)
{
    for (int i = 0; i < 3; i++) {
        struct log_writer *w = writer(0);
        struct log_place place = place_of(1, 0, LOG_STDOUT);
        struct log_target *file = log_writer_open(w, &place);
        say(file, i == 0 ? "first\n" : i == 1 ? "second\n" : "third\n");
        log_writer_close(file);
        log_writer_free(w, PATIENCE_MS);
    }
    assert_string_equal(text_of("mnist/run-2/epoch-1/rank-0.stdout"), "first\n");
    assert_string_equal(text_of("mnist/run-2/epoch-1/rank-0-2.stdout"), "second\n");
    assert_string_equal(text_of("mnist/run-2/epoch-1/rank-0-3.stdout"), "third\n");
}

TEST_IN(logs, a_long_one_is_moved_aside_between_two_lines)
{
    struct log_writer *w = writer(4096);
    struct log_place place = place_of(1, 0, LOG_STDOUT);
    struct log_target *file = log_writer_open(w, &place);
    char line[64];
    for (int i = 0; i < 1000; i++) { /* 20 bytes each */
        snprintf(line, sizeof(line), "line %013d\n", i);
        say(file, line);
    }
    log_writer_close(file);
    log_writer_free(w, PATIENCE_MS);
    struct stat st;
    assert_int_equal(stat(folder_path(root, "mnist/latest/rank-0.stdout"), &st), 0);
    assert_in_range(st.st_size, 20, 4096);
    assert_int_equal(stat(folder_path(root, "mnist/latest/rank-0.stdout.old"), &st), 0);
    assert_in_range(st.st_size, 4096 - 20, 4096);
    assert_memory_equal(text_of("mnist/latest/rank-0.stdout.old"), "line ", 5);
    const char *text = text_of("mnist/latest/rank-0.stdout");
    assert_memory_equal(text, "line ", 5);
    assert_string_equal(text + strlen(text) - strlen(line), line);
}

TEST_IN(logs, a_line_longer_than_a_file_is_cut)
{
    struct log_file file;
    struct log_place place = place_of(1, 0, LOG_STDOUT);
    struct tfe_reason reason;
    log_file_init(&file);
    char text[10000];
    memset(text, 'x', sizeof(text));
    assert_true(log_file_write(&file, root, &place, 4096, 0, text, sizeof(text), &reason));
    log_file_done(&file);
    assert_int_equal(strlen(text_of("mnist/latest/rank-0.stdout.old")), 4096);
    assert_int_equal(strlen(text_of("mnist/latest/rank-0.stdout")), sizeof(text) - 2 * 4096);
}

/* Simulates a full disk by a limit on the size of files: writes fail, and succeed again later. */
TEST_IN(logs, a_full_disk_loses_whole_lines_and_counts_them)
{
    struct log_file file;
    struct log_place place = place_of(1, 0, LOG_STDERR);
    struct tfe_reason reason;
    struct rlimit before, tight;
    log_file_init(&file);
    assert_true(log_file_write(&file, root, &place, 0, 0, "begin\n", 6, &reason));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = before;
    tight.rlim_cur = 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    assert_false(
        log_file_write(&file, root, &place, 0, 0, "cut here\nlost\nlost, too", 23, &reason));
    assert_non_null(strstr(reason.text, "rank-0.stderr"));
    assert_false(log_file_write(&file, root, &place, 0, 0, " long\nlost", 10, &reason));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(log_file_write(&file, root, &place, 0, 2, " end of it\nback\n", 16, &reason));
    /* The truncated line has ended, so the next lost data does not continue it. */
    assert_true(log_file_write(&file, root, &place, 0, 3, "whole\n", 6, &reason));
    log_file_done(&file);
    assert_string_equal(text_of("mnist/latest/rank-0.stderr"),
                        "begin\ncut \ntfe-agent: 6 lines were lost here\nback\n"
                        "tfe-agent: 3 lines were lost here\nwhole\n");
}

TEST_IN(logs, a_folder_that_was_cleared_away_is_made_anew)
{
    struct log_file file;
    struct log_place place = place_of(1, 0, LOG_STDOUT);
    struct tfe_reason reason;
    char text[3000]; /* an unfinished line and a finished one */
    memset(text, 'x', sizeof(text));
    log_file_init(&file);
    assert_true(log_file_write(&file, root, &place, 4096, 0, text, sizeof(text), &reason));
    folder_remove(folder_path(root, "mnist"));
    text[sizeof(text) - 1] = '\n';
    assert_false(log_file_write(&file, root, &place, 4096, 0, text, sizeof(text), &reason));
    assert_true(log_file_write(&file, root, &place, 4096, 0, "here\n", 5, &reason));
    log_file_done(&file);
    /* The new file begins with a complete line. */
    assert_string_equal(text_of("mnist/latest/rank-0.stdout"),
                        "tfe-agent: 1 lines were lost here\nhere\n");
}

TEST_IN(logs, a_directory_that_cannot_be_written_is_named_at_once)
{
    struct log_writer *w;
    struct tfe_reason reason;
    folder_write(folder_path(root, "file"), "");
    struct log_writer_options options = {.root = folder_path(root, "file")};
    assert_int_equal(log_writer_new(&options, &w, &reason), TFE_ESYS);
    assert_non_null(strstr(reason.text, "--log-dir"));
    options.root = folder_path(root, "file/below");
    assert_int_equal(log_writer_new(&options, &w, &reason), TFE_ESYS);
    options.root = folder_path(root, "a/b/c/"); /* created with its parent directories */
    assert_int_equal(log_writer_new(&options, &w, &reason), 0);
    log_writer_free(w, PATIENCE_MS);
    assert_int_equal(access(folder_path(root, "a/b/c"), W_OK), 0);
}

/* Bug: a user with write access could redirect the log to foreign files by a symbolic link. */
TEST_IN(logs, a_link_is_not_followed_and_others_read_nothing)
{
    struct log_writer *w;
    struct tfe_reason reason;
    struct stat st;
    struct log_file file;
    struct log_place place = place_of(1, 0, LOG_STDOUT);
    char link[64];
    char at[64];
    snprintf(link, sizeof(link), "%s/link", root);
    snprintf(at, sizeof(at), "%s/logs", root);
    assert_int_equal(mkdir(folder_path(root, "elsewhere"), 0700), 0);
    assert_int_equal(symlink(folder_path(root, "elsewhere"), link), 0);
    struct log_writer_options options = {.root = link};
    assert_int_equal(log_writer_new(&options, &w, &reason), TFE_ESYS);
    assert_non_null(strstr(reason.text, "without following a link"));
    log_file_init(&file);
    assert_true(log_file_write(&file, at, &place, 0, 0, "x\n", 2, &reason));
    log_file_done(&file);
    assert_int_equal(stat(at, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(folder_path(root, "logs/mnist/run-2/epoch-1"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(folder_path(root, "logs/mnist/latest/rank-0.stdout"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    place.run = 3;
    assert_int_equal(symlink(folder_path(root, "elsewhere"), folder_path(root, "logs/mnist/run-3")),
                     0);
    assert_false(log_file_write(&file, at, &place, 0, 0, "x\n", 2, &reason));
    log_file_done(&file);
    assert_int_equal(rmdir(folder_path(root, "elsewhere")), 0); /* empty */
}

/* Lines arrive faster than any disk writes; the queue is limited and no call blocks. */
TEST_IN(logs, what_waits_for_the_disk_is_bounded)
{
    struct log_writer *w = writer(0);
    struct log_place place = place_of(1, 0, LOG_STDOUT);
    struct log_target *file = log_writer_open(w, &place);
    static char line[65536];
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    long began = folder_ms();
    size_t queued = 0;
    while (log_writer_accepts(file) && queued < 512 * sizeof(line)) {
        log_writer_write(file, line, sizeof(line), false);
        queued += sizeof(line);
    }
    assert_true(folder_ms() - began < 5000);
    log_writer_write(file, line, sizeof(line), true);
    log_writer_close(file);
    log_writer_free(w, PATIENCE_MS);
    struct stat st;
    assert_int_equal(stat(folder_path(root, "mnist/latest/rank-0.stdout"), &st), 0);
    assert_true((size_t)st.st_size <= queued + sizeof(line));
}

TEST_IN(logs, a_disk_that_hangs_is_waited_for_only_so_long_and_the_loss_is_counted)
{
    struct log_writer *w = writer(0);
    struct log_place place = place_of(1, 0, LOG_STDOUT);
    struct log_target *file = log_writer_open(w, &place);
    static char line[65536];
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    disk_hangs = true;
    unsigned queued = 0;
    while (log_writer_accepts(file)) {
        log_writer_write(file, line, sizeof(line), false);
        queued++;
    }
    assert_in_range(queued, LOG_QUEUE_MAX / sizeof(line), LOG_QUEUE_MAX / sizeof(line) + 2);
    long began = folder_ms();
    while (!log_writer_accepts(file)) { /* until the writer has room again */
        assert_true(folder_ms() - began < PATIENCE_MS);
        usleep(1000);
    }
    assert_true(folder_ms() - began >= LOG_PATIENCE_MS / 2);
    for (int i = 0; i < 100; i++) {
        log_writer_write(file, line, sizeof(line), false);
    }
    disk_hangs = false;
    log_writer_write(file, "back\n", 5, true);
    log_writer_close(file);
    log_writer_free(w, PATIENCE_MS);
    int fd = open(folder_path(root, "mnist/latest/rank-0.stdout"), O_RDONLY | O_CLOEXEC);
    char end[64] = "";
    assert_true(lseek(fd, -47, SEEK_END) > 0);
    assert_int_equal(read(fd, end, sizeof(end) - 1), 47);
    close(fd);
    unsigned lost = 0;
    assert_non_null(strstr(end, "tfe-agent: "));
    assert_int_equal(sscanf(strstr(end, "tfe-agent: "), "tfe-agent: %u lines", &lost), 1);
    assert_in_range(lost, 97, 100); /* the limit may be exceeded by one chunk */
    assert_string_equal(end + 47 - 5, "back\n");
}

/* Written data leaves the queue, so the total is unlimited. */
TEST_IN(logs, what_has_been_written_makes_room)
{
    struct log_writer *w = writer(0);
    struct log_place place = place_of(1, 0, LOG_STDOUT);
    struct log_target *file = log_writer_open(w, &place);
    static char line[65536];
    struct stat st;
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    for (size_t n = sizeof(line); n <= 2 * LOG_QUEUE_MAX; n += sizeof(line)) {
        log_writer_write(file, line, sizeof(line), false);
        WAIT_UNTIL(stat(folder_path(root, "mnist/latest/rank-0.stdout"), &st) == 0 &&
                   (size_t)st.st_size >= n);
        assert_int_equal(st.st_size, n); /* lost lines would be reported in the file */
    }
    log_writer_close(file);
    log_writer_free(w, PATIENCE_MS);
}

/* The last lines may give the reason of the trainer's end, so the file states
 * that they are missing. */
TEST_IN(logs, what_was_lost_last_is_counted_when_the_file_is_closed)
{
    struct log_writer *w = writer(0);
    struct log_place place = place_of(1, 0, LOG_STDOUT);
    struct log_target *file = log_writer_open(w, &place);
    static char line[65536];
    const size_t room = LOG_QUEUE_MAX / sizeof(line) + 1;
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    disk_hangs = true;
    for (size_t i = 0; i < room + 7; i++) {
        log_writer_write(file, line, sizeof(line), false);
    }
    log_writer_close(file);
    disk_hangs = false;
    log_writer_free(w, PATIENCE_MS);
    static const char note[] = "x\ntfe-agent: 7 lines were lost here\n";
    char end[sizeof(note)] = "";
    int fd = open(folder_path(root, "mnist/latest/rank-0.stdout"), O_RDONLY | O_CLOEXEC);
    assert_true(lseek(fd, -(off_t)strlen(note), SEEK_END) > 0);
    assert_int_equal(read(fd, end, strlen(note)), strlen(note));
    assert_string_equal(end, note);
    close(fd);
}

static unsigned times_in(const char *text, const char *word)
{
    unsigned n = 0;
    while ((text = strstr(text, word))) {
        text += strlen(word);
        n++;
    }
    return n;
}

/* Several files, one of which is closed while the disk is full. */
TEST_IN(logs, a_full_disk_is_reported_once_and_so_is_its_end)
{
    struct log_target *files[3];
    int log = open(folder_path(root, "log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int was = dup(STDERR_FILENO);
    assert_true(dup2(log, STDERR_FILENO) >= 0);
    struct log_writer *w = writer(0);
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct log_place place = place_of(1, rank, LOG_STDOUT);
        files[rank] = log_writer_open(w, &place);
    }
    n_failed = 0;
    disk_is_full = true;
    for (int i = 0; i < 9; i++) {
        say(files[i % 3], "lost\n");
    }
    log_writer_close(files[2]);
    WAIT_UNTIL(n_failed == 10); /* with its note */
    disk_is_full = false;
    for (int i = 0; i < 2; i++) {
        say(files[i], "good\n");
        log_writer_close(files[i]);
    }
    log_writer_free(w, PATIENCE_MS);
    assert_true(dup2(was, STDERR_FILENO) >= 0);
    close(was);
    close(log);
    assert_int_equal(times_in(text_of("log"), "event=logs_not_written"), 1);
    assert_int_equal(times_in(text_of("log"), "event=logs_written_again"), 1);
    assert_string_equal(text_of("mnist/latest/rank-1.stdout"),
                        "tfe-agent: 3 lines were lost here\ngood\n");
}

static void age(const char *name, int days)
{
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= days * 86400;
    times[1] = times[0];
    assert_int_equal(utimensat(AT_FDCWD, folder_path(root, name), times, 0), 0);
}

static void make_old(const char *folder, const char *name, int days)
{
    char path[256];
    snprintf(path, sizeof(path), "%s", folder);
    for (char *slash = path; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(folder_path(root, path), 0755);
        *slash = '/';
    }
    mkdir(folder_path(root, path), 0755);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    folder_write(folder_path(root, path), "x");
    age(path, days);
}

TEST_IN(logs, only_names_of_ours_are_removed)
{
    static const char *const ours[] = {"rank-0.stdout", "rank-12.stderr", "rank-0-2.stdout",
                                       "rank-0.stdout.old", "rank-3-17.stderr.old"};
    static const char *const others[] = {
        "rank-.stdout",   "rank-0.stdout.old.old", "rank-0.txt",     "rank-0",
        "xrank-0.stdout", "rank-0.stdoutx",        "rank-0-.stdout", "notes.txt"};
    static const char *const folders[] = {".mnist/run-1/epoch-1", "mnist/run-/epoch-1",
                                          "mnist/run-1a/epoch-1", "mnist/run-1/epoch"};
    static const char folder[] = "mnist/run-1/epoch-18446744073709551615";
    char path[256];
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        make_old(folder, ours[i], 8);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        make_old(folder, others[i], 8);
    }
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        make_old(folders[i], "rank-0.stdout", 8);
    }
    assert_false(log_prune(root, clock_wall(), 64));
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, ours[i]);
        assert_int_equal(access(folder_path(root, path), F_OK), -1);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, others[i]);
        assert_int_equal(access(folder_path(root, path), F_OK), 0);
    }
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(path, sizeof(path), "%s/rank-0.stdout", folders[i]);
        assert_int_equal(access(folder_path(root, path), F_OK), 0);
    }
}

TEST_IN(logs, only_old_files_of_ours_are_removed_and_a_few_at_a_time)
{
    make_old("mnist/run-1/epoch-1", "rank-0.stdout", 8);
    make_old("mnist/run-1/epoch-1", "rank-0.stderr.old", 8);
    make_old("mnist/run-1/epoch-2", "rank-0.stdout", 8);
    make_old("mnist/run-1/epoch-2", "rank-1.stdout", 6); /* not yet too old */
    make_old("mnist/run-1/epoch-3", "rank-0.stdout", 8);
    make_old("mnist/run-1/epoch-3", "notes.txt", 800);
    make_old("mnist/thesis/epoch-3", "rank-0.stdout", 800);
    make_old("other/run-9/epoch-1", "rank-0.stdout", 8);
    char elsewhere[FOLDER_BYTES];
    folder_make(elsewhere);
    folder_write(folder_path(elsewhere, "rank-0.stdout"), "x");
    assert_int_equal(symlink(elsewhere, folder_path(root, "mnist/run-1/epoch-4")), 0);
    struct tfe_wall before = {.ms = clock_wall().ms - INT64_C(7) * 86400000};
    assert_true(log_prune(root, before, 2));
    assert_false(log_prune(root, before, 64));
    assert_int_equal(access(folder_path(root, "mnist/run-1/epoch-1"), F_OK), -1);
    assert_int_equal(access(folder_path(root, "mnist/run-1/epoch-2/rank-0.stdout"), F_OK), -1);
    assert_int_equal(access(folder_path(root, "mnist/run-1/epoch-2/rank-1.stdout"), F_OK), 0);
    assert_int_equal(access(folder_path(root, "mnist/run-1/epoch-3/rank-0.stdout"), F_OK), -1);
    assert_int_equal(access(folder_path(root, "mnist/run-1/epoch-3/notes.txt"), F_OK), 0);
    assert_int_equal(access(folder_path(root, "mnist/thesis/epoch-3/rank-0.stdout"), F_OK), 0);
    assert_int_equal(access(folder_path(root, "other/run-9"), F_OK), -1);
    assert_int_equal(access(folder_path(root, "other"), F_OK),
                     0); /* not a name that the agent creates */
    assert_int_equal(access(folder_path(elsewhere, "rank-0.stdout"), F_OK), 0);
    folder_remove(elsewhere);
}

TEST_IN(logs, the_writer_removes_old_ones_when_it_starts)
{
    make_old("mnist/run-1/epoch-1", "rank-0.stdout", 8);
    struct log_writer *w;
    struct tfe_reason reason;
    struct log_writer_options options = {.root = root, .keep_ms = 7u * 86400000u};
    assert_int_equal(log_writer_new(&options, &w, &reason), 0);
    long give_up = folder_ms() + PATIENCE_MS;
    while (access(folder_path(root, "mnist/run-1"), F_OK) == 0) {
        assert_true(folder_ms() < give_up);
        usleep(1000);
    }
    log_writer_free(w, PATIENCE_MS);
}

/* A trainer that prints nothing for longer than the retention time keeps its file. */
TEST_IN(logs, a_file_in_use_is_never_old)
{
    struct log_writer *w;
    struct tfe_reason reason;
    struct log_writer_options options = {
        .root = root, .keep_ms = 4000}; /* files are checked four times as often */
    assert_int_equal(log_writer_new(&options, &w, &reason), 0);
    struct log_place place = place_of(1, 0, LOG_STDOUT);
    struct log_target *silent = log_writer_open(w, &place);
    place.rank = 1;
    struct log_target *other = log_writer_open(w, &place);
    say(silent, "one\n");
    WAIT_UNTIL(strcmp(text_of("mnist/latest/rank-0.stdout"), "one\n") == 0);
    const unsigned hanging = n_hanging;
    disk_hangs = true; /* the hanging disk blocks the removal while the two files grow old */
    say(other, "two\n");
    WAIT_UNTIL(n_hanging > hanging);
    age("mnist/run-2/epoch-1/rank-0.stdout", 8);
    make_old("mnist/run-1/epoch-1", "rank-0.stdout", 8);
    disk_hangs = false;
    WAIT_UNTIL(access(folder_path(root, "mnist/run-1"), F_OK) != 0);
    assert_string_equal(text_of("mnist/latest/rank-0.stdout"), "one\n");
    log_writer_close(silent);
    log_writer_close(other);
    log_writer_free(w, PATIENCE_MS);
}

int main(void)
{
    signal(SIGXFSZ, SIG_IGN);
    own_thread = pthread_self();
    log_init("unit", LOG_INFO_, LOG_LOGFMT);
    return stories_run(NULL, NULL);
}
