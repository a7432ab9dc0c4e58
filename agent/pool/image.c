/* agent/pool/image.c: implementation of image.h. */
#include "agent/pool/image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/private_dir.h"
#include "agent/os/trainer_user.h"
#include "agent/pool/scratch.h"
#include "agent/pool/toolbox.h"
#include "common/cli/log.h"
#include "common/job/job_file.h"

/* Maximum number of words of the engine's command line, with the agent's options. */
#define WORDS_MAX 512
#define OPTIONS_MAX 4096

struct run {
    char *v[WORDS_MAX + 1];
    size_t n;
    bool failed;
    struct tfe_reason reason;
};

__attribute__((format(printf, 2, 3))) static void add(struct run *run, const char *format, ...)
{
    va_list values;
    if (run->failed || run->n == WORDS_MAX) {
        run->failed = true;
        return;
    }
    va_start(values, format);
    run->failed = vasprintf(&run->v[run->n], format, values) < 0;
    va_end(values);
    run->n += !run->failed;
}

bool image_is_run(const struct agent_settings *settings, const json_t *job)
{
    const char *image = job_text(job, "image");
    const bool is_run = image && settings->runtime != RUNTIME_NONE;
    if (image && !is_run) {
        log_warn("image_ignored", LOG_S("job", job_text(job, "name")), LOG_S("image", image));
    }
    return is_run;
}

const char *image_container(const struct scratch *scratch)
{
    return strrchr(scratch_base(scratch), '/') + 1;
}

/* --- mounts --- */

/* Access of the trainers' user to a directory. */
struct found {
    bool is_writable;
    struct stat st;
    char path[PATH_MAX]; /* canonical path */
};

/* Checks the directory in a child process as the trainers' user. Returns false with errno set if
 * the user cannot enter it. */
static bool find(const char *path, struct found *ret)
{
    struct found *found =
        mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) {
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (trainer_user_become() != 0 || chdir(path) != 0 ||
            !getcwd(found->path, sizeof found->path) || stat(".", &found->st) != 0) {
            _exit(errno);
        }
        found->is_writable = access(".", W_OK) == 0;
        _exit(0);
    }
    int status = 0;
    const bool is_found = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
    *ret = *found;
    (void)munmap(found, sizeof *found);
    return is_found;
}

/* Returns true for directories that an engine mounts itself, and for parents of its mounts: it
 * would create missing mount points there, as root, on the machine. */
static bool is_of_engine(const char *path)
{
    static const char *const whole[] = {"proc", "sys", "dev"};
    static const char *const itself[] = {"", "etc", "run"};
    const char *first = path + strspn(path, "/");
    const size_t n = strcspn(first, "/");
    const bool is_deeper = first[n + strspn(first + n, "/")] != '\0';
    bool is = false;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        is = is || (strlen(whole[i]) == n && strncmp(first, whole[i], n) == 0) ||
             (!is_deeper && strlen(itself[i]) == n && strncmp(first, itself[i], n) == 0);
    }
    return is;
}

/* Returns true for names of directories without "." and "..". */
static bool is_direct(const char *path)
{
    for (const char *at = path; at; at = strchr(at, '/')) {
        at += strspn(at, "/");
        const size_t n = strcspn(at, "/");
        if ((n == 1 || n == 2) && strspn(at, ".") == n) {
            return false;
        }
    }
    return true;
}

/* Returns false for paths that the engines' CSV syntax of --mount cannot express, and for those
 * of the engine. */
static bool is_plain(const char *path)
{
    return !strpbrk(path, ",\"\n") && is_direct(path) && !is_of_engine(path);
}

static void mount(struct run *run, const char *source, const char *target, bool is_writable)
{
    add(run, "--mount");
    add(run, "type=bind,source=%s,target=%s%s", source, target, is_writable ? "" : ",readonly");
}

/* Mounts a directory with the rights that the trainers' user has there. The engine opens the path
 * again, as root: the agent in the container checks that it is the same directory. */
static void mount_found(struct run *run, const struct found *found, const char *path,
                        struct handover *handover)
{
    struct handover_mount *one = &handover->mounts[handover->n_mounts++];
    (void)snprintf(one->path, sizeof one->path, "%s", path);
    one->dev = found->st.st_dev;
    one->ino = found->st.st_ino;
    mount(run, found->path, path, found->is_writable);
}

static void share(struct run *run, const char *path, struct handover *handover)
{
    struct found found;
    if (run->reason.text[0]) {
        return;
    }
    if (!find(path, &found)) {
        reason_errno(&run->reason, "share %s with the container", path);
    } else if (!is_plain(path) || !is_plain(found.path)) {
        reason_set(&run->reason, "%s cannot be shared with a container", path);
    } else {
        mount_found(run, &found, path, handover);
    }
}

/* Returns false for a relative path, which lies below the job's own directory. */
static bool is_absolute(const char *path)
{
    return path && path[0] == '/';
}

/* Mounts each directory once, because engines reject duplicate targets. */
static void add_shared(struct run *run, const struct agent_settings *settings, const json_t *job,
                       const struct scratch *scratch, struct handover *handover)
{
    const char *source = job_source(job, "path");
    const json_t *options = json_object_get(job, "options");
    const char *own = job_text(options, "checkpoint-dir");
    const char *checkpoints = own ? own : settings->checkpoint_dir;
    const char *artifacts = job_text(options, "artifacts");
    artifacts = artifacts ? artifacts : settings->artifacts.uri;
    const char *logs = settings->logs.root;
    share(run, scratch_base(scratch), handover);
    if (is_absolute(source)) {
        share(run, source, handover);
    }
    if (is_absolute(checkpoints) && !(source && strcmp(source, checkpoints) == 0)) {
        share(run, checkpoints, handover);
    }
    if (is_absolute(artifacts) && !(source && strcmp(source, artifacts) == 0) &&
        !(checkpoints && strcmp(checkpoints, artifacts) == 0)) {
        share(run, artifacts, handover); /* it must exist: in the container it would be lost */
    }
    struct found found;
    if (is_absolute(logs) && find(logs, &found) && found.is_writable && is_plain(logs) &&
        is_plain(found.path) && !(source && strcmp(source, logs) == 0) &&
        !(checkpoints && strcmp(checkpoints, logs) == 0) &&
        !(artifacts && strcmp(artifacts, logs) == 0)) {
        mount_found(run, &found, logs, handover);
        handover->has_logs = true;
    } else if (logs) {
        log_warn("image_without_logs", LOG_S("job", job_text(job, "name")), LOG_S("log_dir", logs));
    }
}

/* --- command line --- */

/* Adds the options that confine every process of the image to the trainers' user. An image's
 * volumes are left out: they would hide what is mounted here, and their mount points would be
 * created on the machine. (docker has no such option; it creates none in a read-only mount.) */
static void add_confinement(struct run *run, const struct agent_settings *settings,
                            const struct scratch *scratch)
{
    static const char *const words[] = {"run",
                                        "--interactive",
                                        "--rm",
                                        "--network",
                                        "host",
                                        "--cap-drop",
                                        "all",
                                        "--security-opt",
                                        "no-new-privileges",
                                        "--log-driver",
                                        "none",
                                        "--no-healthcheck",
                                        "--stop-timeout",
                                        "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        add(run, "%s", words[i]);
    }
    if (settings->runtime == RUNTIME_PODMAN) {
        add(run, "--image-volume");
        add(run, "ignore");
    }
    add(run, "--user");
    add(run, "%u:%u", (unsigned)trainer_user()->uid, (unsigned)trainer_user()->gid);
    add(run, "--name");
    add(run, "%s", image_container(scratch));
}

/* Passes variables by name, so that no value is on a command line, and unsets those that would
 * load code of the image into the agent. */
static void add_environment(struct run *run)
{
    extern char **environ;
    static const char *const unset[] = {"LD_PRELOAD=", "LD_AUDIT="};
    add(run, "--env");
    add(run, HANDOVER_VARIABLE "=0");
    for (size_t i = 0; i < sizeof unset / sizeof unset[0]; i++) {
        add(run, "--env");
        add(run, "%s", unset[i]);
    }
    for (char **entry = environ; *entry; entry++) {
        if (strncmp(*entry, "TFE_", 4) == 0 && strncmp(*entry, "TFE_TOKEN", 9) != 0) {
            add(run, "--env");
            add(run, "%.*s", (int)strcspn(*entry, "="), *entry);
        }
    }
}

static void add_owner_options(struct run *run, const struct agent_settings *settings)
{
    char options[OPTIONS_MAX];
    char *rest = NULL;
    const int n = snprintf(options, sizeof options, "%s",
                           settings->runtime_options ? settings->runtime_options : "");
    for (char *word = strtok_r(options, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        add(run, "%s", word);
    }
    run->failed = run->failed || n >= (int)sizeof options;
}

void image_argv_free(char **argv)
{
    for (char **word = argv; word && *word; word++) {
        free(*word);
    }
    free(argv);
}

/* Sets the working directory in the image, if the job brings files or names a directory. */
static void add_work_dir(struct run *run, const json_t *job, const char *directory)
{
    const char *work_dir = job_text(job, "work_dir");
    if (work_dir || json_is_object(json_object_get(job, "source"))) {
        add(run, "--workdir");
        add(run, "%s", is_absolute(work_dir) ? work_dir : directory);
    }
}

int image_enter(const struct agent_settings *settings, const json_t *job,
                const struct scratch *scratch, const struct toolbox *toolbox, char *const *options,
                struct handover *handover, char ***ret, struct tfe_reason *reason)
{
    struct run *run = calloc(1, sizeof *run);
    if (!run) {
        reason_set(reason, "out of memory");
        return TFE_ENOMEM;
    }
    /* An image that knew the place of the toolbox could bring links or a volume there. */
    char tools[PRIVATE_DIR_MAX];
    (void)snprintf(tools, sizeof tools, "/.%s", image_container(scratch));
    add(run, "%s", runtimes[settings->runtime]);
    add_confinement(run, settings, scratch);
    add_work_dir(run, job, handover->directory);
    add_shared(run, settings, job, scratch, handover);
    mount(run, toolbox_path(toolbox), tools, false);
    add_environment(run);
    add(run, "--entrypoint");
    add(run, "%s/%s", tools, toolbox_loader(toolbox));
    add_owner_options(run, settings);
    add(run, "%s", job_text(job, "image"));
    add(run, "--library-path");
    add(run, "%s", tools);
    add(run, "%s/%s", tools, toolbox_program(toolbox));
    for (; *options; options++) {
        add(run, "%s", *options);
    }
    handover->is_container = true;
    handover->is_on_terminal = isatty(STDOUT_FILENO) || isatty(STDERR_FILENO);
    (void)snprintf(handover->base, sizeof handover->base, "%s", scratch_base(scratch));
    if (run->failed && !run->reason.text[0]) {
        reason_set(&run->reason, "the container's command line is too long");
    }
    char **argv = calloc(run->n + 1, sizeof *argv);
    if (argv) {
        memcpy(argv, run->v, run->n * sizeof *argv);
    } else if (!run->reason.text[0]) {
        reason_set(&run->reason, "out of memory");
    }
    if (run->reason.text[0]) {
        *reason = run->reason;
        image_argv_free(argv);
        free(run);
        return TFE_EINVAL;
    }
    *ret = argv;
    free(run);
    return 0;
}
