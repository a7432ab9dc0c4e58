/* tests/unit/net/test_join.c: DESIGN 9's order of places for endpoint and token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/net/clock.h"
#include "common/net/join.h"
#include "common/net/state_dir.h"
#include "tests/unit/story.h"

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

/* A token whose key_id can be told from others by the server's key, which is all `mark`. */
static const char *token_text(enum token_role role, uint8_t mark, struct tfe_wall expires)
{
    static char text[TOKEN_TEXT_MAX];
    uint8_t root[TOKEN_ROOT_BYTES] = {1};
    uint8_t key[TOKEN_PUBLIC_KEY_BYTES];
    memset(key, mark, sizeof key);
    struct token token;
    token_mint(&token, role, expires, root, key);
    token_format(&token, text);
    return text;
}

static const char *agent_token(uint8_t mark)
{
    return token_text(TOKEN_AGENT, mark, (struct tfe_wall){0});
}

static void put(const char *name, const char *text)
{
    struct tfe_why why;
    char line[512];
    const int n = snprintf(line, sizeof line, "%s\n", text);
    assert_int_equal(state_dir_write(path_of(name), line, (size_t)n, &why), 0);
}

static struct join_wish agent_wish(void)
{
    return (struct join_wish){.state_dir = directory, .roles = {TOKEN_AGENT}, .n_roles = 1};
}

/* Finds a token and returns its mark. */
static uint8_t found_mark(const struct join_wish *wish)
{
    struct join_info info;
    struct tfe_why why;
    const int rc = join_find(wish, &info, &why);
    if (rc) {
        fail_msg("%s", why.text);
    }
    const uint8_t mark = info.token.server_public_key[0];
    token_done(&info.token);
    return mark;
}

static int refusal(const struct join_wish *wish, struct tfe_why *why)
{
    struct join_info info;
    return join_find(wish, &info, why);
}

TEST(join, each_place_for_a_token_stands_before_the_next)
{
    NO_FIXTURE;
    struct join_wish wish = agent_wish();
    char given[TOKEN_TEXT_MAX];
    char file[PATH_MAX];
    put("agent.token", agent_token(5));
    assert_int_equal(found_mark(&wish), 5);
    put("f2", agent_token(4));
    assert_int_equal(setenv("TFE_TOKEN_FILE", path_of("f2"), 1), 0);
    assert_int_equal(found_mark(&wish), 4);
    assert_int_equal(setenv("TFE_TOKEN", agent_token(3), 1), 0);
    assert_int_equal(found_mark(&wish), 3);
    put("f1", agent_token(2));
    wish.token_file = strcpy(file, path_of("f1"));
    assert_int_equal(found_mark(&wish), 2);
    wish.token = strcpy(given, agent_token(1));
    assert_int_equal(found_mark(&wish), 1);
}

TEST(join, an_option_that_was_filled_from_the_environment_ranks_as_environment)
{
    NO_FIXTURE;
    /* The option table reads TFE_TOKEN into the same field as --token; taken for --token it would
     * beat --token-file. */
    struct join_wish wish = agent_wish();
    char file[PATH_MAX];
    put("f1", agent_token(2));
    assert_int_equal(setenv("TFE_TOKEN", agent_token(3), 1), 0);
    wish.token = getenv("TFE_TOKEN");
    wish.token_file = strcpy(file, path_of("f1"));
    assert_int_equal(found_mark(&wish), 2);
    /* Likewise $TFE_TOKEN_FILE does not beat $TFE_TOKEN. */
    assert_int_equal(setenv("TFE_TOKEN_FILE", file, 1), 0);
    wish.token_file = getenv("TFE_TOKEN_FILE");
    assert_int_equal(found_mark(&wish), 3);
}

TEST(join, empty_means_not_given)
{
    NO_FIXTURE;
    struct join_wish wish = agent_wish();
    put("agent.token", agent_token(5));
    wish.token = "";
    wish.token_file = "";
    wish.endpoint = "";
    assert_int_equal(setenv("TFE_TOKEN", "", 1), 0);
    assert_int_equal(setenv("TFE_TOKEN_FILE", "", 1), 0);
    assert_int_equal(found_mark(&wish), 5);
}

TEST(join, the_best_role_in_the_state_directory_is_taken)
{
    NO_FIXTURE;
    struct join_wish wish = agent_wish();
    wish.roles[0] = TOKEN_ADMIN;
    wish.roles[1] = TOKEN_OBSERVER;
    wish.n_roles = 2;
    put("agent.token", agent_token(1));
    put("observer.token", token_text(TOKEN_OBSERVER, 2, (struct tfe_wall){0}));
    assert_int_equal(found_mark(&wish), 2);
    put("admin.token", token_text(TOKEN_ADMIN, 3, (struct tfe_wall){0}));
    assert_int_equal(found_mark(&wish), 3);
}

TEST(join, a_missing_token_says_where_it_looked_and_how_to_get_one)
{
    NO_FIXTURE;
    struct join_wish wish = agent_wish();
    struct tfe_why why;
    char want[PATH_MAX];
    assert_int_equal(refusal(&wish, &why), TFE_EAUTH);
    (void)snprintf(want, sizeof want,
                   "no token: none in --token, --token-file, TFE_TOKEN, TFE_TOKEN_FILE, and no "
                   "agent.token in %s; copy that file from the server's machine (tfe-rdzv names it "
                   "when it starts) and give it with --token-file",
                   directory);
    assert_string_equal(why.text, want);
    wish.roles[1] = TOKEN_ADMIN;
    wish.n_roles = 2;
    assert_int_equal(refusal(&wish, &why), TFE_EAUTH);
    assert_non_null(strstr(why.text, "no agent.token or admin.token in "));
}

TEST(join, a_place_that_was_named_and_is_bad_is_not_passed_over)
{
    NO_FIXTURE;
    struct join_wish wish = agent_wish();
    struct tfe_why why;
    put("agent.token", agent_token(5));
    wish.token_file = "/nonexistent/token";
    assert_int_equal(refusal(&wish, &why), TFE_EAUTH);
    assert_string_equal(why.text,
                        "token from --token-file: open /nonexistent/token: no such file or "
                        "directory");
    wish.token = "tfe1_agent_nonsense";
    assert_int_equal(refusal(&wish, &why), TFE_EAUTH);
    assert_non_null(strstr(why.text, "what --token holds is no token"));
    assert_null(strstr(why.text, "nonsense"));
    static char huge[4096];
    memset(huge, 'a', sizeof huge - 1);
    wish.token = huge;
    assert_int_equal(refusal(&wish, &why), TFE_EAUTH);
}

TEST(join, the_wrong_role_and_an_expired_token_are_told)
{
    NO_FIXTURE;
    struct join_wish wish = agent_wish();
    struct tfe_why why;
    char given[TOKEN_TEXT_MAX];
    wish.token = strcpy(given, token_text(TOKEN_OBSERVER, 1, (struct tfe_wall){0}));
    assert_int_equal(refusal(&wish, &why), TFE_EAUTH);
    assert_string_equal(why.text,
                        "the token from --token is for the role observer; this needs agent");
    wish.token = strcpy(given, token_text(TOKEN_AGENT, 1, (struct tfe_wall){86400000}));
    assert_int_equal(refusal(&wish, &why), TFE_EAUTH);
    assert_string_equal(why.text,
                        "the token from --token expired at 1970-01-02 00:00 UTC; get a new "
                        "one from the server's operator");
    const struct tfe_wall later = {clock_wall().ms + 3600000};
    wish.token = strcpy(given, token_text(TOKEN_AGENT, 7, later));
    assert_int_equal(found_mark(&wish), 7);
}

TEST(join, the_endpoint_comes_from_option_file_or_default)
{
    NO_FIXTURE;
    struct join_wish wish = agent_wish();
    struct join_info info;
    struct tfe_why why;
    put("agent.token", agent_token(5));
    assert_int_equal(join_find(&wish, &info, &why), 0);
    assert_string_equal(info.host, "localhost");
    assert_int_equal(info.port, 5556);
    put("endpoint", "127.0.0.1:7001");
    assert_int_equal(join_find(&wish, &info, &why), 0);
    assert_string_equal(info.host, "127.0.0.1");
    assert_int_equal(info.port, 7001);
    wish.endpoint = "orchestrator";
    assert_int_equal(join_find(&wish, &info, &why), 0);
    assert_string_equal(info.host, "orchestrator");
    assert_int_equal(info.port, 5556);
    wish.endpoint = "orchestrator:99999";
    assert_int_equal(join_find(&wish, &info, &why), TFE_EINVAL);
    assert_string_equal(why.text, "--rdzv-endpoint: 'orchestrator:99999' is not HOST:PORT");
    wish.endpoint = NULL;
    put("endpoint", "no endpoint");
    assert_int_equal(join_find(&wish, &info, &why), TFE_EINVAL);
    assert_non_null(strstr(why.text, path_of("endpoint")));
}

int main(void)
{
#define IN_DIRECTORY(story)                                                                        \
    cmocka_unit_test_setup_teardown(join__##story, make_directory, remove_directory)
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(each_place_for_a_token_stands_before_the_next),
        IN_DIRECTORY(an_option_that_was_filled_from_the_environment_ranks_as_environment),
        IN_DIRECTORY(empty_means_not_given),
        IN_DIRECTORY(the_best_role_in_the_state_directory_is_taken),
        IN_DIRECTORY(a_missing_token_says_where_it_looked_and_how_to_get_one),
        IN_DIRECTORY(a_place_that_was_named_and_is_bad_is_not_passed_over),
        IN_DIRECTORY(the_wrong_role_and_an_expired_token_are_told),
        IN_DIRECTORY(the_endpoint_comes_from_option_file_or_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
