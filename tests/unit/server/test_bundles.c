/* tests/unit/server/test_bundles.c: the server's bundle store: which bundles are deleted and when,
 * the size limit, and interrupted uploads. */
#include <dirent.h>
#include <sodium.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/worker.h"
#include "common/message/principal.h"
#include "server/jobs/bundles.h"
#include "server/jobs/disk_worker.h"
#include "server/query/record_source.h"
#include "tests/unit/folder.h"

#define HOUR_MS (INT64_C(3600) * 1000)
#define SCOPE "-0123456789abcdef"

/* The test advances the civil clock and fires the timer. */
int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_event_add(struct event *event, const struct timeval *after);
int __real_event_add(struct event *event, const struct timeval *after);
static struct tfe_wall now;
static struct event *look, *timer; /* timer added last; the bundle store's timer */
static int64_t later_ms;           /* ms added to the monotonic clock */

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    const int rc = __real_clock_gettime(id, ret);
    int64_t ms = (int64_t)ret->tv_sec * 1000 + ret->tv_nsec / 1000000;
    if (id == CLOCK_REALTIME) {
        ms = now.ms;
    } else if (id == CLOCK_BOOTTIME) {
        ms += later_ms;
    }
    *ret = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    return rc;
}

int __wrap_event_add(struct event *event, const struct timeval *after)
{
    look = after ? event : look;
    return after ? 0 : __real_event_add(event, after);
}

static char dir[FOLDER_BYTES];
static struct event_base *base;
static const struct principal admin = {.role = PRINCIPAL_ADMIN, .scope = PRINCIPAL_EVERY_JOB};
static const struct principal team = {.role = PRINCIPAL_ADMIN, .scope = "team-*"};
static const struct principal other = {.role = PRINCIPAL_ADMIN, .scope = "other-*", .origin = {1}};
static const struct principal *by; /* principal that asks */
static const char *named;          /* digest that a job names, or "" */

static int set_up(void **state)
{
    folder_make(dir);
    base = event_base_new();
    now.ms = (int64_t)time(NULL) * 1000;
    named = "";
    by = &team;
    later_ms = 0;
    return 0;
}

static int tear_down(void **state)
{
    event_base_free(base);
    folder_remove(dir);
    return 0;
}
#define FIXTURE set_up, tear_down

static bool is_named(void *ctx, const char *digest)
{
    return strcmp(named, digest) == 0;
}

static struct bundles *open_it(void)
{
    const struct bundles_config config = {.base = base, .directory = dir, .is_named = is_named};
    struct bundles *b;
    assert_int_equal(bundles_new(&config, &b), 0);
    timer = look;
    return b;
}

static const char *digest_of(unsigned n)
{
    static char digests[4][MSG_BUNDLE_HEX + 1];
    static unsigned at;
    char *digest = digests[at++ % 4];
    (void)snprintf(digest, sizeof(digests[0]), "%064x", n);
    return digest;
}

static const char *path_of(unsigned n)
{
    char name[MSG_BUNDLE_HEX + sizeof(SCOPE)];
    (void)snprintf(name, sizeof(name), "%s" SCOPE, digest_of(n));
    return folder_path(dir, name);
}

/* Stores bundle n as an earlier server would have. */
static void keep(unsigned n, off_t size)
{
    const char *path = path_of(n);
    folder_write(path, "x");
    assert_int_equal(truncate(path, size), 0);
}

static bool is_file(unsigned n)
{
    return access(path_of(n), F_OK) == 0;
}

static void look_now(void)
{
    /* One minute of timer ticks; each also looks for unnamed bundles. */
    for (unsigned i = 0; i < 12; i++) {
        event_active(timer, EV_TIMEOUT, 0);
        assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK), 0);
    }
}

/* Returns how many of the first n stored bundles are left. */
static unsigned n_there(const struct bundles *b, unsigned n)
{
    unsigned left = 0;
    for (unsigned i = 0; i < n; i++) {
        left += bundles_has(b, digest_of(i), &admin);
    }
    return left;
}

/* Sends BUNDLE_HAVE and returns its first response in *ret. */
static struct rows *request(struct bundles *b, const char *digest, uint32_t total,
                            struct tfe_msg *ret)
{
    const struct msg_bundle_have have = {.digest = digest, .total = total};
    struct rows *rows;
    assert_int_equal(rows_bundle(b, by, &have, &rows), 0);
    TURN_UNTIL(base, rows_next(rows, ret) == 0);
    return rows;
}

TEST_IN(bundles, unused_bundle_is_deleted_after_an_hour_and_used_one_stays)
{
    keep(1, 10);
    keep(2, 10);
    keep(3, 10);
    struct bundles *b = open_it();
    named = digest_of(2);
    now.ms += HOUR_MS / 2;
    look_now();
    assert_true(bundles_has(b, digest_of(1), &admin) && bundles_has(b, digest_of(3), &admin));
    now.ms += HOUR_MS / 2 + 10000;
    look_now();
    assert_false(bundles_has(b, digest_of(1), &admin) || bundles_has(b, digest_of(3), &admin));
    assert_true(bundles_has(b, digest_of(2), &admin));
    TURN_UNTIL(base, !is_file(1) && !is_file(3));
    named = ""; /* a bundle's hour begins when a job last named it */
    now.ms += HOUR_MS - 10000;
    look_now();
    assert_true(bundles_has(b, digest_of(2), &admin) && is_file(2));
    now.ms += 20000;
    look_now();
    assert_false(bundles_has(b, digest_of(2), &admin));
    bundles_free(b);
}

TEST_IN(bundles, full_space_deletes_the_oldest_unused_bundle_or_refuses)
{
    const unsigned n = (unsigned)(LIMIT_BUNDLES_BYTES / MSG_BUNDLE_MAX);
    struct tfe_msg msg;
    for (unsigned i = 0; i < n; i++) {
        keep(i, MSG_BUNDLE_MAX);
    }
    struct bundles *b = open_it();
    struct rows *rows = request(b, digest_of(1000), 1, &msg);
    /* No bundle may go: each may belong to a submission in flight. */
    assert_int_equal(msg.type, MSG_REFUSED);
    assert_int_equal(msg.u.refused.code, REFUSAL_LIMIT_REACHED);
    rows_free(rows);
    now.ms += 90000;
    named = digest_of(0);
    rows = request(b, digest_of(1000), 1, &msg);
    assert_int_equal(msg.type, MSG_BUNDLE_WANT);
    assert_int_equal(n_there(b, n), n - n / 16 - 1); /* the bundle's owner cannot use the reserve */
    assert_true(bundles_has(b, digest_of(0), &admin));
    rows_free(rows);
    bundles_free(b);
}

TEST_IN(bundles, full_number_deletes_the_oldest_unused_bundle_or_refuses)
{
    struct tfe_msg msg;
    for (unsigned i = 0; i < LIMIT_BUNDLES; i++) {
        keep(i, 1);
    }
    const struct timespec before = {.tv_sec = now.ms / 1000 - 50};
    assert_int_equal(utimensat(AT_FDCWD, path_of(7), (struct timespec[2]){before, before}, 0), 0);
    struct bundles *b = open_it();
    struct rows *rows = request(b, digest_of(3000), 1, &msg);
    assert_int_equal(msg.type, MSG_REFUSED);
    assert_int_equal(msg.u.refused.code, REFUSAL_LIMIT_REACHED);
    assert_non_null(strstr(msg.u.refused.sentence, "the store holds 2000 bundles"));
    rows_free(rows);
    now.ms += 90000;
    named = digest_of(0);
    rows = request(b, digest_of(3000), 1, &msg);
    assert_int_equal(msg.type, MSG_BUNDLE_WANT);
    assert_int_equal(n_there(b, LIMIT_BUNDLES), LIMIT_BUNDLES - LIMIT_BUNDLES / 16 - 1);
    assert_true(bundles_has(b, digest_of(0), &admin));
    assert_false(bundles_has(b, digest_of(7), &admin));
    /* Uploads in progress count towards the limit. */
    struct rows *second = request(b, digest_of(3001), 1, &msg);
    assert_int_equal(msg.type, MSG_BUNDLE_WANT);
    assert_int_equal(n_there(b, LIMIT_BUNDLES), LIMIT_BUNDLES - LIMIT_BUNDLES / 16 - 2);
    rows_free(rows);
    rows_free(second);
    bundles_free(b);
}

TEST_IN(bundles, complete_upload_counts_once_while_its_client_is_connected)
{
    struct tfe_msg msg;
    const unsigned n = (unsigned)(LIMIT_BUNDLES_BYTES / MSG_BUNDLE_MAX);
    for (unsigned i = 0; i < LIMIT_BUNDLES - 1; i++) {
        keep(i, i < n - 4 ? MSG_BUNDLE_MAX : 1);
    }
    struct bundles *b = open_it(); /* none of these bundles may be deleted yet */
    struct rows *rows[4];
    for (unsigned i = 0; i < 4; i++) {
        const struct msg_bundle_have have = {.digest = digest_of(i), .total = MSG_BUNDLE_MAX};
        assert_int_equal(rows_bundle(b, &admin, &have, &rows[i]), 0);
        assert_int_equal(rows_next(rows[i], &msg), 0);
        assert_int_equal(msg.type, MSG_DONE);
    }
    by = &admin;
    struct rows *last = request(b, digest_of(3000), 1, &msg);
    assert_int_equal(msg.type, MSG_BUNDLE_WANT);
    struct rows *above = request(b, digest_of(3001), 1, &msg);
    assert_int_equal(msg.type, MSG_REFUSED);
    rows_free(above);
    rows_free(last);
    for (unsigned i = 0; i < 4; i++) {
        rows_free(rows[i]);
    }
    bundles_free(b);
}

TEST_IN(bundles, uploads_of_one_scope_are_limited_and_others_have_slots)
{
    enum { SHARE = (LIMIT_UPLOADS - LIMIT_ADMIN_UPLOADS) / 4 };
    struct bundles *b = open_it();
    struct rows *rows[SHARE];
    struct tfe_msg msg;
    for (unsigned i = 0; i < SHARE; i++) {
        rows[i] = request(b, digest_of(i), 100, &msg);
        assert_int_equal(msg.type, MSG_BUNDLE_WANT);
    }
    struct rows *above = request(b, digest_of(10), 100, &msg);
    assert_int_equal(msg.type, MSG_REFUSED);
    assert_int_equal(msg.u.refused.code, REFUSAL_LIMIT_REACHED);
    rows_free(above);
    by = &other;
    struct rows *others = request(b, digest_of(11), 100, &msg);
    assert_int_equal(msg.type, MSG_BUNDLE_WANT);
    rows_free(others);
    for (unsigned i = 0; i < SHARE; i++) {
        rows_free(rows[i]);
    }
    bundles_free(b);
}

TEST_IN(bundles, slow_upload_is_refused_and_frees_its_slot)
{
    struct bundles *b = open_it();
    struct tfe_msg msg;
    struct rows *rows = request(b, digest_of(1), MSG_BUNDLE_MAX, &msg);
    struct msg_bundle_put put = {
        .digest = digest_of(1), .data = (const uint8_t *)"xyz", .n_data = 1};
    for (; put.offset < 2; put.offset++) { /* one byte every ten seconds */
        later_ms += 9000;
        look_now();
        assert_true(bundles_put(b, &team, &put));
        struct stat st;
        TURN_UNTIL(base, stat(folder_path(dir, "part-1"), &st) == 0 && st.st_size > put.offset);
        for (int i = 0; i < 50; i++) { /* the loop has received the disk's result */
            (void)usleep(1000);
            assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK), 0);
        }
    }
    later_ms += 9000;
    look_now();
    assert_int_equal(rows_next(rows, &msg), 0);
    assert_int_equal(msg.type, MSG_REFUSED);
    assert_non_null(strstr(msg.u.refused.sentence, "too slow"));
    rows_free(rows);
    bundles_free(b);
}

/* Returns the number of open descriptors that lead into the directory. */
static unsigned open_there(void)
{
    char path[64];
    char to[PATH_MAX];
    unsigned n = 0;
    for (int fd = 0; fd < 256; fd++) {
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        const ssize_t length = readlink(path, to, sizeof(to) - 1);
        n += length > 0 && strncmp(to, dir, strlen(dir)) == 0;
    }
    return n;
}

TEST_IN(bundles, failed_file_creation_is_reported_and_aborted_upload_leaves_no_file)
{
    struct tfe_msg msg;
    struct bundles *b = open_it();
    struct rows *rows = request(b, digest_of(1), 100, &msg);
    assert_int_equal(msg.type, MSG_BUNDLE_WANT);
    assert_int_equal(access(folder_path(dir, "part-1"), F_OK), 0);
    rows_free(rows);
    TURN_UNTIL(base, access(folder_path(dir, "part-1"), F_OK) != 0 && open_there() == 0);
    /* The server does not follow the symbolic link. */
    assert_int_equal(symlink("elsewhere", folder_path(dir, "part-2")), 0);
    rows = request(b, digest_of(1), 100, &msg);
    assert_int_equal(msg.type, MSG_REFUSED);
    assert_int_equal(msg.u.refused.code, REFUSAL_STORE);
    assert_non_null(strstr(msg.u.refused.sentence, "cannot create the bundle file"));
    rows_free(rows);
    assert_int_equal(access(folder_path(dir, "elsewhere"), F_OK), -1);
    bundles_free(b);
}

TEST_IN(bundles, client_lost_before_file_creation_leaves_no_file)
{
    const struct msg_bundle_have have = {.digest = digest_of(1), .total = 100};
    struct rows *rows;
    struct tfe_msg msg;
    struct bundles *b = open_it();
    assert_int_equal(rows_bundle(b, &team, &have, &rows), 0);
    assert_int_equal(rows_next(rows, &msg), TFE_EMORE); /* data is refused until the file exists */
    const struct msg_bundle_put put = {
        .digest = digest_of(1), .data = (const uint8_t *)"x", .n_data = 1};
    assert_false(bundles_put(b, &team, &put));
    rows_free(rows);
    /* The disk worker is sequential: after this request, everything before it is done. */
    rows = request(b, digest_of(2), 100, &msg);
    rows_free(rows);
    rows = request(b, digest_of(3), 100, &msg);
    assert_int_not_equal(access(folder_path(dir, "part-1"), F_OK), 0);
    rows_free(rows);
    bundles_free(b);
    assert_int_equal(open_there(), 0);
}

TEST_IN(bundles, upload_may_end_before_its_total_and_accepts_no_more)
{
    static const uint8_t byte = 'x';
    uint8_t sum[MSG_BUNDLE_HEX / 2];
    char digest[MSG_BUNDLE_HEX + 1];
    struct tfe_msg msg;
    (void)crypto_generichash(sum, sizeof(sum), &byte, 1, NULL, 0);
    (void)sodium_bin2hex(digest, sizeof(digest), sum, sizeof(sum));
    for (uint32_t total = 1; total <= MSG_BUNDLE_MAX; total += MSG_BUNDLE_MAX - 1) {
        struct bundles *b = open_it();
        struct rows *rows = request(b, digest, total, &msg);
        assert_int_equal(msg.type, MSG_BUNDLE_WANT);
        struct msg_bundle_put put = {.digest = digest, .data = &byte, .n_data = 1, .is_last = true};
        assert_true(bundles_put(b, &team, &put));
        put.offset = 1;
        assert_false(bundles_put(b, &team, &put));
        TURN_UNTIL(base, rows_next(rows, &msg) == 0);
        assert_int_equal(msg.type, MSG_DONE);
        rows_free(rows);
        struct stat st;
        assert_true(bundles_has(b, digest, &team));
        bundles_free(b);
        b = open_it(); /* content of the stored file */
        assert_true(bundles_has(b, digest, &team));
        bundles_free(b);
        DIR *entries = opendir(dir);
        for (const struct dirent *entry; (entry = readdir(entries));) {
            if (entry->d_name[0] != '.') {
                const char *path = folder_path(dir, entry->d_name);
                assert_int_equal(stat(path, &st), 0);
                assert_int_equal(st.st_size, 1);
                assert_int_equal(unlink(path), 0);
            }
        }
        (void)closedir(entries);
    }
}

TEST_IN(bundles, server_end_during_an_abandoned_upload_is_clean)
{
    static uint8_t bytes[MSG_CHUNK_MAX];
    struct tfe_msg msg;
    struct bundles *b = open_it();
    struct rows *rows = request(b, digest_of(1), 10 * MSG_CHUNK_MAX, &msg);
    for (uint32_t i = 0; i < 10; i++) {
        const struct msg_bundle_put put = {.digest = digest_of(1),
                                           .offset = i * MSG_CHUNK_MAX,
                                           .data = bytes,
                                           .n_data = sizeof(bytes)};
        assert_true(bundles_put(b, &team, &put));
    }
    rows_free(rows); /* the loop no longer runs, so that all results of the disk are outstanding */
    bundles_free(b);
    b = open_it();
    assert_false(bundles_has(b, digest_of(1), &admin));
    assert_int_not_equal(access(folder_path(dir, "part-1"), F_OK), 0);
    bundles_free(b);
}
