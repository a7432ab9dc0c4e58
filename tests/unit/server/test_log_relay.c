/* tests/unit/server/test_log_relay.c: log streaming: which agents a reader's request reaches, how
 * much credit each agent gets, and what the reader receives from agents that leave. Agents are
 * clients of a whole server; the test records each log message they receive as one line. */
#include "common/base/clock.h"
#include "common/credentials/node_secrets.h"
#include "server/events/log_relay.h"
#include "server/jobs/job_registry.h"
#include "server/query/record_source.h"
#include "tests/job_options.h"
#include "tests/unit/server/fixture.h"

enum { AGENTS = LIMIT_LOG_NODES + 2, WITH_RANK = 2, NPROC = 2 };

static struct fixture f;

static struct agent {
    struct side side;
    char node[TFE_ID_MAX + 1];
    char log[4096];
    bool is_in;
} agents[AGENTS];

static void on_agent_message(struct side *side, const struct tfe_msg *msg)
{
    struct agent *agent = (struct agent *)(void *)side;
    const size_t n = strlen(agent->log);
    const uint32_t bytes = msg->type == MSG_LOG_REQUEST  ? msg->u.log_request.window
                           : msg->type == MSG_LOG_CREDIT ? msg->u.log_credit.bytes
                                                         : 0;
    agent->is_in = agent->is_in || msg->type == MSG_WELCOME;
    if (msg->type == MSG_LOG_REQUEST || msg->type == MSG_LOG_CREDIT || msg->type == MSG_LOG_STOP) {
        (void)snprintf(agent->log + n, sizeof agent->log - n, "%u:%s %u\n",
                       (unsigned)(agent - agents), msg_type_name(msg->type), bytes);
    }
}

/* Returns the log messages that agents have received since the last call, ordered by agent. */
static const char *said(void)
{
    static char all[AGENTS * 64];
    all[0] = '\0';
    world_settle(&f.world);
    for (size_t i = 0; i < AGENTS; i++) {
        (void)strncat(all, agents[i].log, sizeof all - strlen(all) - 1);
        agents[i].log[0] = '\0';
    }
    return all;
}

static void tell(uint32_t i, struct tfe_msg msg)
{
    assert_int_equal(side_send(&agents[i].side, msg), 0);
    world_settle(&f.world);
}

/* Joins a node to job "a". The first two nodes have ranks, with two trainers each. */
static void came(uint32_t i)
{
    static const uint16_t ports[NPROC] = {4001, 4002};
    struct agent *agent = &agents[i];
    char secret[MSG_NODE_SECRET_CHARS + 1];
    struct tfe_id node;
    *agent = (struct agent){.side.on_message = on_agent_message};
    node_secret_make(secret);
    assert_int_equal(node_id_of(secret, &node), 0);
    (void)snprintf(agent->node, sizeof agent->node, "%s", node.text);
    assert_int_equal(INSIDE(channel_connect(f.world.base, "127.0.0.1", listener_port(f.listener),
                                            &f.world.token, &f.world.client_params, HANDSHAKE_MS,
                                            &side_ops, &agent->side, &agent->side.ch)),
                     0);
    RUN_UNTIL(&f.world, agent->side.established == 1);
    tell(i, (struct tfe_msg){.type = MSG_JOIN,
                             .u.join = {.job = "a",
                                        .node = agent->node,
                                        .node_secret = secret,
                                        .node_name = "host",
                                        .spec = job_of_size(WITH_RANK, WITH_RANK, NPROC),
                                        .host = "192.0.2.7"}});
    RUN_UNTIL(&f.world, agent->is_in);
    if (i < WITH_RANK) {
        tell(i,
             (struct tfe_msg){
                 .type = MSG_READY,
                 .u.ready = {.epoch = 1, .host = "192.0.2.7", .ports = ports, .n_ports = NPROC}});
    }
}

static void come(uint32_t n)
{
    for (uint32_t i = WITH_RANK; i < n; i++) {
        came(i);
    }
}

/* Ends the agent's connection. */
static void left(uint32_t i)
{
    const uint32_t n = f.all->n;
    side_free(&agents[i].side);
    RUN_UNTIL(&f.world, f.all->n < n);
}

static bool is_running(void)
{
    struct msg_status_job row;
    return rdzv_find_job(driver_core(f.driver), "a", &row) == 0 &&
           strcmp(row.phase, "running") == 0;
}

static int begin(void **state)
{
    (void)state;
    fixture_begin(&f, NULL, AGENTS);
    memset(agents, 0, sizeof agents);
    came(0);
    for (const int64_t ms = clock_mono().ms; clock_mono().ms == ms;) {
        (void)sched_yield(); /* nodes that join in the same millisecond are ranked by their ids */
    }
    came(1);
    RUN_UNTIL(&f.world, is_running());
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < AGENTS; i++) {
        side_free(&agents[i].side);
    }
    fixture_end(&f);
    return 0;
}

#define FIXTURE begin, end

static struct principal reader = {.role = PRINCIPAL_OBSERVER, .scope = PRINCIPAL_EVERY_JOB};

static struct rows *request(struct msg_logs request)
{
    struct rows *rows;
    request.job = request.job ? request.job : "a";
    assert_int_equal(rows_logs(f.all->logs, &reader, &request, &rows), 0);
    return rows;
}

static void chunk_behind_lost(uint32_t i, const char *text, uint64_t behind, uint64_t lost)
{
    tell(i, (struct tfe_msg){.type = MSG_LOG_CHUNK,
                             .u.log_chunk = {.request = 1,
                                             .epoch = 1,
                                             .rank = i,
                                             .stream = STREAM_STDOUT,
                                             .text = text,
                                             .lost = lost,
                                             .behind = behind}});
}

static void chunk(uint32_t i, const char *text, uint64_t behind)
{
    chunk_behind_lost(i, text, behind, 0);
}

static void done(uint32_t i)
{
    tell(i, (struct tfe_msg){.type = MSG_LOG_DONE, .u.log_done = {.request = 1}});
}

/* Returns the next row's text, "…" if there is none yet, "." at the end, "!" if refused. */
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

TEST_IN(logs, query_of_a_job_ends_after_all_nodes_have_answered)
{
    struct rows *rows = request((struct msg_logs){.lines = 10});
    assert_string_equal(said(), "0:LOG_REQUEST 65536\n1:LOG_REQUEST 65536\n");
    assert_string_equal(pull(rows), "…");
    chunk(0, "one", 0);
    chunk(1, "two", 0);
    assert_string_equal(pull(rows), "one");
    done(0);
    chunk(0, "after its end", 0);
    assert_string_equal(pull(rows), "two");
    assert_string_equal(pull(rows), "…");
    done(1);
    assert_string_equal(pull(rows), ".");
    (void)said();
    rows_free(rows);
    assert_string_equal(said(), ""); /* agents that have ended get no LOG_STOP */
}

TEST_IN(logs, query_of_a_rank_or_node_is_sent_only_there)
{
    struct rows *rows = request((struct msg_logs){.has_rank = true, .rank = 3});
    assert_string_equal(said(), "1:LOG_REQUEST 131072\n"); /* its second trainer */
    rows_free(rows);
    assert_string_equal(said(), "1:LOG_STOP 0\n");
    (void)said();
    rows_free(request((struct msg_logs){.has_rank = true, .rank = 4}));
    assert_string_equal(said(), "");
    rows_free(request((struct msg_logs){.node = agents[0].node}));
    assert_string_equal(said(), "0:LOG_REQUEST 131072\n0:LOG_STOP 0\n");
    (void)said();
    rows = request((struct msg_logs){.node = "n7"});
    assert_string_equal(pull(rows), "!");
    rows_free(rows);
    rows = request((struct msg_logs){.job = "b"});
    assert_string_equal(pull(rows), "!");
    rows_free(rows);
    assert_string_equal(said(), "");
}

TEST_IN(logs, window_is_granted_again_as_rows_are_read)
{
    come(16); /* of 8 KiB each */
    static char text[4096 - MSG_LOG_COST + 1];
    memset(text, 'x', sizeof text - 1);
    struct rows *rows = request((struct msg_logs){.lines = 10});
    (void)said();
    chunk(3, text, 0);
    chunk(3, text, 0);
    chunk(3, "y", 0); /* a chunk without credit */
    chunk(4, "y", 0); /* each agent has its own credit */
    assert_string_equal(pull(rows), text);
    assert_string_equal(said(), "3:LOG_CREDIT 4096\n");
    assert_string_equal(pull(rows), text);
    chunk(3, text, 0);
    assert_string_equal(pull(rows), "y");
    assert_string_equal(said(), "3:LOG_CREDIT 4096\n"); /* credit is returned in quarters */
    rows_free(rows);
}

TEST_IN(logs, lost_node_delivers_received_lines_and_a_count_of_missing_ones)
{
    struct rows *rows = request((struct msg_logs){.lines = 10});
    done(1);
    chunk(0, "a\nb", 0);
    chunk(0, "", 5); /* the agent's trainers end while five lines wait for credit */
    chunk(0, "c\nd", 0);
    left(0);
    (void)said();
    assert_string_equal(pull(rows), "a\nb");
    assert_string_equal(pull(rows), "c\nd");
    assert_string_equal(pull(rows), "3 lost");
    assert_string_equal(pull(rows), ".");
    assert_string_equal(said(), ""); /* the agent has left, so that no credit is sent */
    rows_free(rows);
}

/* Regression: an empty chunk was mistaken for a count of waiting lines; it was not shown and its
 * credit was never returned. */
TEST_IN(logs, empty_response_is_complete)
{
    come(16); /* of 8 KiB each */
    struct rows *rows = request((struct msg_logs){.lines = 10});
    (void)said();
    chunk(0, "", 4);
    for (unsigned i = 0; i < 8192 / 4 / MSG_LOG_COST; i++) {
        assert_string_equal(pull(rows), "…");
        chunk(0, "", 0);
        assert_string_equal(said(), "");
        assert_string_equal(pull(rows), "");
    }
    assert_string_equal(said(), "0:LOG_CREDIT 2048\n");
    rows_free(rows);
}

/* Regression: lines that an agent reported as lost together with its waiting lines were shown
 * twice: with the next line and when the agent left. */
TEST_IN(logs, lost_lines_are_reported_once_even_if_the_agent_leaves)
{
    struct rows *rows = request((struct msg_logs){.follow = true});
    chunk(0, "", 9); /* the agent's trainers end: four lines are lost, five wait for credit */
    chunk_behind_lost(0, "a\nb", 0, 4);
    left(0);
    assert_string_equal(pull(rows), "a\nb");
    assert_string_equal(pull(rows), "3 lost");
    assert_string_equal(pull(rows), "…");
    chunk(1, "", 2);
    chunk_behind_lost(1, "c", 0, 7); /* more lines are lost than before */
    left(1);
    assert_string_equal(pull(rows), "c");
    assert_string_equal(pull(rows), "…");
    rows_free(rows);
}

TEST_IN(logs, followed_query_is_sent_once_to_each_new_node)
{
    struct rows *rows = request((struct msg_logs){.follow = true});
    (void)said();
    done(0);
    done(1);
    assert_string_equal(pull(rows), "…"); /* more rows may come */
    came(2);
    log_relay_agent_joined(f.all->logs, 2); /* the agent is about to start an epoch */
    assert_string_equal(said(), "2:LOG_REQUEST 32768\n");
    rows_free(rows);
    assert_string_equal(said(), "2:LOG_STOP 0\n");
}

TEST_IN(logs, credit_of_a_lost_node_is_not_given_to_the_next)
{
    static char text[4096 - MSG_LOG_COST + 1];
    memset(text, 'x', sizeof text - 1);
    struct rows *rows = request((struct msg_logs){.follow = true});
    chunk(0, text, 0);
    chunk(0, text, 0);
    left(0);
    came(2); /* the new agent has the session of the one before */
    (void)said();
    assert_string_equal(pull(rows), text);
    assert_string_equal(pull(rows), text);
    assert_string_equal(said(), "");
    rows_free(rows);
}

TEST_IN(logs, query_without_follow_is_not_sent_to_later_nodes)
{
    struct rows *rows = request((struct msg_logs){.lines = 1});
    (void)said();
    came(2);
    assert_string_equal(said(), "");
    rows_free(rows);
}

TEST_IN(logs, query_of_too_many_nodes_is_refused)
{
    come(LIMIT_LOG_NODES + 1);
    struct rows *rows = request((struct msg_logs){.lines = 1});
    assert_string_equal(pull(rows), "!");
    assert_string_equal(said(), "");
    rows_free(rows);
    left(LIMIT_LOG_NODES);
    rows_free(request((struct msg_logs){.lines = 1}));
    assert_non_null(strstr(said(), "63:LOG_REQUEST 8192\n"));
}

TEST_IN(logs, concurrent_queries_of_one_key_are_limited_and_others_have_slots)
{
    enum { SHARE = (LIMIT_LOG_REQUESTS - LIMIT_ADMIN_LOG_REQUESTS) / 4 };
    struct rows *readers[SHARE];
    for (int i = 0; i < SHARE; i++) {
        readers[i] = request((struct msg_logs){.follow = true});
        assert_string_equal(pull(readers[i]), "…");
    }
    struct rows *one_more = request((struct msg_logs){.follow = true});
    assert_string_equal(pull(one_more), "!");
    rows_free(one_more);
    reader.origin[0]++;
    struct rows *other = request((struct msg_logs){.follow = true});
    assert_string_equal(pull(other), "…");
    rows_free(other);
    reader.origin[0]--;
    rows_free(readers[0]);
    readers[0] = request((struct msg_logs){.follow = true});
    assert_string_equal(pull(readers[0]), "…");
    for (int i = 0; i < SHARE; i++) {
        rows_free(readers[i]);
    }
}

TEST_IN(logs, failed_and_lost_node_has_its_stored_tail)
{
    const struct msg_exited failed = {.epoch = 4, .local_rank = 1, .tail = "Traceback"};
    log_relay_exited(f.all->logs, 1, &failed);
    log_relay_exited(f.all->logs, 1, &failed); /* the agent repeats EXITED on a new connection */
    const struct msg_exited stopped = {
        .epoch = 5, .local_rank = 1, .stopped = true, .tail = "killed"};
    log_relay_exited(f.all->logs, 1, &stopped); /* the node has no failure of its own */
    struct rows *rows = request((struct msg_logs){.lines = 1});
    done(0);
    done(1);
    /* The node is connected and has reported its exit itself. */
    assert_string_equal(pull(rows), ".");
    rows_free(rows);
    left(1);
    for (uint64_t epoch = 3; epoch <= 4; epoch++) {
        rows = request((struct msg_logs){.node = agents[1].node, .epoch = epoch});
        assert_string_equal(pull(rows), epoch == 4 ? "Traceback" : "!");
        assert_string_equal(pull(rows), epoch == 4 ? "." : "!");
        rows_free(rows);
    }
    rows = request((struct msg_logs){.has_rank = true, .rank = 3});
    assert_string_equal(pull(rows), "Traceback");
    assert_string_equal(pull(rows), ".");
    rows_free(rows);
}
