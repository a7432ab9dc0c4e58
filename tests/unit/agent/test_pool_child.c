/* tests/unit/agent/test_pool_child.c: the pool's child agent, with a shell in its place: its
 * start, its end, and its cleanup. */
#include <event2/event.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "agent/pool/child.h"
#include "agent/pool/handover.h"
#include "agent/pool/scratch.h"
#include "common/base/fd.h"
#include "tests/unit/agent/agent_fixture.h"
#include "tests/unit/folder.h"

static struct {
    char dir[FOLDER_BYTES]; /* where scripts record their actions */
    struct event_base *base;
    struct scratch *scratch;
    struct pool_child *child;
    unsigned ended;
    struct pool_end end;
    bool has_children; /* when it ended */
    unsigned stuck;
    struct rlimit cores;
} f;

static void on_ended(void *ctx, const struct pool_end *end)
{
    f.ended++;
    f.end = *end;
    siginfo_t info = {.si_pid = 0};
    f.has_children = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

static void on_stuck(void *ctx)
{
    f.stuck++;
}

static int begin(void **state)
{
    struct tfe_reason reason;
    memset(&f, 0, sizeof f);
    folder_make(f.dir);
    f.base = event_base_new();
    assert_non_null(f.base);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    assert_int_equal(scratch_new(true, &f.scratch, &reason), 0);
    assert_int_equal(getrlimit(RLIMIT_CORE, &f.cores), 0);
    return 0;
}

static int end(void **state)
{
    pool_child_free(f.child);
    scratch_free(f.scratch);
    event_base_free(f.base);
    folder_remove(f.dir);
    return 0;
}

#define FIXTURE begin, end

static const char *at(const char *name)
{
    return folder_path(f.dir, name);
}

static bool is_there(const char *name)
{
    return access(at(name), F_OK) == 0;
}

/* Returns the first line that a script wrote to the file, or "". */
static const char *line_of(const char *name)
{
    static char line[128];
    FILE *file = fopen(at(name), "re");
    line[0] = '\0';
    if (file) {
        if (!fgets(line, sizeof line, file)) {
            line[0] = '\0';
        }
        (void)fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static const struct handover handover = {.assignment = 7, .token = "its token"};

static int start_in(const char *engine, char *const *argv, const char *directory)
{
    static char variable[64];
    struct tfe_reason reason;
    char *envp[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", variable, NULL};
    (void)snprintf(variable, sizeof variable, "D=%s", f.dir);
    const struct pool_child_options options = {.base = f.base,
                                               .argv = argv,
                                               .envp = envp,
                                               .directory = directory,
                                               .handover = &handover,
                                               .scratch = f.scratch,
                                               .engine = engine,
                                               .container = "its-container",
                                               .cores = &f.cores,
                                               .ended = on_ended,
                                               .stuck = on_stuck};
    return pool_child_start(&options, &f.child, &reason);
}

static int start_with(char *const *argv, const char *directory)
{
    return start_in(NULL, argv, directory);
}

/* Starts a shell in the job's directory; $D is the directory for its records. */
static int start_as(const char *program, const char *script, const char *directory)
{
    return start_with((char *[]){(char *)(uintptr_t)program, (char *)(uintptr_t) "-c",
                                 (char *)(uintptr_t)script, NULL},
                      directory);
}

static void start(const char *script)
{
    assert_int_equal(start_as("/bin/sh", script, scratch_path(f.scratch)), 0);
}

/* Prepares another job, because the directory of the last one is removed. */
static void next_job(void)
{
    struct tfe_reason reason;
    pool_child_free(f.child);
    f.child = NULL;
    scratch_free(f.scratch);
    assert_int_equal(scratch_new(true, &f.scratch, &reason), 0);
    f.ended = 0;
}

static void until_ended(void)
{
    TURN_UNTIL(f.base, f.ended == 1);
    assert_false(f.has_children); /* no process is left, not even an unreaped one */
}

/* --- start --- */

TEST_IN(pool_child, end_is_reported_by_status_and_first_message_line)
{
    start("printf 'one\\ntwo' >&$TFE_WORDS_FD; exit 3");
    until_ended();
    assert_int_equal(f.end.code, 3);
    assert_string_equal(f.end.message, "one");
}

TEST_IN(pool_child, signal_gives_code_128_plus_number)
{
    start("kill -9 $$");
    until_ended();
    assert_int_equal(f.end.code, 128 + SIGKILL);
    assert_string_equal(f.end.message, "");
}

TEST_IN(pool_child, child_has_its_directory_no_terminal_and_its_cores)
{
    f.cores.rlim_cur = f.cores.rlim_max < 4096 ? f.cores.rlim_max : 4096;
    start("pwd >$D/pwd; grep 'Max core' /proc/self/limits >$D/cores;"
          "read -r a b c d e session g </proc/$$/stat; test $session = $$");
    until_ended();
    assert_int_equal(f.end.code, 0);
    assert_string_equal(line_of("pwd"), scratch_path(f.scratch));
    unsigned long long cores = 0;
    assert_int_equal(sscanf(line_of("cores"), "Max core file size %llu", &cores), 1);
    assert_true(cores == f.cores.rlim_cur);
}

/* Its token is neither in the environment nor on the command line. */
TEST_IN(pool_child, assignment_is_passed_by_descriptor)
{
    struct handover got;
    char path[FOLDER_BYTES + 16];
    char script[128];
    (void)snprintf(script, sizeof script,
                   "head -c %zu <&$TFE_HANDOVER_FD >$D/got; env >$D/env; exit 0", sizeof got);
    start(script);
    until_ended();
    (void)snprintf(path, sizeof path, "%s", at("got"));
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fread(&got, sizeof got, 1, file), 1);
    (void)fclose(file);
    assert_memory_equal(&got, &handover, sizeof got);
    (void)snprintf(path, sizeof path, "%s", at("env"));
    file = fopen(path, "re");
    assert_non_null(file);
    char line[512];
    while (fgets(line, sizeof line, file)) {
        assert_null(strstr(line, "its token"));
    }
    (void)fclose(file);
}

/* Starts a job as a user whose pipes have used up pipe-user-pages-soft. Returns an exit status. */
static int start_without_pipe_space(void)
{
    int ends[2];
    int capacity = 1024 * 1024;
    alarm(TIMEOUT_MS / 1000);
    if (setgid(65534) != 0 || setuid(65534) != 0) {
        return 1;
    }
    while (capacity > (int)sizeof(struct handover)) { /* new pipes are large enough */
        if (pipe2(ends, O_CLOEXEC) != 0) {
            return 0; /* this machine has no such limit */
        }
        (void)fcntl(ends[0], F_SETPIPE_SZ, capacity);
        capacity = fcntl(ends[0], F_GETPIPE_SZ);
    }
    start_as("/bin/sh", "exit 0", "/");
    return f.child && waitpid(pool_child_pid(f.child), NULL, 0) > 0 ? 0 : 1;
}

TEST_IN(pool_child, start_needs_no_pipe_space)
{
    int status;
    if (getuid() != 0) {
        skip();
    }
    const pid_t pid = fork();
    if (pid == 0) {
        _exit(start_without_pipe_space());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

TEST_IN(pool_child, child_starts_with_default_signal_state)
{
    static const char *const lines[] = {"^SigBlk:.0*$", "^SigIgn:.{13}[02468ace]...$"};
    sigset_t blocked;
    sigset_t unblocked;
    /* settings of the pool's process, which a child must not inherit */
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    assert_int_equal(sigprocmask(SIG_BLOCK, &blocked, &unblocked), 0);
    for (size_t i = 0; i < 2; i++) {
        char *argv[] = {(char *)(uintptr_t) "/bin/grep", (char *)(uintptr_t) "-Eq",
                        (char *)(uintptr_t)lines[i], (char *)(uintptr_t) "/proc/self/status", NULL};
        assert_int_equal(start_with(argv, scratch_path(f.scratch)), 0);
        until_ended();
        assert_int_equal(f.end.code, 0);
        next_job();
    }
    assert_int_equal(sigprocmask(SIG_SETMASK, &unblocked, NULL), 0);
    (void)signal(SIGPIPE, before);
}

TEST_IN(pool_child, failed_start_has_a_reason)
{
    assert_int_equal(start_as("/no/such/agent", "", scratch_path(f.scratch)), 0);
    until_ended();
    assert_int_equal(f.end.code, POOL_NOT_STARTED);
    assert_non_null(strstr(f.end.message, "start /no/such/agent"));
    next_job();
    assert_int_equal(start_as("/bin/sh", "exit 0", "/no/such/directory"), 0);
    until_ended();
    assert_int_equal(f.end.code, POOL_NOT_STARTED);
    assert_non_null(strstr(f.end.message, "enter /no/such/directory"));
}

TEST_IN(pool_child, dead_pool_signals_its_children)
{
    const pid_t pool = fork();
    if (pool == 0) {
        start("trap ': >$D/told; exit' TERM; echo $$ >$D/pid; while :; do sleep 0.02; done");
        while (line_of("pid")[0] == '\0') {
            (void)usleep(2000);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(pool, NULL, 0), pool);
    const pid_t pid = (pid_t)atoi(line_of("pid"));
    assert_true(pid > 0);
    TURN_UNTIL(f.base, is_there("told"));
    TURN_UNTIL(f.base, waitpid(pid, NULL, WNOHANG) != 0);
}

/* --- end --- */

TEST_IN(pool_child, stop_is_orderly_if_possible)
{
    start("trap 'exit 7' TERM; trap 'exit 8' INT; : >$D/up; while :; do sleep 0.02; done");
    TURN_UNTIL(f.base, is_there("up"));
    assert_true(pool_child_pid(f.child) > 0);
    pool_child_stop(f.child, 1000000);
    until_ended();
    assert_int_equal(f.end.code, 7);
    assert_int_equal(pool_child_pid(f.child), 0);
    pool_child_stop(f.child, 0); /* no effect on a child that has ended */
}

TEST_IN(pool_child, second_stop_is_urgent)
{
    start("n=0; trap 'n=$((n+1)); echo $n >$D/terms' TERM; trap ': >$D/int' INT; : >$D/up;"
          "while [ ! -e $D/int ]; do sleep 0.02; done; exit $((n + 10))");
    TURN_UNTIL(f.base, is_there("up"));
    pool_child_stop(f.child, 1000000);
    TURN_UNTIL(f.base, strcmp(line_of("terms"), "1") == 0);
    pool_child_stop(f.child, 1000000);
    until_ended();
    assert_int_equal(f.end.code, 11); /* only one SIGTERM */
}

TEST_IN(pool_child, end_kills_all_descendants)
{
    start("setsid sh -c 'echo $$ >$D/left; exec sleep 1000' & while [ ! -s $D/left ]; do sleep "
          "0.02; done;"
          "exit 0");
    until_ended();
    const pid_t left = (pid_t)atoi(line_of("left"));
    assert_true(left > 0);
    assert_true(rig_is_gone(left));
}

TEST_IN(pool_child, end_leaves_no_zombie)
{
    start("(sh -c 'echo $$ >$D/left.new; mv $D/left.new $D/left' &); while [ ! -e $D/left ]; do "
          "sleep 0.02; done;"
          "while ! grep -q 'State:.Z' /proc/$(cat $D/left)/status; do sleep 0.02; done");
    until_ended();
    const pid_t left = (pid_t)atoi(line_of("left"));
    assert_true(left > 0);
    assert_int_equal(waitpid(left, NULL, WNOHANG), -1);
}

TEST_IN(pool_child, descendants_of_a_guard_are_left_to_it)
{
    /* The guard of a dead agent ends its processes and then itself. */
    start("ln -s /bin/sh $D/tfe-guard; setsid $D/tfe-guard -c 'sh -c \": >$D/up; "
          "while [ ! -e $D/go ]; do sleep 0.02; done\"; echo $? >$D/end' &"
          "while [ ! -e $D/up ]; do sleep 0.02; done; exit 4");
    TURN_UNTIL(f.base, is_there("up") && pool_child_pid(f.child) == 0);
    pool_child_stop(f.child, 0); /* no effect */
    turn_a_while(f.base);        /* some looks more */
    assert_false(pool_child_is_stuck(f.child) || f.stuck);
    TURN_UNTIL(f.base, f.stuck == 1);
    assert_true(pool_child_is_stuck(f.child));
    assert_int_equal(f.ended, 0);
    folder_write(at("go"), "");
    TURN_UNTIL(f.base, f.ended == 1);
    TURN_UNTIL(f.base, line_of("end")[0] != '\0');
    assert_string_equal(line_of("end"), "0");
    assert_int_equal(f.end.code, 4);
    while (waitpid(-1, NULL, 0) > 0) {
    }
}

/* --- log files --- */

static void make_log(void)
{
    assert_int_equal(mkdir(at("j"), 0700), 0);
    assert_int_equal(mkdir(at("j/run-1"), 0700), 0);
    assert_int_equal(mkdir(at("j/run-1/epoch-1"), 0700), 0);
    folder_write(at("j/run-1/epoch-1/rank-0.stdout"), "said\n");
}

TEST_IN(pool_child, logs_are_removed_when_the_job_is_over)
{
    make_log();
    start("exit 130"); /* the agent was told to leave */
    pool_child_log(f.child, f.dir, "j");
    until_ended();
    assert_true(is_there("j/run-1/epoch-1/rank-0.stdout")); /* the job continues on other nodes */
    next_job();
    start("exit 130");
    pool_child_log(f.child, f.dir, "j");
    pool_child_over(f.child); /* the server has reported the end of the job */
    until_ended();
    assert_false(is_there("j/run-1/epoch-1/rank-0.stdout"));
    next_job();
    folder_remove(at("j"));
    make_log();
    start("exit 0"); /* the job has succeeded */
    pool_child_log(f.child, f.dir, "j");
    until_ended();
    assert_int_equal(f.end.code, 0);
    assert_false(is_there("j/run-1/epoch-1/rank-0.stdout"));
}

/* --- container --- */

/* Creates a script in place of an engine: `run` executes the given commands, `rm`
 * records its arguments. */
static const char *engine_that(const char *run)
{
    static char path[FOLDER_BYTES + 16];
    char text[512];
    (void)snprintf(path, sizeof path, "%s", at("engine"));
    (void)snprintf(text, sizeof text,
                   "#!/bin/sh\n[ $1 = rm ] && { echo $* >%s/removed; exit; }\n%s\n", f.dir, run);
    folder_write(path, text);
    assert_int_equal(chmod(path, 0700), 0);
    return path;
}

static void start_container(const char *engine)
{
    char *const argv[] = {(char *)(uintptr_t)engine, (char *)(uintptr_t) "run", NULL};
    assert_int_equal(start_in(engine, argv, "/nowhere"), 0);
}

TEST_IN(pool_child, container_is_removed_and_its_error_is_reported)
{
    start_container(engine_that("echo; echo 'Error: no such image' >&2; echo then >&2; exit 125"));
    until_ended();
    assert_int_equal(f.end.code, 125);
    assert_string_equal(f.end.message, "Error: no such image");
    assert_string_equal(line_of("removed"), "rm --force --volumes its-container");
}

TEST_IN(pool_child, container_is_removed_after_a_killed_engine)
{
    start_container(engine_that("kill -9 $$"));
    until_ended();
    assert_int_equal(f.end.code, 128 + SIGKILL);
    assert_string_equal(line_of("removed"), "rm --force --volumes its-container");
}

TEST_IN(pool_child, container_sees_the_end_of_the_pool_on_stdin)
{
    const pid_t pool = fork();
    if (pool == 0) {
        start_container(engine_that("trap : TERM; echo $$ >$D/pid; cat >/dev/null; : >$D/end"));
        while (line_of("pid")[0] == '\0') {
            (void)usleep(2000);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(pool, NULL, 0), pool);
    TURN_UNTIL(f.base, is_there("end"));
    while (waitpid(-1, NULL, 0) > 0) {
    }
}

TEST_IN(pool_child, missing_engine_is_an_error)
{
    start_container("/no/such/engine");
    until_ended();
    assert_int_equal(f.end.code, POOL_NOT_STARTED);
    assert_non_null(strstr(f.end.message, "start /no/such/engine: no such file"));
}
