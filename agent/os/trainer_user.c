/* agent/os/trainer_user.c: implementation of trainer_user.h. */
#include "agent/os/trainer_user.h"

#include <errno.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/cli/user.h"

static struct trainer_user other;

const struct trainer_user *trainer_user(void)
{
    return &other;
}

int trainer_user_set(const char *name, struct tfe_reason *reason)
{
    if (other.name && strcmp(other.name, name) == 0) {
        return 0;
    }
    const struct passwd *entry = getpwnam(name);
    if (geteuid() != 0) {
        reason_set(reason, "--trainer-user: only root can run trainers as another user");
    } else if (!entry) {
        reason_set(reason, "--trainer-user: there is no user \"%s\" on this machine", name);
    } else if (entry->pw_uid == 0) {
        reason_set(reason, "--trainer-user: \"%s\" is root (name a user without root's rights)",
                   name);
    } else {
        struct trainer_user user = {.name = name,
                                    .home = strdup(entry->pw_dir),
                                    .uid = entry->pw_uid,
                                    .gid = entry->pw_gid};
        must_succeed(user.home);
        (void)getgrouplist(name, user.gid, NULL, &user.n_groups);
        user.groups = must_alloc((size_t)user.n_groups * sizeof *user.groups);
        if (getgrouplist(name, user.gid, user.groups, &user.n_groups) >= 0) {
            other = user;
            return 0;
        }
        reason_set(reason, "--trainer-user: cannot determine the groups of \"%s\"", name);
    }
    return TFE_EINVAL;
}

uid_t trainer_user_uid(void)
{
    return other.name ? other.uid : geteuid();
}

int trainer_user_give(int fd)
{
    return other.name && fchown(fd, other.uid, other.gid) != 0 ? TFE_ESYS : 0;
}

int trainer_user_become(void)
{
    return other.name ? user_become(other.uid, other.gid, other.groups, (size_t)other.n_groups) : 0;
}

int trainer_user_enter(const char *directory)
{
    gid_t groups[NGROUPS_MAX];
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    const int n = getgroups(NGROUPS_MAX, groups);
    if (!other.name) {
        return chdir(directory) == 0 ? 0 : TFE_ESYS;
    }
    if (n < 0 || setgroups((size_t)other.n_groups, other.groups) != 0 || setegid(other.gid) != 0 ||
        seteuid(other.uid) != 0) {
        return TFE_ESYS;
    }
    const bool is_in = chdir(directory) == 0;
    const int error = errno;
    if (seteuid(uid) != 0 || setegid(gid) != 0 || setgroups((size_t)n, groups) != 0) {
        return TFE_ESYS;
    }
    errno = error;
    return is_in ? 0 : TFE_ESYS;
}

/* Checks one right. For a path that does not exist yet, checks the nearest existing parent. */
static bool can(const struct trainer_need *need)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s", need->path);
    char *at = path;
    while (access(at, need->mode) != 0) {
        if (errno != ENOENT || !(need->mode & W_OK) || strcmp(at, "/") == 0) {
            return false;
        }
        at = dirname(at);
    }
    return true;
}

/* Runs in a child: writes the first missing right to the socket and lives until
 * the socket is closed. */
static _Noreturn void try_all(int socket, const struct trainer_need *needs, size_t n)
{
    struct tfe_reason reason = {.text = ""};
    if (trainer_user_become() != 0) {
        reason_errno(&reason, "become \"%s\"", other.name);
    }
    for (size_t i = 0; i < n && !reason.text[0]; i++) {
        if (needs[i].path && !can(&needs[i])) {
            reason_errno(&reason, "\"%s\" cannot %s %s", other.name, needs[i].what, needs[i].path);
        }
    }
    (void)!write(socket, reason.text, sizeof reason.text);
    (void)!read(socket, reason.text, 1);
    _exit(0);
}

int trainer_user_try(const struct trainer_need *needs, size_t n, struct tfe_reason *reason)
{
    int ends[2];
    if (!other.name) {
        return 0;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        reason_errno(reason, "socketpair");
        return TFE_ESYS;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        try_all(ends[1], needs, n);
    }
    fd_close(&ends[1]);
    ssize_t got = pid > 0 ? read(ends[0], reason->text, sizeof reason->text) : -1;
    char path[40];
    char target[8];
    (void)snprintf(path, sizeof path, "/proc/%d/fd/0", (int)pid);
    if (got != (ssize_t)sizeof reason->text) {
        reason_errno(reason, "try a process");
    } else if (!reason->text[0] && readlink(path, target, sizeof target) < 0) {
        reason_errno(reason,
                     "without the capability CAP_SYS_PTRACE, the agent cannot see the sockets of "
                     "processes of \"%s\"",
                     other.name);
    }
    fd_close(&ends[0]);
    if (pid > 0) {
        (void)waitpid(pid, NULL, 0);
    }
    if (!reason->text[0]) {
        return 0;
    }
    reason_prefix(reason, "--trainer-user");
    return TFE_EINVAL;
}
