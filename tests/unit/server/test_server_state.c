/* tests/unit/server/test_server_state.c: the state directory: owner, lock, and the endpoint file.
 */
#include "server/sandbox/drop_privileges.h"
#include "server/server_state.h"
#include "tests/unit/folder.h"

static char dir[FOLDER_BYTES];

static int set_up(void **state)
{
    folder_make(dir);
    return 0;
}

static int tear_down(void **state)
{
    folder_remove(dir);
    return 0;
}
#define FIXTURE set_up, tear_down

static int open_it(struct state *s, struct tfe_reason *reason)
{
    const struct privileges nobody_else = {.changes = false};
    int rc = state_make(s, dir, &nobody_else, reason);
    return rc != 0 ? rc : state_open(s, NULL, reason);
}

static const char *endpoint(void)
{
    static char text[128];
    int fd = open(folder_path(dir, "endpoint"), O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0) {
        close(fd);
    }
    return text;
}

TEST_IN(state, second_server_is_refused)
{
    struct state first, second;
    struct tfe_reason reason;
    char pid[32];
    assert_int_equal(open_it(&first, &reason), 0);
    assert_int_equal(open_it(&second, &reason), TFE_EEXIST);
    snprintf(pid, sizeof pid, "(pid %ld)", (long)getpid());
    assert_non_null(strstr(reason.text, pid));
    state_close(&second); /* the failed open holds no lock */
    assert_int_equal(open_it(&second, &reason), TFE_EEXIST);
    state_close(&first);
    assert_int_equal(open_it(&second, &reason), 0);
    state_close(&second);
}

TEST_IN(state, directory_readable_by_others_is_refused)
{
    struct state s;
    struct tfe_reason reason;
    assert_int_equal(chmod(dir, 0750), 0);
    assert_int_equal(open_it(&s, &reason), TFE_EAUTH);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_int_equal(open_it(&s, &reason), 0);
    state_close(&s);
}

TEST_IN(state, endpoint_file_exists_until_the_server_ends)
{
    static const struct {
        const char *bind, *line;
    } rows[] = {
        {"0.0.0.0", "127.0.0.1:5556\n"}, {"::", "[::1]:5556\n"}, {"192.0.2.1", "192.0.2.1:5556\n"}};
    struct state s;
    struct tfe_reason reason;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(open_it(&s, &reason), 0);
        assert_int_equal(state_write_endpoint(&s, rows[i].bind, 5556, &reason), 0);
        assert_string_equal(endpoint(), rows[i].line);
        state_close(&s);
        assert_string_equal(endpoint(), "");
    }
    /* The endpoint file of another server is left alone. */
    assert_int_equal(open_it(&s, &reason), 0);
    assert_int_equal(state_write_endpoint(&s, "::", 5556, &reason), 0);
    folder_write(folder_path(dir, "endpoint"), "127.0.0.1:7000\n");
    state_close(&s);
    assert_string_equal(endpoint(), "127.0.0.1:7000\n");
}
