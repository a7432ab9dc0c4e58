/* tests/unit/credentials/test_join.c: sources of endpoint and token, in the order of design 9. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/credentials/join.h"
#include "common/credentials/state_dir.h"
#include "tests/unit/test_runner.h"

/* The secret that must be wiped everywhere except in the option (--wrap=explicit_bzero, under
 * either name that the compiler uses). */
static const char *secret, *option;
static unsigned wiped;

static void look_at_wiped(const char *bytes, size_t n)
{
    wiped += secret && bytes != option && memmem(bytes, n, secret, strlen(secret));
}

void __real_explicit_bzero(void *bytes, size_t n);
void __wrap_explicit_bzero(void *bytes, size_t n);
void __wrap_explicit_bzero(void *bytes, size_t n)
{
    look_at_wiped(bytes, n);
    __real_explicit_bzero(bytes, n);
}

void __real___explicit_bzero_chk(void *bytes, size_t n, size_t room);
void __wrap___explicit_bzero_chk(void *bytes, size_t n, size_t room);
void __wrap___explicit_bzero_chk(void *bytes, size_t n, size_t room)
{
    look_at_wiped(bytes, n);
    __real___explicit_bzero_chk(bytes, n, room);
}

static char directory[64];

static const char *path_of(const char *name)
{
    static char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static const char *const files[] = {
    "agent.token", "observer.token", "admin.token", "endpoint", "f1", "f2"};
static const char *const variables[] = {"TFE_TOKEN", "TFE_TOKEN_FILE", "TFE_STATE_DIR"};

static int make_directory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        (void)unsetenv(variables[i]);
    }
    strcpy(directory, "/tmp/tfe-join-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        (void)unlink(path_of(files[i]));
    }
    return rmdir(directory);
}

/* Returns a token that is recognisable by its server key, all bytes of which are `mark`. */
static const char *token_text(enum principal_role role, uint8_t mark, struct tfe_wall expires)
{
    static char text[TOKEN_TEXT_MAX];
    uint8_t root[TOKEN_ROOT_BYTES] = {1};
    uint8_t key[TOKEN_PUBLIC_KEY_BYTES];
    memset(key, mark, sizeof key);
    struct token token;
    token_mint(&token, &(struct token_config){.role = role, .expires = expires}, root, key);
    token_format(&token, text);
    return text;
}

static const char *agent_token(uint8_t mark)
{
    return token_text(PRINCIPAL_AGENT, mark, (struct tfe_wall){0});
}

static void put(const char *name, const char *text)
{
    struct tfe_reason reason;
    char line[512];
    const int n = snprintf(line, sizeof line, "%s\n", text);
    assert_int_equal(state_dir_write(path_of(name), line, (size_t)n, &reason), 0);
}

static struct join_config agent_config(void)
{
    return (struct join_config){.state_dir = directory, .roles = {PRINCIPAL_AGENT}, .n_roles = 1};
}

/* Finds a token and returns its mark. */
static uint8_t found_mark(const struct join_config *config)
{
    struct join_info info;
    struct tfe_reason reason;
    const int rc = join_find(config, &info, &reason);
    if (rc) {
        fail_msg("%s", reason.text);
    }
    const uint8_t mark = info.token->server_public_key[0];
    join_done(&info);
    return mark;
}

static int refusal(const struct join_config *config, struct tfe_reason *reason)
{
    struct join_info info;
    return join_find(config, &info, reason);
}

#define FIXTURE make_directory, remove_directory

TEST_IN(join, each_place_for_a_token_stands_before_the_next)
{
    struct join_config config = agent_config();
    char given[TOKEN_TEXT_MAX];
    char file[PATH_MAX];
    put("agent.token", agent_token(5));
    assert_int_equal(found_mark(&config), 5);
    put("f2", agent_token(4));
    assert_int_equal(setenv("TFE_TOKEN_FILE", path_of("f2"), 1), 0);
    assert_int_equal(found_mark(&config), 4);
    assert_int_equal(setenv("TFE_TOKEN", agent_token(3), 1), 0);
    assert_int_equal(found_mark(&config), 3);
    put("f1", agent_token(2));
    assert_int_equal(setenv("TFE_TOKEN", agent_token(3), 1), 0);
    config.token_file = strcpy(file, path_of("f1"));
    assert_int_equal(found_mark(&config), 2);
    assert_int_equal(setenv("TFE_TOKEN", agent_token(3), 1), 0);
    config.token = strcpy(given, agent_token(1));
    assert_int_equal(found_mark(&config), 1);
}

/* Regression: training scripts and their children inherited TFE_TOKEN, and "ps e" showed it. */
TEST_IN(join, a_token_is_left_neither_on_the_command_line_nor_in_the_environment)
{
    struct join_config config = agent_config();
    char given[TOKEN_TEXT_MAX];
    assert_int_equal(setenv("TFE_TOKEN", agent_token(3), 1), 0);
    const char *in_environment = getenv("TFE_TOKEN");
    config.token = strcpy(given, agent_token(1));
    assert_int_equal(found_mark(&config), 1);
    assert_null(getenv("TFE_TOKEN"));
    assert_string_equal(in_environment, "");
    for (size_t i = 0; i < sizeof given; i++) {
        assert_true(!strchr("tfe1agn", given[i]) || given[i] == '\0');
    }
}

TEST_IN(join, a_tokens_text_is_wiped_from_memory)
{
    struct join_config config = agent_config();
    char given[TOKEN_TEXT_MAX];
    config.token = strcpy(given, agent_token(1));
    option = given;
    secret = strdup(given);
    wiped = 0;
    assert_int_equal(found_mark(&config), 1);
    assert_int_equal(wiped, 1);
    free((void *)(uintptr_t)secret);
    secret = NULL;
}

TEST_IN(join, a_file_that_others_may_read_is_refused)
{
    static const struct {
        mode_t mode;
        uid_t owner;
        const char *sentence; /* error message, or NULL if the file is accepted */
    } cases[] = {
        {0600, 0, NULL},
        {0440, 0, NULL}, /* owned by root and readable by a service's group */
        {0460, 0, "other users can read or change %s (chmod 600 it)"},
        {0604, 0, "other users can read or change %s (chmod 600 it)"},
        {0644, 0,
         "other users can read or change %s (chmod 600 it); mount a secret with mode 0400 "
         "(Kubernetes: defaultMode, Swarm: mode)"},
        {0444, 0,
         "other users can read or change %s (chmod 600 it); mount a secret with mode 0400 "
         "(Kubernetes: defaultMode, Swarm: mode)"},
        {0444, 12345, "%s belongs to another user with uid 12345 (chown it to uid 0)"},
        {0600, 12345, "%s belongs to another user with uid 12345 (chown it to uid 0)"},
    };
    struct join_config config = agent_config();
    if (geteuid() != 0) {
        SKIP("only root gives files away, and is not refused by an owner");
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tfe_reason reason;
        struct tfe_reason said;
        char path[PATH_MAX];
        put("f1", agent_token(2));
        config.token_file = strcpy(path, path_of("f1"));
        assert_int_equal(chmod(path, cases[i].mode), 0);
        assert_int_equal(chown(path, cases[i].owner, cases[i].owner), 0);
        if (!cases[i].sentence) {
            assert_int_equal(found_mark(&config), 2);
            continue;
        }
        assert_int_equal(refusal(&config, &reason), TFE_EAUTH);
        const char *percent = strstr(cases[i].sentence, "%s");
        reason_set(&said, "token from --token-file: %.*s%s%s", (int)(percent - cases[i].sentence),
                   cases[i].sentence, path, percent + 2);
        assert_string_equal(reason.text, said.text);
    }
}

TEST_IN(join, an_option_that_was_filled_from_the_environment_ranks_as_environment)
{
    /* The option table reads TFE_TOKEN into the same field as --token; if it counted as --token it
     * would take precedence over --token-file. */
    struct join_config config = agent_config();
    char file[PATH_MAX];
    put("f1", agent_token(2));
    assert_int_equal(setenv("TFE_TOKEN", agent_token(3), 1), 0);
    config.token = getenv("TFE_TOKEN");
    config.token_file = strcpy(file, path_of("f1"));
    assert_int_equal(found_mark(&config), 2);
    assert_int_equal(setenv("TFE_TOKEN", agent_token(3), 1), 0);
    config.token = getenv("TFE_TOKEN");
    /* Likewise $TFE_TOKEN_FILE does not take precedence over $TFE_TOKEN. */
    assert_int_equal(setenv("TFE_TOKEN_FILE", file, 1), 0);
    config.token_file = getenv("TFE_TOKEN_FILE");
    assert_int_equal(found_mark(&config), 3);
}

TEST_IN(join, empty_means_not_given)
{
    struct join_config config = agent_config();
    put("agent.token", agent_token(5));
    config.token = (char[]){""};
    config.token_file = "";
    config.endpoint = "";
    assert_int_equal(setenv("TFE_TOKEN", "", 1), 0);
    assert_int_equal(setenv("TFE_TOKEN_FILE", "", 1), 0);
    assert_int_equal(found_mark(&config), 5);
}

TEST_IN(join, the_best_role_in_the_state_directory_is_taken)
{
    struct join_config config = agent_config();
    config.roles[0] = PRINCIPAL_ADMIN;
    config.roles[1] = PRINCIPAL_OBSERVER;
    config.n_roles = 2;
    put("agent.token", agent_token(1));
    put("observer.token", token_text(PRINCIPAL_OBSERVER, 2, (struct tfe_wall){0}));
    assert_int_equal(found_mark(&config), 2);
    put("admin.token", token_text(PRINCIPAL_ADMIN, 3, (struct tfe_wall){0}));
    assert_int_equal(found_mark(&config), 3);
}

TEST_IN(join, a_missing_token_says_where_it_looked_and_how_to_get_one)
{
    struct join_config config = agent_config();
    struct tfe_reason reason;
    char want[PATH_MAX];
    assert_int_equal(refusal(&config, &reason), TFE_EAUTH);
    (void)snprintf(
        want, sizeof want,
        "no token in --token, --token-file, TFE_TOKEN, TFE_TOKEN_FILE, and no agent.token in "
        "%s (copy that file from the server's machine, where tfe-rdzv prints its path at "
        "startup, and pass it with --token-file)",
        directory);
    assert_string_equal(reason.text, want);
    config.roles[1] = PRINCIPAL_ADMIN;
    config.n_roles = 2;
    assert_int_equal(refusal(&config, &reason), TFE_EAUTH);
    assert_non_null(strstr(reason.text, "no agent.token or admin.token in "));
}

TEST_IN(join, a_place_that_was_named_and_is_bad_is_not_passed_over)
{
    char given[TOKEN_TEXT_MAX];
    struct join_config config = agent_config();
    struct tfe_reason reason;
    put("agent.token", agent_token(5));
    config.token_file = "/nonexistent/token";
    assert_int_equal(refusal(&config, &reason), TFE_EAUTH);
    assert_string_equal(reason.text,
                        "token from --token-file: open /nonexistent/token: no such file or "
                        "directory");
    config.token = strcpy(given, "tfe1_agent_nonsense");
    assert_int_equal(refusal(&config, &reason), TFE_EAUTH);
    assert_non_null(strstr(reason.text, "invalid token in --token"));
    assert_null(strstr(reason.text, "nonsense"));
    static char huge[4096];
    memset(huge, 'a', sizeof huge - 1);
    config.token = huge;
    assert_int_equal(refusal(&config, &reason), TFE_EAUTH);
}

TEST_IN(join, the_wrong_role_and_an_expired_token_are_told)
{
    struct join_config config = agent_config();
    struct tfe_reason reason;
    char given[TOKEN_TEXT_MAX];
    config.token = strcpy(given, token_text(PRINCIPAL_OBSERVER, 1, (struct tfe_wall){0}));
    assert_int_equal(refusal(&config, &reason), TFE_EAUTH);
    assert_string_equal(reason.text,
                        "the token from --token has the role observer; the required role is agent");
    config.token = strcpy(given, token_text(PRINCIPAL_AGENT, 1, (struct tfe_wall){86400000}));
    assert_int_equal(refusal(&config, &reason), TFE_EAUTH);
    assert_string_equal(reason.text,
                        "the token from --token expired at 1970-01-02 00:00:00 UTC (get a new "
                        "one from the server's operator)");
    const struct tfe_wall later = {clock_wall().ms + 3600000};
    config.token = strcpy(given, token_text(PRINCIPAL_AGENT, 7, later));
    assert_int_equal(found_mark(&config), 7);
}

TEST_IN(join, the_endpoint_comes_from_option_file_or_default)
{
    struct join_config config = agent_config();
    struct join_info info;
    struct tfe_reason reason;
    put("agent.token", agent_token(5));
    assert_int_equal(join_find(&config, &info, &reason), 0);
    assert_string_equal(info.host, "localhost");
    assert_int_equal(info.port, 5556);
    put("endpoint", "127.0.0.1:7001");
    assert_int_equal(join_find(&config, &info, &reason), 0);
    assert_string_equal(info.host, "127.0.0.1");
    assert_int_equal(info.port, 7001);
    config.endpoint = "orchestrator";
    assert_int_equal(join_find(&config, &info, &reason), 0);
    assert_string_equal(info.host, "orchestrator");
    assert_int_equal(info.port, 5556);
    config.endpoint = "orchestrator:99999";
    assert_int_equal(join_find(&config, &info, &reason), TFE_EINVAL);
    assert_string_equal(reason.text, "--rdzv-endpoint: 'orchestrator:99999' is not HOST:PORT");
    config.endpoint = NULL;
    put("endpoint", "no endpoint");
    assert_int_equal(join_find(&config, &info, &reason), TFE_EINVAL);
    assert_non_null(strstr(reason.text, path_of("endpoint")));
}

int main(void)
{
    return sodium_init() < 0 ? 1 : stories_run(NULL, NULL);
}
