/* tests/unit/output/test_output_ring.c: the recent output of trainers, and what clients receive of
 * it. */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/output/log_serve.h"
#include "agent/output/output_ring.h"
#include "tests/unit/test_runner.h"

#define CHUNKS_MAX 4096

/* The module under test, and everything that it has sent. */
struct stage {
    struct output_ring ring;
    struct event_base *base;
    struct log_serve *serve;
    bool is_full; /* the connection accepts no more data */
    bool breaks;  /* the connection breaks at the next message */
    struct {
        struct msg_log_chunk msg;
        char text[MSG_LOG_TEXT_MAX + 1];
    } chunks[CHUNKS_MAX];
    size_t n_chunks;
    unsigned n_done;
};

static bool has_room(void *ctx)
{
    const struct stage *s = ctx;
    return !s->is_full;
}

static void on_send(void *ctx, const struct tfe_msg *msg)
{
    struct stage *s = ctx;
    if (s->breaks) {
        log_serve_drop_requests(s->serve);
        return;
    }
    if (msg->type == MSG_LOG_DONE) {
        s->n_done++;
        return;
    }
    assert_int_equal(msg->type, MSG_LOG_CHUNK);
    assert_true(s->n_chunks < CHUNKS_MAX && strlen(msg->u.log_chunk.text) <= MSG_LOG_TEXT_MAX);
    s->chunks[s->n_chunks].msg = msg->u.log_chunk;
    (void)snprintf(s->chunks[s->n_chunks].text, sizeof(s->chunks[0].text), "%s",
                   msg->u.log_chunk.text);
    s->n_chunks++;
}

static struct stage *stage_new(size_t max)
{
    struct stage *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    output_ring_init(&s->ring, max);
    s->base = event_base_new();
    s->serve = log_serve_new(&(struct log_serve_options){
        .base = s->base, .ring = &s->ring, .has_room = has_room, .send = on_send, .ctx = s});
    return s;
}

static void stage_free(struct stage *s)
{
    log_serve_free(s->serve);
    output_ring_done(&s->ring);
    event_base_free(s->base);
    free(s);
}

static void print(struct stage *s, uint64_t epoch, uint32_t rank, int64_t at, const char *lines)
{
    const struct output_source of = {epoch, rank, STREAM_STDOUT};
    struct output_stream *stream = output_ring_open(&s->ring, &of, NULL);
    output_ring_add(&s->ring, stream, RECORD_LINES, (struct tfe_wall){at}, lines, strlen(lines), 0);
    output_ring_close(&s->ring, stream);
}

static void request(struct stage *s, struct msg_log_request spec)
{
    const struct tfe_msg msg = {.type = MSG_LOG_REQUEST, .u.log_request = spec};
    log_serve_handle(s->serve, &msg);
}

static void credit(struct stage *s, uint64_t of, uint32_t bytes)
{
    const struct tfe_msg msg = {.type = MSG_LOG_CREDIT, .u.log_credit = {of, bytes}};
    log_serve_handle(s->serve, &msg);
}

#define ASK(...)                                                                                   \
    request(s, (struct msg_log_request){                                                           \
                   .request = 1, .lines = MSG_UNSET, .window = 1 << 20, __VA_ARGS__})

TEST(output_ring, lines_come_back_as_they_were_with_their_time)
{
    struct stage *s = stage_new(OUTPUT_RING_BYTES);
    print(s, 1, 0, 1000, "one\ntwo");
    print(s, 1, 1, 1001, "other\n");
    ASK(.follow = false);
    assert_int_equal(s->n_chunks, 2);
    assert_string_equal(s->chunks[0].text, "one\ntwo");
    assert_int_equal(s->chunks[0].msg.at.ms, 1000);
    assert_string_equal(s->chunks[1].text, "other");
    assert_int_equal(s->chunks[1].msg.rank, 1);
    assert_int_equal(s->n_done, 1);
    stage_free(s);
}

TEST(output_ring, what_moves_a_cursor_or_colours_is_not_said)
{
    struct stage *s = stage_new(OUTPUT_RING_BYTES);
    print(s, 1, 0, 1000, "10%\r50%\r100%\r\n\033[1;31mred\033[0m\x07 \x1b]odd\tthere\n");
    ASK(.follow = false);
    assert_string_equal(s->chunks[0].text, "100%\nred   ]odd\tthere");
    stage_free(s);
}

TEST(output_ring, rank_epoch_time_and_number_of_lines_choose)
{
    struct stage *s = stage_new(OUTPUT_RING_BYTES);
    print(s, 1, 0, 1000, "a\nb\nc\n");
    print(s, 1, 1, 2000, "d\n");
    print(s, 2, 0, 3000, "e\nf\n");
    ASK(.has_rank = true, .rank = 1);
    assert_string_equal(s->chunks[0].text, "d");
    ASK(.epoch = 2);
    assert_string_equal(s->chunks[1].text, "e\nf");
    ASK(.since = {1500});
    assert_int_equal(s->n_chunks, 4);
    request(s, (struct msg_log_request){
                   .request = 1, .lines = 3, .window = 1 << 20}); /* of each stream of a rank */
    assert_int_equal(s->n_chunks, 7);
    assert_string_equal(s->chunks[4].text, "c");
    assert_string_equal(s->chunks[5].text, "d");
    assert_string_equal(s->chunks[6].text, "e\nf");
    request(s, (struct msg_log_request){.request = 1, .lines = 0, .window = 1 << 20});
    assert_int_equal(s->n_chunks, 7);
    assert_int_equal(s->n_done, 5);
    stage_free(s);
}

TEST(output_ring, the_oldest_goes_and_a_line_of_any_length_fits)
{
    struct stage *s = stage_new(20000);
    static char line[10000];
    memset(line, 'x', sizeof(line) - 1);
    print(s, 1, 0, 1000, line);
    for (int i = 0; i < 1000; i++) {
        print(s, 1, 0, 1001 + i, "short");
        assert_true(s->ring.used <= 20000);
    }
    assert_int_equal(s->ring.dropped, 1);
    print(s, 1, 0, 5000, line);
    ASK(.since = {5000});
    assert_int_equal(s->n_chunks, 3);
    assert_int_equal(strlen(s->chunks[0].text) + strlen(s->chunks[1].text) +
                         strlen(s->chunks[2].text),
                     sizeof(line) - 1);
    stage_free(s);
}

TEST(serve, nothing_is_said_without_credit_and_what_goes_meanwhile_is_counted)
{
    struct stage *s = stage_new(20000);
    const uint32_t window = MSG_LOG_COST + MSG_LOG_TEXT_MAX;
    uint64_t received = 0;
    request(s, (struct msg_log_request){
                   .request = 7, .lines = MSG_UNSET, .follow = true, .window = window + 10});
    static char
        first[7 * 1000 + 1]; /* the first part of these lines is sent, then the ring is full */
    for (size_t i = 0; i < 7 * 1000; i++) {
        first[i] = "a line\n"[i % 7];
    }
    print(s, 1, 0, 999, first);
    log_serve_resume(s->serve);
    for (int i = 0; i < 1000; i++) {
        print(s, 1, 0, 1000 + i, "a line that is not very long");
    }
    log_serve_resume(s->serve);
    /* the remaining credit is less than a chunk of maximum size */
    assert_int_equal(s->n_chunks, 1);
    assert_int_equal(s->chunks[0].msg.lost, 0);
    credit(s, 8, 1 << 20); /* credit of another reader */
    assert_int_equal(s->n_chunks, 1);
    s->is_full = true;
    credit(s, 7, 1 << 20);
    assert_int_equal(s->n_chunks, 1);
    s->is_full = false;
    log_serve_resume(s->serve);
    for (size_t i = 0; i < s->n_chunks; i++) {
        received += s->chunks[i].msg.lost;
        received += output_count_lines(s->chunks[i].text, strlen(s->chunks[i].text));
    }
    assert_true(s->chunks[1].msg.lost > 0);
    assert_int_equal(received, 2000);
    assert_int_equal(s->n_done, 0);
    stage_free(s);
}

TEST(serve, as_trainers_end_a_slow_reader_is_told_how_much_it_has_not_got)
{
    struct stage *s = stage_new(OUTPUT_RING_BYTES);
    request(s, (struct msg_log_request){
                   .request = 7, .lines = MSG_UNSET, .follow = true, .window = 100});
    print(s, 1, 0, 1000, "a\nb\nc\n");
    log_serve_flush(s->serve);
    assert_int_equal(s->n_chunks, 1);
    assert_string_equal(s->chunks[0].text, "");
    assert_int_equal(s->chunks[0].msg.behind, 3);
    credit(s, 7, 1 << 20);
    assert_string_equal(s->chunks[1].text, "a\nb\nc");
    log_serve_flush(s->serve);
    assert_int_equal(s->n_chunks, 2);
    stage_free(s);
}

/* Bug: a reader was freed while a message to it was being sent. */
TEST(serve, a_connection_that_ends_while_something_is_said_takes_its_askers_along)
{
    struct stage *s = stage_new(OUTPUT_RING_BYTES);
    for (uint64_t i = 1; i <= 3; i++) {
        request(s, (struct msg_log_request){.request = i,
                                            .lines = MSG_UNSET,
                                            .follow = true,
                                            .window = i == 1 ? 100 : 1 << 20});
    }
    print(s, 1, 0, 1000, "a");
    print(s, 1, 0, 1001, "b");
    s->breaks = true;
    log_serve_flush(s->serve);
    s->breaks = false;
    credit(s, 1, 1 << 20);
    log_serve_resume(s->serve);
    assert_int_equal(s->n_chunks, 0); /* no reader is left */
    s->breaks = true;
    ASK(.follow = false);
    s->breaks = false;
    ASK(.follow = false);
    assert_int_equal(s->n_chunks, 2); /* only new readers get responses */
    assert_int_equal(s->n_done, 1);
    stage_free(s);
}

TEST(serve, a_follower_sees_no_line_twice_though_it_comes_in_the_same_moment)
{
    struct stage *s = stage_new(OUTPUT_RING_BYTES);
    request(s, (struct msg_log_request){
                   .request = 7, .lines = MSG_UNSET, .follow = true, .window = 1 << 20});
    print(s, 1, 0, 1000, "a");
    log_serve_resume(s->serve);
    print(s, 1, 0, 1000, "b");
    print(s, 1, 0, 1000, "c");
    log_serve_resume(s->serve);
    char all[64] = "";
    for (size_t i = 0; i < s->n_chunks; i++) {
        (void)snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s;", s->chunks[i].text);
    }
    assert_string_equal(all, "a;b;c;");
    stage_free(s);
}
