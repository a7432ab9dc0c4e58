/* common/net/stdio.c: descriptors 0, 1 and 2. */
#include "common/net/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/base/shown.h"

int stdio_hold(struct tfe_why *why)
{
    for (int fd = 0; fd <= 2; fd++) {
        /* open(2) takes the lowest free number, and all below fd are open by now. Whatever is
         * started inherits them. NOLINTNEXTLINE(android-cloexec-open) */
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0) {
            why_errno(why, "open /dev/null");
            return TFE_ESYS;
        }
    }
    return 0;
}

void stdio_say(const char *program, const char *sentence)
{
    (void)fprintf(stderr, "%s: ", program);
    for (size_t used, left = strlen(sentence); left > 0; sentence += used, left -= used) {
        char unit[SHOWN_UNIT_MAX];
        size_t n;
        used = shown_unit(sentence, left, unit, &n);
        if (*sentence == '\n' || *sentence == '\t') {
            unit[0] = *sentence;
            n = 1;
        }
        (void)fprintf(stderr, "%.*s", (int)n, unit);
    }
    (void)fputc('\n', stderr);
}

bool stdio_flushed(FILE *out)
{
    return fflush(out) == 0 && !ferror(out);
}
