/* tests/unit/ctl/test_client.c: consecutive requests to the server over connections that come and
 * go. The server is the other end of a real connection; clocks and timers are the test's. */
#include <stdio.h>
#include <string.h>

#include "common/records/client.h"
#include "tests/unit/channel/socketpair.h"
#include "tests/unit/fake_clock.h"

static struct {
    struct world w; /* its server side is the server */
    struct join_info join;
    struct client *client;
    unsigned dials; /* connections that the server has accepted */
    unsigned sent;  /* requests that it has received */
    unsigned connected, waited;
    char reason[64];
    char status_line[256]; /* results of the requests */
} f;

static void turn(void)
{
    for (int i = 0; i < 20; i++) {
        fake_clock_pass(f.w.base, 0);
        assert_true(event_base_loop(f.w.base, EVLOOP_NONBLOCK) >= 0);
    }
}

static void pass(int64_t ms)
{
    fake_clock_pass(f.w.base, ms);
    turn();
}

#define UNTIL(condition)                                                                           \
    for (int n_ = 0; !(condition); n_++) {                                                         \
        assert_in_range(n_, 0, 100000);                                                            \
        turn();                                                                                    \
        (void)sched_yield();                                                                       \
    }

static void established(void)
{
    UNTIL(client_is_connected(f.client) && f.w.server.established == 1);
    turn();
}

/* The server closes the connection. */
static void closed(void)
{
    side_free(&f.w.server);
    f.w.server.established = 0;
    UNTIL(!client_is_connected(f.client));
}

/* The client has closed it. */
static void on_closed(struct side *side, const struct tfe_msg *msg)
{
    side->established = side->closed = 0;
}

static void hears(struct tfe_msg msg)
{
    assert_int_equal(side_send(&f.w.server, msg), 0);
    turn();
}

static void row(void)
{
    hears((struct tfe_msg){.type = MSG_EVENT_ROW,
                           .u.event_row = {.number = 1,
                                           .kind = "k",
                                           .level = EVENT_INFO,
                                           .job = "",
                                           .node = "",
                                           .name = "",
                                           .message = "s"}});
}

static void on_accepted(struct side *side, const struct tfe_msg *msg)
{
    f.dials++;
}

static void on_request(struct side *side, const struct tfe_msg *msg)
{
    f.sent++;
}

static void on_waiting(void *ctx, const char *reason)
{
    f.waited++;
    (void)snprintf(f.reason, sizeof f.reason, "%s", reason);
}

static void on_connected(void *ctx)
{
    f.connected++;
}

static void on_ended(struct client_request *req, enum client_end end, enum tfe_refusal code,
                     const char *sentence)
{
    const size_t n = strlen(f.status_line);
    (void)snprintf(f.status_line + n, sizeof f.status_line - n, "%s:%d/%d/%zu ",
                   client_is_order(req->message->type) ? "order" : "question", (int)end, (int)code,
                   req->list.n);
    record_list_done(&req->list);
}

static const struct tfe_msg question = {.type = MSG_EVENTS};
static const struct tfe_msg order = {.type = MSG_CANCEL, .u.cancel.job = "j"};

static struct client_request ask_of(bool is_order)
{
    return (struct client_request){.message = is_order ? &order : &question, .ended = on_ended};
}

static int begin(void **state)
{
    memset(&f, 0, sizeof f);
    fake_clock_init();
    world_make(&f.w);
    f.w.server_params = (struct handshake_params){PROTOCOL_VERSION, PROTOCOL_VERSION, 1};
    f.w.server.on_established = on_accepted;
    f.w.server.on_message = on_request;
    f.w.server.on_closed = on_closed;
    f.join = (struct join_info){
        .host = "127.0.0.1", .port = listener_port(f.w.listener), .token = &f.w.token};
    const struct client_config config = {.base = f.w.base,
                                         .join = &f.join,
                                         .retry_max_ms = 1000,
                                         .silence_ms = 5000,
                                         .waiting = on_waiting,
                                         .connected = on_connected};
    return client_new(&config, &f.client);
}

static int end(void **state)
{
    client_free(f.client);
    world_end(&f.w);
    return 0;
}

#define FIXTURE begin, end

static void said_is(const char *expected)
{
    assert_string_equal(f.status_line, expected);
    f.status_line[0] = '\0';
}

static void request(struct client_request *req)
{
    client_request(f.client, req);
    turn();
}

TEST_IN(client, first_request_connects_and_requests_are_sent_in_sequence)
{
    struct client_request first = ask_of(false);
    struct client_request second = ask_of(true);
    turn();
    assert_int_equal(f.dials, 0);
    request(&first);
    request(&second);
    established();
    assert_int_equal(f.sent, 1);
    row();
    row();
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    said_is("question:0/0/2 ");
    assert_int_equal(f.sent, 2);
    hears((struct tfe_msg){.type = MSG_DONE});
    said_is("order:0/0/0 ");
    hears((struct tfe_msg){.type = MSG_DONE}); /* ignored, because no request is open */
    said_is("");
    assert_int_equal(f.dials, 1);
}

TEST_IN(client, reconnect_repeats_an_open_request_with_an_empty_list)
{
    struct client_request req = ask_of(false);
    request(&req);
    established();
    row();
    closed();
    pass(250);
    established();
    assert_int_equal(f.sent, 2);
    assert_int_equal(req.n_sent, 2);
    row();
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    said_is("question:0/0/1 ");
    closed(); /* without a request the client does not reconnect */
    pass(60000);
    assert_int_equal(f.dials, 2);
}

TEST_IN(client, connect_attempts_back_off_until_connected)
{
    static const long waits[] = {250, 500, 1000, 1000};
    struct client_request req = ask_of(false);
    const int unused = raw_listen(&f.join.port);
    close(unused); /* nobody listens on the port */
    request(&req);
    UNTIL(f.waited == 1);
    for (unsigned i = 0; i < 3; i++) {
        pass(waits[i] - 1);
        assert_int_equal(f.waited, i + 1);
        pass(1);
        UNTIL(f.waited == i + 2);
    }
    f.join.port = listener_port(f.w.listener);
    pass(waits[3]);
    established();
    closed();
    pass(249);
    assert_int_equal(f.dials, 1);
    pass(1);
    established();
    client_cancel(f.client, &req);
}

TEST_IN(client, silent_server_during_a_request_causes_a_reconnect)
{
    struct client_request req = ask_of(false);
    request(&req);
    established();
    pass(4999);
    assert_int_equal(f.waited, 0);
    pass(1);
    assert_string_equal(f.reason, "no response from the server");
    UNTIL(!f.w.server.ch);
    pass(250);
    established();
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    pass(60000); /* no response is due */
    assert_true(client_is_connected(f.client));
}

TEST_IN(client, token_is_rejected_after_two_attempts_and_retried_later)
{
    struct client_request req = ask_of(false);
    f.w.token.secret[0] ^= 1;
    request(&req);
    UNTIL(f.waited == 1);
    said_is("");
    for (int i = 0; i < 20 && f.status_line[0] == '\0'; i++) {
        pass(100);
        (void)sched_yield();
    }
    UNTIL(f.status_line[0] != '\0');
    said_is("question:2/1/0 ");
    request(&req); /* ends at once */
    said_is("question:2/1/0 ");
    f.w.token.secret[0] ^= 1;
    pass(5001);
    request(&req);
    established();
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    said_is("question:0/0/0 ");
}

TEST_IN(client, refusal_and_unexpected_response_are_reported)
{
    static char long_name[400];
    struct tfe_msg wrong = {.type = MSG_EVENTS, .u.events.job = long_name};
    struct client_request req = ask_of(false);
    struct client_request next = ask_of(false);
    memset(long_name, 'x', sizeof long_name - 1);
    request(&req);
    established();
    hears((struct tfe_msg){.type = MSG_REFUSED,
                           .u.refused = {.code = REFUSAL_NO_SUCH_JOB, .sentence = "none"}});
    said_is("question:1/6/0 ");
    request(&req);
    request(&next);
    hears((struct tfe_msg){.type = MSG_DONE});
    said_is("question:3/0/0 ");
    assert_int_equal(f.sent, 2); /* the rest of the open response comes first */
    row();
    assert_int_equal(f.sent, 2);
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    assert_int_equal(f.sent, 3);
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    said_is("question:0/0/0 ");
    req.message = &wrong;
    request(&req);
    said_is("question:1/2/0 ");
}

TEST_IN(client, cancelled_request_has_no_callback)
{
    struct client_request first = ask_of(true);
    struct client_request second = ask_of(false);
    struct client_request third = ask_of(false);
    request(&first);
    request(&second);
    request(&third);
    established();
    assert_int_equal(f.sent, 1);
    client_cancel(f.client, &third); /* the last request: others are queued behind the second */
    client_cancel(f.client, &first); /* this request is open */
    client_cancel(f.client, &first); /* a repeated cancellation has no effect */
    request(&third);
    hears((struct tfe_msg){.type = MSG_STATUS_END}); /* ignored: STATUS_END does not end an order */
    assert_int_equal(f.sent, 1);
    hears((struct tfe_msg){.type = MSG_DONE});
    said_is("");
    assert_int_equal(f.sent, 2);
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    said_is("question:0/0/0 question:0/0/0 ");
}

TEST_IN(client, requests_of_owners_take_turns)
{
    static const struct tfe_msg of_second = {.type = MSG_CANCEL, .u.cancel.job = "k"};
    struct client_request first[3] = {ask_of(false), ask_of(false), ask_of(false)};
    struct client_request second[2] = {ask_of(true), ask_of(true)};
    request(&first[0]);
    established();
    request(&first[1]);
    request(&first[2]);
    for (unsigned i = 0; i < 2; i++) {
        second[i].message = &of_second;
        second[i].owner[CLIENT_OWNER_BYTES - 1] = 1;
        request(&second[i]);
    }
    for (unsigned i = 0; i < 5; i++) {
        hears((struct tfe_msg){.type = i % 2 == 0 ? MSG_STATUS_END : MSG_DONE});
    }
    said_is("question:0/0/0 order:0/0/0 question:0/0/0 order:0/0/0 question:0/0/0 ");
}

TEST_IN(client, rate_of_requests_stays_below_the_servers_limit)
{
    struct client_request req = ask_of(false);
    unsigned n = 0;
    request(&req);
    established();
    while (f.sent == n + 1) {
        assert_in_range(n, 0, 300);
        hears((struct tfe_msg){.type = MSG_STATUS_END});
        n++;
        f.status_line[0] = '\0';
        request(&req);
    }
    pass(49);
    assert_int_equal(f.sent, n);
    pass(1);
    assert_int_equal(f.sent, n + 1);
    hears((struct tfe_msg){.type = MSG_STATUS_END});
}
