/* tests/unit/agent/test_container.c: the container of a job's image, by an engine of a few lines.
 */
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <sys/wait.h>

#include "agent/pool/container.h"
#include "agent/pool/scratch.h"
#include "tests/unit/folder.h"

/* It writes down what it is told, and by its file "mode" stands, fails or hangs. */
static const char script[] = "#!/bin/sh\n"
                             "cd \"${0%/*}\" && echo \"$*\" >> orders && env > env\n"
                             "case $1 in\n"
                             "inspect) cat json ;;\n"
                             "run) echo $$ > pid; read -r mode < mode\n"
                             "  case $mode in\n"
                             "  stands) exec cat ;;\n"
                             "  hangs) exec sleep 600 ;;\n"
                             "  *) echo 'Trying to pull' >&2; echo \"Error: $mode\" >&2\n"
                             "     echo \"See 'run --help'.\" >&2; exit 125 ;;\n"
                             "  esac ;;\n"
                             "esac\n";

static char dir[FOLDER_BYTES];
static struct event_base *base;
static struct scratch *scratch;
static struct engine_wish engine;
static struct container *container;
static bool is_ready, has_ended;
static char facts[512], why_ended[512];
static bool dies_at_once; /* its keeper, before anybody looks */

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    siginfo_t info;
    pid_t pid = __real_fork();
    while (pid > 0 && dies_at_once && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR) {
    }
    return pid;
}

static int set_up(void **state)
{
    struct tfe_why why;
    assert_true(sodium_init() >= 0);
    folder_make(dir);
    folder_write(folder_path(dir, "engine"), script);
    assert_int_equal(chmod(folder_path(dir, "engine"), 0700), 0);
    folder_write(folder_path(dir, "mode"), "stands\n");
    folder_write(folder_path(dir, "json"),
                 "[{\"State\": {\"Pid\": 4711}, \"Config\": {\"WorkingDir\": \"/opt/x\","
                 "\"Env\": [\"A=1\", \"HOSTNAME=h\", \"B=\"]}}]");
    base = event_base_new();
    assert_int_equal(scratch_new(true, &scratch, &why), 0);
    static char path[64];
    snprintf(path, sizeof path, "%s", folder_path(dir, "engine"));
    engine = (struct engine_wish){.engine = path,
                                  .image = "org/x:1",
                                  .name = "tfe-agent-1",
                                  .shared = {dir},
                                  .scratch = scratch};
    is_ready = has_ended = dies_at_once = false;
    facts[0] = why_ended[0] = '\0';
    return 0;
}

static int tear_down(void **state)
{
    container_free(container);
    container = NULL;
    scratch_free(scratch);
    event_base_free(base);
    folder_remove(dir);
    return 0;
}
#define FIXTURE set_up, tear_down

static void on_ready(void *ctx, const struct container_facts *found)
{
    size_t n = (size_t)snprintf(facts, sizeof facts, "%d %s", (int)found->pid, found->directory);
    for (const char *const *entry = found->envp; *entry; entry++) {
        n += (size_t)snprintf(facts + n, sizeof facts - n, " %s", *entry);
    }
    is_ready = true;
}

static void on_ended(void *ctx, const char *why)
{
    assert_false(has_ended);
    has_ended = true;
    snprintf(why_ended, sizeof why_ended, "%s", why);
}

static void begins(void)
{
    struct tfe_why why;
    assert_int_equal(container_new(
                         &(struct container_wish){
                             .base = base, .engine = &engine, .ready = on_ready, .ended = on_ended},
                         &container, &why),
                     0);
}

/* Until *what, or in vain. */
static void turn(const bool *what)
{
    const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    event_base_loopexit(base, &patience);
    while (!*what && !event_base_got_exit(base)) {
        event_base_loop(base, EVLOOP_ONCE);
    }
    assert_true(*what);
}

static const char *text_of(const char *name)
{
    static char text[8192];
    FILE *file = fopen(folder_path(dir, name), "re");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = '\0';
    if (file) {
        fclose(file);
    }
    return text;
}

static bool is_ordered(const char *part)
{
    return strstr(text_of("orders"), part) != NULL;
}

/* A zombie does not. */
static bool lives(pid_t pid)
{
    char path[40];
    char text[128] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    bool is_read = file && fgets(text, sizeof text, file);
    if (file) {
        fclose(file);
    }
    return is_read && !strstr(text, ") Z ");
}

static bool scratch_has(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch_path(scratch), name);
    return access(path, F_OK) == 0;
}

static void leave_a_file(void)
{
    char path[256];
    snprintf(path, sizeof path, "%s/left", scratch_path(scratch));
    folder_write(path, "x");
}

TEST_IN(container, it_stands_until_it_is_stopped)
{
    leave_a_file();
    engine.options = "--gpus  all --volume\t/a:/a";
    engine.tools = "/usr";
    assert_int_equal(setenv("TFE_TOKEN", "secret", 1), 0);
    begins();
    assert_int_equal(unsetenv("TFE_TOKEN"), 0);
    turn(&is_ready);
    assert_string_equal(facts, "4711 /opt/x A=1 B="); /* the host's name is the machine's */
    assert_true(container_is_up(container));
    assert_true(is_ordered("run --interactive --rm --network host --pid host --ipc host"));
    assert_true(is_ordered("--entrypoint cat --name tfe-agent-1 --mount type=bind,source="));
    assert_true(is_ordered("target=/usr,readonly --gpus all --volume /a:/a org/x:1\n"));
    assert_true(is_ordered("inspect --type container tfe-agent-1\n"));
    assert_false(is_ordered("rm --force"));
    assert_non_null(strstr(text_of("env"), "PATH="));
    assert_null(strstr(text_of("env"), "TFE_TOKEN"));
    container_stop(container);
    assert_int_equal(container_fd(container), -1);
    turn(&has_ended);
    assert_string_equal(why_ended, "");
    assert_true(is_ordered("rm --force tfe-agent-1\n"));
    assert_true(scratch_has("left")); /* its agent clears that away */
}

TEST_IN(container, who_else_holds_it_keeps_it)
{
    begins();
    turn(&is_ready);
    int other = fcntl(container_fd(container), F_DUPFD_CLOEXEC, 0);
    const pid_t pid = (pid_t)strtol(text_of("pid"), NULL, 10);
    container_stop(container);
    event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(kill(pid, 0), 0);
    assert_false(is_ordered("rm --force"));
    close(other);
    turn(&has_ended);
    assert_true(kill(pid, 0) == -1 && errno == ESRCH);
}

TEST_IN(container, an_engine_that_fails_is_heard)
{
    static const char *const modes[] = {"no such image", "x\x1b[31m"};
    static const char *const said[] = {"Error: no such image", "Error: x\\u001b[31m"};
    leave_a_file();
    for (size_t i = 0; i < 2; i++) {
        char sentence[256];
        folder_write(folder_path(dir, "mode"), modes[i]);
        has_ended = false;
        begins();
        turn(&has_ended);
        snprintf(sentence, sizeof sentence, "image org/x:1: %s: %s", engine.engine, said[i]);
        assert_string_equal(why_ended, sentence);
        assert_false(is_ready);
        assert_true(is_ordered("rm --force tfe-agent-1\n")); /* it may have been made */
        assert_false(scratch_has("left"));
        container_free(container);
        container = NULL;
    }
}

TEST_IN(container, an_engine_that_is_not_there_is_named)
{
    engine.engine = "no-such-engine";
    begins();
    turn(&has_ended);
    assert_string_equal(why_ended, "image org/x:1: no-such-engine: there is none on this node");
}

TEST_IN(container, one_that_ends_before_anybody_looks_is_heard_of)
{
    engine.engine = "no-such-engine";
    dies_at_once = true;
    begins();
    turn(&has_ended);
    assert_string_equal(why_ended, "image org/x:1: no-such-engine: there is none on this node");
}

TEST_IN(container, one_that_is_still_pulled_is_given_up)
{
    folder_write(folder_path(dir, "mode"), "hangs\n");
    begins();
    while (text_of("pid")[0] == '\0') {
        event_base_loop(base, EVLOOP_NONBLOCK);
    }
    const pid_t pid = (pid_t)strtol(text_of("pid"), NULL, 10);
    container_stop(container);
    turn(&has_ended);
    assert_string_equal(why_ended, "");
    assert_false(is_ready);
    assert_true(kill(pid, 0) == -1 && errno == ESRCH);
    assert_true(is_ordered("rm --force tfe-agent-1\n"));
}

TEST_IN(container, one_that_ends_by_itself_says_so)
{
    begins();
    turn(&is_ready);
    assert_int_equal(kill((pid_t)strtol(text_of("pid"), NULL, 10), SIGKILL), 0);
    turn(&has_ended);
    assert_string_equal(why_ended, "its container has ended");
}

TEST_IN(container, its_keeper_may_be_killed)
{
    folder_write(folder_path(dir, "mode"), "hangs\n"); /* and looks at no stdin */
    begins();
    while (text_of("pid")[0] == '\0') {
        event_base_loop(base, EVLOOP_NONBLOCK);
    }
    const pid_t pid = (pid_t)strtol(text_of("pid"), NULL, 10);
    assert_int_equal(kill(container_pid(container), SIGKILL), 0);
    turn(&has_ended);
    assert_string_equal(why_ended, "its container has ended");
    for (int i = 0; i < PATIENCE_MS && lives(pid); i++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    assert_false(lives(pid)); /* the engine dies with it */
}

TEST_IN(container, what_makes_no_sense_of_it_is_no_container)
{
    static const char *const answers[] = {"",
                                          "[]",
                                          "[{\"State\": {\"Pid\": 0}}]",
                                          "[{\"State\": {\"Pid\": 1}}]",
                                          "[{\"State\": {\"Pid\": 4294967296}}]",
                                          "no JSON"};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        folder_write(folder_path(dir, "json"), answers[i]);
        has_ended = false;
        begins();
        turn(&has_ended);
        assert_non_null(strstr(why_ended, "it does not say which process it has started"));
        assert_false(is_ready);
        container_free(container);
        container = NULL;
    }
}

TEST_IN(container, variables_without_end_are_none)
{
    static char json[ENGINE_SAYS_MAX + 128];
    int n = snprintf(json, sizeof json, "[{\"State\": {\"Pid\": 2}, \"Config\": {\"Env\": [\"A=");
    memset(json + n, 'x', ENGINE_SAYS_MAX - 20);
    snprintf(json + n + ENGINE_SAYS_MAX - 20, 8, "\"]}}]");
    folder_write(folder_path(dir, "json"), json);
    begins();
    turn(&is_ready); /* they just fit */
    container_stop(container);
    turn(&has_ended);
    container_free(container);
    is_ready = has_ended = false;
    memset(json + n + ENGINE_SAYS_MAX - 20, 'x', 20);
    snprintf(json + n + ENGINE_SAYS_MAX, 8, "\"]}}]");
    folder_write(folder_path(dir, "json"), json);
    begins();
    turn(&has_ended);
    assert_false(is_ready);
    assert_non_null(strstr(why_ended, "its variables have more than"));
}

TEST_IN(container, options_without_end_are_refused)
{
    static char options[8192];
    for (size_t i = 0; i < 2; i++) { /* too many, and too long */
        memset(options, 'x', sizeof options - 1);
        for (size_t at = 1; at < 200 && i == 0; at += 2) {
            options[at] = ' ';
        }
        options[i == 0 ? 200 : 5000] = '\0';
        engine.options = options;
        has_ended = false;
        begins();
        turn(&has_ended);
        assert_non_null(strstr(why_ended, "--runtime-options are too many"));
        assert_false(is_ordered("run "));
        container_free(container);
        container = NULL;
    }
}

TEST_IN(container, what_cannot_be_shared_is_named)
{
    static const char *const paths[] = {"/no/such", "/a,readonly", "/a\"b"};
    static const char *const said[] = {"share /no/such with the container: no such file",
                                       "/a,readonly cannot be shared with a container",
                                       "/a\"b cannot be shared with a container"};
    for (size_t i = 0; i < 3; i++) {
        engine.shared[1] = paths[i];
        has_ended = false;
        begins();
        turn(&has_ended);
        assert_non_null(strstr(why_ended, said[i]));
        assert_false(is_ordered("run "));
        container_free(container);
        container = NULL;
    }
}
