/* agent/reach/inside.c: see inside.h. */
#include "agent/reach/inside.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/net/fd.h"

/* Out of the way of the numbers that a guard gives. */
#define HIGH_FD 64

static struct {
    int mounts, root; /* -1: there is no container */
    const char *directory;
} inside = {-1, -1, NULL};

static int open_of(pid_t pid, const char *what, int flags)
{
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    int fd = open(path, flags | O_CLOEXEC);
    int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD) : -1;
    fd_drop(&fd);
    return high;
}

int inside_set(pid_t pid, const char *directory, struct tfe_why *why)
{
    inside.mounts = open_of(pid, "ns/mnt", O_RDONLY);
    inside.root = inside.mounts >= 0 ? open_of(pid, "root", O_PATH | O_DIRECTORY) : -1;
    if (inside.root < 0) {
        why_errno(why, "find the container's files");
        fd_drop(&inside.mounts);
        return TFE_ESYS;
    }
    inside.directory = directory;
    return 0;
}

bool inside_is_set(void)
{
    return inside.root >= 0;
}

void inside_keep(int at)
{
    if (!inside_is_set() || dup3(inside.mounts, at, O_CLOEXEC) < 0 ||
        dup3(inside.root, at + 1, O_CLOEXEC) < 0) {
        (void)close(at);
        (void)close(at + 1);
        return;
    }
    inside.mounts = at;
    inside.root = at + 1;
}

void inside_leave(void)
{
    fd_drop(&inside.mounts);
    fd_drop(&inside.root);
}

int inside_enter(void)
{
    if (!inside_is_set()) {
        return 0;
    }
    if (setns(inside.mounts, CLONE_NEWNS) != 0 || fchdir(inside.root) != 0 || chroot(".") != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return TFE_ESYS;
    }
    (void)!chdir(inside.directory); /* else it is its root: who must be there looks */
    return 0;
}
