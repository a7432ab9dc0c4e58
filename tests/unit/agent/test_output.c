/* tests/unit/agent/test_output.c: output in whole lines, and an agent that is not blocked
 * by a slow terminal. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/output/log_writer.h"
#include "agent/output/output.h"
#include "agent/output/output_ring.h"
#include "common/message/msg.h"
#include "tests/unit/folder.h"
#include "tests/unit/test_runner.h"

enum { OUT, ERR };

/* A sink whose two streams are pipes read by the test, and the data read. */
static struct {
    struct event_base *base;
    struct output_ring ring;
    struct output_sink *sink;
    int fds[2][2];
    char *text[2];
    size_t n[2];
    struct output_show show;
    struct log_writer *logs;
    uint32_t timeout_ms;
    struct output *outputs[64]; /* of trainers, until the end of the test */
    size_t n_outputs;
} stage;

static void stage_sink(void)
{
    struct output_options options = {
        .base = stage.base,
        .stdout_fd = stage.fds[OUT][1],
        .stderr_fd = stage.fds[ERR][1],
        .show = &stage.show,
        .logs = stage.logs,
        .ring = &stage.ring,
        .timeout_ms = stage.timeout_ms,
    };
    stage.sink = output_sink_new(&options);
}

static void outputs_free(void)
{
    while (stage.n_outputs > 0) {
        output_free(stage.outputs[--stage.n_outputs]);
    }
}

static int setup(void **state)
{
    memset(&stage, 0, sizeof stage);
    stage.base = event_base_new();
    output_ring_init(&stage.ring, OUTPUT_RING_BYTES);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe2(stage.fds[i], O_CLOEXEC), 0);
        assert_int_equal(fcntl(stage.fds[i][0], F_SETFL, O_NONBLOCK), 0);
        stage.text[i] = calloc(1, 1);
    }
    output_show_init(&stage.show);
    stage.timeout_ms = 60000; /* so that no line is lost on a slow machine */
    stage_sink();
    return 0;
}

static int teardown(void **state)
{
    outputs_free();
    output_sink_free(stage.sink, 0);
    output_ring_done(&stage.ring);
    for (int i = 0; i < 2; i++) {
        /* The descriptor is shared, so its flags must not change. */
        assert_int_equal(fcntl(stage.fds[i][1], F_GETFL) & O_NONBLOCK, 0);
        close(stage.fds[i][0]);
        close(stage.fds[i][1]);
        free(stage.text[i]);
    }
    event_base_free(stage.base);
    return 0;
}

/* Reads the available output. */
static void stage_read(int stream)
{
    char bytes[65536];
    ssize_t n;
    while ((n = read(stage.fds[stream][0], bytes, sizeof bytes)) > 0) {
        stage.text[stream] = realloc(stage.text[stream], stage.n[stream] + (size_t)n + 1);
        memcpy(stage.text[stream] + stage.n[stream], bytes, (size_t)n);
        stage.n[stream] += (size_t)n;
        stage.text[stream][stage.n[stream]] = '\0';
    }
}

static long ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Runs the event loop until no data has moved for longer than a busy trainer is paused. */
static void stage_settle(bool reading)
{
    long moved = ms();
    for (int quiet = 0; quiet < 3 || ms() - moved < 6;) {
        size_t before = stage.n[OUT] + stage.n[ERR];
        event_base_loop(stage.base, EVLOOP_NONBLOCK);
        if (reading) {
            stage_read(OUT);
            stage_read(ERR);
        }
        if (before == stage.n[OUT] + stage.n[ERR]) {
            quiet++;
        } else {
            quiet = 0;
            moved = ms();
        }
    }
}

struct trainer {
    struct output *output;
    int fds[2];
};

static struct trainer trainer_new(uint32_t rank)
{
    struct trainer trainer;
    struct output_place place = {.run = 1, .epoch = 1, .rank = rank};
    assert_int_equal(
        output_new(stage.sink, &place, &trainer.output, &trainer.fds[OUT], &trainer.fds[ERR]), 0);
    stage.outputs[stage.n_outputs++] = trainer.output;
    return trainer;
}

static void say(const struct trainer *trainer, int stream, const char *text)
{
    assert_int_equal(write(trainer->fds[stream], text, strlen(text)), strlen(text));
}

static void trainer_end(struct trainer *trainer)
{
    close(trainer->fds[OUT]);
    close(trainer->fds[ERR]);
    output_close(trainer->output);
}

#define FIXTURE setup, teardown

TEST_IN(output, lines_have_the_rank_and_streams_are_separate)
{
    struct trainer a = trainer_new(7);
    say(&a, OUT, "one\n\ntwo\n");
    say(&a, ERR, "bad\n");
    stage_settle(true);
    assert_string_equal(stage.text[OUT], "[7] one\n[7] \n[7] two\n");
    assert_string_equal(stage.text[ERR], "[7] bad\n");
    trainer_end(&a);
    stage_settle(true);
    assert_string_equal(stage.text[OUT], "[7] one\n[7] \n[7] two\n");
}

TEST_IN(output, two_trainers_never_share_a_line)
{
    struct trainer a = trainer_new(0);
    struct trainer b = trainer_new(1);
    for (int i = 0; i < 200; i++) {
        say(&a, OUT, "aaa");
        say(&b, OUT, "bb");
        stage_settle(true);
        say(&b, OUT, "bb\nb");
        say(&a, OUT, "a\n");
        if (i % 3) {
            stage_settle(true);
        }
    }
    trainer_end(&a);
    trainer_end(&b);
    stage_settle(true);
    int lines[2] = {0, 0};
    for (char *line = strtok(stage.text[OUT], "\n"); line; line = strtok(NULL, "\n")) {
        int rank = line[1] - '0';
        assert_true(rank == 0 || rank == 1);
        assert_int_equal(strspn(line + 4, rank ? "b" : "a"), strlen(line + 4));
        lines[rank]++;
    }
    assert_int_equal(lines[0], 200);
    assert_int_equal(lines[1], 201);
}

TEST_IN(output, last_line_gets_a_newline)
{
    struct trainer a = trainer_new(0);
    say(&a, OUT, "first\nlast");
    stage_settle(true);
    assert_string_equal(stage.text[OUT], "[0] first\n");
    trainer_end(&a);
    stage_settle(true);
    assert_string_equal(stage.text[OUT], "[0] first\n[0] last\n");
}

TEST_IN(output, end_of_the_pipe_ends_the_line)
{
    struct trainer a = trainer_new(0);
    say(&a, ERR, "cut");
    close(a.fds[ERR]);
    stage_settle(true);
    assert_string_equal(stage.text[ERR], "[0] cut\n");
    assert_string_equal(output_tail(a.output, true), "cut");
    close(a.fds[OUT]);
}

TEST_IN(output, line_over_64_kib_is_split)
{
    enum { SIZE = 150000 };
    struct trainer a = trainer_new(12);
    char *text = malloc(SIZE + 1);
    memset(text, 'x', SIZE);
    text[SIZE - 1] = '\n';
    text[SIZE] = '\0';
    for (int i = 0; i < SIZE; i += 5000) { /* a pipe holds 64 KiB */
        assert_int_equal(write(a.fds[OUT], text + i, 5000), 5000);
        stage_settle(true);
    }
    trainer_end(&a);
    stage_settle(true);
    size_t total = 0;
    int lines = 0;
    for (char *line = strtok(stage.text[OUT], "\n"); line; line = strtok(NULL, "\n")) {
        assert_memory_equal(line, "[12] ", 5);
        assert_in_range(strlen(line), 6, 65536 + 5);
        total += strlen(line) - 5;
        lines++;
    }
    assert_int_equal(lines, 3);
    assert_int_equal(total, SIZE - 1);
    free(text);
}

/* Writes numbered lines to a trainer's pipe until it is full and the agent stops reading. */
static int fill(struct trainer *a, int from)
{
    int n = from;
    assert_int_equal(fcntl(a->fds[OUT], F_SETFL, O_NONBLOCK), 0);
    for (int refused = 0; refused < 5;) {
        char line[64];
        snprintf(line, sizeof line, "line %09d of a talkative trainer\n", n);
        if (write(a->fds[OUT], line, strlen(line)) == (ssize_t)strlen(line)) {
            n++;
            refused = 0;
        } else {
            refused++;
            stage_settle(false);
        }
    }
    return n;
}

static void assert_numbered(const char *text, int count)
{
    for (int i = 0; i < count; i++) {
        char line[64];
        int n = snprintf(line, sizeof line, "[3] line %09d of a talkative trainer\n", i);
        assert_memory_equal(text, line, (size_t)n);
        text += n;
    }
    assert_int_equal(*text, '\0');
}

TEST_IN(output, blocked_stdout_blocks_only_the_trainer_until_it_drains)
{
    struct trainer a = trainer_new(3);
    struct trainer b = trainer_new(4);
    int count = fill(&a, 0);
    /* Capacity: the trainer's pipe (1 MiB, or 64 KiB if that is not allowed), the test's pipe
     * (64 KiB), the queue (256 KiB) and a partial write (64 KiB). */
    size_t size = strlen("line 000000000 of a talkative trainer\n");
    assert_in_range((size_t)count * size, 300 * 1024, 1536 * 1024);
    say(&b, ERR, "another stream goes on\n");
    event_base_loop(stage.base, EVLOOP_NONBLOCK);
    event_base_loop(stage.base, EVLOOP_NONBLOCK);
    stage_read(ERR);
    assert_string_equal(stage.text[ERR], "[4] another stream goes on\n");
    stage_settle(true);
    assert_numbered(stage.text[OUT], count);
    count = fill(&a, count); /* from the start again */
    stage_settle(true);
    assert_numbered(stage.text[OUT], count);
    trainer_end(&a);
    trainer_end(&b);
    stage_settle(true);
    assert_numbered(stage.text[OUT], count);
}

TEST_IN(output, output_of_an_ended_trainer_is_read_while_stdout_is_blocked)
{
    struct trainer b = trainer_new(4);
    struct trainer a = trainer_new(3);
    int count = fill(&a, 0);
    say(&b, OUT, "1%\r"); /* a progress bar overtakes no line */
    stage_settle(false);
    trainer_end(&a);
    output_free(stage.outputs[--stage.n_outputs]); /* of a */
    stage_settle(true);
    assert_numbered(stage.text[OUT], count);
    trainer_end(&b);
}

TEST_IN(output, lines_lost_at_the_end_are_counted)
{
    int printed = 0;
    int count = 0;
    for (int i = 0; i < 20; i++) { /* 64 KiB and more of each, so together above the total limit */
        struct trainer a = trainer_new(3);
        count = fill(&a, 0);
        printed += count;
        trainer_end(&a);
        outputs_free();
    }
    stage_settle(true);
    assert_in_range(stage.n[OUT], 2000 * 1000, 2600 * 1000);
    /* The newest lines remain. */
    const char *note = strstr(stage.text[OUT], "tfe-agent: ");
    assert_non_null(note);
    int lost = atoi(note + strlen("tfe-agent: "));
    int shown = 0;
    for (const char *at = stage.text[OUT]; (at = strstr(at, "[3] line ")); at++) {
        shown++;
    }
    assert_true(lost > 1000);
    assert_int_equal(lost + shown, printed);
    char last[64];
    (void)snprintf(last, sizeof last, "[3] line %09d of a talkative trainer\n", count - 1);
    assert_string_equal(stage.text[OUT] + stage.n[OUT] - strlen(last), last);
}

TEST_IN(output, descendant_with_the_pipe_does_not_delay_the_end)
{
    struct trainer a = trainer_new(0);
    say(&a, OUT, "said");
    say(&a, ERR, "why\n");
    output_close(a.output); /* the write ends are still open */
    stage_settle(true);
    assert_string_equal(stage.text[OUT], "[0] said\n");
    assert_string_equal(output_tail(a.output, true), "why");
    outputs_free();
    assert_int_equal(write(a.fds[OUT], "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    close(a.fds[OUT]);
    close(a.fds[ERR]);
}

TEST_IN(output, tail_is_the_last_20_lines_of_stderr)
{
    struct trainer a = trainer_new(0);
    char wanted[512] = "";
    assert_string_equal(output_tail(a.output, true), "");
    for (int i = 0; i < 50; i++) {
        char line[32];
        snprintf(line, sizeof line, "e%d\n", i);
        say(&a, ERR, line);
        say(&a, OUT, "o\n");
        if (i >= 30) {
            strcat(wanted, line);
        }
    }
    trainer_end(&a);
    wanted[strlen(wanted) - 1] = '\0';
    assert_string_equal(output_tail(a.output, true), wanted);
}

TEST_IN(output, tail_above_its_limit_keeps_its_end)
{
    struct trainer a = trainer_new(0);
    char line[1201];
    for (int i = 0; i < 10; i++) {
        memset(line, '0' + i, sizeof line - 2);
        line[sizeof line - 2] = '\n';
        line[sizeof line - 1] = '\0';
        say(&a, ERR, line);
        stage_settle(true);
    }
    trainer_end(&a);
    const char *tail = output_tail(a.output, true);
    assert_int_equal(strlen(tail), MSG_TAIL_MAX - 1);
    assert_int_equal(tail[strlen(tail) - 1], '9');
    assert_int_equal(tail[0], '6');
}

/* Prints an exception and n lines after it, each with this many bytes. */
static const char *tail_behind_exception(const char *exception, int n, size_t bytes,
                                         bool was_raised)
{
    static struct trainer a; /* used until the next call */
    static char tail[MSG_TAIL_MAX];
    char line[5000];
    a = trainer_new(0);
    say(&a, ERR,
        "before\nTraceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n"
        "W0000 00:00:17.1 1 log.cc:1] some other thread\n");
    say(&a, ERR, exception);
    memset(line, '7', sizeof line);
    strcpy(line + bytes, "\n");
    for (int i = 0; i < n; i++) {
        say(&a, ERR, line);
        stage_settle(true);
    }
    say(&a, ERR, "the end\n");
    trainer_end(&a);
    snprintf(tail, sizeof tail, "%s", output_tail(a.output, was_raised));
    outputs_free();
    return tail;
}

#define RAISED                                                                                     \
    "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n"                   \
    "errors.InvalidArgumentError: no\n"

/* Bug: the last lines of a failed trainer were numbers and did not contain its exception. */
TEST_IN(output, tail_contains_the_exception_before_a_printed_tensor)
{
    const char *no = "errors.InvalidArgumentError: no\n";
    const char *tail = tail_behind_exception(no, 30, 10, true);
    assert_memory_equal(tail, RAISED "7777777777\n7", strlen(RAISED) + 12);
    assert_string_equal(tail + strlen(tail) - 8, "\nthe end");
    tail = tail_behind_exception(no, 9, 4090, true);
    /* the tail does not begin within a line */
    assert_memory_equal(tail, RAISED "the end", strlen(RAISED) + 7);
    tail = tail_behind_exception(no, 1, 10, true);
    assert_memory_equal(tail, "before\nTraceback", 16); /* everything is included */
    for (int i = 17; i <= 18; i++) {                    /* all but its head, or its frames */
        tail = tail_behind_exception(no, i, 10, true);
        assert_memory_equal(tail, RAISED "7777777777\n7", strlen(RAISED) + 12);
    }
    /* too far from the end to be the reason */
    tail = tail_behind_exception(no, 17, 4090, true);
    assert_null(strstr(tail, "Error"));
    tail = tail_behind_exception(no, 30, 10, false);
    assert_null(strstr(tail, "Error"));
}

TEST_IN(output, the_tail_has_the_scripts_frame_above_the_frames_of_libraries)
{
    struct trainer a = trainer_new(0);
    say(&a, ERR,
        "Traceback (most recent call last):\n  File \"/home/x/train.py\", line 9, in <module>\n"
        "    main()\n  File \"/home/x/train.py\", line 6, in main\n    model.fit()\n");
    for (int i = 0; i < 30; i++) {
        say(&a, ERR,
            "  File \"/venv/lib/python3.11/site-packages/keras/a.py\", line 1, in f\n    g()\n");
        stage_settle(true);
    }
    say(&a, ERR, "ValueError: no\n");
    trainer_end(&a);
    const char *tail = output_tail(a.output, true);
    const char begins[] = "Traceback (most recent call last):\n"
                          "  File \"/home/x/train.py\", line 6, in main\n    ";
    assert_memory_equal(tail, begins, sizeof begins - 1);
    assert_string_equal(tail + strlen(tail) - 15, "\nValueError: no");
}

TEST_IN(output, tail_contains_the_beginning_of_a_long_exception_line)
{
    char line[6000] = "ValueError: ";
    memset(line + strlen(line), '7', 5000);
    const char *tail = tail_behind_exception(line, 1, 10, true);
    const char begins[] = "Traceback (most recent call last):\n"
                          "  File \"x.py\", line 1, in <module>\nValueError: 777";
    assert_memory_equal(tail, begins, sizeof begins - 1);
    assert_non_null(strstr(tail, "\nthe end"));
}

TEST_IN(output, tail_omits_torch_prefix_and_abort_frames)
{
    struct trainer a = trainer_new(0);
    say(&a, ERR,
        "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"x.py\", line 1, in f\n"
        "[rank0]: RuntimeError: lost\n[rank0] kept\n[rank]: kept\nF1129 client.h:80] fatal\n");
    for (int i = 0; i < 30; i++) {
        say(&a, ERR, "    @     0x7fde6ae40634  absl::lts_20260107::SendToLog()\n");
        stage_settle(true);
    }
    say(&a, ERR, "    @ home\n");
    trainer_end(&a);
    assert_string_equal(output_tail(a.output, true),
                        "Traceback (most recent call last):\n  File \"x.py\", line 1, in f\n"
                        "RuntimeError: lost\n[rank0] kept\n[rank]: kept\nF1129 client.h:80] fatal\n"
                        "    @ home");
}

TEST_IN(output, truncated_tail_starts_with_a_whole_character)
{
    for (int shift = 0; shift < 3; shift++) {
        struct trainer a = trainer_new(0);
        for (int i = 0; i < 2000; i++) {
            say(&a, ERR, "\xE2\x82\xAC");
        }
        say(&a, ERR, &"xx\n"[2 - shift]);
        trainer_end(&a);
        const char *tail = output_tail(a.output, true);
        assert_memory_equal(tail, "\xE2\x82\xAC", 3);
        assert_in_range(strlen(tail), MSG_TAIL_MAX - 3, MSG_TAIL_MAX - 1);
        outputs_free();
    }
}

TEST_IN(output, binary_output_passes_and_is_escaped_in_the_tail)
{
    struct trainer a = trainer_new(0);
    static const char garbage[] = "a\0b\x1b[31m\x7f\xff\t\r\nend\n";
    assert_int_equal(write(a.fds[ERR], garbage, sizeof garbage - 1), sizeof garbage - 1);
    trainer_end(&a);
    stage_settle(true);
    assert_memory_equal(stage.text[ERR], "[0] a\0b\x1b[31m\x7f\xff\t\r\n[0] end\n",
                        sizeof garbage - 1 + 8);
    assert_string_equal(output_tail(a.output, true), "a b [31m \xff  \nend");
}

TEST_IN(output, closed_reader_stops_no_trainer)
{
    struct trainer a = trainer_new(0);
    close(stage.fds[OUT][0]);
    for (int i = 0; i < 100; i++) {
        char text[8193];
        memset(text, 'x', sizeof text - 1);
        text[8191] = '\n';
        text[8192] = '\0';
        say(&a, OUT, text); /* would block forever without a reader */
        stage_settle(false);
    }
    trainer_end(&a);
    outputs_free();
    stage.fds[OUT][0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

TEST_IN(output, files_and_sockets_receive_lines)
{
    char name[] = "/tmp/tfe-agent-XXXXXX";
    int file = mkostemp(name, O_CLOEXEC);
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct output_options options = {.base = stage.base,
                                     .stdout_fd = file,
                                     .stderr_fd = pair[1],
                                     .show = &stage.show,
                                     .ring = &stage.ring};
    struct output_sink *sink = output_sink_new(&options);
    struct output_sink *kept = stage.sink;
    stage.sink = sink;
    struct trainer a = trainer_new(2);
    say(&a, OUT, "into a file\n");
    say(&a, ERR, "into a socket\n");
    stage_settle(false);
    char text[64] = "";
    assert_int_equal(pread(file, text, sizeof text - 1, 0), 16);
    assert_string_equal(text, "[2] into a file\n");
    memset(text, 0, sizeof text);
    assert_int_equal(read(pair[0], text, sizeof text - 1), 18);
    assert_string_equal(text, "[2] into a socket\n");
    /* A socket whose peer does not read must not block either. */
    int count = 0;
    fcntl(a.fds[ERR], F_SETFL, O_NONBLOCK);
    for (int refused = 0; refused < 5;) {
        if (write(a.fds[ERR], "0123456789012345678901234567890\n", 32) == 32) {
            count++;
            refused = 0;
        } else {
            refused++;
            stage_settle(false);
        }
    }
    assert_in_range(count, 1000, 100000);
    trainer_end(&a);
    outputs_free();
    output_sink_free(sink, 0);
    stage.sink = kept;
    unlink(name);
    close(file);
    close(pair[0]);
    close(pair[1]);
}

TEST_IN(output, freed_sink_writes_queued_lines_for_a_limited_time)
{
    struct trainer a = trainer_new(3);
    int count = fill(&a, 0);
    trainer_end(&a);
    outputs_free();
    int reader = dup(stage.fds[OUT][0]);
    pid_t pid = fork();
    if (pid == 0) { /* a reader that starts late */
        fcntl(reader, F_SETFL, 0);
        close(stage.fds[OUT][1]);
        ssize_t n;
        char bytes[4096];
        size_t total = 0;
        while (total < (size_t)count * 42 && (n = read(reader, bytes, sizeof bytes)) > 0) {
            total += (size_t)n;
        }
        _exit(total == (size_t)count * 42 ? 0 : 1);
    }
    output_sink_free(stage.sink, 20000);
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(reader);
    fcntl(stage.fds[OUT][0], F_SETFL, O_NONBLOCK);
    stage_sink();
    a = trainer_new(3);
    fill(&a, 0);
    trainer_end(&a);
    outputs_free();
    output_sink_free(stage.sink, 50); /* without a reader it returns after the timeout */
    stage_sink();
}

TEST_IN(output, stalled_stream_is_waited_for_up_to_its_timeout)
{
    output_sink_free(stage.sink, 0);
    stage.timeout_ms = 50;
    stage_sink();
    struct trainer a = trainer_new(3);
    assert_int_equal(fcntl(a.fds[OUT], F_SETFL, O_NONBLOCK), 0);
    long began = ms();
    size_t written = 0;
    static char line[8192];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    while (written < 8 * 1024 * 1024) { /* the trainer continues without a reader */
        ssize_t n = write(a.fds[OUT], line, sizeof line);
        written += n > 0 ? (size_t)n : 0;
        event_base_loop(stage.base, EVLOOP_NONBLOCK);
        assert_true(ms() - began < 20000);
    }
    /* after a stall of the machine, the output may seem complete while the
     * trainer's pipe is full */
    do {
        stage_settle(true);
        assert_true(ms() - began < 40000);
    } while (write(a.fds[OUT], "back\n", 5) != 5);
    stage_settle(true);
    const char *note = strstr(stage.text[OUT], "tfe-agent: ");
    assert_non_null(note);
    assert_true(atoi(note + strlen("tfe-agent: ")) > 500);
    trainer_end(&a);
}

TEST_IN(output, newest_state_of_a_progress_bar_is_shown)
{
    struct trainer a = trainer_new(0);
    say(&a, ERR, "\r 10%");
    say(&a, ERR, "\r 20%");
    stage_settle(true);
    /* the first progress line is shown at once */
    assert_string_equal(stage.text[ERR], "[0]  20%\n");
    for (int i = 0; i < 40000; i++) { /* more than a line may hold */
        say(&a, ERR, "\r 30%");
        if (i % 1000 == 0) {
            stage_settle(true);
        }
    }
    say(&a, ERR, "\r100%\nand on\r\n");
    say(&a, OUT, "other style 1%\rother style 2%\r");
    stage_settle(true);
    assert_non_null(strstr(stage.text[ERR], "[0] 100%\n[0] and on\r\n"));
    assert_in_range(stage.n[ERR], 30, 1000);
    assert_string_equal(stage.text[OUT], "[0] other style 2%\n");
    trainer_end(&a);
    assert_null(strchr(output_tail(a.output, true), '3')); /* and does not fill the tail */
    assert_non_null(strstr(output_tail(a.output, true), "100%\nand on"));
}

TEST_IN(output, hidden_output_still_fills_the_tail)
{
    struct tfe_reason reason;
    output_sink_free(stage.sink, 0);
    assert_int_equal(output_show_tee(&stage.show, "1", &reason), 0);
    assert_int_equal(output_show_ranks(&stage.show, "0,7-9", &reason), 0);
    stage_sink();
    struct trainer a = trainer_new(7);
    struct trainer b = trainer_new(5);
    say(&a, OUT, "shown\n");
    say(&a, ERR, "hidden\n");
    say(&b, OUT, "hidden\n");
    say(&b, ERR, "the reason\n");
    stage_settle(true);
    trainer_end(&a);
    trainer_end(&b);
    stage_settle(true);
    assert_string_equal(stage.text[OUT], "[7] shown\n");
    assert_string_equal(stage.text[ERR], "");
    assert_string_equal(output_tail(b.output, true), "the reason");
}

static const char *file_text(const char *root, const char *stream)
{
    static char text[256];
    char path[FOLDER_BYTES + 64];
    (void)snprintf(path, sizeof path, "%s/mnist/run-1/epoch-1/rank-0.%s", root, stream);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = '\0';
    if (file) {
        fclose(file);
    }
    return text;
}

/* Runs the event loop until the log file has this text. */
static void await_file(const char *root, const char *stream, const char *text)
{
    for (long began = ms(); strcmp(file_text(root, stream), text) != 0;) {
        assert_true(ms() - began < TIMEOUT_MS);
        stage_settle(true);
    }
}

TEST_IN(output, log_file_gets_every_byte_once_and_partial_lines_at_once)
{
    struct tfe_reason reason;
    struct tfe_id job;
    char root[FOLDER_BYTES];
    folder_make(root);
    assert_int_equal(id_set(&job, "mnist"), 0);
    output_sink_free(stage.sink, 0);
    const struct log_writer_options logs = {
        .root = root, .base = stage.base, .ring = &stage.ring, .job = &job};
    assert_int_equal(log_writer_new(&logs, &stage.logs, &reason), 0);
    stage_sink();
    struct trainer a = trainer_new(0);
    say(&a, OUT, "begin");
    await_file(root, "stdout", "begin");
    say(&a, OUT, " and");
    await_file(root, "stdout", "begin and");
    say(&a, OUT, " end\nnext\n\n1%");
    await_file(root, "stdout", "begin and end\nnext\n\n1%");
    for (int i = 2; i < 5; i++) {
        char bar[8];
        (void)snprintf(bar, sizeof bar, "\r%d%%", i);
        say(&a, OUT, bar);
        stage_settle(true);
    }
    say(&a, OUT, "\r100%\nlast");
    say(&a, ERR, "why");
    trainer_end(&a);
    outputs_free();
    stage_settle(true);
    output_sink_free(stage.sink, 0);
    log_writer_free(stage.logs, TIMEOUT_MS);
    stage.logs = NULL;
    assert_string_equal(file_text(root, "stdout"),
                        "begin and end\nnext\n\n1%\r2%\r3%\r4%\r100%\nlast");
    assert_string_equal(file_text(root, "stderr"), "why");
    assert_non_null(strstr(stage.text[OUT], "[0] begin and end\n[0] next\n[0] \n[0] 2%\n"));
    assert_non_null(strstr(stage.text[OUT], "\n[0] 100%\n[0] last\n"));
    folder_remove(root);
    stage_sink();
}

TEST(output_show, torchrun_values_are_accepted_and_others_refused)
{
    struct output_show show;
    struct tfe_reason reason;
    output_show_init(&show);
    assert_true(output_is_shown(&show, 63, 4000000000, STREAM_STDERR));
    assert_int_equal(output_show_tee(&show, "0:3,1:1,63:2", &reason), 0);
    assert_true(output_is_shown(&show, 0, 0, STREAM_STDERR));
    assert_true(output_is_shown(&show, 1, 1, STREAM_STDOUT));
    assert_false(output_is_shown(&show, 1, 1, STREAM_STDERR));
    assert_false(output_is_shown(&show, 2, 2, STREAM_STDOUT));
    assert_true(output_is_shown(&show, 63, 63, STREAM_STDERR));
    static const char *const tees[] = {"",     "4",    "-1", "x",       "0:", "0:4",
                                       "64:1", "0:1,", ",",  "0:1;1:1", "3 "};
    for (size_t i = 0; i < sizeof(tees) / sizeof(tees[0]); i++) {
        assert_int_equal(output_show_tee(&show, tees[i], &reason), TFE_EINVAL);
    }
    assert_true(output_is_shown(&show, 63, 63, STREAM_STDERR)); /* unchanged */
    static const char *const ranks[] = {"", "x", "1-", "-1", "2-1", "1,,2", "1,", "5000000000"};
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        assert_int_equal(output_show_ranks(&show, ranks[i], &reason), TFE_EINVAL);
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    return stories_run(NULL, NULL);
}
