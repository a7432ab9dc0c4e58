/* agent/reach/entries.h: what is in a directory that is open. */
#ifndef TFE_AGENT_REACH_ENTRIES_H
#define TFE_AGENT_REACH_ENTRIES_H

#include <dirent.h>

/* All entries of the directory, from the first; for closedir(). dir stays the caller's, where it
 * is. NULL: errno. */
DIR *entries_open(int dir);

#endif
