/* agent/os/git_checkout.c: implementation of git_checkout.h. */
#include "agent/os/git_checkout.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/trainer_user.h"
#include "common/base/fd.h"

/* $1 is the repository, $2 the ref, $3 a commit in the history of the branch $2, or empty. Fetches
 * $2 alone if the server supports it, else its history, for a commit everything. */
static const char git_script[] =
    "get() { git fetch -q --no-tags --no-recurse-submodules \"$@\"; }\n"
    "git init -q --template= . || exit\n"
    "[ ! -e .git/shallow ] || whole=--unshallow\n"
    "at=FETCH_HEAD\n"
    "if [ -n \"$3\" ]; then\n"
    "    get $whole -- \"$1\" \"$2\" || exit\n"
    "    case $(cut -f 3 .git/FETCH_HEAD) in tag*) echo \"fatal: $2 is a tag\"; exit 1;; esac\n"
    "    at=$3\n"
    "elif ! get --depth 1 -- \"$1\" \"$2\"; then\n"
    "    case $2 in\n"
    "    *[!0-9a-f]*) get -- \"$1\" \"$2\" || exit;;\n"
    "    *) at=$2; get -- \"$1\" '+refs/*:refs/origin/*' || exit;;\n"
    "    esac\n"
    "fi\n"
    "git checkout -q --detach \"$at\" --";

/* Returns true for variables by which this machine reaches repositories; nothing else of the
 * agent's own environment is passed on. */
static bool is_for_git(const char *entry)
{
    static const char *const fronts[] = {"PATH=",        "SSH_",         "GIT_SSH",    "GIT_SSL_",
                                         "http_proxy=",  "https_proxy=", "all_proxy=", "no_proxy=",
                                         "HTTPS_PROXY=", "ALL_PROXY=",   "NO_PROXY=",  "SSL_CERT_"};
    for (size_t i = 0; i < sizeof fronts / sizeof fronts[0]; i++) {
        if (strncmp(entry, fronts[i], strlen(fronts[i])) == 0) {
            return true;
        }
    }
    return strncmp(entry, "HOME=", 5) == 0 && !trainer_user()->name;
}

_Noreturn void git_checkout_run(const struct git_checkout *checkout)
{
    static const char *const own[] = {
        "LC_ALL=C",
        "GIT_TERMINAL_PROMPT=0",
        "GIT_ASKPASS=true",
        "GIT_ALLOW_PROTOCOL=https:http:ssh:file",
        "GIT_LFS_SKIP_SMUDGE=1",
        "GIT_CONFIG_COUNT=4",
        "GIT_CONFIG_KEY_0=core.hooksPath",
        "GIT_CONFIG_VALUE_0=/dev/null",
        "GIT_CONFIG_KEY_1=submodule.recurse",
        "GIT_CONFIG_VALUE_1=false",
        "GIT_CONFIG_KEY_2=gc.auto",
        "GIT_CONFIG_VALUE_2=0",
        "GIT_CONFIG_KEY_3=maintenance.auto",
        "GIT_CONFIG_VALUE_3=false",
    };
    enum { N_OWN = sizeof own / sizeof own[0], OTHERS_MAX = 64 };
    extern char **environ;
    char *envp[N_OWN + OTHERS_MAX + 2] = {NULL};
    char home[PATH_MAX];
    size_t n = 0;
    for (; n < N_OWN; n++) {
        envp[n] = (char *)(uintptr_t)own[n];
    }
    if (trainer_user()->name) {
        snprintf(home, sizeof home, "HOME=%s", trainer_user()->home);
        envp[n++] = home;
    }
    for (char **entry = environ; *entry && n < N_OWN + OTHERS_MAX; entry++) {
        if (is_for_git(*entry)) {
            envp[n++] = *entry;
        }
    }
    char *const argv[] = {"sh",
                          "-c",
                          (char *)(uintptr_t)git_script,
                          "git",
                          (char *)(uintptr_t)checkout->url,
                          (char *)(uintptr_t)checkout->ref,
                          (char *)(uintptr_t)checkout->commit,
                          NULL};
    execve("/bin/sh", argv, envp);
    _exit(127);
}

int git_checkout_head(const char *directory, char ret[GIT_COMMIT_MAX + 1],
                      struct tfe_reason *reason)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/.git/HEAD", directory);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, ret, GIT_COMMIT_MAX) : -1;
    if (n < 0) {
        reason_errno(reason, "read %s", path);
        fd_close(&fd);
        return TFE_ESYS;
    }
    fd_close(&fd);
    ret[n] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
    if (!git_ref_is_commit(ret)) {
        reason_set(reason, "%s does not name a commit", path);
        return TFE_ESYS;
    }
    return 0;
}
