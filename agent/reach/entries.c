/* agent/reach/entries.c: see entries.h. */
#include "agent/reach/entries.h"

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

DIR *entries_open(int dir)
{
    /* Not dup(2): that would share the place in the directory, and closedir() closes what it is
     * given. */
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    if (!entries && copy >= 0) {
        close(copy);
    }
    return entries;
}
