/* agent/pool/engine.c: see engine.h.
 *
 *   run --interactive ... IMAGE (cat) ──what is written comes back──► inspect ──► ENGINE_UP
 *     │ ends                                                                        │ no writer
 *     └──► ENGINE_FAILED ──► rm ◄───────────────────── its stdin is closed ◄────────┘
 */
#include "agent/pool/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/pool/scratch.h"
#include "agent/reach/private_dir.h"
#include "agent/reach/proc.h"
#include "agent/reach/trainer_user.h"
#include "common/base/shown.h"
#include "common/net/clock.h"
#include "common/net/fd.h"
#include "common/net/why.h"

/* An image of many gigabytes over a slow line; what takes longer hangs. */
#define START_MS 1800000
#define INSPECT_MS 60000
/* cat ends at once, and an engine that does not notice is ended. */
#define END_MS 10000
#define REMOVE_MS 60000
#define WORDS_MAX 512
#define INSPECT_MAX (1u << 20)
#define ARGS_MAX 96
#define OPTIONS_MAX 4096
#define MOUNT_MAX (2 * PATH_MAX + 64)

extern char **environ;

/* The engine's program at work. Its descriptors are -1 once they have ended. */
struct work {
    pid_t pid;
    int in, out, err;
};

struct keeper {
    const struct engine_wish *wish;
    int lifeline;
    struct work run;
    char line[WORDS_MAX], text[WORDS_MAX]; /* what it says on stderr: now, and of its failure */
    size_t n_line;
    /* What the words of run's arguments are parts of. */
    char options[OPTIONS_MAX], mounts[ENGINE_SHARED_MAX + 1][MOUNT_MAX];
    size_t n_mounts;
    struct tfe_why why;
};

struct args {
    char *v[ARGS_MAX];
    size_t n;
};

static void add(struct args *args, const char *word)
{
    if (args->n + 1 < ARGS_MAX) {
        args->v[args->n++] = (char *)(uintptr_t)word; /* execve(2) does not change it */
    }
}

static void add_all(struct args *args, const char *const *words)
{
    for (; *words; words++) {
        add(args, *words);
    }
}

/* --- the engine's program --------------------------------------------------------------------- */

static _Noreturn void become(const struct args *args, const int ends[3], pid_t keeper)
{
    struct tfe_why why;
    sigset_t none;
    size_t n = 0;
    sigemptyset(&none);
    for (int i = 0; i < 3; i++) {
        if (dup2(ends[i], i) < 0) {
            _exit(126);
        }
    }
    for (int signo = 1; signo < NSIG; signo++) {
        (void)signal(signo, SIG_DFL);
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != keeper) {
        _exit(126);
    }
    for (char **entry = environ; *entry; entry++) { /* what is the agent's is no business of its */
        if (strncmp(*entry, "TFE_", 4) != 0) {
            environ[n++] = *entry;
        }
    }
    environ[n] = NULL;
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)!chdir("/");
    execvp(args->v[0], args->v);
    if (errno == ENOENT) {
        why_set(&why, "there is none on this node");
    } else {
        why_errno(&why, "it cannot be started");
    }
    (void)!write(STDERR_FILENO, why.text, strlen(why.text));
    _exit(127);
}

/* False with errno. */
static bool start(const struct args *args, struct work *ret)
{
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    int err[2] = {-1, -1};
    pid_t keeper = getpid();
    bool is_open =
        pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0;
    pid_t pid = is_open ? fork() : -1;
    if (pid == 0) {
        become(args, (const int[]){in[0], out[1], err[1]}, keeper);
    }
    fd_drop(&in[0]);
    fd_drop(&out[1]);
    fd_drop(&err[1]);
    *ret = (struct work){.pid = pid, .in = in[1], .out = out[0], .err = err[0]};
    return pid > 0;
}

/* Its stdin ends, and so must it. */
static void end(struct work *work, int within_ms)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    const struct tfe_mono until = tfe_mono_add(clock_mono(), within_ms);
    bool has_ended = work->pid <= 0;
    fd_drop(&work->in);
    while (!has_ended && tfe_mono_before(clock_mono(), until)) {
        has_ended = waitpid(work->pid, NULL, WNOHANG) != 0;
        if (!has_ended) {
            nanosleep(&pause, NULL);
        }
    }
    if (!has_ended) {
        kill(work->pid, SIGKILL);
        (void)waitpid(work->pid, NULL, 0);
    }
    fd_drop(&work->out);
    fd_drop(&work->err);
}

/* --- what it says ----------------------------------------------------------------------------- */

/* Of several lines the last that tells of an error, else the last. */
static void end_line(struct keeper *k)
{
    k->line[k->n_line] = '\0';
    if (k->n_line > 0 && (strstr(k->line, "rror") || !strstr(k->text, "rror"))) {
        memcpy(k->text, k->line, k->n_line + 1);
    }
    k->n_line = 0;
}

/* False: that was all. */
static bool hear(struct keeper *k)
{
    char bytes[1024];
    ssize_t n = read(k->run.err, bytes, sizeof bytes);
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] == '\n' || bytes[i] == '\r') {
            end_line(k);
        } else if (k->n_line < sizeof k->line - 1) {
            k->line[k->n_line++] = bytes[i];
        }
    }
    if (n <= 0) {
        end_line(k);
        fd_drop(&k->run.err);
    }
    return n > 0;
}

enum heard { HEARD_OUT, HEARD_NOTHING, HEARD_NO_WRITER };

/* Until something comes on stdout, or that ends. */
static enum heard listen_to(struct keeper *k, struct tfe_mono until)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = k->lifeline},
                               {.fd = k->run.out, .events = POLLIN},
                               {.fd = k->run.err, .events = POLLIN}};
        const int64_t left = tfe_mono_sub(until, clock_mono());
        int n = poll(fds, 3, tfe_mono_is_never(until) ? -1 : left > 0 ? (int)left : 0);
        if (n == 0) {
            return HEARD_NOTHING;
        }
        if (fds[0].revents) {
            return HEARD_NO_WRITER;
        }
        if (fds[2].revents) {
            (void)hear(k);
        }
        if (fds[1].revents) {
            return HEARD_OUT;
        }
    }
}

static void take_words(struct keeper *k)
{
    char shown[WORDS_MAX];
    struct pollfd err = {.fd = k->run.err, .events = POLLIN};
    while (err.fd >= 0 && poll(&err, 1, END_MS) > 0 && hear(k)) {
    }
    why_set(&k->why, "%s", k->text[0] ? shown_text(k->text, shown, sizeof shown) : "it ended");
}

/* --- a container ------------------------------------------------------------------------------ */

/* A directory as the trainers' user reaches it, without a link in it: no way that is closed to him
 * leads there. */
static bool find_shared(const char *path, char ret[PATH_MAX])
{
    char *found = mmap(NULL, PATH_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) {
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        _exit(trainer_user_become() == 0 && chdir(path) == 0 && getcwd(found, PATH_MAX) ? 0
                                                                                        : errno);
    }
    int status = 0;
    bool is_found = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
    (void)snprintf(ret, PATH_MAX, "%s", found);
    (void)munmap(found, PATH_MAX);
    return is_found;
}

/* Both engines take the value for a line of CSV. */
static bool add_shared(struct keeper *k, struct args *args, const char *path, const char *mode)
{
    char source[PATH_MAX];
    char *value = k->mounts[k->n_mounts];
    if (strpbrk(path, ",\"\n")) {
        why_set(&k->why, "%s cannot be shared with a container", path);
        return false;
    }
    if (!find_shared(path, source)) {
        why_errno(&k->why, "share %s with the container", path);
        return false;
    }
    int n = snprintf(value, MOUNT_MAX, "type=bind,source=%s,target=%s%s", source, path, mode);
    if (strpbrk(source, ",\"\n") || n < 0 || n >= MOUNT_MAX) {
        why_set(&k->why, "%s cannot be shared with a container", path);
        return false;
    }
    k->n_mounts++;
    add(args, "--mount");
    add(args, value);
    return true;
}

/* The trainers are in the machine's networks, and see its processes and shared memory: /proc and
 * /dev/shm have to show these. cat needs no privileges, and no more than its limits. */
static const char *const run_options[] = {"run",
                                          "--interactive",
                                          "--rm",
                                          "--network",
                                          "host",
                                          "--pid",
                                          "host",
                                          "--ipc",
                                          "host",
                                          "--userns",
                                          "host",
                                          "--user",
                                          "0:0",
                                          "--ulimit",
                                          "nofile=1024:1024",
                                          "--ulimit",
                                          "nproc=1024:1024",
                                          "--log-driver",
                                          "none",
                                          "--no-healthcheck",
                                          "--entrypoint",
                                          "cat",
                                          NULL};

static bool make_args(struct keeper *k, struct args *args)
{
    const struct engine_wish *w = k->wish;
    char *rest = NULL;
    bool is_made = true;
    add(args, w->engine);
    add_all(args, run_options);
    add(args, "--name");
    add(args, w->name);
    for (size_t i = 0; i < ENGINE_SHARED_MAX && w->shared[i] && is_made; i++) {
        is_made = add_shared(k, args, w->shared[i], "");
    }
    is_made = is_made && (!w->tools || add_shared(k, args, w->tools, ",readonly"));
    int n = snprintf(k->options, sizeof k->options, "%s", w->options ? w->options : "");
    for (char *word = is_made ? strtok_r(k->options, " \t", &rest) : NULL; word;
         word = strtok_r(NULL, " \t", &rest)) {
        add(args, word);
    }
    add(args, w->image);
    if (is_made && (n < 0 || n >= (int)sizeof k->options || args->n + 1 == ARGS_MAX)) {
        why_set(&k->why, "--runtime-options are too many");
        is_made = false;
    }
    return is_made;
}

/* cat is there, as it gives back what it got. False: why says what was wrong, or "" nothing. */
static bool stand_up(struct keeper *k)
{
    struct args args = {.n = 0};
    char back;
    if (!make_args(k, &args)) {
        return false;
    }
    if (!start(&args, &k->run)) {
        why_errno(&k->why, "start %s", k->wish->engine);
        return false;
    }
    (void)!write(k->run.in, "\n", 1);
    enum heard heard = listen_to(k, tfe_mono_add(clock_mono(), START_MS));
    if (heard == HEARD_OUT && read(k->run.out, &back, 1) == 1) {
        return true;
    }
    if (heard == HEARD_OUT) {
        take_words(k);
    } else if (heard == HEARD_NOTHING) {
        why_set(&k->why, "it took longer than %d s", START_MS / 1000);
    }
    return false;
}

/* All that the engine knows of it, as JSON; "": nothing, or too much. */
static void inspect(const struct keeper *k, char *ret, size_t cap)
{
    struct args args = {.n = 0};
    struct work work;
    const struct tfe_mono until = tfe_mono_add(clock_mono(), INSPECT_MS);
    size_t n = 0;
    ssize_t got = 1;
    add_all(&args, (const char *const[]){k->wish->engine, "inspect", "--type", "container",
                                         k->wish->name, NULL});
    if (start(&args, &work)) {
        struct pollfd out = {.fd = work.out, .events = POLLIN};
        fd_drop(&work.in);
        while (got > 0 && n < cap - 1 && poll(&out, 1, INSPECT_MS) > 0 &&
               tfe_mono_before(clock_mono(), until)) {
            got = read(work.out, ret + n, cap - 1 - n);
            n += got > 0 ? (size_t)got : 0;
        }
    }
    end(&work, got == 0 ? END_MS : 0);
    ret[got == 0 ? n : 0] = '\0';
}

/* Appends text and its NUL. False: there is no room. */
static bool put(char *says, size_t *n, const char *text)
{
    const size_t length = strlen(text) + 1;
    const bool fits = *n + length <= ENGINE_SAYS_MAX;
    if (fits) {
        memcpy(says + *n, text, length);
        *n += length;
    }
    return fits;
}

/* Its host's name is the machine's. */
static bool put_env(char *says, size_t *n, const json_t *env)
{
    size_t i;
    json_t *entry;
    bool fits = true;
    json_array_foreach((json_t *)(uintptr_t)env, i, entry)
    {
        const char *text = json_string_value(entry);
        fits = fits && (!text || strncmp(text, "HOSTNAME=", 9) == 0 || put(says, n, text));
    }
    return fits;
}

/* What is said of a container that stands; 0: why says what was wrong. */
static size_t describe(struct keeper *k, char says[ENGINE_SAYS_MAX])
{
    char *text = malloc(INSPECT_MAX);
    char number[16];
    size_t n = 0;
    if (!text) {
        why_set(&k->why, "out of memory");
        return 0;
    }
    inspect(k, text, INSPECT_MAX);
    json_t *all = json_loads(text, 0, NULL);
    const json_t *one = json_array_get(all, 0);
    const json_t *config = json_object_get(one, "Config");
    const json_int_t pid =
        json_integer_value(json_object_get(json_object_get(one, "State"), "Pid"));
    const char *directory = json_string_value(json_object_get(config, "WorkingDir"));
    (void)snprintf(number, sizeof number, "%d", pid > 1 && pid <= INT_MAX ? (int)pid : 0);
    says[n++] = ENGINE_UP;
    if (strcmp(number, "0") == 0) {
        why_set(&k->why, "it does not say which process it has started");
        n = 0;
    } else if (!put(says, &n, number) || !put(says, &n, directory ? directory : "") ||
               !put_env(says, &n, json_object_get(config, "Env"))) {
        why_set(&k->why, "its variables have more than %u bytes", ENGINE_SAYS_MAX);
        n = 0;
    }
    json_decref(all);
    free(text);
    return n;
}

/* Also one that never ran, or whose end the engine has not seen. */
static void remove_container(const struct keeper *k)
{
    struct args args = {.n = 0};
    struct work work;
    add_all(&args, (const char *const[]){k->wish->engine, "rm", "--force", k->wish->name, NULL});
    (void)start(&args, &work);
    end(&work, REMOVE_MS);
}

/* What the engine has left to us, and does not end by itself, is ended: nobody else would. */
static void reap_others(void)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    const struct tfe_mono until = tfe_mono_add(clock_mono(), END_MS);
    pid_t pid = 0;
    while (pid >= 0 && tfe_mono_before(clock_mono(), until)) {
        pid = waitpid(-1, NULL, WNOHANG);
        if (pid == 0) {
            nanosleep(&pause, NULL);
        }
    }
    if (pid >= 0) {
        (void)proc_kill_all_descendants_and_reap(getpid());
    }
}

/* --- the process ------------------------------------------------------------------------------ */

/* Only these are left of what the agent has open. */
static void descriptors_keep(int lifeline, int words, int scratch)
{
    const int kept[] = {lifeline, words, scratch};
    const int n = sizeof kept / sizeof kept[0];
    int high = scratch;
    for (int i = 0; i < n; i++) {
        high = kept[i] > high ? kept[i] : high;
    }
    for (int fd = STDERR_FILENO + 1; fd < high; fd++) {
        if (fd != kept[0] && fd != kept[1] && fd != kept[2]) {
            (void)close(fd);
        }
    }
    closefrom(high + 1);
}

void engine_keep(const struct engine_wish *wish, int lifeline, int words)
{
    char says[ENGINE_SAYS_MAX];
    struct keeper k = {.wish = wish, .lifeline = lifeline, .run = {.in = -1, .out = -1, .err = -1}};
    size_t n = 0;
    setsid();
    (void)prctl(PR_SET_NAME, "tfe-container", 0, 0, 0);
    descriptors_keep(lifeline, words, scratch_fd(wish->scratch));
    if (proc_become_subreaper(&k.why) == 0 && stand_up(&k)) {
        n = describe(&k, says);
    }
    if (n == 0 && k.why.text[0]) {
        why_prefix(&k.why, "image %.64s: %s", wish->image, wish->engine);
        says[n++] = ENGINE_FAILED;
        (void)put(says, &n, k.why.text);
    }
    const bool is_up = n > 0 && says[0] == ENGINE_UP;
    (void)!write(words, says, n);
    fd_drop(&words);
    if (is_up) {
        (void)close(scratch_fd(wish->scratch)); /* it is its agent's from now on */
    }
    while (is_up && listen_to(&k, TFE_MONO_NEVER) == HEARD_OUT &&
           read(k.run.out, says, sizeof says) > 0) {
    }
    if (!is_up && k.run.pid > 0) {
        kill(k.run.pid, SIGTERM); /* while it pulls it looks at no stdin */
    }
    end(&k.run, END_MS);
    remove_container(&k);
    reap_others();
    if (!is_up) {
        scratch_clear(wish->scratch);
        (void)close(scratch_fd(wish->scratch));
    }
    private_dir_clean_up(); /* of an agent that was killed meanwhile */
    _exit(0);
}
