/* agent/os/remove_tree.c: implementation of remove_tree.h. */
#include "agent/os/remove_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maximum depth of nested directories, each of which needs a descriptor; deeper
 * ones are not removed. */
#define DEPTH_MAX 64

DIR *entries_open(int above, const char *name)
{
    int dir = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = dir < 0 ? NULL : fdopendir(dir);
    if (!entries && dir >= 0) {
        close(dir);
    }
    return entries;
}

void entries_each(int dir, const char *prefix, void (*each)(int dir, const char *name))
{
    DIR *entries = entries_open(dir, ".");
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            each(dir, entry->d_name);
        }
    }
    if (entries) {
        closedir(entries);
    }
}

static bool remove_below(int dir, const char *name, size_t *budget, int depth)
{
    if (*budget == 0) {
        return false;
    }
    (*budget)--;
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT) {
        return true;
    }
    DIR *entries = depth < DEPTH_MAX ? entries_open(dir, name) : NULL;
    if (entries) {
        (void)!fchmod(dirfd(entries), 0700); /* the owner may have removed its own access */
    }
    for (const struct dirent *entry; entries && *budget > 0 && (entry = readdir(entries));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            (void)remove_below(dirfd(entries), entry->d_name, budget, depth + 1);
        }
    }
    if (entries) {
        closedir(entries);
    }
    return unlinkat(dir, name, AT_REMOVEDIR) == 0;
}

bool entries_remove(int dir, const char *name, size_t *budget)
{
    return remove_below(dir, name, budget, 0);
}
