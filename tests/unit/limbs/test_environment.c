/* tests/unit/limbs/test_environment.c: what a trainer finds, and what it never finds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/trainers/environment.h"
#include "tests/unit/story.h"

static const struct option_spec specs[] = {
    {.name = "nnodes", .kind = OPTION_TEXT, .argument = "MIN:MAX"},
    {.name = "rdzv-endpoint", .kind = OPTION_TEXT, .argument = "HOST:PORT"},
    {.name = "token", .kind = OPTION_TEXT, .argument = "TOKEN"},
    {.name = "token-file", .kind = OPTION_TEXT, .argument = "PATH"},
    {.name = "max-restarts", .kind = OPTION_NUMBER, .argument = "N"},
};
static const struct option_table table = {
    .program = "tfe-agent", .specs = specs, .n = sizeof specs / sizeof specs[0]};

static const struct msg_row rows[] = {
    {.rank = 0, .host = "10.0.0.1", .port = 4001},
    {.rank = 1, .host = "worker-b.example", .port = 4002},
    {.rank = 2, .host = "fd00::3", .port = 65535},
};

static struct trainer_place place_of(uint32_t rank)
{
    return (struct trainer_place){.job = "mnist",
                                  .node = "n-1",
                                  .run = 2,
                                  .epoch = 7000000000,
                                  .rank = rank,
                                  .local_rank = 1,
                                  .restarts = 4,
                                  .rows = rows,
                                  .n_rows = 3,
                                  .nproc = 2};
}

/* The value, or NULL; fails if there are two. */
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
    NO_FIXTURE;
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
        {"TFE_SOCKET", "/tmp/agent"},
        {"TFE_PREEMPT_FILE", "/tmp/preempt"},
        {"RANK", "1"},
        {"LOCAL_RANK", "1"},
        {"WORLD_SIZE", "3"},
        {"LOCAL_WORLD_SIZE", "2"},
        {"NUM_WORKERS", "3"},
        {"PYTHONUNBUFFERED", "1"},
    };
    const char *const base[] = {NULL};
    struct trainer_place place = place_of(1);
    place.socket = "/tmp/agent";
    place.preempt_file = "/tmp/preempt";
    char **env;
    assert_int_equal(environment_new(base, &table, &place, &env), 0);
    size_t n = 0;
    for (; n < sizeof wanted / sizeof wanted[0]; n++) {
        const char *value = value_of(env, wanted[n][0]);
        assert_non_null(value);
        assert_string_equal(value, wanted[n][1]);
    }
    assert_null(env[n]); /* and nothing else */
    environment_free(env);
}

TEST(environment, options_and_above_all_tokens_stay_with_the_agent)
{
    NO_FIXTURE;
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
    struct trainer_place place = place_of(0);
    char **env;
    assert_int_equal(environment_new(base, &table, &place, &env), 0);
    for (char **at = env; *at; at++) {
        assert_null(strstr(*at, "secret"));
        assert_null(strstr(*at, "=9"));
    }
    assert_null(value_of(env, "TFE_NNODES"));
    assert_null(value_of(env, "TFE_MAX_RESTARTS"));
    assert_null(value_of(env, "TFE_SOCKET")); /* there is no channel */
    assert_string_equal(value_of(env, "RANK"), "0");
    assert_string_equal(value_of(env, "TF_GRPC_REUSE_PORT"), "true");
    environment_free(env);
}

TEST(environment, everything_else_stays_as_it_was)
{
    NO_FIXTURE;
    const char *const base[] = {
        "PATH=/usr/bin:/bin", "HOME=/root", "TF_CPP_MIN_LOG_LEVEL=2", "RANKING=x", "TFE=3",
        "PYTHONUNBUFFERED=",  "EMPTY=",     "no equals sign",         "A=b=c",     NULL};
    struct trainer_place place = place_of(0);
    char **env;
    assert_int_equal(environment_new(base, &table, &place, &env), 0);
    for (size_t i = 0; base[i]; i++) {
        assert_string_equal(env[i], base[i]);
    }
    assert_string_equal(value_of(env, "PYTHONUNBUFFERED"), "");
    environment_free(env);
    environment_free(NULL);
}

TEST(environment, a_cluster_of_one_has_a_tf_config_too)
{
    NO_FIXTURE;
    const char *const base[] = {NULL};
    struct trainer_place place = place_of(0);
    place.n_rows = 1;
    char **env;
    assert_int_equal(environment_new(base, &table, &place, &env), 0);
    assert_string_equal(value_of(env, "TF_CONFIG"), "{\"cluster\":{\"worker\":[\"10.0.0.1:4001\"]},"
                                                    "\"task\":{\"type\":\"worker\",\"index\":0}}");
    environment_free(env);
}

TEST(environment, thousands_of_members_fit)
{
    NO_FIXTURE;
    enum { MANY = 6000 };
    const char *const base[] = {NULL};
    struct msg_row *many = calloc(MANY, sizeof *many);
    for (uint32_t i = 0; i < MANY; i++) {
        many[i] = (struct msg_row){.rank = i, .host = "10.11.12.13", .port = 40000};
    }
    struct trainer_place place = place_of(MANY - 1);
    place.rows = many;
    place.n_rows = MANY;
    char **env;
    assert_int_equal(environment_new(base, &table, &place, &env), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(environment, a_trainer_finds_its_place),
        STORY(environment, options_and_above_all_tokens_stay_with_the_agent),
        STORY(environment, everything_else_stays_as_it_was),
        STORY(environment, a_cluster_of_one_has_a_tf_config_too),
        STORY(environment, thousands_of_members_fit),
    };
    return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}
