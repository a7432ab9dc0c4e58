/* server/ctl/git.c: runs git for tfe-ctl. */
#include "server/ctl/git.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fd.h"

#define WORDS_MAX 16u
/* Enough for 20,000 file names of 255 bytes, and for the refs of large repositories. */
#define PRINTED_MAX (16u * 1024 * 1024)

extern char **environ;

/* Reads all output into allocated memory. */
static int read_all(int fd, char **ret, size_t *ret_n, struct tfe_reason *reason)
{
    size_t n = 0;
    size_t cap = 64 * 1024;
    char *text = malloc(cap + 1);
    for (;;) {
        if (text && n == cap && cap < PRINTED_MAX) {
            char *more = realloc(text, 2 * cap + 1);
            if (!more) {
                free(text);
            }
            text = more;
            cap *= 2;
        }
        if (!text || n == cap) {
            reason_set(reason, text ? "the output of git exceeds 16 MiB" : "out of memory");
            free(text);
            return text ? TFE_ETOOBIG : TFE_ENOMEM;
        }
        const ssize_t got = read(fd, text + n, cap - n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            text[n] = '\0';
            *ret = text;
            *ret_n = n;
            return 0;
        }
        n += (size_t)got;
    }
}

/* Stores the last line of stderr as the reason. */
static void read_errors(int fd, struct tfe_reason *reason)
{
    char text[400];
    const off_t n = lseek(fd, 0, SEEK_END);
    const off_t from = n > (off_t)sizeof(text) - 1 ? n - (off_t)sizeof(text) + 1 : 0;
    const ssize_t got = pread(fd, text, sizeof(text) - 1, from);
    text[got > 0 ? got : 0] = '\0';
    for (size_t end = strlen(text); end > 0 && text[end - 1] == '\n'; end--) {
        text[end - 1] = '\0';
    }
    const char *line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    reason_set(reason, "%s", *line != '\0' ? line : "git has failed");
}

/* The configuration of a directory may name programs, and the author of the directory wrote it:
 * none of them is run. Automatic fetches of a partial clone are disabled as well. */
static const char *const harmless[] = {
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.untrackedCache=false",
    "-c", "core.sshCommand=false",
    "-c", "diff.external=",
    "-c", "credential.helper=",
};
#define HARMLESS_WORDS (sizeof(harmless) / sizeof(harmless[0]))

static int spawn(char *const *argv, const char *protocols, int out, int words, pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    (void)setenv("GIT_TERMINAL_PROMPT", "0", 1);
    (void)setenv("GIT_ALLOW_PROTOCOL", protocols, 1);
    (void)setenv("GIT_NO_LAZY_FETCH", "1", 1);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, words, STDERR_FILENO);
    const int error = posix_spawnp(ret, "git", &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

static int run(const char *const *words, bool is_local, char **ret, size_t *ret_n,
               struct tfe_reason *reason)
{
    char *argv[HARMLESS_WORDS + WORDS_MAX + 2] = {"git"};
    size_t n = 1;
    int ends[2] = {-1, -1};
    int status_line = memfd_create("git", MFD_CLOEXEC);
    int status = 0;
    pid_t pid = -1;
    for (size_t i = 0; is_local && i < HARMLESS_WORDS; i++) {
        argv[n++] = (char *)(uintptr_t)harmless[i];
    }
    for (size_t i = 0; i < WORDS_MAX && words[i]; i++) {
        argv[n++] = (char *)(uintptr_t)words[i];
    }
    const char *protocols = is_local ? "none" : "https:http:ssh:file";
    int error = status_line < 0 || pipe2(ends, O_CLOEXEC) != 0
                    ? errno
                    : spawn(argv, protocols, ends[1], status_line, &pid);
    fd_close(&ends[1]);
    int rc = 0;
    if (error) {
        errno = error;
        reason_errno(reason, "run git");
        rc = TFE_ESYS;
    } else {
        rc = read_all(ends[0], ret, ret_n, reason);
        fd_close(&ends[0]); /* a writer ends by SIGPIPE */
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        if (rc == 0 && status != 0) {
            read_errors(status_line, reason);
            free(*ret);
            rc = TFE_ESYS;
        }
    }
    fd_close(&ends[0]);
    fd_close(&status_line);
    return rc;
}

int git_run(const char *const *words, char **ret, size_t *ret_n, struct tfe_reason *reason)
{
    return run(words, true, ret, ret_n, reason);
}

/* Finds the best of the "COMMIT\tNAME" lines, in git's order: a tag's commit (^{}), a tag, a
 * branch. */
static bool find_ref(char *lines, const char *ref, char ret[GIT_COMMIT_MAX + 1])
{
    static const char *const forms[] = {"%s", "refs/%s", "refs/tags/%s^{}", "refs/tags/%s",
                                        "refs/heads/%s"};
    size_t best = sizeof(forms) / sizeof(forms[0]);
    char *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *name = strchr(line, '\t');
        if (!name) {
            continue;
        }
        *name++ = '\0';
        for (size_t i = 0; i < best && git_ref_is_commit(line); i++) {
            const char *hole = strstr(forms[i], "%s");
            const size_t front = (size_t)(hole - forms[i]);
            const size_t n = strlen(ref);
            if (strncmp(name, forms[i], front) == 0 && strncmp(name + front, ref, n) == 0 &&
                strcmp(name + front + n, hole + 2) == 0) {
                best = i;
                memcpy(ret, line, strlen(line) + 1);
            }
        }
    }
    return best < sizeof(forms) / sizeof(forms[0]);
}

int git_resolve(const char *url, const char *ref, char ret[GIT_COMMIT_MAX + 1],
                struct tfe_reason *reason)
{
    const char *name = *ref != '\0' ? ref : "HEAD";
    /* Run outside of the current directory: a repository's configuration may name programs for
     * such a URL, too. */
    char path[PATH_MAX];
    const char *from = !strstr(url, "://") && realpath(url, path) ? path : url;
    const char *const words[] = {"-C", "/", "ls-remote", "--", from, NULL};
    char *lines;
    size_t n;
    if (git_ref_is_commit(ref)) {
        memcpy(ret, ref, strlen(ref) + 1);
        return 0;
    }
    int rc = run(words, false, &lines, &n, reason);
    if (rc) {
        reason_prefix(reason, "git: %.200s", url);
        return rc;
    }
    if (!find_ref(lines, name, ret)) {
        reason_set(reason,
                   "git: %.200s has no branch or tag \"%.100s\", and it is not a full commit id",
                   url, name);
        rc = TFE_EINVAL;
    }
    free(lines);
    return rc;
}
