/* agent/os/private_dir.c: the agent's private directory; its lock shows that the agent is alive. */
#include "agent/os/private_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/remove_tree.h"
#include "agent/os/trainer_user.h"
#include "common/base/fd.h"

#define NAME_PREFIX "tfe-agent-"
#define NAME_DIGITS 16
/* Attempts with new names: the cleanup of another agent may briefly lock a directory
 * that was just created. */
#define TRIES 8
/* Maximum number of entries of /tmp, or of a directory in which trainers can write, that are read,
 * so that a full one delays neither a start nor the event loop. */
#define ENTRIES_MAX 4096

static bool name_is_ours(const char *name)
{
    size_t n = sizeof(NAME_PREFIX) - 1;
    return strncmp(name, NAME_PREFIX, n) == 0 && strlen(name) == n + NAME_DIGITS &&
           strspn(name + n, "0123456789abcdef") == NAME_DIGITS;
}

bool private_dir_keeps_artifacts(int dir, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/" PRIVATE_DIR_ARTIFACTS "/" PRIVATE_DIR_NOT_STORED, name);
    const time_t now = time(NULL);
    /* A trainer can set any time; one in the future would keep its files for ever. */
    return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_mtime <= now &&
           st.st_mtime + PRIVATE_DIR_KEPT_S > now;
}

/* Returns true for artifacts that must stay, and for an agent's directory with such artifacts. */
static bool is_kept(int dir, const char *name)
{
    const bool is_agents = strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) == 0;
    return (is_agents && private_dir_keeps_artifacts(dir, name)) ||
           (strcmp(name, PRIVATE_DIR_ARTIFACTS) == 0 && private_dir_keeps_artifacts(dir, "."));
}

/* Removes the entries that agents create. Retries, because some file systems skip entries when a
 * directory changes during readdir. */
static void empty(int fd, size_t *budget)
{
    /* NAME_PREFIX: the directory of an agent that runs a pool's job */
    static const char *const prefixes[] = {
        PRIVATE_DIR_GONE,   PRIVATE_DIR_TMP,     NAME_PREFIX,        PRIVATE_DIR_SOCKET,
        PRIVATE_DIR_SERVER, PRIVATE_DIR_PREEMPT, PRIVATE_DIR_SCRIPT, PRIVATE_DIR_ARTIFACTS};
    bool is_empty = false;
    for (int i = 0; i < TRIES && !is_empty; i++) {
        DIR *entries = entries_open(fd, ".");
        is_empty = true;
        for (const struct dirent *entry; entries && *budget > 0 && (entry = readdir(entries));) {
            size_t k = 0;
            const size_t n = sizeof prefixes / sizeof prefixes[0];
            while (k < n && strncmp(entry->d_name, prefixes[k], strlen(prefixes[k])) != 0) {
                k++;
            }
            if (k < n && !is_kept(fd, entry->d_name)) {
                (void)entries_remove(fd, entry->d_name, budget);
                is_empty = false;
            }
        }
        if (entries) {
            closedir(entries);
        }
    }
}

/* Removes the directory of a dead agent: it belongs to this user, has mode 0700 and is not
 * locked. Leaves symbolic links and other users' directories alone. */
static void clean_up_one(int base, const char *name, size_t *budget)
{
    int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == trainer_user_uid()) &&
        (st.st_mode & 07777) == 0700 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        empty(fd, budget);
        (void)unlinkat(base, name, AT_REMOVEDIR);
    }
    close(fd);
}

static void clean_up_in(const char *base, size_t budget)
{
    DIR *entries = opendir(base);
    if (!entries) {
        return;
    }
    int n_read = 0;
    for (const struct dirent *entry; n_read < ENTRIES_MAX && (entry = readdir(entries)); n_read++) {
        if (name_is_ours(entry->d_name)) {
            clean_up_one(dirfd(entries), entry->d_name, &budget);
        }
    }
    closedir(entries);
}

/* Tries to create a directory with a random name. Returns TFE_ESTATE if it was removed at
 * once; try another name. */
static int try_one(const char *base, struct private_dir *dir)
{
    uint8_t random[NAME_DIGITS / 2];
    char digits[NAME_DIGITS + 1];
    randombytes_buf(random, sizeof(random));
    sodium_bin2hex(digits, sizeof(digits), random, sizeof(random));
    int n = snprintf(dir->path, sizeof(dir->path), "%s/%s%s", base, NAME_PREFIX, digits);
    if (n < 0 || (size_t)n >= sizeof(dir->path)) {
        errno = ENAMETOOLONG;
        return TFE_ETOOBIG;
    }
    if (mkdir(dir->path, 0700)) {
        return errno == EEXIST ? TFE_ESTATE : TFE_ESYS;
    }
    dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir->fd < 0) {
        return errno == ENOENT ? TFE_ESTATE : TFE_ESYS;
    }
    /* Before the lock was taken, a cleanup may have removed the directory as stale. */
    struct stat st;
    if (flock(dir->fd, LOCK_EX | LOCK_NB) == 0 && fstat(dir->fd, &st) == 0 && st.st_nlink) {
        return 0;
    }
    fd_close(&dir->fd);
    return TFE_ESTATE;
}

static int make_in(const char *base, struct private_dir *ret, struct tfe_reason *reason)
{
    clean_up_in(base, ENTRIES_MAX);
    int rc = TFE_ESTATE;
    for (int i = 0; rc == TFE_ESTATE && i < TRIES; i++) {
        rc = try_one(base, ret);
    }
    if (rc) {
        reason_errno(reason, "make a private directory in %s", base);
        return rc == TFE_ESTATE ? TFE_ESYS : rc;
    }
    return 0;
}

const char *private_dir_base(int i)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (i == 0) {
        return "/tmp";
    }
    return i == 1 && runtime && runtime[0] == '/' ? runtime : NULL;
}

int private_dir_new(const char *base, struct private_dir *ret, struct tfe_reason *reason)
{
    ret->fd = -1;
    if (base) {
        return make_in(base, ret, reason);
    }
    int rc = TFE_ESYS;
    for (int i = 0; rc && private_dir_base(i); i++) {
        rc = make_in(private_dir_base(i), ret, reason);
    }
    return rc;
}

void private_dir_clean_up(void)
{
    for (int i = 0; private_dir_base(i); i++) {
        clean_up_in(private_dir_base(i), SIZE_MAX);
    }
}

void private_dir_clear(const struct private_dir *dir, const char *prefix)
{
    DIR *entries = dir->fd >= 0 ? entries_open(dir->fd, ".") : NULL;
    const struct dirent *entry;
    for (int i = 0; entries && i < ENTRIES_MAX && (entry = readdir(entries)); i++) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            (void)unlinkat(dir->fd, entry->d_name, 0);
        }
    }
    if (entries) {
        closedir(entries);
    }
}

bool private_dir_remove(const char *path)
{
    size_t all = SIZE_MAX;
    clean_up_one(AT_FDCWD, path, &all);
    return access(path, F_OK) != 0;
}

void private_dir_done(struct private_dir *dir)
{
    if (dir->fd < 0) {
        return;
    }
    size_t all = SIZE_MAX;
    empty(dir->fd, &all);
    (void)rmdir(dir->path);
    fd_close(&dir->fd);
}
