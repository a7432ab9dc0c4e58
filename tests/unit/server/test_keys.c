/* tests/unit/server/test_keys.c: server.key, the token files, and rotation of the root keys. */
#include <sodium.h>

#include "common/base/clock.h"
#include "common/cli/log.h"
#include "server/auth/keys.h"
#include "tests/unit/folder.h"
#include "tests/unit/server/kept.h"

#define SECRET_HEX 64

static struct kept kept;

struct answer {
    int n, rc;
    char reason[400];
};

static void on_answer(void *ctx, int rc, struct record_list *page, const char *reason)
{
    struct answer *a = ctx;
    a->n++;
    a->rc = rc;
    snprintf(a->reason, sizeof a->reason, "%s", rc != 0 ? reason : "");
}

static char dir[FOLDER_BYTES];

static int set_up(void **state)
{
    folder_make(dir);
    kept_begin(&kept, event_base_new());
    return 0;
}

static int tear_down(void **state)
{
    kept_end(&kept);
    event_base_free(kept.base);
    folder_remove(dir);
    return 0;
}
#define FIXTURE set_up, tear_down

static int open_with(struct keys **ret)
{
    struct tfe_reason reason;
    *ret = NULL;
    return keys_open(dir, 0, ret, &reason);
}

static struct keys *must_open(void)
{
    struct keys *keys;
    assert_int_equal(open_with(&keys), 0);
    return keys;
}

static const char *text_of(const char *name)
{
    static char texts[4][2048];
    static int at;
    char *text = texts[at++ % 4];
    int fd = open(folder_path(dir, name), O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof texts[0] - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0) {
        close(fd);
    }
    return text;
}

/* Returns the number of roots in server.key and the generation in use; *ret_used is -1 if none is
 * named. */
static int roots(int *ret_used)
{
    const char *text = text_of("server.key");
    const char *used = strstr(text, "token-root-used ");
    int n = 0;
    *ret_used = used ? atoi(used + 16) : -1;
    for (const char *at = text; (at = strstr(at, "\ntoken-root")) != NULL; at++) {
        n += strncmp(at, "\ntoken-root-used", 16) != 0;
    }
    return n;
}

static int turn(struct keys *keys, enum tfe_rotation step, struct answer *a)
{
    *a = (struct answer){.n = 0};
    assert_int_equal(keys_rotate(keys, kept.writer, step, on_answer, a), 0);
    assert_int_equal(a->n, 0);
    kept_settle(&kept);
    assert_int_equal(a->n, 1);
    return a->rc;
}

TEST_IN(keys, that_are_there_are_kept_and_others_made)
{
    char first[3][512];
    static const char *const files[] = {"agent.token", "observer.token", "admin.token"};
    keys_free(must_open());
    char key[1024];
    snprintf(key, sizeof key, "%s", text_of("server.key"));
    for (int i = 0; i < 3; i++) {
        snprintf(first[i], sizeof first[i], "%s", text_of(files[i]));
        assert_true(strncmp(first[i], "tfe1_", 5) == 0);
    }
    keys_free(must_open());
    assert_string_equal(text_of("server.key"), key);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(text_of(files[i]), first[i]);
    }
    /* One file is missing, one has another role, and one is no token. */
    unlink(folder_path(dir, files[0]));
    folder_write(folder_path(dir, files[1]), first[2]);
    folder_write(folder_path(dir, files[2]), "nonsense");
    keys_free(must_open());
    for (int i = 0; i < 3; i++) {
        struct token token;
        assert_int_equal(token_parse(&token, text_of(files[i])), 0);
        assert_int_equal(token.role, i + 1);
        token_done(&token);
        assert_string_not_equal(text_of(files[i]), first[i]);
    }
}

/* Replaces a valid token file by one of another server or an expired one. */
static void forge(const char *name, bool of_other_server, bool has_expired)
{
    struct token token;
    uint8_t root[TOKEN_ROOT_BYTES];
    uint8_t public_key[TOKEN_PUBLIC_KEY_BYTES];
    const char *hex = strstr(text_of("server.key"), "token-root-000 ");
    size_t n;
    assert_int_equal(sodium_hex2bin(root, sizeof root, hex + 15, SECRET_HEX, NULL, &n, NULL), 0);
    assert_int_equal(token_parse(&token, text_of(name)), 0);
    memcpy(public_key, token.server_public_key, sizeof public_key);
    public_key[0] ^= of_other_server;
    const struct token_config wish = {.role = token.role,
                                      .expires.ms = has_expired ? clock_wall().ms - 3600000 : 0};
    token_mint(&token, &wish, root, public_key);
    char text[TOKEN_TEXT_MAX];
    token_format(&token, text);
    token_done(&token);
    folder_write(folder_path(dir, name), text);
}

TEST_IN(keys, a_token_file_that_opens_nothing_is_replaced)
{
    keys_free(must_open());
    for (int i = 0; i < 3; i++) { /* another valid token is left alone */
        char forged[512];
        forge("agent.token", i == 1, i == 2);
        snprintf(forged, sizeof forged, "%s", text_of("agent.token"));
        keys_free(must_open());
        assert_int_equal(strcmp(text_of("agent.token"), forged) == 0, i == 0);
    }
}

TEST_IN(keys, a_damaged_file_is_refused_and_left_alone)
{
    struct keys *keys;
    char good[1024];
    keys_free(must_open());
    snprintf(good, sizeof good, "%s", text_of("server.key"));
    for (size_t i = 0; i + 1 < strlen(good); i += 7) {
        char bad[1024];
        snprintf(bad, sizeof bad, "%s", good);
        bad[i] = bad[i] == 'a' ? 'b' : 'a';
        folder_write(folder_path(dir, "server.key"), bad);
        assert_int_equal(open_with(&keys), TFE_EINVAL);
        assert_string_equal(text_of("server.key"), bad);
    }
}

TEST_IN(keys, the_ring_of_roots_turns)
{
    struct keys *keys = must_open();
    struct answer a;
    char agent[512];
    int used;
    snprintf(agent, sizeof agent, "%s", text_of("agent.token"));
    assert_int_equal(roots(&used), 1);
    assert_int_equal(turn(keys, ROTATE_USE, &a), TFE_EINVAL);
    assert_int_equal(turn(keys, ROTATE_REMOVE, &a), TFE_EINVAL);
    assert_non_null(strstr(a.reason, "no root older"));

    assert_int_equal(turn(keys, ROTATE_INSTALL, &a), 0);
    assert_int_equal(roots(&used), 2);
    assert_int_equal(used, 0);
    assert_string_equal(text_of("agent.token"), agent); /* the old root is still in use */
    assert_int_equal(turn(keys, ROTATE_USE, &a), 0);
    assert_int_equal(roots(&used), 2);
    assert_int_equal(used, 1);
    assert_string_not_equal(text_of("agent.token"), agent);
    snprintf(agent, sizeof agent, "%s", text_of("agent.token"));

    /* The token of the removed root is invalid; the others are unchanged. */
    assert_int_equal(turn(keys, ROTATE_REMOVE, &a), 0);
    assert_int_equal(roots(&used), 1);
    assert_int_equal(used, 1);
    assert_string_equal(text_of("agent.token"), agent);
    assert_int_equal(turn(keys, ROTATE_REMOVE, &a), TFE_EINVAL);

    for (int i = 2; i <= TOKEN_RING_MAX; i++) {
        assert_int_equal(turn(keys, ROTATE_RENEW, &a), 0);
        assert_int_equal(roots(&used), i);
        assert_int_equal(used, i);
    }
    assert_int_equal(turn(keys, ROTATE_RENEW, &a), TFE_EINVAL);
    assert_int_equal(turn(keys, ROTATE_INSTALL, &a), TFE_EINVAL);
    keys_free(keys);
    keys_free(must_open()); /* the files are valid */
}

TEST_IN(keys, a_removed_root_takes_the_token_files_with_it_that_are_of_it)
{
    struct keys *keys = must_open();
    struct answer a;
    char agent[512];
    int used;
    assert_int_equal(turn(keys, ROTATE_INSTALL, &a), 0);
    snprintf(agent, sizeof agent, "%s", text_of("agent.token"));
    assert_int_equal(turn(keys, ROTATE_USE, &a), 0);
    /* An administrator has restored the old file. */
    folder_write(folder_path(dir, "agent.token"), agent);
    assert_int_equal(turn(keys, ROTATE_REMOVE, &a), 0);
    assert_int_equal(roots(&used), 1);
    assert_string_not_equal(text_of("agent.token"), agent);
    /* The running server uses the new ring at once. */
    struct token token;
    assert_int_equal(token_parse(&token, agent), 0);
    const struct principal by = {.generation = token_generation(token.key_id),
                                 .role = PRINCIPAL_AGENT};
    token_done(&token);
    assert_non_null(keyring_fault(keys_ring(keys), &by, clock_wall()));
    keys_free(keys);
}

TEST_IN(keys, one_turn_at_a_time_and_only_of_the_key_that_the_server_runs_with)
{
    struct keys *keys = must_open();
    struct answer a = {.n = 0}, other = {.n = 0};
    assert_int_equal(keys_rotate(keys, kept.writer, ROTATE_RENEW, on_answer, &a), 0);
    assert_int_equal(keys_rotate(keys, kept.writer, ROTATE_RENEW, on_answer, &other), TFE_EEXIST);
    keys_forget_rotation(keys, &other); /* the rotation of another principal */
    kept_settle(&kept);
    assert_int_equal(a.n, 1);
    assert_int_equal(other.n, 0);
    assert_int_equal(keys_rotate(keys, kept.writer, ROTATE_RENEW, on_answer, &a), 0);
    keys_forget_rotation(keys, &a);
    kept_settle(&kept);
    assert_int_equal(a.n, 1);

    /* First the file is missing, then another server's file is there. */
    assert_int_equal(unlink(folder_path(dir, "server.key")), 0);
    assert_int_not_equal(turn(keys, ROTATE_RENEW, &a), 0);
    assert_string_equal(text_of("server.key"), "");
    keys_free(must_open()); /* the server creates a new one */
    char key[1024];
    snprintf(key, sizeof key, "%s", text_of("server.key"));
    assert_int_equal(turn(keys, ROTATE_RENEW, &a), TFE_EINVAL);
    assert_non_null(strstr(a.reason, "is not the one that this server runs with"));
    assert_string_equal(text_of("server.key"), key);
    keys_free(keys);
}

int main(void)
{
    if (sodium_init() < 0) {
        return 1;
    }
    (void)unsetenv("CREDENTIALS_DIRECTORY");
    log_init("unit", LOG_ERROR_, LOG_LOGFMT);
    return stories_run(NULL, NULL);
}
