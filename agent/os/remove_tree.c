/* agent/os/remove_tree.c: implementation of remove_tree.h. */
#include "agent/os/remove_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Opens a directory to remove its contents, and restores the access that its owner may have
 * removed. Returns NULL with errno set. */
static DIR *open_writable(int above, const char *name)
{
    DIR *entries = entries_open(above, name);
    if (entries) {
        (void)!fchmod(dirfd(entries), 0700);
    }
    return entries;
}

/* Returns the next entry besides "." and "..", and counts it. NULL at the end, or if the budget is
 * used up. */
static const char *next_entry(DIR *entries, size_t *budget)
{
    const struct dirent *entry = NULL;
    while (entries && *budget > 0 && (entry = readdir(entries)) &&
           (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)) {
    }
    if (!entries || *budget == 0 || !entry) {
        return NULL;
    }
    (*budget)--;
    return entry->d_name;
}

/* Moves a directory up to top under a new name. Returns true on success. */
static bool move_up(int dir, const char *name, int top)
{
    char moved[32];
    DIR *entries = open_writable(dir, name); /* a move changes its ".." */
    if (entries) {
        closedir(entries);
    }
    (void)snprintf(moved, sizeof moved, "%08x%08x", randombytes_random(), randombytes_random());
    return entries && renameat(dir, name, top, moved) == 0;
}

/* Removes an entry of top. Directories inside it are moved up to top, so that no depth needs
 * descriptors or a stack. Returns true if one was moved. */
static bool flatten(int top, const char *name, size_t *budget)
{
    bool has_moved = false;
    if (unlinkat(top, name, 0) == 0) {
        return false;
    }
    DIR *entries = open_writable(top, name);
    for (const char *inner; (inner = next_entry(entries, budget));) {
        const int dir = dirfd(entries);
        if (unlinkat(dir, inner, 0) != 0 && unlinkat(dir, inner, AT_REMOVEDIR) != 0) {
            has_moved = move_up(dir, inner, top) || has_moved;
        }
    }
    if (entries) {
        closedir(entries);
    }
    (void)unlinkat(top, name, AT_REMOVEDIR);
    return has_moved;
}

bool entries_remove(int dir, const char *name, size_t *budget)
{
    if (*budget == 0) {
        return false;
    }
    (*budget)--;
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT) {
        return true;
    }
    DIR *entries = open_writable(dir, name);
    for (bool has_moved = entries; has_moved && *budget > 0;) {
        has_moved = false;
        rewinddir(entries);
        for (const char *inner; (inner = next_entry(entries, budget));) {
            has_moved = flatten(dirfd(entries), inner, budget) || has_moved;
        }
    }
    if (entries) {
        closedir(entries);
    }
    return unlinkat(dir, name, AT_REMOVEDIR) == 0;
}
