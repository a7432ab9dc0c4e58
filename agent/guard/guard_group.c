/* agent/guard/guard_group.c: implementation of guard_group.h. */
#include "agent/guard/guard_group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/cgroup.h"
#include "agent/os/remove_tree.h"
#include "common/base/fd.h"

/* Followed by the guard's pid. */
#define NAME_PREFIX "tfe-guard-"
/* A guard in another pid namespace may use the same pid in the same cgroup. */
#define NAME_TRIES 8

/* Number of 1 ms waits until the processes of a stale group are gone. */
#define STALE_WAITS 500
#define STALE_PAUSE_NS 1000000

/* --- one group --- */

static void group_name(unsigned group, char ret[16])
{
    snprintf(ret, 16, "%u", group);
}

/* Kills all processes of the group and of the groups below it. */
static bool kill_all(int dir, const char *name)
{
    char path[280];
    snprintf(path, sizeof path, "%s/cgroup.kill", name);
    int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
    bool is_written = fd >= 0 && write(fd, "1", 1) == 1;
    fd_close(&fd);
    return is_written;
}

unsigned guard_group_new(struct guard_groups *groups, int *ret_fd)
{
    char name[16];
    for (unsigned i = 0; groups->dir >= 0 && i < GUARD_GROUPS; i++) {
        if (groups->state[i] != GROUP_FREE) {
            continue;
        }
        group_name(i + 1, name);
        if (mkdirat(groups->dir, name, 0755) != 0) {
            return GUARD_NO_GROUP;
        }
        *ret_fd = openat(groups->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (*ret_fd < 0) {
            (void)unlinkat(groups->dir, name, AT_REMOVEDIR);
            return GUARD_NO_GROUP;
        }
        groups->state[i] = GROUP_OWNED;
        return i + 1;
    }
    return GUARD_NO_GROUP;
}

void guard_group_release(struct guard_groups *groups, unsigned group)
{
    if (group != GUARD_NO_GROUP) {
        groups->state[group - 1] = GROUP_RELEASED;
        guard_groups_tidy(groups);
    }
}

void guard_group_kill(const struct guard_groups *groups, unsigned group)
{
    char name[16];
    if (group != GUARD_NO_GROUP) {
        group_name(group, name);
        (void)kill_all(groups->dir, name);
    }
}

void guard_groups_kill_released(const struct guard_groups *groups)
{
    for (unsigned i = 0; i < GUARD_GROUPS; i++) {
        if (groups->state[i] == GROUP_RELEASED) {
            guard_group_kill(groups, i + 1);
        }
    }
}

void guard_groups_tidy(struct guard_groups *groups)
{
    char name[16];
    for (unsigned i = 0; i < GUARD_GROUPS; i++) {
        if (groups->state[i] != GROUP_RELEASED) {
            continue;
        }
        group_name(i + 1, name);
        if (unlinkat(groups->dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
            groups->state[i] = GROUP_FREE;
        }
    }
}

/* --- the guard's directory --- */

static bool has_mark(const char *directory, const char *name)
{
    char value[4];
    return getxattr(directory, name, value, sizeof value) == 1 && value[0] == '1';
}

/* Root can write to every cgroup. Under systemd only a delegated cgroup may be changed; the mark
 * is on the unit's cgroup, which may be an ancestor of ours. */
static bool is_delegated(const char *own)
{
    char directory[PATH_MAX];
    if (geteuid() != 0 || access("/run/systemd/system", F_OK) != 0) {
        return true;
    }
    snprintf(directory, sizeof directory, "%s", own);
    do {
        if (has_mark(directory, "trusted.delegate") || has_mark(directory, "user.delegate")) {
            return true;
        }
    } while (cgroup_up(directory));
    return false;
}

/* Returns true if this process may create groups below own and start processes in them. */
static bool is_usable(const char *own)
{
    char file[PATH_MAX + 32];
    snprintf(file, sizeof file, "%s/cgroup.procs", own);
    return access(own, W_OK) == 0 && access(file, W_OK) == 0 && is_delegated(own);
}

/* Removes one group of a guard's directory; only groups have numeric names. */
static void group_remove(int dir, const char *name)
{
    if (name[0] >= '1' && name[0] <= '9') {
        (void)unlinkat(dir, name, AT_REMOVEDIR);
    }
}

/* Kills the processes in another guard's directory and removes it, if its guard is dead, which
 * means that the lock is free. */
static void stale_remove(int own, const char *name)
{
    int dir = openat(own, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0) {
        return;
    }
    if (flock(dir, LOCK_EX | LOCK_NB) == 0 && kill_all(own, name)) {
        for (int i = 0; i < STALE_WAITS; i++) {
            entries_each(dir, "", group_remove);
            if (unlinkat(own, name, AT_REMOVEDIR) == 0 || errno != EBUSY) {
                break;
            }
            nanosleep(&(struct timespec){.tv_nsec = STALE_PAUSE_NS}, NULL);
        }
    }
    close(dir);
}

/* Tries to create and lock the directory. Returns false with dir -1 if another guard has the
 * name or has just removed the directory as stale. */
static bool directory_make(struct guard_groups *groups, int own, const char *name)
{
    struct stat locked;
    struct stat named;
    if (mkdirat(own, name, 0755) != 0) {
        return false;
    }
    groups->dir = openat(own, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (groups->dir >= 0 && flock(groups->dir, LOCK_EX | LOCK_NB) == 0 &&
        fstat(groups->dir, &locked) == 0 && fstatat(own, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
        locked.st_ino == named.st_ino) {
        return true;
    }
    fd_close(&groups->dir);
    return false;
}

void guard_groups_open(struct guard_groups *groups)
{
    char own_path[PATH_MAX];
    memset(groups, 0, sizeof *groups);
    groups->dir = -1;
    if (!cgroup_own(NULL, own_path) || !is_usable(own_path)) {
        return;
    }
    int own = open(own_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (own < 0) {
        return;
    }
    entries_each(own, NAME_PREFIX, stale_remove);
    for (int i = 0; i < NAME_TRIES && groups->dir < 0; i++) {
        int n = snprintf(groups->path, sizeof groups->path, "%s/" NAME_PREFIX "%d.%d", own_path,
                         (int)getpid(), i);
        if (n < 0 || (size_t)n >= sizeof groups->path ||
            directory_make(groups, own, strrchr(groups->path, '/') + 1)) {
            break;
        }
    }
    /* Before Linux 5.14 cgroup.kill does not exist, and groups are useless here. */
    if (groups->dir >= 0 && faccessat(groups->dir, "cgroup.kill", W_OK, 0) != 0) {
        guard_groups_close(groups);
    }
    close(own);
}

void guard_groups_close(struct guard_groups *groups)
{
    if (groups->dir < 0) {
        return;
    }
    entries_each(groups->dir, "", group_remove);
    (void)rmdir(groups->path);
    fd_close(&groups->dir);
    memset(groups->state, GROUP_FREE, sizeof groups->state);
}
