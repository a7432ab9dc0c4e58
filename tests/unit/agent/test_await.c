/* tests/unit/agent/test_await.c: who waits for a job of the pool, and what is left of it where that
 * does not begin. Real processes. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/guard/guard_block.h"
#include "agent/pool/await.h"
#include "common/net/fd.h"
#include "tests/unit/story.h"

extern char **environ;

static char **before; /* the environment */
static int pool;      /* its end of the socket */
static struct agent_settings settings;
static struct awaited awaited;
static struct tfe_why why;

static int setup(void **state)
{
    static char python[] = "python3";
    int ends[2];
    (void)state;
    before = environ;
    memset(&awaited, 0, sizeof awaited);
    agent_settings_init(&settings);
    settings.python = python;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    settings.await_fd = (uint32_t)ends[0];
    pool = ends[1];
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fd_drop(&pool);
    environ = before;
    return 0;
}

#define FIXTURE setup, teardown

static void give(const char *directory)
{
    const char *const words[] = {"tfe-agent", "--job=a", NULL};
    const char *const env[] = {"A=1", NULL};
    const struct spawn_spec spec = {.argv = words, .envp = env, .directory = directory};
    struct guard_words order;
    int fds[GUARD_FDS] = {-1, pool, pool};
    assert_int_equal(guard_block_new(&spec, &order, &fds[GUARD_FD_BLOCK]), 0);
    assert_true(guard_send(pool, &order, sizeof order, fds));
    fd_drop(&fds[GUARD_FD_BLOCK]);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) != -1 || errno != EBADF;
}

/* Its guard has been told, and takes the standby along. */
static void nothing_is_left(void)
{
    assert_false(is_open(awaited.guard.fd));
    while (waitpid(-1, NULL, 0) > 0) {
    }
    assert_int_equal(errno, ECHILD);
}

TEST_IN(await, leaves_nothing_where_the_pool_is_gone)
{
    fd_drop(&pool);
    assert_int_equal(await_job(&settings, &awaited, &why), TFE_ESYS);
    assert_string_equal(why.text, "");
    nothing_is_left();
}

TEST_IN(await, leaves_nothing_where_the_jobs_directory_is_not_there)
{
    give("/no/such/directory");
    assert_int_equal(await_job(&settings, &awaited, &why), TFE_ESYS);
    assert_non_null(strstr(why.text, "enter /no/such/directory: "));
    nothing_is_left();
}

TEST_IN(await, leaves_nothing_of_a_job_that_then_does_not_begin)
{
    give(".");
    assert_int_equal(await_job(&settings, &awaited, &why), 0);
    assert_int_equal(awaited.argc, 2);
    assert_string_equal(awaited.argv[1], "--job=a");
    assert_string_equal(awaited.directory, ".");
    assert_string_equal(getenv("A"), "1");
    assert_true(is_open(awaited.guard.fd));
    awaited_let_go(&awaited);
    nothing_is_left();
}

TEST_IN(await, is_let_go_by_who_has_taken_it_over)
{
    give(".");
    assert_int_equal(await_job(&settings, &awaited, &why), 0);
    awaited.is_taken = true;
    awaited_let_go(&awaited);
    assert_true(is_open(awaited.guard.fd));
    trainers_ready_free(&awaited.ready);
    event_base_free(awaited.base);
    fd_drop(&awaited.kept);
    nothing_is_left();
}
