/* common/net/stdio.c: descriptors 0, 1 and 2. */
#include "common/net/stdio.h"

#include <errno.h>
#include <fcntl.h>

int stdio_hold(struct tfe_why *why)
{
    for (int fd = 0; fd <= 2; fd++) {
        /* open(2) takes the lowest free number, and all below fd are open by now. */
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0) {
            why_errno(why, "open /dev/null");
            return TFE_ESYS;
        }
    }
    return 0;
}

bool stdio_flushed(FILE *out)
{
    return fflush(out) == 0 && !ferror(out);
}
