/* tests/unit/server/test_log_relay.c: output on its way: whom a reader's question goes to, how far
 * each may go on, and what is told of those who leave. Agents are played: what they are sent is
 * written down, a line each. */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/channel.h"
#include "common/net/limits.h"
#include "server/log_relay.h"
#include "server/rows.h"
#include "server/session.h"
#include "tests/unit/story.h"

#define SESSIONS 70

static struct sessions all;
static struct session sessions[SESSIONS];
static struct session *by_number[SESSIONS];
static char ids[SESSIONS][8];
static struct log_relay *r;
static char said[16384];
static uint32_t n_nodes;   /* sessions below are nodes of job "a" */
static uint32_t with_rank; /* … of which so many have one: their number */

static unsigned number_of(const struct channel *ch)
{
    return (unsigned)((const struct session *)(const void *)ch - sessions);
}

int __wrap_channel_send(struct channel *ch, const struct tfe_msg *msg);
int __wrap_channel_send(struct channel *ch, const struct tfe_msg *msg)
{
    char line[128];
    const char *name = msg_type_name(msg->type);
    uint32_t n = msg->type == MSG_LOG_ASK      ? msg->u.log_ask.window
                 : msg->type == MSG_LOG_CREDIT ? msg->u.log_credit.bytes
                                               : 0;
    (void)snprintf(line, sizeof line, "%u:%s %u\n", number_of(ch), name, n);
    assert_true(strlen(said) + strlen(line) < sizeof said);
    (void)strcat(said, line);
    return 0;
}

int __wrap_rdzv_find_job(const struct rdzv *core, const char *job, struct msg_status_job *ret);
int __wrap_rdzv_find_job(const struct rdzv *core, const char *job, struct msg_status_job *ret)
{
    *ret = (struct msg_status_job){.job = "a", .nproc = 2};
    return strcmp(job, "a") == 0 ? 0 : TFE_ENOENT;
}

int __wrap_rdzv_node_of(const struct rdzv *core, uint32_t session, struct rdzv_found *ret);
int __wrap_rdzv_node_of(const struct rdzv *core, uint32_t session, struct rdzv_found *ret)
{
    *ret = (struct rdzv_found){.n = 1};
    ret->v[0].job = "a";
    ret->v[0].node = ids[session];
    ret->v[0].name = "host";
    ret->v[0].has_rank = session < with_rank;
    ret->v[0].rank = session * 2;
    return session < n_nodes ? 0 : TFE_ENOENT;
}

static int begin(void **state)
{
    (void)state;
    memset(&all, 0, sizeof all);
    said[0] = '\0';
    n_nodes = with_rank = 2;
    all.base = event_base_new();
    all.by_number = by_number;
    all.max = all.n_fresh = SESSIONS;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        sessions[i] = (struct session){.phase = SESSION_OPEN, .number = i};
        sessions[i].channel = (struct channel *)(void *)&sessions[i];
        by_number[i] = &sessions[i];
        (void)snprintf(ids[i], sizeof ids[i], "n%u", (unsigned)i);
    }
    return log_relay_new(&all, &r);
}

static int end(void **state)
{
    (void)state;
    log_relay_free(r);
    event_base_free(all.base);
    return 0;
}

#define FIXTURE begin, end

static struct principal reader = {.role = PRINCIPAL_OBSERVER, .scope = PRINCIPAL_EVERY_JOB};

static struct rows *ask(struct msg_logs wish)
{
    struct rows *rows;
    wish.job = wish.job ? wish.job : "a";
    assert_int_equal(rows_logs(r, &reader, &wish, &rows), 0);
    return rows;
}

static bool chunk_behind_lost(uint32_t session, const char *text, uint64_t behind, uint64_t lost)
{
    const struct tfe_msg msg = {
        .type = MSG_LOG_CHUNK,
        .u.log_chunk = {.ask = 1, .text = text, .lost = lost, .behind = behind}};
    return log_relay_take(r, session, &msg);
}

static bool chunk(uint32_t session, const char *text, uint64_t behind)
{
    return chunk_behind_lost(session, text, behind, 0);
}

static bool done(uint32_t session)
{
    const struct tfe_msg msg = {.type = MSG_LOG_DONE, .u.log_done = {.ask = 1}};
    return log_relay_take(r, session, &msg);
}

/* The next row's text; "…": none yet, ".": the end, "!": refused. */
static const char *pull(struct rows *rows)
{
    static struct tfe_msg msg;
    int rc = rows_next(rows, &msg);
    assert_true(rc == 0 || rc == TFE_EMORE);
    return rc == TFE_EMORE              ? "…"
           : msg.type == MSG_STATUS_END ? "."
           : msg.type == MSG_REFUSED    ? "!"
           : msg.u.log_lines.silent     ? "silent"
           : msg.u.log_lines.text[0]    ? msg.u.log_lines.text
           : msg.u.log_lines.lost == 3  ? "3 lost"
           : msg.u.log_lines.lost == 0  ? ""
                                        : "?";
}

TEST_IN(logs, of_a_job_are_asked_of_all_its_nodes_and_end_when_all_have_said_theirs)
{
    struct rows *rows = ask((struct msg_logs){.lines = 10});
    assert_string_equal(said, "0:LOG_ASK 65536\n1:LOG_ASK 65536\n");
    assert_string_equal(pull(rows), "…");
    assert_true(chunk(0, "one", 0));
    assert_true(chunk(1, "two", 0));
    assert_string_equal(pull(rows), "one");
    assert_true(done(0));
    assert_false(chunk(0, "after its end", 0));
    assert_string_equal(pull(rows), "two");
    assert_string_equal(pull(rows), "…");
    assert_true(done(1));
    assert_string_equal(pull(rows), ".");
    said[0] = '\0';
    rows_free(rows);
    assert_string_equal(said, ""); /* nobody is told to stop who has ended */
}

TEST_IN(logs, of_a_rank_or_a_node_are_asked_of_those_alone)
{
    struct rows *rows = ask((struct msg_logs){.has_rank = true, .rank = 3});
    assert_string_equal(said, "1:LOG_ASK 131072\n"); /* its second trainer */
    rows_free(rows);
    assert_string_equal(said, "1:LOG_ASK 131072\n1:LOG_STOP 0\n");
    said[0] = '\0';
    rows_free(ask((struct msg_logs){.has_rank = true, .rank = 4}));
    assert_string_equal(said, "");
    rows_free(ask((struct msg_logs){.node = "n0"}));
    assert_string_equal(said, "0:LOG_ASK 131072\n0:LOG_STOP 0\n");
    said[0] = '\0';
    rows = ask((struct msg_logs){.node = "n7"});
    assert_string_equal(pull(rows), "!");
    rows_free(rows);
    rows = ask((struct msg_logs){.job = "b"});
    assert_string_equal(pull(rows), "!");
    rows_free(rows);
    assert_string_equal(said, "");
}

TEST_IN(logs, come_within_a_window_that_is_given_back_as_rows_are_pulled)
{
    n_nodes = 16; /* of 8 KiB each */
    static char text[4096 - MSG_LOG_COST + 1];
    memset(text, 'x', sizeof text - 1);
    struct rows *rows = ask((struct msg_logs){.lines = 10});
    said[0] = '\0';
    assert_true(chunk(3, text, 0));
    assert_true(chunk(3, text, 0));
    assert_false(chunk(3, "y", 0)); /* without credit */
    assert_true(chunk(4, "y", 0));  /* each has its own */
    assert_string_equal(pull(rows), text);
    assert_string_equal(said, "3:LOG_CREDIT 4096\n");
    assert_string_equal(pull(rows), text);
    assert_true(chunk(3, text, 0));
    assert_string_equal(pull(rows), "y");
    assert_string_equal(said, "3:LOG_CREDIT 4096\n3:LOG_CREDIT 4096\n"); /* a quarter at once */
    rows_free(rows);
}

TEST_IN(logs, of_who_leaves_are_read_to_what_has_come_and_what_has_not_is_counted)
{
    struct rows *rows = ask((struct msg_logs){.lines = 10});
    assert_true(done(1));
    assert_true(chunk(0, "a\nb", 0));
    assert_false(chunk(0, "", 5)); /* as its trainers end: five wait for credit */
    assert_true(chunk(0, "c\nd", 0));
    log_relay_left(r, 0);
    assert_false(chunk(0, "e", 0));
    said[0] = '\0';
    assert_string_equal(pull(rows), "a\nb");
    assert_string_equal(pull(rows), "c\nd");
    assert_string_equal(pull(rows), "3 lost");
    assert_string_equal(pull(rows), ".");
    assert_string_equal(said, ""); /* nobody is there to be given credit */
    rows_free(rows);
}

/* One that came alone was taken for the word of how many wait: it was not told, that word was
 * forgotten, and its credit never given back. */
TEST_IN(logs, may_be_empty)
{
    n_nodes = 16; /* of 8 KiB each */
    struct rows *rows = ask((struct msg_logs){.lines = 10});
    said[0] = '\0';
    assert_false(chunk(0, "", 4));
    for (unsigned i = 0; i < 8192 / 4 / MSG_LOG_COST; i++) {
        assert_string_equal(pull(rows), "…");
        assert_true(chunk(0, "", 0));
        assert_string_equal(said, "");
        assert_string_equal(pull(rows), "");
    }
    assert_string_equal(said, "0:LOG_CREDIT 2048\n");
    rows_free(rows);
}

/* What an agent had lost when it said how many lines wait was told with the next line, and told
 * again when it left. */
TEST_IN(logs, that_were_lost_are_told_once_though_their_agent_leaves)
{
    struct rows *rows = ask((struct msg_logs){.follow = true});
    assert_false(chunk(0, "", 9)); /* as its trainers end: four are lost, five wait for credit */
    assert_true(chunk_behind_lost(0, "a\nb", 0, 4));
    log_relay_left(r, 0);
    assert_string_equal(pull(rows), "a\nb");
    assert_string_equal(pull(rows), "3 lost");
    assert_string_equal(pull(rows), "…");
    assert_false(chunk(1, "", 2));
    assert_true(chunk_behind_lost(1, "c", 0, 7)); /* more than there were: some came since */
    log_relay_left(r, 1);
    assert_string_equal(pull(rows), "c");
    assert_string_equal(pull(rows), "…");
    rows_free(rows);
}

TEST_IN(logs, that_are_followed_are_asked_of_who_comes_and_of_nobody_twice)
{
    struct rows *rows = ask((struct msg_logs){.follow = true});
    said[0] = '\0';
    assert_true(done(0));
    assert_true(done(1));
    assert_string_equal(pull(rows), "…"); /* more may come */
    n_nodes = 3;
    log_relay_came(r, 2);
    log_relay_came(r, 2);
    assert_string_equal(said, "2:LOG_ASK 32768\n");
    rows_free(rows);
    assert_string_equal(said, "2:LOG_ASK 32768\n2:LOG_STOP 0\n");
}

TEST_IN(logs, of_who_has_left_earn_no_credit_for_who_comes_next)
{
    static char text[4096 - MSG_LOG_COST + 1];
    memset(text, 'x', sizeof text - 1);
    n_nodes = 1;
    struct rows *rows = ask((struct msg_logs){.follow = true});
    assert_true(chunk(0, text, 0));
    assert_true(chunk(0, text, 0));
    log_relay_left(r, 0);
    n_nodes = 2;
    log_relay_came(r, 1); /* where the other one was */
    said[0] = '\0';
    assert_string_equal(pull(rows), text);
    assert_string_equal(pull(rows), text);
    assert_string_equal(said, "");
    rows_free(rows);
}

TEST_IN(logs, that_are_not_followed_are_asked_of_nobody_who_comes_later)
{
    struct rows *rows = ask((struct msg_logs){.lines = 1});
    said[0] = '\0';
    n_nodes = 3;
    log_relay_came(r, 2);
    assert_string_equal(said, "");
    rows_free(rows);
}

TEST_IN(logs, of_too_many_nodes_are_refused)
{
    n_nodes = LIMIT_LOG_NODES + 1;
    struct rows *rows = ask((struct msg_logs){.lines = 1});
    assert_string_equal(pull(rows), "!");
    assert_string_equal(said, "");
    rows_free(rows);
    n_nodes = LIMIT_LOG_NODES;
    rows_free(ask((struct msg_logs){.lines = 1}));
    assert_non_null(strstr(said, "63:LOG_ASK 8192\n"));
}

TEST_IN(logs, are_read_by_one_key_so_often_at_a_time_and_others_have_their_places)
{
    enum { SHARE = (LIMIT_LOG_ASKS - LIMIT_ADMIN_LOG_ASKS) / 4 };
    struct rows *readers[SHARE];
    for (int i = 0; i < SHARE; i++) {
        readers[i] = ask((struct msg_logs){.follow = true});
        assert_string_equal(pull(readers[i]), "…");
    }
    struct rows *one_more = ask((struct msg_logs){.follow = true});
    assert_string_equal(pull(one_more), "!");
    rows_free(one_more);
    reader.origin[0]++;
    struct rows *other = ask((struct msg_logs){.follow = true});
    assert_string_equal(pull(other), "…");
    rows_free(other);
    reader.origin[0]--;
    rows_free(readers[0]);
    readers[0] = ask((struct msg_logs){.follow = true});
    assert_string_equal(pull(readers[0]), "…");
    for (int i = 0; i < SHARE; i++) {
        rows_free(readers[i]);
    }
}

TEST_IN(logs, of_one_that_has_failed_and_gone_are_its_last_lines)
{
    const struct msg_exited failed = {.epoch = 4, .local_rank = 1, .tail = "Traceback"};
    log_relay_exited(r, 1, &failed);
    log_relay_exited(r, 1, &failed); /* said again, on a new connection */
    const struct msg_exited stopped = {
        .epoch = 5, .local_rank = 1, .stopped = true, .tail = "killed"};
    log_relay_exited(r, 1, &stopped); /* no failure of its own */
    struct rows *rows = ask((struct msg_logs){.lines = 1});
    assert_true(done(0));
    assert_true(done(1));
    assert_string_equal(pull(rows), "."); /* it is there, and has said it itself */
    rows_free(rows);
    n_nodes = 1;
    for (uint64_t epoch = 3; epoch <= 4; epoch++) {
        rows = ask((struct msg_logs){.node = "n1", .epoch = epoch});
        assert_string_equal(pull(rows), epoch == 4 ? "Traceback" : "!");
        assert_string_equal(pull(rows), epoch == 4 ? "." : "!");
        rows_free(rows);
    }
    rows = ask((struct msg_logs){.has_rank = true, .rank = 3});
    assert_string_equal(pull(rows), "Traceback");
    assert_string_equal(pull(rows), ".");
    rows_free(rows);
}
