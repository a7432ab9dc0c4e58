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

TEST(environment, trainer_gets_its_rank_and_cluster)
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

#define NONE "(none)"

TEST(environment, only_rank_0_knows_where_artifacts_go)
{
    const struct artifacts_settings artifacts = {"s3://b/m", "copy", 1500};
    const char *const base[] = {"TFE_ARTIFACTS=s3://secret", NULL};
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct seat seat;
        char **env;
        seat_of(&seat, rank);
        seat.place.artifacts = &artifacts;
        seat.place.artifacts_dir = "/tmp/a";
        assert_int_equal(environment_new(base, &seat.place, &env), 0);
        assert_string_equal(value_of(env, "TFE_ARTIFACTS"), "/tmp/a");
        assert_int_equal(value_of(env, "TFE_ARTIFACTS_URI") != NULL, rank == 0);
        assert_int_equal(value_of(env, "TFE_ARTIFACTS_COMMAND") != NULL, rank == 0);
        assert_int_equal(value_of(env, "TFE_ARTIFACTS_TIMEOUT_MS") != NULL, rank == 0);
        environment_free(env);
    }
}

TEST(environment, options_are_removed_and_user_variables_are_passed)
{
    static const struct {
        const char *base[18];
        const char *wanted[8][2]; /* a name and its value, or NONE */
        uint32_t rank;
    } rows_of[] = {
        /* options, above all tokens, stay with the agent, and so does the place of an outer job */
        {{"TFE_TOKEN=tfe1_secret", "TFE_TOKEN_FILE=/secret", "TFE_NNODES=1:4",
          "TFE_RDZV_ENDPOINT=secret:1", "TFE_MAX_RESTARTS=3", "TFE_STATE_DIR=/secret",
          "TFE_SOMETHING_NEW=secret", "TFE_RANK=99", "TFE_EPOCH=98", "TF_CONFIG={\"secret\":1}",
          "RANK=97", "WORLD_SIZE=96", "LOCAL_RANK=95", "NUM_WORKERS=94", "LOCAL_WORLD_SIZE=93",
          "TF_GRPC_REUSE_PORT=false"},
         {{"TFE_NNODES", NONE},
          {"TFE_MAX_RESTARTS", NONE},
          {"TFE_SOCKET", NONE}, /* without a script channel */
          {"RANK", "0"},
          {"TF_GRPC_REUSE_PORT", "true"}},
         0},
        /* what is set for trainers takes the place of the agent's own */
        {{"LD_PRELOAD=agents.so", "TFE_SET_LD_PRELOAD=jobs.so", "A=agents", "AB=kept", "TFE_SET_A=",
          "TFE_SET_RANK=99", "TFE_SET_TFE_TOKEN=x", "TFE_SET_PYTHONUNBUFFERED=0", "TFE_SET_=x"},
         {{"LD_PRELOAD", "jobs.so"},
          {"A", ""},
          {"AB", "kept"},
          {"RANK", "0"},
          {"PYTHONUNBUFFERED", "0"},
          {"TFE_TOKEN", NONE},
          {"TFE_SET_A", NONE}},
         0},
        /* coordinates that the user has set are used instead of the agent's */
        {{"MASTER_PORT=29500", "TFE_SET_JAX_COORDINATOR_ADDRESS=c:1", "JAX_COORDINATOR_ADDRESS=d:2",
          "JAX_PROCESS_IDS=x"},
         {{"MASTER_PORT", "29500"},
          {"MASTER_ADDR", "10.0.0.1"},
          {"JAX_COORDINATOR_ADDRESS", "c:1"},
          {"JAX_PROCESS_ID", "1"},
          {"KERAS_DISTRIBUTION_JOB_ADDRESSES", "10.0.0.1:4001"}},
         1},
        /* ... but not those of an outer job */
        {{"TFE_EPOCH=7", "MASTER_PORT=29500", "JAX_PROCESS_ID=9", "TFE_SET_MASTER_ADDR=mine"},
         {{"MASTER_PORT", "4001"}, {"MASTER_ADDR", "mine"}, {"JAX_PROCESS_ID", "1"}},
         1},
    };
    for (size_t i = 0; i < sizeof rows_of / sizeof rows_of[0]; i++) {
        struct seat seat;
        char **env;
        seat_of(&seat, rows_of[i].rank);
        assert_int_equal(environment_new(rows_of[i].base, &seat.place, &env), 0);
        for (size_t k = 0; rows_of[i].wanted[k][0]; k++) {
            const char *value = value_of(env, rows_of[i].wanted[k][0]);
            assert_string_equal(value ? value : NONE, rows_of[i].wanted[k][1]);
        }
        for (char **at = env; *at; at++) {
            assert_null(strstr(*at, "secret"));
            assert_null(strstr(*at, "=9"));
        }
        environment_free(env);
    }
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

TEST(environment, other_variables_are_unchanged)
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

TEST(environment, cluster_of_one_has_a_tf_config)
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

/* Kubeflow's training operator sets the same for these clusters. Only the first worker is called
 * chief or master, and keys are sorted. */
TEST(environment, tf_config_and_cluster_follow_the_chosen_environment)
{
    static const struct msg_row five[] = {
        {.rank = 0, .host = "c", .port = 1, .role = TASK_CHIEF},
        {.rank = 1, .host = "p", .port = 2, .role = TASK_PS, .first = 1},
        {.rank = 2, .host = "w", .port = 3, .role = TASK_WORKER, .first = 2},
        {.rank = 3, .host = "w", .port = 4, .role = TASK_WORKER, .first = 2},
        {.rank = 4, .host = "e", .port = 5, .role = TASK_EVALUATOR, .first = 4},
    };
    static const struct msg_row two[] = {
        {.rank = 0, .host = "w", .port = 1, .role = TASK_WORKER},
        {.rank = 1, .host = "p", .port = 2, .role = TASK_PS, .first = 1},
    };
#define CONFIG(first, rest, type, index, more)                                                     \
    "{\"cluster\":{" first rest "},\"task\":{\"type\":\"" type "\",\"index\":" index "}" more "}"
#define CLOUD ",\"environment\":\"cloud\""
#define REST "\"ps\":[\"p:2\"],\"worker\":[\"w:3\",\"w:4\"]"
#define PS ",\"ps\":[\"p:2\"]"
#define TWO "\"ps\":[\"p:2\"],\"worker\":[\"w:1\"]"
    static const struct {
        const char *habit;
        const struct msg_row *members;
        uint32_t rank;
        const char *wanted;
    } configs[] = {
        {"kubeflow", five, 3, CONFIG("\"chief\":[\"c:1\"],", REST, "worker", "1", CLOUD)},
        {"kubeflow-master", five, 0, CONFIG("\"master\":[\"c:1\"],", REST, "master", "0", CLOUD)},
        {"kubeflow", five, 4, CONFIG("\"chief\":[\"c:1\"],", REST, "evaluator", "0", CLOUD)},
        {"tfe", five, 4, CONFIG("\"evaluator\":[\"e:5\"]", "", "evaluator", "0", "")},
        {"kubeflow-chief", five, 3, CONFIG("\"chief\":[\"c:1\"],", REST, "worker", "1", CLOUD)},
        {"kubeflow-alone", five, 3, NULL},
        {"kubeflow-chief", two, 0, CONFIG("\"chief\":[\"w:1\"]", PS, "chief", "0", CLOUD)},
        {"kubeflow-master", two, 1, CONFIG("\"master\":[\"w:1\"]", PS, "ps", "0", CLOUD)},
        {"kubeflow", two, 0, CONFIG(TWO, "", "worker", "0", CLOUD)},
        {NULL, two, 0, CONFIG(TWO, "", "worker", "0", "")},
    };
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        char habit[64];
        (void)snprintf(habit, sizeof habit, "TFE_ENVIRONMENT=%s", configs[i].habit);
        const char *const base[] = {configs[i].habit ? habit : NULL, NULL};
        const struct agent_place node = {.epoch = 1,
                                         .run = 1,
                                         .rank = configs[i].rank,
                                         .n = 1,
                                         .has_roles = true,
                                         .rows = configs[i].members,
                                         .n_rows = configs[i].members == five ? 4 : 2,
                                         .own = configs[i].members[configs[i].rank]};
        const struct trainer_place place = {.node = &node, .nproc = 1, .job = "j", .node_id = "n"};
        char **env;
        assert_int_equal(environment_new(base, &place, &env), 0);
        const char *config = value_of(env, "TF_CONFIG");
        assert_string_equal(config ? config : NONE, configs[i].wanted ? configs[i].wanted : NONE);
        assert_null(value_of(env, "TFE_ENVIRONMENT"));
        if (configs[i].members == two) {
            assert_string_equal(value_of(env, "TFE_CLUSTER"), "{" TWO "}");
        }
        environment_free(env);
    }
}

TEST(environment, cluster_of_thousands_fits)
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
