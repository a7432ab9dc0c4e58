/* tests/unit/agent/test_environment.c: variables that a trainer gets, and
 * those that are removed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/trainer/environment.h"
#include "tests/unit/test_runner.h"

static const struct msg_row rows[] = {
    {.rank = 0, .host = "10.0.0.1", .port = 4001},
    {.rank = 1, .host = "worker-b.example", .port = 4002},
    {.rank = 2, .host = "fd00::3", .port = 65535},
};

/* Position of the node and of one of its trainers, the second unless it is rank 0. */
struct seat {
    struct agent_place node;
    struct trainer_place place;
};

static struct seat *seat_of(struct seat *seat, uint32_t rank)
{
    seat->node = (struct agent_place){.run = 2,
                                      .epoch = 7000000000,
                                      .rank = rank - (rank > 0),
                                      .n = 2,
                                      .restarts = 4,
                                      .rows = rows,
                                      .n_rows = 3,
                                      .own = {.rank = rank - (rank > 0)}};
    seat->place = (struct trainer_place){
        .node = &seat->node, .local_rank = rank > 0, .nproc = 2, .job = "mnist", .node_id = "n-1"};
    return seat;
}

/* Returns the value or NULL; fails if the variable occurs twice. */
static const char *value_of(char **env, const char *name)
{
    const char *found = NULL;
    size_t n = strlen(name);
    for (; *env; env++) {
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=') {
            assert_null(found);
            found = *env + n + 1;
        }
    }
    return found;
}

TEST(environment, a_trainer_finds_its_place)
{
    static const char *const wanted[][2] = {
        {"TF_CONFIG", "{\"cluster\":{\"worker\":[\"10.0.0.1:4001\",\"worker-b.example:4002\","
                      "\"[fd00::3]:65535\"]},\"task\":{\"type\":\"worker\",\"index\":1}}"},
        {"TF_GRPC_REUSE_PORT", "true"},
        {"TFE_JOB", "mnist"},
        {"TFE_NODE", "n-1"},
        {"TFE_RUN", "2"},
        {"TFE_EPOCH", "7000000000"},
        {"TFE_RANK", "1"},
        {"TFE_WORLD_SIZE", "3"},
        {"TFE_LOCAL_RANK", "1"},
        {"TFE_RESTART_COUNT", "4"},
        {"TFE_ROLE", "worker"},
        {"TFE_ROLE_INDEX", "1"},
        {"TFE_SOCKET", "/tmp/agent"},
        {"TFE_PREEMPT_FILE", "/tmp/preempt"},
        {"TMPDIR", "/tmp/own"},
        {"RANK", "1"},
        {"LOCAL_RANK", "1"},
        {"WORLD_SIZE", "3"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"NUM_WORKERS", "3"},
        {"PYTHONUNBUFFERED", "1"},
        {"JAX_COORDINATOR_ADDRESS", "10.0.0.1:4001"},
        {"JAX_NUM_PROCESSES", "3"},
        {"JAX_PROCESS_ID", "1"},
        {"KERAS_DISTRIBUTION_JOB_ADDRESSES", "10.0.0.1:4001"},
        {"KERAS_DISTRIBUTION_NUM_PROCESSES", "3"},
        {"KERAS_DISTRIBUTION_PROCESS_ID", "1"},
        {"MASTER_ADDR", "10.0.0.1"},
        {"MASTER_PORT", "4001"},
    };
    const char *const base[] = {NULL};
    struct seat seat;
    seat_of(&seat, 1);
    seat.place.socket = "/tmp/agent";
    seat.place.preempt_file = "/tmp/preempt";
    seat.place.tmp_dir = "/tmp/own";
    char **env;
    assert_int_equal(environment_new(base, &seat.place, &env), 0);
    size_t n = 0;
    for (; n < sizeof wanted / sizeof wanted[0]; n++) {
        const char *value = value_of(env, wanted[n][0]);
        assert_non_null(value);
        assert_string_equal(value, wanted[n][1]);
    }
    assert_null(env[n]); /* no other variable */
    environment_free(env);
}

TEST(environment, options_and_above_all_tokens_stay_with_the_agent)
{
    const char *const base[] = {"TFE_TOKEN=tfe1_secret",
                                "TFE_TOKEN_FILE=/secret",
                                "TFE_NNODES=1:4",
                                "TFE_RDZV_ENDPOINT=secret:1",
                                "TFE_MAX_RESTARTS=3",
                                "TFE_STATE_DIR=/secret",
                                "TFE_SOMETHING_NEW=secret",
                                "TFE_RANK=99",
                                "TFE_EPOCH=98",
                                "TF_CONFIG={\"secret\":1}",
                                "RANK=97",
                                "WORLD_SIZE=96",
                                "LOCAL_RANK=95",
                                "NUM_WORKERS=94",
                                "LOCAL_WORLD_SIZE=93",
                                "TF_GRPC_REUSE_PORT=false",
                                NULL};
    struct seat seat;
    seat_of(&seat, 0);
    char **env;
    assert_int_equal(environment_new(base, &seat.place, &env), 0);
    for (char **at = env; *at; at++) {
        assert_null(strstr(*at, "secret"));
        assert_null(strstr(*at, "=9"));
    }
    assert_null(value_of(env, "TFE_NNODES"));
    assert_null(value_of(env, "TFE_MAX_RESTARTS"));
    assert_null(value_of(env, "TFE_SOCKET")); /* without a script channel */
    assert_string_equal(value_of(env, "RANK"), "0");
    assert_string_equal(value_of(env, "TF_GRPC_REUSE_PORT"), "true");
    environment_free(env);
}

TEST(environment, what_is_set_for_trainers_takes_the_place_of_the_agents_own)
{
    const char *const base[] = {"LD_PRELOAD=agents.so",
                                "TFE_SET_LD_PRELOAD=jobs.so",
                                "A=agents",
                                "AB=kept",
                                "TFE_SET_A=",
                                "TFE_SET_RANK=99",
                                "TFE_SET_TFE_TOKEN=x",
                                "TFE_SET_PYTHONUNBUFFERED=0",
                                "TFE_SET_=x",
                                NULL};
    struct seat seat;
    seat_of(&seat, 0);
    char **env;
    assert_int_equal(environment_new(base, &seat.place, &env), 0);
    assert_string_equal(value_of(env, "LD_PRELOAD"), "jobs.so");
    assert_string_equal(value_of(env, "A"), "");
    assert_string_equal(value_of(env, "AB"), "kept");
    assert_string_equal(value_of(env, "RANK"), "0");
    assert_string_equal(value_of(env, "PYTHONUNBUFFERED"), "0");
    assert_null(value_of(env, "TFE_TOKEN"));
    assert_null(value_of(env, "TFE_SET_A"));
    environment_free(env);
}

TEST(environment, coordinates_that_the_user_has_set_win_over_the_agents)
{
    const char *const base[] = {"MASTER_PORT=29500", "TFE_SET_JAX_COORDINATOR_ADDRESS=c:1",
                                "JAX_COORDINATOR_ADDRESS=d:2", "JAX_PROCESS_IDS=x", NULL};
    struct seat seat;
    seat_of(&seat, 1);
    char **env;
    assert_int_equal(environment_new(base, &seat.place, &env), 0);
    assert_string_equal(value_of(env, "MASTER_PORT"), "29500");
    assert_string_equal(value_of(env, "MASTER_ADDR"), "10.0.0.1");
    assert_string_equal(value_of(env, "JAX_COORDINATOR_ADDRESS"), "c:1");
    assert_string_equal(value_of(env, "JAX_PROCESS_ID"), "1");
    assert_string_equal(value_of(env, "KERAS_DISTRIBUTION_JOB_ADDRESSES"), "10.0.0.1:4001");
    environment_free(env);
}

TEST(environment, coordinates_of_an_outer_job_are_replaced)
{
    const char *const base[] = {"TFE_EPOCH=7", "MASTER_PORT=29500", "JAX_PROCESS_ID=9",
                                "TFE_SET_MASTER_ADDR=mine", NULL};
    struct seat seat;
    seat_of(&seat, 1);
    char **env;
    assert_int_equal(environment_new(base, &seat.place, &env), 0);
    assert_string_equal(value_of(env, "MASTER_PORT"), "4001");
    assert_string_equal(value_of(env, "MASTER_ADDR"), "mine");
    assert_string_equal(value_of(env, "JAX_PROCESS_ID"), "1");
    environment_free(env);
}

TEST(environment, an_evaluator_coordinates_itself_and_ipv6_has_no_brackets_in_master_addr)
{
    static const struct msg_row worker = {.rank = 0, .host = "w", .port = 1};
    const char *const base[] = {NULL};
    const struct agent_place node = {
        .epoch = 1,
        .run = 1,
        .rank = 1,
        .n = 1,
        .has_roles = true,
        .rows = &worker,
        .n_rows = 1,
        .own = {.rank = 1, .host = "fd00::3", .port = 5, .role = TASK_EVALUATOR, .first = 1}};
    const struct trainer_place place = {.node = &node, .nproc = 1, .job = "j", .node_id = "n"};
    char **env;
    assert_int_equal(environment_new(base, &place, &env), 0);
    assert_string_equal(value_of(env, "JAX_COORDINATOR_ADDRESS"), "[fd00::3]:5");
    assert_string_equal(value_of(env, "JAX_NUM_PROCESSES"), "1");
    assert_string_equal(value_of(env, "JAX_PROCESS_ID"), "0");
    assert_string_equal(value_of(env, "MASTER_ADDR"), "fd00::3");
    environment_free(env);
}

TEST(environment, everything_else_stays_as_it_was)
{
    const char *const base[] = {
        "PATH=/usr/bin:/bin", "HOME=/root", "TF_CPP_MIN_LOG_LEVEL=2", "RANKING=x", "TFE=3",
        "PYTHONUNBUFFERED=",  "EMPTY=",     "no equals sign",         "A=b=c",     NULL};
    struct seat seat;
    seat_of(&seat, 0);
    char **env;
    assert_int_equal(environment_new(base, &seat.place, &env), 0);
    for (size_t i = 0; base[i]; i++) {
        assert_string_equal(env[i], base[i]);
    }
    assert_string_equal(value_of(env, "PYTHONUNBUFFERED"), "");
    environment_free(env);
    environment_free(NULL);
}

TEST(environment, a_cluster_of_one_has_a_tf_config_too)
{
    const char *const base[] = {NULL};
    struct seat seat;
    seat_of(&seat, 0);
    seat.node.n_rows = 1;
    char **env;
    assert_int_equal(environment_new(base, &seat.place, &env), 0);
    assert_string_equal(value_of(env, "TF_CONFIG"), "{\"cluster\":{\"worker\":[\"10.0.0.1:4001\"]},"
                                                    "\"task\":{\"type\":\"worker\",\"index\":0}}");
    environment_free(env);
}

/* The same as Kubeflow's training operator sets for this cluster. */
TEST(environment, where_kubeflows_habits_count_tf_config_follows_them)
{
    static const struct msg_row places[] = {
        {.rank = 0, .host = "c", .port = 1, .role = TASK_CHIEF},
        {.rank = 1, .host = "p", .port = 2, .role = TASK_PS, .first = 1},
        {.rank = 2, .host = "w", .port = 3, .role = TASK_WORKER, .first = 2},
        {.rank = 3, .host = "w", .port = 4, .role = TASK_WORKER, .first = 2},
        {.rank = 4, .host = "e", .port = 5, .role = TASK_EVALUATOR, .first = 4},
    };
    static const char kubeflow[] = "TFE_ENVIRONMENT=kubeflow";
    static const char master[] = "TFE_ENVIRONMENT=kubeflow-master";
    static const char chief[] = "TFE_ENVIRONMENT=kubeflow-chief";
    static const char alone[] = "TFE_ENVIRONMENT=kubeflow-alone";
#define CLUSTER "\"ps\":[\"p:2\"],\"worker\":[\"w:3\",\"w:4\"]}"
    static const struct {
        const char *habit;
        uint32_t rank;
        const char *wanted;
    } configs[] = {
        {kubeflow, 3,
         "{\"cluster\":{\"chief\":[\"c:1\"]," CLUSTER ",\"task\":{\"type\":\"worker\",\"index\":1},"
         "\"environment\":\"cloud\"}"},
        {master, 0,
         "{\"cluster\":{\"master\":[\"c:1\"]," CLUSTER
         ",\"task\":{\"type\":\"master\",\"index\":0},"
         "\"environment\":\"cloud\"}"},
        {kubeflow, 4,
         "{\"cluster\":{\"chief\":[\"c:1\"]," CLUSTER
         ",\"task\":{\"type\":\"evaluator\",\"index\":0},\"environment\":\"cloud\"}"},
        {"TFE_ENVIRONMENT=tfe", 4,
         "{\"cluster\":{\"evaluator\":[\"e:5\"]},\"task\":{\"type\":\"evaluator\",\"index\":0}}"},
        {chief, 3,
         "{\"cluster\":{\"chief\":[\"c:1\"]," CLUSTER ",\"task\":{\"type\":\"worker\",\"index\":1},"
         "\"environment\":\"cloud\"}"},
        {alone, 3, NULL},
    };
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        const char *const base[] = {configs[i].habit, NULL};
        struct agent_place node = {.epoch = 1,
                                   .run = 1,
                                   .rank = configs[i].rank,
                                   .n = 1,
                                   .has_roles = true,
                                   .rows = places,
                                   .n_rows = 4,
                                   .own = places[configs[i].rank]};
        struct trainer_place place = {.node = &node, .nproc = 1, .job = "j", .node_id = "n"};
        char **env;
        assert_int_equal(environment_new(base, &place, &env), 0);
        const char *config = value_of(env, "TF_CONFIG");
        if (configs[i].wanted) {
            assert_non_null(config);
            assert_string_equal(config, configs[i].wanted);
        } else {
            assert_null(config);
        }
        assert_null(value_of(env, "TFE_ENVIRONMENT"));
        environment_free(env);
    }
}

TEST(environment, only_worker_is_called_chief_or_master_and_keys_are_sorted)
{
    static const struct msg_row places[] = {
        {.rank = 0, .host = "w", .port = 1, .role = TASK_WORKER},
        {.rank = 1, .host = "p", .port = 2, .role = TASK_PS, .first = 1},
    };
    static const struct {
        const char *habit, *wanted;
        uint32_t rank;
    } configs[] = {
        {"TFE_ENVIRONMENT=kubeflow-chief",
         "{\"cluster\":{\"chief\":[\"w:1\"],\"ps\":[\"p:2\"]},"
         "\"task\":{\"type\":\"chief\",\"index\":0},\"environment\":\"cloud\"}",
         0},
        {"TFE_ENVIRONMENT=kubeflow-master",
         "{\"cluster\":{\"master\":[\"w:1\"],\"ps\":[\"p:2\"]},"
         "\"task\":{\"type\":\"ps\",\"index\":0},\"environment\":\"cloud\"}",
         1},
        {"TFE_ENVIRONMENT=kubeflow",
         "{\"cluster\":{\"ps\":[\"p:2\"],\"worker\":[\"w:1\"]},"
         "\"task\":{\"type\":\"worker\",\"index\":0},\"environment\":\"cloud\"}",
         0},
        {"A=b",
         "{\"cluster\":{\"ps\":[\"p:2\"],\"worker\":[\"w:1\"]},"
         "\"task\":{\"type\":\"worker\",\"index\":0}}",
         0},
    };
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        const char *const base[] = {configs[i].habit, NULL};
        const struct agent_place node = {.epoch = 1,
                                         .run = 1,
                                         .rank = configs[i].rank,
                                         .n = 1,
                                         .has_roles = true,
                                         .rows = places,
                                         .n_rows = 2,
                                         .own = places[configs[i].rank]};
        const struct trainer_place place = {.node = &node, .nproc = 1, .job = "j", .node_id = "n"};
        char **env;
        assert_int_equal(environment_new(base, &place, &env), 0);
        assert_string_equal(value_of(env, "TF_CONFIG"), configs[i].wanted);
        assert_string_equal(value_of(env, "TFE_CLUSTER"),
                            "{\"ps\":[\"p:2\"],\"worker\":[\"w:1\"]}");
        environment_free(env);
    }
}

TEST(environment, thousands_of_members_fit)
{
    enum { MANY = 6000 };
    const char *const base[] = {NULL};
    struct msg_row *many = calloc(MANY, sizeof *many);
    for (uint32_t i = 0; i < MANY; i++) {
        many[i] = (struct msg_row){.rank = i, .host = "10.11.12.13", .port = 40000};
    }
    struct seat seat;
    seat_of(&seat, MANY - 1);
    seat.node.rows = many;
    seat.node.n_rows = MANY;
    char **env;
    assert_int_equal(environment_new(base, &seat.place, &env), 0);
    const char *text = value_of(env, "TF_CONFIG");
    size_t colons = 0;
    for (const char *at = text; (at = strstr(at, ":40000")); at++) {
        colons++;
    }
    assert_int_equal(colons, MANY);
    assert_string_equal(text + strlen(text) - strlen("\"index\":5999}}"), "\"index\":5999}}");
    environment_free(env);
    free(many);
}
