/* agent/os/remove_tree.h: iterates over and removes entries of a directory given
 * by its descriptor. */
#ifndef TFE_AGENT_OS_REMOVE_TREE_H
#define TFE_AGENT_OS_REMOVE_TREE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

/* Opens the directory `name` in the open directory `above` ("." for `above` itself)
 * without following a symbolic link; close it with closedir(). Does not close `above`.
 * Returns NULL with errno set. */
DIR *entries_open(int above, const char *name);

/* Calls each for every entry of the open directory whose name begins with prefix. */
void entries_each(int dir, const char *prefix, void (*each)(int dir, const char *name));

/* Removes `name` from dir, including its contents at any depth, but visits at most *budget entries,
 * which is counted down. Follows no symbolic link. Returns true if the entry is gone. */
bool entries_remove(int dir, const char *name, size_t *budget);

#endif
