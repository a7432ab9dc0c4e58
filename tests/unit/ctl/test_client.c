/* tests/unit/ctl/test_client.c: consecutive requests to the server over connections that come and
 * go. The test controls the connection and the reconnect timer. */
#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/channel/channel.h"
#include "common/records/client.h"
#include "tests/unit/test_runner.h"

static struct {
    struct event_base *base;
    struct client *client;
    const struct channel_ops *ops; /* callbacks of the connection dialled last */
    void *ctx;
    bool is_there;
    unsigned dials, sent, connected;
    int send_rc;
    uint32_t silence_ms; /* silence limit requested last */
    struct tfe_mono now;
    struct event *timer; /* the reconnect timer, and its delay */
    long timer_ms;
    char reason[64];
    char said[256]; /* results of the requests */
} f;

static struct channel *const the_channel = (struct channel *)&f;

int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    *ret = (struct timespec){.tv_sec = f.now.ms / 1000, .tv_nsec = f.now.ms % 1000 * 1000000};
    return 0;
}

int __real_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_add(struct event *event, const struct timeval *tv)
{
    const struct timeval never = {.tv_sec = 3600};
    f.timer = event;
    f.timer_ms = tv->tv_sec * 1000 + tv->tv_usec / 1000;
    return __real_event_add(event, f.timer_ms > 0 ? &never : tv);
}

int __wrap_channel_connect(struct event_base *base, const char *host, uint16_t port,
                           const struct token *token, const struct handshake_params *params,
                           uint32_t timeout_ms, const struct channel_ops *ops, void *ctx,
                           struct channel **ret);
int __wrap_channel_connect(struct event_base *base, const char *host, uint16_t port,
                           const struct token *token, const struct handshake_params *params,
                           uint32_t timeout_ms, const struct channel_ops *ops, void *ctx,
                           struct channel **ret)
{
    assert_false(f.is_there);
    f.ops = ops;
    f.ctx = ctx;
    f.is_there = true;
    f.dials++;
    *ret = the_channel;
    return 0;
}

int __wrap_channel_send(struct channel *ch, const struct tfe_msg *msg);
int __wrap_channel_send(struct channel *ch, const struct tfe_msg *msg)
{
    f.sent += f.send_rc == 0;
    return f.send_rc;
}

void __wrap_channel_expect(struct channel *ch, uint32_t ms);
void __wrap_channel_expect(struct channel *ch, uint32_t ms)
{
    f.silence_ms = ms;
}

void __wrap_channel_free(struct channel *ch);
void __wrap_channel_free(struct channel *ch)
{
    f.is_there = f.is_there && !ch;
}

static void turn(void)
{
    for (int i = 0; i < 4; i++) {
        (void)event_base_loop(f.base, EVLOOP_NONBLOCK);
    }
}

/* Fires the timer. */
static void fire(void)
{
    assert_true(f.timer_ms > 0);
    f.now = tfe_mono_add(f.now, f.timer_ms);
    event_active(f.timer, EV_TIMEOUT, 0);
    f.timer_ms = 0;
    turn();
}

static void established(void)
{
    f.ops->established(f.ctx, the_channel, NULL);
    turn();
}

static void closed(enum channel_end end)
{
    f.is_there = false;
    f.ops->closed(f.ctx, the_channel, end, "so it ended");
    turn();
}

static void hears(struct tfe_msg msg)
{
    f.ops->message(f.ctx, the_channel, &msg);
    turn();
}

static void row(void)
{
    hears((struct tfe_msg){.type = MSG_EVENT_ROW,
                           .u.event_row = {.number = 1, .kind = "k", .says = "s"}});
}

static void on_waiting(void *ctx, const char *reason)
{
    (void)snprintf(f.reason, sizeof f.reason, "%s", reason);
}

static void on_connected(void *ctx)
{
    f.connected++;
}

static void on_ended(struct client_request *ask, enum client_end end, enum tfe_refusal code,
                     const char *sentence)
{
    const size_t n = strlen(f.said);
    (void)snprintf(f.said + n, sizeof f.said - n, "%s:%d/%d/%zu ",
                   client_is_order(ask->message->type) ? "order" : "question", (int)end, (int)code,
                   ask->list.n);
    record_list_done(&ask->list);
}

static const struct tfe_msg question = {.type = MSG_EVENTS};
static const struct tfe_msg order = {.type = MSG_TOKEN_ROTATE};

static struct client_request ask_of(bool is_order)
{
    return (struct client_request){.message = is_order ? &order : &question, .ended = on_ended};
}

static int begin(void **state)
{
    static const struct join_info join = {.host = "server"};
    memset(&f, 0, sizeof f);
    f.now.ms = 1000000;
    f.base = event_base_new();
    const struct client_config config = {.base = f.base,
                                         .join = &join,
                                         .retry_max_ms = 1000,
                                         .silence_ms = 5000,
                                         .waiting = on_waiting,
                                         .connected = on_connected};
    return client_new(&config, &f.client);
}

static int end(void **state)
{
    client_free(f.client);
    assert_false(f.is_there);
    event_base_free(f.base);
    return 0;
}

#define FIXTURE begin, end

static void said_is(const char *expected)
{
    assert_string_equal(f.said, expected);
    f.said[0] = '\0';
}

TEST_IN(client, dials_once_there_is_a_question_and_puts_one_after_the_other)
{
    struct client_request first = ask_of(false);
    struct client_request second = ask_of(true);
    turn();
    assert_int_equal(f.dials, 0);
    client_request(f.client, &first);
    turn();
    client_request(f.client, &second);
    turn();
    assert_int_equal(f.dials, 1);
    assert_int_equal(f.sent, 0); /* not connected yet */
    established();
    assert_int_equal(f.connected, 1);
    assert_int_equal(f.sent, 1);
    assert_int_equal(f.silence_ms, 5000);
    row();
    row();
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    said_is("question:0/0/2 ");
    assert_int_equal(f.sent, 2);
    hears((struct tfe_msg){.type = MSG_DONE});
    said_is("order:0/0/0 ");
    hears((struct tfe_msg){.type = MSG_DONE}); /* ignored, because no request is open */
    said_is("");
}

TEST_IN(client, asks_again_what_was_not_answered_and_begins_its_list_anew)
{
    struct client_request ask = ask_of(false);
    client_request(f.client, &ask);
    turn();
    established();
    row();
    closed(CHANNEL_RESET);
    assert_string_equal(f.reason, "so it ended");
    assert_false(client_is_connected(f.client));
    fire();
    assert_int_equal(f.dials, 2);
    established();
    assert_int_equal(f.sent, 2);
    row();
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    said_is("question:0/0/1 ");
    closed(CHANNEL_EOF); /* without a request the client does not reconnect */
    assert_int_equal(f.timer_ms, 0);
    assert_int_equal(f.dials, 2);
}

TEST_IN(client, tries_later_and_later_until_it_is_connected)
{
    static const long waits[] = {250, 500, 1000, 1000};
    struct client_request ask = ask_of(false);
    client_request(f.client, &ask);
    turn();
    for (size_t i = 0; i < 4; i++) {
        closed(CHANNEL_UNREACHABLE);
        assert_int_equal(f.timer_ms, waits[i]);
        fire();
        assert_int_equal(f.dials, i + 2);
    }
    established();
    closed(CHANNEL_EOF);
    assert_int_equal(f.timer_ms, 250);
    client_cancel(f.client, &ask);
}

TEST_IN(client, dials_anew_where_the_server_is_silent)
{
    struct client_request ask = ask_of(false);
    client_request(f.client, &ask);
    turn();
    established();
    f.ops->silent(f.ctx, the_channel);
    assert_false(f.is_there);
    assert_string_equal(f.reason, "it does not answer");
    fire();
    established();
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    f.ops->silent(f.ctx, the_channel); /* no response is due */
    assert_true(f.is_there);
}

TEST_IN(client, takes_a_token_for_rejected_after_two_tries_and_looks_again_later)
{
    struct client_request ask = ask_of(false);
    client_request(f.client, &ask);
    turn();
    unsigned n = 0;
    while (f.said[0] == '\0') {
        assert_in_range(n, 0, 5);
        closed(CHANNEL_UNAUTHORISED);
        n++;
        turn();
        if (f.said[0] == '\0') {
            fire();
        }
    }
    assert_int_equal(n, 2);
    said_is("question:2/1/0 ");
    client_request(f.client, &ask); /* reconnects at once */
    turn();
    said_is("question:2/1/0 ");
    assert_int_equal(f.dials, 2);
    f.now = tfe_mono_add(f.now, 5001);
    client_request(f.client, &ask);
    turn();
    said_is("");
    assert_int_equal(f.dials, 3);
    established();
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    said_is("question:0/0/0 ");
    client_request(f.client, &ask);
    turn();
    closed(CHANNEL_UNAUTHORISED); /* the token was accepted meanwhile, so that the count restarts */
    said_is("");
    client_cancel(f.client, &ask);
}

TEST_IN(client, tells_refusals_and_what_does_not_fit)
{
    struct client_request ask = ask_of(false);
    struct client_request next = ask_of(false);
    client_request(f.client, &ask);
    turn();
    established();
    hears((struct tfe_msg){.type = MSG_REFUSED,
                           .u.refused = {.code = REFUSAL_NO_SUCH_JOB, .sentence = "none"}});
    said_is("question:1/6/0 ");
    client_request(f.client, &ask);
    client_request(f.client, &next);
    turn();
    hears((struct tfe_msg){.type = MSG_WELCOME});
    said_is("question:3/0/0 ");
    assert_int_equal(f.sent, 2); /* the rest of the open response comes first */
    row();
    assert_int_equal(f.sent, 2);
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    assert_int_equal(f.sent, 3);
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    said_is("question:0/0/0 ");
    f.send_rc = TFE_EINVAL;
    client_request(f.client, &ask);
    turn();
    said_is("question:1/2/0 ");
    f.send_rc = TFE_ETOOBIG;
    client_request(f.client, &ask);
    turn();
    said_is("question:4/0/0 ");
}

TEST_IN(client, what_is_taken_back_is_answered_to_nobody)
{
    struct client_request first = ask_of(true);
    struct client_request second = ask_of(false);
    struct client_request third = ask_of(false);
    client_request(f.client, &first);
    client_request(f.client, &second);
    client_request(f.client, &third);
    turn();
    established();
    client_cancel(f.client, &third); /* the last request: others are queued behind the second */
    client_cancel(f.client, &first); /* this request is open */
    client_cancel(f.client, &first); /* a repeated cancellation has no effect */
    client_request(f.client, &third);
    hears((struct tfe_msg){.type = MSG_STATUS_END}); /* ignored: STATUS_END does not end an order */
    assert_int_equal(f.sent, 1);
    hears((struct tfe_msg){.type = MSG_DONE});
    said_is("");
    assert_int_equal(f.sent, 2);
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    hears((struct tfe_msg){.type = MSG_STATUS_END});
    said_is("question:0/0/0 question:0/0/0 ");
}

TEST_IN(client, asks_no_faster_than_the_server_likes)
{
    struct client_request ask = ask_of(false);
    unsigned n = 0;
    client_request(f.client, &ask);
    turn();
    established();
    while (f.sent == n + 1) {
        assert_in_range(n, 0, 300);
        hears((struct tfe_msg){.type = MSG_STATUS_END});
        n++;
        client_request(f.client, &ask);
        turn();
    }
    assert_int_equal(f.timer_ms, 50);
    fire();
    assert_int_equal(f.sent, n + 1);
    hears((struct tfe_msg){.type = MSG_STATUS_END});
}
