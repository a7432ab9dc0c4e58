/* agent/os/remove_tree.h: what is in a directory, named by one that is open. */
#ifndef TFE_AGENT_OS_REMOVE_TREE_H
#define TFE_AGENT_OS_REMOVE_TREE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

/* All entries of the directory name below above ("." is above itself), for closedir(). No link is
 * followed. above stays the caller's. NULL: errno. */
DIR *entries_open(int above, const char *name);

/* Calls each for the entries of the open directory whose names begin with prefix. */
void entries_each(int dir, const char *prefix, void (*each)(int dir, const char *name));

/* Removes what has that name below dir, with all that is in it, but no more than *budget entries,
 * which counts down; no link is followed. True: it is gone. */
bool entries_remove(int dir, const char *name, size_t *budget);

#endif
