/* common/base/fd.h: the end of a descriptor. */
#ifndef TFE_COMMON_BASE_FD_H
#define TFE_COMMON_BASE_FD_H

#include <errno.h>
#include <unistd.h>

/* Closes it, if there is one (not negative), and forgets it; errno stays as it was. */
static inline void fd_drop(int *fd)
{
    if (*fd >= 0) {
        int error = errno;
        close(*fd);
        errno = error;
        *fd = -1;
    }
}

#endif
