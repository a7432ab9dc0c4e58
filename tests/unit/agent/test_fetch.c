/* tests/unit/agent/test_fetch.c: the cache of bundles: its size, and removal of the
 * least recently used. */
#include <sodium.h>

#include "agent/pool/fetch.h"
#include "tests/unit/folder.h"

#define KEPT 8

static char dir[FOLDER_BYTES];
static struct event_base *base;
static int asked, ended;

static int set_up(void **state)
{
    assert_true(sodium_init() >= 0);
    folder_make(dir);
    assert_int_equal(mkdir(folder_path(dir, "agent-bundles"), 0700), 0);
    base = event_base_new();
    asked = ended = 0;
    return 0;
}

static int tear_down(void **state)
{
    event_base_free(base);
    folder_remove(dir);
    return 0;
}
#define FIXTURE set_up, tear_down

static const char *digest_of(int n)
{
    static char digests[4][MSG_BUNDLE_HEX + 1];
    static unsigned at;
    char *digest = digests[at++ % 4];
    (void)snprintf(digest, sizeof(digests[0]), "%064x", (unsigned)n);
    return digest;
}

static const char *kept(const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "agent-bundles/%s", name);
    return folder_path(dir, path);
}

/* Creates a cached bundle that was last used this many seconds ago. */
static void keep(const char *name, time_t ago)
{
    const struct timespec at = {.tv_sec = time(NULL) - ago};
    folder_write(kept(name), "x");
    assert_int_equal(utimensat(AT_FDCWD, kept(name), (struct timespec[]){at, at}, 0), 0);
}

static char error[MSG_SENTENCE_MAX]; /* of the last FETCH */

static void on_send(void *ctx, const struct tfe_msg *msg)
{
    assert_int_equal(msg->type, MSG_FETCH);
    asked++;
    (void)snprintf(error, sizeof(error), "%s", msg->u.fetch.error ? msg->u.fetch.error : "");
}

static void on_ended(void *ctx, int fd)
{
    assert_true(fd >= 0);
    ended++;
}

static struct fetch *begin(const char *digest)
{
    const struct fetch_options options = {
        .base = base, .digest = digest, .state_dir = dir, .send = on_send, .ended = on_ended};
    return fetch_new(&options);
}

/* Returns the digest of the one-byte bundle that keep() makes. */
static const char *digest_of_x(void)
{
    static char hex[MSG_BUNDLE_HEX + 1];
    uint8_t sum[MSG_BUNDLE_HEX / 2];
    (void)crypto_generichash(sum, sizeof(sum), (const uint8_t *)"x", 1, NULL, 0);
    return sodium_bin2hex(hex, sizeof(hex), sum, sizeof(sum));
}

static void give(struct fetch *f, const char *digest, const char *bytes)
{
    fetch_handle_chunk(f, &(struct msg_chunk){.digest = digest,
                                              .total = (uint32_t)strlen(bytes),
                                              .data = (const uint8_t *)bytes,
                                              .n_data = strlen(bytes),
                                              .message = ""});
}

TEST_IN(fetch, recently_used_bundles_are_retained_within_the_space)
{
    keep(digest_of_x(), 1000);
    for (int i = 2; i <= KEPT; i++) {
        keep(digest_of(i), 1000 - i);
    }
    keep("part-killed", 2 * 3600);
    keep("part-others", 10);
    keep("no-bundle", 2 * 3600);
    /* The oldest bundle is found, and its time of use is updated. */
    struct fetch *f = begin(digest_of_x());
    TURN_UNTIL(base, ended == 1);
    assert_int_equal(asked, 0);
    fetch_free(f);
    f = begin(digest_of(100));
    assert_int_equal(asked, 1);
    assert_int_equal(access(kept(digest_of_x()), F_OK), 0);
    assert_int_not_equal(access(kept(digest_of(2)), F_OK), 0);
    for (int i = 3; i <= KEPT; i++) {
        assert_int_equal(access(kept(digest_of(i)), F_OK), 0);
    }
    assert_int_not_equal(access(kept("part-killed"), F_OK), 0);
    assert_int_equal(access(kept("part-others"), F_OK), 0);
    assert_int_equal(access(kept("no-bundle"), F_OK), 0);
    fetch_free(f);
}

TEST_IN(fetch, damaged_cached_bundle_is_downloaded_again)
{
    folder_write(kept(digest_of_x()), "y");
    struct fetch *f = begin(digest_of_x());
    assert_int_equal(asked, 1);
    give(f, digest_of_x(), "x");
    assert_int_equal(ended, 1);
    fetch_free(f);
    f = begin(digest_of_x());
    TURN_UNTIL(base, ended == 2);
    assert_int_equal(asked, 1);
    fetch_free(f);
}

TEST_IN(fetch, error_is_reported_and_retried)
{
    const char *digest = digest_of_x();
    struct fetch *f = begin(digest);
    assert_string_equal(error, "");
    fetch_handle_chunk(f, &(struct msg_chunk){.digest = digest, .message = "the disk is gone"});
    fetch_welcome(f); /* still waits for the retry interval */
    assert_int_equal(asked, 1);
    TURN_UNTIL(base, asked == 2);
    assert_string_equal(error, "the disk is gone");
    give(f, digest, "y");
    assert_int_equal(ended, 0);
    TURN_UNTIL(base, asked == 3); /* after two seconds */
    assert_string_equal(error, "the received bytes do not match the digest");
    give(f, digest, "x");
    assert_int_equal(ended, 1);
    fetch_free(f);
}
