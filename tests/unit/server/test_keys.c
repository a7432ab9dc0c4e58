/* tests/unit/server/test_keys.c: token files that the server replaces, and concurrent rotations.
 * tests/e2e/test_tokens.py has the rest. */
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

static struct keys *must_open(void)
{
    struct keys *keys;
    struct tfe_reason reason;
    assert_int_equal(keys_open(dir, 0, &keys, &reason), 0);
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
    const struct token_config config = {.role = token.role,
                                        .expires.ms = has_expired ? clock_wall().ms - 3600000 : 0};
    token_mint(&token, &config, root, public_key);
    char text[TOKEN_TEXT_MAX];
    token_format(&token, text);
    token_done(&token);
    folder_write(folder_path(dir, name), text);
}

TEST_IN(keys, invalid_token_file_is_replaced)
{
    keys_free(must_open());
    for (int i = 0; i < 4; i++) { /* another valid token is left alone */
        char forged[512];
        if (i == 3) {
            folder_write(folder_path(dir, "agent.token"), "nonsense");
        } else {
            forge("agent.token", i == 1, i == 2);
        }
        snprintf(forged, sizeof forged, "%s", text_of("agent.token"));
        keys_free(must_open());
        assert_int_equal(strcmp(text_of("agent.token"), forged) == 0, i == 0);
    }
}

TEST_IN(keys, second_concurrent_rotation_is_refused)
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
