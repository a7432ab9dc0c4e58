/* tests/unit/server/test_keeper.c: the process that keeps programs for the server: what it leaves
 * behind of the server, and what is left of its programs when it or the server ends. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/net/clock.h"
#include "server/keeper.h"
#include "server/web_beside.h"
#include "tests/unit/folder.h"

static int server; /* the socket to the keeper; -1 */
static void (*on_child)(int signo);

static int begin(void **state)
{
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    server = -1;
    return 0;
}

/* Whoever is left ends with the socket, and is reaped. */
static int end(void **state)
{
    keeper_bid(server);
    keeper_await(&server, tfe_mono_add(clock_mono(), PATIENCE_MS));
    while (waitpid(-1, NULL, 0) > 0) {
    }
    (void)signal(SIGCHLD, SIG_DFL);
    return 0;
}

#define FIXTURE begin, end

static void start(void (*keep)(const struct keeper *k, void *ctx))
{
    struct tfe_why why;
    assert_int_equal(keeper_start("kept", SOCK_STREAM, keep, NULL, &server, &why), 0);
}

/* The next line that the keeper, or its program, has said. */
static const char *hear(void)
{
    static char line[128];
    size_t n = 0;
    memset(line, 0, sizeof line);
    while (n < sizeof line - 1) {
        struct pollfd from = {.fd = server, .events = POLLIN};
        assert_int_equal(poll(&from, 1, PATIENCE_MS), 1);
        assert_int_equal(recv(server, line + n, 1, 0), 1);
        if (line[n] == '\n') {
            line[n] = '\0';
            return line;
        }
        n++;
    }
    return line;
}

static int hear_number(void)
{
    return atoi(hear());
}

/* --- what it is ------------------------------------------------------------------------------- */

static void says_what_it_has(const struct keeper *k, void *ctx)
{
    char name[32] = "";
    (void)prctl(PR_GET_NAME, name);
    (void)dprintf(k->server, "%s %d %d %s %s %s\n", name, getsid(0) == getpid(),
                  fcntl(STDERR_FILENO + 1, F_GETFD) >= 0 && k->server != STDERR_FILENO + 1 &&
                      k->signals != STDERR_FILENO + 1,
                  getenv("NOTIFY_SOCKET") ? "notifies" : "-", getenv("TFE_PORT") ? "port" : "-",
                  getenv("TFEX") ? "other" : "-");
}

TEST_IN(keeper, has_nothing_of_the_servers_but_its_socket)
{
    const int open = dup2(STDIN_FILENO, STDERR_FILENO + 1);
    assert_int_equal(
        setenv("NOTIFY_SOCKET", "/x", 1) | setenv("TFE_PORT", "1", 1) | setenv("TFEX", "1", 1), 0);
    start(says_what_it_has);
    (void)close(open);
    assert_string_equal(hear(), "kept 1 0 - - other");
    assert_non_null(getenv("TFE_PORT")); /* the server keeps its own */
    assert_int_equal(unsetenv("NOTIFY_SOCKET") | unsetenv("TFE_PORT") | unsetenv("TFEX"), 0);
}

/* --- its programs ----------------------------------------------------------------------------- */

static void exits_with_3(void *ctx)
{
    _exit(3);
}

static void waits_for_one(const struct keeper *k, void *ctx)
{
    int status = 0;
    const pid_t child = keeper_spawn(SIGTERM, exits_with_3, NULL);
    const bool is_there = keeper_waits(k, child, -1, &status);
    (void)dprintf(k->server, "%d %d\n", is_there, WEXITSTATUS(status));
    const struct tfe_mono until = tfe_mono_add(clock_mono(), 5);
    const bool is_late = keeper_waits(k, 0, 5, &status) && !tfe_mono_before(clock_mono(), until);
    (void)dprintf(k->server, "%d %d\n", is_late, status);
    (void)dprintf(k->server, "%d\n", keeper_waits(k, 0, -1, &status)); /* the server's end */
}

TEST_IN(keeper, hears_of_its_programs_end_though_the_server_ignores_its_childrens)
{
    (void)signal(SIGCHLD, SIG_IGN);
    start(waits_for_one);
    assert_string_equal(hear(), "1 3");
    assert_string_equal(hear(), "1 -1");
    keeper_bid(server);
    assert_string_equal(hear(), "0");
}

static int out; /* of the program */

static void sleeps(void *ctx)
{
    sigset_t blocked;
    (void)sigprocmask(SIG_BLOCK, NULL, &blocked);
    (void)signal(SIGTERM, SIG_IGN); /* who is below has it so from its first moment */
    const pid_t below = fork();
    if (below == 0) {
        for (;;) {
            (void)pause();
        }
    }
    (void)signal(SIGTERM, on_child ? on_child : SIG_DFL);
    (void)dprintf(out, "%d\n%d\n%d\n%d\n", (int)getpid(), (int)below, getpgid(0) == getpid(),
                  sigismember(&blocked, SIGTERM) | sigismember(&blocked, SIGCHLD));
    for (;;) {
        (void)pause();
    }
}

static void keeps_one(const struct keeper *k, void *ctx)
{
    int status;
    out = k->server;
    (void)dprintf(k->server, "%d\n", (int)getpid());
    const pid_t child = keeper_spawn(SIGTERM, sleeps, NULL);
    if (!keeper_waits(k, child, -1, &status)) {
        keeper_end(child);
    }
}

/* Reaps it; how it ended. */
static int end_of(pid_t pid)
{
    int status = 0;
    for (int ms = 0; waitpid(pid, &status, WNOHANG) == 0; ms += 2) {
        assert_true(ms < PATIENCE_MS);
        (void)usleep(2000);
    }
    return status;
}

TEST_IN(keeper, takes_its_program_along_whatever_ends_it)
{
    on_child = NULL;
    start(keeps_one);
    const pid_t keeper = hear_number();
    const pid_t child = hear_number();
    const pid_t below = hear_number();
    assert_int_equal(hear_number(), 1); /* a group of its own */
    assert_int_equal(hear_number(), 0); /* no signal is blocked */
    assert_int_equal(kill(keeper, SIGKILL), 0);
    assert_int_equal(end_of(keeper), SIGKILL);
    assert_int_equal(end_of(child), SIGTERM);
    assert_int_equal(kill(below, SIGKILL), 0); /* it did not know of that */
}

/* A program that takes its signal so, and who is below it and does not hear of it, are gone with
 * the server. */
static void ends_with_the_server(void (*on_signal)(int signo))
{
    on_child = on_signal;
    start(keeps_one);
    const pid_t keeper = hear_number();
    (void)hear_number();
    const pid_t below = hear_number();
    (void)hear_number();
    (void)hear_number();
    keeper_bid(server);
    assert_int_equal(end_of(keeper), 0);
    assert_int_equal(end_of(below), SIGKILL);
}

TEST_IN(keeper, ends_its_program_and_what_that_has_started_with_the_server)
{
    ends_with_the_server(SIG_IGN); /* who does not leave in a second is killed */
}

static void leaves(int signo)
{
    _exit(0);
}

TEST_IN(keeper, leaves_nobody_behind_who_did_not_hear_of_the_end)
{
    ends_with_the_server(leaves); /* at once, but not who is below it */
}

/* --- the page beside the server --------------------------------------------------------------- */

static char folder[FOLDER_BYTES];

void __wrap_beside_find(const char *name, char ret[PATH_MAX]);
void __wrap_beside_find(const char *name, char ret[PATH_MAX])
{
    (void)snprintf(ret, PATH_MAX, "%s/%s", folder, name);
}

/* A program that notes how it was called, and ends as that has it. */
static void make_program(const char *end)
{
    char script[256];
    folder_make(folder);
    (void)snprintf(script, sizeof script, "#!/bin/sh\necho \"$@\" >>%s/calls\n%s\n", folder, end);
    folder_write(folder_path(folder, "tfe-web"), script);
    assert_int_equal(chmod(folder_path(folder, "tfe-web"), 0700), 0);
}

/* How often it was called; the last time so. */
static unsigned calls(char ret[512])
{
    unsigned n = 0;
    FILE *file = fopen(folder_path(folder, "calls"), "re");
    while (file && fgets(ret, 512, file)) {
        n++;
    }
    if (file) {
        (void)fclose(file);
    }
    return n;
}

static void until_called(unsigned times, char ret[512])
{
    for (int ms = 0; calls(ret) < times; ms += 5) {
        assert_true(ms < PATIENCE_MS);
        (void)usleep(5000);
    }
}

TEST_IN(beside, the_page_is_started_by_an_observers_token_and_again_where_it_ends)
{
    struct tfe_why why;
    char call[512];
    char expected[512];
    make_program("exit 1");
    assert_int_equal(web_beside_start(&server, 8080, folder, LOG_WARN_, LOG_JSON, &why), 0);
    const struct tfe_mono began = clock_mono();
    web_beside_begin(server);
    until_called(1, call);
    (void)snprintf(expected, sizeof expected,
                   "--port 8080 --bind 127.0.0.1 --state-dir %s --token-file %s/observer.token "
                   "--log-level warn --log-format json\n",
                   folder, folder);
    assert_string_equal(call, expected);
    until_called(2, call);
    assert_true(tfe_mono_sub(clock_mono(), began) >= 1000); /* not at once */
    assert_string_equal(call, expected);
    folder_remove(folder);
}

TEST_IN(beside, the_page_of_a_server_that_never_listened_is_not_started)
{
    struct tfe_why why;
    char call[512];
    make_program("exit 1");
    assert_int_equal(web_beside_start(&server, 8080, folder, LOG_WARN_, LOG_JSON, &why), 0);
    (void)usleep(100000); /* it would be there */
    keeper_bid(server);
    keeper_await(&server, tfe_mono_add(clock_mono(), PATIENCE_MS));
    assert_int_equal(calls(call), 0);
    folder_remove(folder);
}

TEST_IN(beside, the_page_ends_with_the_server)
{
    struct tfe_why why;
    char call[512];
    make_program("trap '' TERM; while :; do sleep 0.05; done"); /* however it takes it */
    assert_int_equal(web_beside_start(&server, 8080, folder, LOG_WARN_, LOG_JSON, &why), 0);
    web_beside_begin(server);
    until_called(1, call);
    keeper_bid(server);
    keeper_await(&server, tfe_mono_add(clock_mono(), PATIENCE_MS));
    for (int ms = 0; waitpid(-1, NULL, WNOHANG) != -1; ms += 5) { /* who is left would be ours */
        assert_true(ms < PATIENCE_MS);
        (void)usleep(5000);
    }
    assert_int_equal(calls(call), 1);
    folder_remove(folder);
}
