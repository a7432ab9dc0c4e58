/* tests/unit/output/test_logs.c: log files: nothing is overwritten, sizes are bounded, and
 * writing never blocks. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "agent/output/log_file.h"
#include "agent/output/log_prune.h"
#include "agent/output/log_serve.h"
#include "agent/output/log_writer.h"
#include "common/base/clock.h"
#include "common/cli/log.h"
#include "tests/unit/folder.h"

static char root[FOLDER_BYTES];

/* Replaces write(2) of the writer's thread to files (--wrap=write): blocks on a hanging disk,
 * waits on a slow one, fails on a full one. */
static atomic_bool disk_hangs;
static atomic_bool disk_is_full;
static atomic_uint disk_delay_us; /* duration of each write */
static atomic_uint n_hanging;
static atomic_uint n_failed;
static pthread_t own_thread;

ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    struct stat st;
    bool is_file = fd != STDERR_FILENO && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (!is_file || pthread_equal(pthread_self(), own_thread)) {
        return __real_write(fd, bytes, n);
    }
    n_hanging += disk_hangs;
    while (disk_hangs) {
        usleep(1000);
    }
    usleep(disk_delay_us);
    if (disk_is_full) {
        n_failed++;
        errno = ENOSPC;
        return -1;
    }
    return __real_write(fd, bytes, n);
}

static const struct tfe_id job = {"mnist"};
static struct event_base *base;
static struct output_ring ring;

static int setup(void **state)
{
    (void)state;
    folder_make(root);
    base = event_base_new();
    output_ring_init(&ring, OUTPUT_RING_BYTES);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    output_ring_done(&ring);
    event_base_free(base);
    folder_remove(root);
    return 0;
}

static struct log_place place_of(uint64_t epoch, uint32_t rank, enum tfe_stream stream)
{
    struct log_place place = {.job = job, .run = 2, .epoch = epoch, .stream = stream};
    (void)snprintf(place.owner, sizeof(place.owner), "rank-%u", rank);
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
    struct log_writer_options options = {
        .root = root, .max_bytes = max_bytes, .base = base, .ring = &ring, .job = &job};
    assert_int_equal(log_writer_new(&options, &w, &reason), 0);
    return w;
}

static struct output_stream *stream_open(struct log_writer *w, uint64_t epoch, uint32_t rank,
                                         enum tfe_stream name)
{
    const struct output_source of = {epoch, rank, name};
    struct output_stream *stream = output_ring_open(&ring, &of, NULL);
    stream->file = log_writer_open(w, 2, stream);
    assert_non_null(stream->file);
    return stream;
}

static void stream_close(struct output_stream *stream)
{
    output_ring_close(&ring, stream);
}

static void print(struct output_stream *stream, const char *bytes, size_t n)
{
    output_ring_add(&ring, stream, RECORD_LINES, clock_wall(), bytes, n, 0);
}

static void say(struct output_stream *stream, const char *text)
{
    print(stream, text, strlen(text));
}

/* Runs the event loop, which passes lines to the writer. */
static void turn(void)
{
    event_base_loop(base, EVLOOP_NONBLOCK);
    usleep(1000);
}

/* Waits until the writer's thread has reached this state. */
#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        long give_up_ = folder_ms() + TIMEOUT_MS;                                                  \
        while (!(condition)) {                                                                     \
            assert_true(folder_ms() < give_up_);                                                   \
            turn();                                                                                \
        }                                                                                          \
    } while (0)

#define LOST(n) ((struct log_loss){.lines = (n)})

#define FIXTURE setup, teardown

TEST_IN(logs, a_job_whose_name_is_a_path_writes_nothing)
{
    char below[FOLDER_BYTES + 8];
    (void)snprintf(below, sizeof(below), "%s", folder_path(root, "below"));
    static const char *const names[] = {"..", ".", "../up", "/tmp"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct log_place place = place_of(3, 0, STREAM_STDOUT);
        struct log_file file;
        struct tfe_reason reason;
        memset(place.job.text, 0, sizeof(place.job.text));
        memcpy(place.job.text, names[i], strlen(names[i]));
        log_file_init(&file, below, 0, &place);
        assert_false(log_file_write(&file, LOST(0), "x\n", 2, &reason));
        log_file_done(&file);
    }
    assert_string_equal(text_of("run-2/epoch-3/rank-0.stdout"), "?");
    assert_string_equal(text_of("below/run-2/epoch-3/rank-0.stdout"), "?");
}

TEST_IN(logs, what_is_there_is_never_written_over)
{
    for (int i = 0; i < 3; i++) {
        struct log_writer *w = writer(0);
        struct output_stream *file = stream_open(w, 1, 0, STREAM_STDOUT);
        say(file, i == 0 ? "first\n" : i == 1 ? "second\n" : "third\n");
        stream_close(file);
        log_writer_free(w, TIMEOUT_MS);
    }
    assert_string_equal(text_of("mnist/run-2/epoch-1/rank-0.stdout"), "first\n");
    assert_string_equal(text_of("mnist/run-2/epoch-1/rank-0-2.stdout"), "second\n");
    assert_string_equal(text_of("mnist/run-2/epoch-1/rank-0-3.stdout"), "third\n");
}

TEST_IN(logs, a_line_longer_than_a_file_is_cut)
{
    struct log_file file;
    struct log_place place = place_of(1, 0, STREAM_STDOUT);
    struct tfe_reason reason;
    log_file_init(&file, root, 4096, &place);
    char text[10000];
    memset(text, 'x', sizeof(text));
    assert_true(log_file_write(&file, LOST(0), text, sizeof(text), &reason));
    log_file_done(&file);
    assert_int_equal(strlen(text_of("mnist/latest/rank-0.stdout.old")), 4096);
    assert_int_equal(strlen(text_of("mnist/latest/rank-0.stdout")), sizeof(text) - 2 * 4096);
}

/* Simulates a full disk by a limit on the size of files: writes fail, and succeed again later. */
TEST_IN(logs, a_full_disk_loses_whole_lines_and_counts_them)
{
    struct log_file file;
    struct log_place place = place_of(1, 0, STREAM_STDERR);
    struct tfe_reason reason;
    struct rlimit before, tight;
    log_file_init(&file, root, 0, &place);
    assert_true(log_file_write(&file, LOST(0), "begin\n", 6, &reason));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = before;
    tight.rlim_cur = 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    assert_false(log_file_write(&file, LOST(0), "cut here\nlost\nlost, too", 23, &reason));
    assert_non_null(strstr(reason.text, "rank-0.stderr"));
    assert_false(log_file_write(&file, LOST(0), " long\nlost", 10, &reason));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(
        log_file_write(&file, ((struct log_loss){2, true}), " end of it\nback\n", 16, &reason));
    /* The truncated line has ended, so the next lost data does not continue it. */
    assert_true(log_file_write(&file, LOST(3), "whole\n", 6, &reason));
    log_file_done(&file);
    assert_string_equal(text_of("mnist/latest/rank-0.stderr"),
                        "begin\ncut \ntfe-agent: 6 lines were lost here\nback\n"
                        "tfe-agent: 3 lines were lost here\nwhole\n");
}

TEST_IN(logs, a_folder_that_was_cleared_away_is_made_anew)
{
    struct log_file file;
    struct log_place place = place_of(1, 0, STREAM_STDOUT);
    struct tfe_reason reason;
    char text[3000]; /* an unfinished line and a finished one */
    memset(text, 'x', sizeof(text));
    log_file_init(&file, root, 4096, &place);
    assert_true(log_file_write(&file, LOST(0), text, sizeof(text), &reason));
    folder_remove(folder_path(root, "mnist"));
    text[sizeof(text) - 1] = '\n';
    assert_false(log_file_write(&file, LOST(0), text, sizeof(text), &reason));
    assert_true(log_file_write(&file, LOST(0), "here\n", 5, &reason));
    log_file_done(&file);
    /* The new file begins with a complete line. */
    assert_string_equal(text_of("mnist/latest/rank-0.stdout"),
                        "tfe-agent: 1 lines were lost here\nhere\n");
}

/* Bug: a user with write access could redirect the log to foreign files by a symbolic link. */
TEST_IN(logs, a_link_is_not_followed_and_others_read_nothing)
{
    struct log_writer *w;
    struct tfe_reason reason;
    struct stat st;
    struct log_file file;
    struct log_place place = place_of(1, 0, STREAM_STDOUT);
    char link[64];
    char at[64];
    snprintf(link, sizeof(link), "%s/link", root);
    snprintf(at, sizeof(at), "%s/logs", root);
    assert_int_equal(mkdir(folder_path(root, "elsewhere"), 0700), 0);
    assert_int_equal(symlink(folder_path(root, "elsewhere"), link), 0);
    struct log_writer_options options = {.root = link, .base = base, .ring = &ring, .job = &job};
    assert_int_equal(log_writer_new(&options, &w, &reason), TFE_ESYS);
    assert_non_null(strstr(reason.text, "without following symbolic links"));
    log_file_init(&file, at, 0, &place);
    assert_true(log_file_write(&file, LOST(0), "x\n", 2, &reason));
    log_file_done(&file);
    assert_int_equal(stat(at, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(folder_path(root, "logs/mnist/run-2/epoch-1"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(folder_path(root, "logs/mnist/latest/rank-0.stdout"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    place.run = 3;
    log_file_init(&file, at, 0, &place);
    assert_int_equal(symlink(folder_path(root, "elsewhere"), folder_path(root, "logs/mnist/run-3")),
                     0);
    assert_false(log_file_write(&file, LOST(0), "x\n", 2, &reason));
    log_file_done(&file);
    assert_int_equal(rmdir(folder_path(root, "elsewhere")), 0); /* empty */
}

static char long_line[65536];

/* Prints a line of 64 KiB. */
static void print_long(struct output_stream *stream)
{
    memset(long_line, 'x', sizeof(long_line));
    long_line[sizeof(long_line) - 1] = '\n';
    print(stream, long_line, sizeof(long_line));
}

/* Returns the number of lines that print_long has printed into a file, and the number of lines that
 * the file reports as lost. Asserts that the last line is this one. */
static unsigned long_lines_in(const char *name, const char *last, unsigned *ret_lost)
{
    FILE *file = fopen(folder_path(root, name), "re");
    char *line = NULL;
    size_t cap = 0;
    unsigned n = 0;
    assert_non_null(file);
    *ret_lost = 0;
    while (getline(&line, &cap, file) > 0) {
        unsigned lost = 0;
        n += strlen(line) == sizeof(long_line) && line[0] == 'x';
        *ret_lost += sscanf(line, "tfe-agent: %u lines", &lost) == 1 ? lost : 0;
    }
    assert_string_equal(line, last);
    free(line);
    fclose(file);
    return n;
}

TEST_IN(logs, a_disk_that_hangs_is_waited_for_only_so_long_and_the_loss_is_counted)
{
    struct log_writer *w = writer(0);
    struct output_stream *file = stream_open(w, 1, 0, STREAM_STDOUT);
    disk_hangs = true;
    unsigned printed = 0;
    for (; !log_writer_is_behind(w); printed++) {
        print_long(file);
    }
    const unsigned limit = (LOG_QUEUE_MAX + LOG_LAG_MAX) / sizeof(long_line);
    assert_in_range(printed, limit, limit + 3);
    long began = folder_ms();
    while (log_writer_is_behind(w)) { /* until trainers no longer wait */
        assert_true(folder_ms() - began < TIMEOUT_MS);
        turn();
    }
    assert_true(folder_ms() - began >= LOG_TIMEOUT_MS / 2);
    for (int i = 0; i < 100; i++, printed++) {
        print_long(file);
    }
    disk_hangs = false;
    say(file, "back\n");
    stream_close(file);
    log_writer_free(w, TIMEOUT_MS);
    unsigned lost;
    unsigned written = long_lines_in("mnist/latest/rank-0.stdout", "back\n", &lost);
    assert_int_equal(written + lost, printed);
    assert_in_range(written, OUTPUT_RING_BYTES / sizeof(long_line), limit + 20);
}

/* A disk that makes progress is waited for, however slow it is. */
TEST_IN(logs, a_slow_disk_loses_nothing)
{
    struct log_writer *w = writer(0);
    struct output_stream *file = stream_open(w, 1, 0, STREAM_STDOUT);
    unsigned printed = 0;
    disk_delay_us = 50000;
    for (long began = folder_ms(); folder_ms() - began < LOG_TIMEOUT_MS * 3 / 2;) {
        if (log_writer_is_behind(w)) {
            turn();
        } else {
            print_long(file);
            printed++;
        }
    }
    disk_delay_us = 0;
    say(file, "end\n");
    stream_close(file);
    log_writer_free(w, TIMEOUT_MS);
    unsigned lost;
    assert_int_equal(long_lines_in("mnist/latest/rank-0.stdout", "end\n", &lost), printed);
    assert_int_equal(lost, 0);
}

/* The disk hangs while a line is printed in three parts, the first two of which are lost. */
TEST_IN(logs, a_line_whose_beginning_was_lost_is_lost_as_a_whole)
{
    struct log_writer *w = writer(0);
    struct output_stream *file = stream_open(w, 1, 0, STREAM_STDOUT);
    struct output_stream *other = stream_open(w, 1, 1, STREAM_STDOUT);
    disk_hangs = true;
    for (size_t i = 0; i < LOG_QUEUE_MAX / sizeof(long_line) + 2; i++) {
        print_long(other);
    }
    output_ring_add(&ring, file, RECORD_PART, clock_wall(), "be", 2, 0);
    output_ring_add(&ring, file, RECORD_PART, clock_wall(), "gin", 3, 0);
    for (size_t i = 0; i < OUTPUT_RING_BYTES / sizeof(long_line); i++) {
        print_long(other);
    }
    output_ring_add(&ring, file, RECORD_LINES, clock_wall(), "begin end\nnext\n", 15, 5);
    stream_close(file);
    stream_close(other);
    disk_hangs = false;
    log_writer_free(w, TIMEOUT_MS);
    assert_string_equal(text_of("mnist/latest/rank-0.stdout"),
                        "tfe-agent: 1 lines were lost here\nnext\n");
}

/* The last lines may give the reason of the trainer's end, so the file states
 * that they are missing. */
TEST_IN(logs, what_was_lost_last_is_counted_when_the_file_is_closed)
{
    struct log_writer *w = writer(0);
    struct output_stream *file = stream_open(w, 1, 0, STREAM_STDOUT);
    struct output_stream *other = stream_open(w, 1, 1, STREAM_STDOUT);
    disk_hangs = true;
    for (size_t i = 0; i < LOG_QUEUE_MAX / sizeof(long_line) + 2; i++) {
        print_long(other);
    }
    say(file, "1\n2\n");
    say(file, "3\n");
    for (int i = 0; i < 2; i++) { /* the lines leave the ring; then the end of the file does */
        for (size_t n = 0; n < OUTPUT_RING_BYTES; n += sizeof(long_line)) {
            print_long(other);
        }
        stream_close(i == 0 ? file : other);
    }
    disk_hangs = false;
    log_writer_free(w, TIMEOUT_MS);
    assert_string_equal(text_of("mnist/latest/rank-0.stdout"),
                        "tfe-agent: 3 lines were lost here\n");
}

/* What a client has received: the numbers of the lines, and whether the response has ended. */
static unsigned n_received;
static bool is_received;

static bool has_room(void *ctx)
{
    (void)ctx;
    return true;
}

static void on_send(void *ctx, const struct tfe_msg *msg)
{
    (void)ctx;
    is_received = msg->type == MSG_LOG_DONE;
    if (is_received) {
        return;
    }
    assert_int_equal(msg->u.log_chunk.lost, 0);
    for (const char *line = msg->u.log_chunk.text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        assert_int_equal(atoi(line), n_received++); /* in order, none missing, none twice */
    }
}

#define NUMBERED_BYTES 1024

static void print_number(struct output_stream *stream, unsigned number)
{
    char line[NUMBERED_BYTES];
    memset(line, 'x', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    line[snprintf(line, sizeof(line), "%u", number)] = ' ';
    print(stream, line, sizeof(line));
}

static struct log_serve *serve_new(struct log_writer *w)
{
    return log_serve_new(&(struct log_serve_options){
        .base = base, .ring = &ring, .logs = w, .has_room = has_room, .send = on_send});
}

/* Requests all lines since a time, with enough credit for them. */
static void request_lines(struct log_serve *serve, struct tfe_wall since)
{
    const struct tfe_msg request = {
        .type = MSG_LOG_REQUEST,
        .u.log_request = {.request = 1, .lines = MSG_UNSET, .window = 1 << 20, .since = since}};
    const struct tfe_msg credit = {.type = MSG_LOG_CREDIT, .u.log_credit = {1, 1 << 20}};
    n_received = 0;
    is_received = false;
    log_serve_handle(serve, &request);
    for (int i = 0; i < 8; i++) {
        log_serve_handle(serve, &credit);
    }
}

/* The first lines are in the log file only, the last ones, which wait for the disk, in the ring
 * only. */
TEST_IN(logs, a_client_gets_each_line_once_from_file_and_ring)
{
    struct log_writer *w = writer(0);
    struct output_stream *file = stream_open(w, 1, 0, STREAM_STDOUT);
    struct log_serve *serve = serve_new(w);
    const unsigned n_lines = 2 * OUTPUT_RING_BYTES / NUMBERED_BYTES;
    for (unsigned i = 0; i < n_lines; i++) {
        disk_hangs = i > n_lines - 2 * LOG_QUEUE_MAX / NUMBERED_BYTES;
        WAIT_UNTIL(disk_hangs || !log_writer_is_behind(w));
        print_number(file, i);
    }
    assert_int_equal(ring.dropped, 1);
    assert_non_null(log_writer_next(w));
    request_lines(serve, (struct tfe_wall){0});
    disk_hangs = false;
    WAIT_UNTIL(is_received);
    assert_int_equal(n_received, n_lines);
    stream_close(file);
    log_serve_free(serve);
    log_writer_free(w, TIMEOUT_MS);
}

/* The oldest record is the end of a stream, which has no lines. */
TEST_IN(logs, a_client_gets_lines_since_a_time_from_the_file_though_the_ring_begins_with_an_end)
{
    const struct tfe_wall since = clock_wall();
    struct log_writer *w = writer(0);
    struct output_stream *file = stream_open(w, 1, 0, STREAM_STDOUT);
    struct log_serve *serve = serve_new(w);
    unsigned n_lines = 0;
    while (clock_wall().ms <= since.ms) {
        turn();
    }
    for (; n_lines < 10; n_lines++) {
        print_number(file, n_lines);
    }
    stream_close(stream_open(w, 1, 1, STREAM_STDOUT));
    while (STAILQ_FIRST(&ring.records)->kind != RECORD_END) {
        WAIT_UNTIL(!log_writer_is_behind(w));
        print_number(file, n_lines++);
    }
    request_lines(serve, since);
    WAIT_UNTIL(is_received);
    assert_int_equal(n_received, n_lines);
    stream_close(file);
    log_serve_free(serve);
    log_writer_free(w, TIMEOUT_MS);
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
    struct output_stream *files[3];
    int log = open(folder_path(root, "log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int was = dup(STDERR_FILENO);
    assert_true(dup2(log, STDERR_FILENO) >= 0);
    struct log_writer *w = writer(0);
    for (uint32_t rank = 0; rank < 3; rank++) {
        files[rank] = stream_open(w, 1, rank, STREAM_STDOUT);
    }
    n_failed = 0;
    disk_is_full = true;
    for (int i = 0; i < 9; i++) {
        say(files[i % 3], "lost\n");
    }
    stream_close(files[2]);
    WAIT_UNTIL(n_failed == 10); /* with its note */
    disk_is_full = false;
    for (int i = 0; i < 2; i++) {
        say(files[i], "good\n");
        stream_close(files[i]);
    }
    log_writer_free(w, TIMEOUT_MS);
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
    struct log_writer_options options = {
        .root = root, .keep_ms = 7u * 86400000u, .base = base, .ring = &ring, .job = &job};
    assert_int_equal(log_writer_new(&options, &w, &reason), 0);
    long give_up = folder_ms() + TIMEOUT_MS;
    while (access(folder_path(root, "mnist/run-1"), F_OK) == 0) {
        assert_true(folder_ms() < give_up);
        usleep(1000);
    }
    log_writer_free(w, TIMEOUT_MS);
}

/* A trainer that prints nothing for longer than the retention time keeps its file. */
TEST_IN(logs, a_file_in_use_is_never_old)
{
    struct log_writer *w;
    struct tfe_reason reason;
    struct log_writer_options options = {.root = root,
                                         .keep_ms = 4000,
                                         .base = base,
                                         .ring = &ring,
                                         .job = &job}; /* files are checked four times as often */
    assert_int_equal(log_writer_new(&options, &w, &reason), 0);
    struct output_stream *silent = stream_open(w, 1, 0, STREAM_STDOUT);
    struct output_stream *other = stream_open(w, 1, 1, STREAM_STDOUT);
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
    stream_close(silent);
    stream_close(other);
    log_writer_free(w, TIMEOUT_MS);
}

int main(void)
{
    signal(SIGXFSZ, SIG_IGN);
    own_thread = pthread_self();
    log_init("unit", LOG_INFO_, LOG_LOGFMT);
    return stories_run(NULL, NULL);
}
