/* common/base/fd.h: closing of file descriptors. */
#ifndef TFE_COMMON_BASE_FD_H
#define TFE_COMMON_BASE_FD_H

#include <errno.h>
#include <unistd.h>

/* Closes *fd unless it is negative and sets it to -1. Preserves errno. */
static inline void fd_close(int *fd)
{
    if (*fd >= 0) {
        int error = errno;
        close(*fd);
        errno = error;
        *fd = -1;
    }
}

#endif
