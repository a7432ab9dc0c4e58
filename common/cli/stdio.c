/* common/cli/stdio.c: standard descriptors and messages on stderr. */
#include "common/cli/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/escape.h"

/* Returns the descriptor named by STDIO_MESSAGES_FD, or -1 if there is none. */
static int messages_fd(void)
{
    const char *text = getenv(STDIO_MESSAGES_FD);
    return text && *text >= '0' && *text <= '9' ? (int)strtol(text, NULL, 10) : -1;
}

int stdio_open_missing(struct tfe_reason *reason)
{
    for (int fd = 0; fd <= 2; fd++) {
        /* open(2) returns the lowest free number, which is fd, because all below are open. Child
         * processes inherit it. NOLINTNEXTLINE(android-cloexec-open) */
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0) {
            reason_errno(reason, "open /dev/null");
            return TFE_ESYS;
        }
    }
    if (messages_fd() >= 0) {
        (void)fcntl(messages_fd(), F_SETFD, FD_CLOEXEC);
    }
    return 0;
}

void stdio_print_escaped(FILE *out, const char *text)
{
    for (size_t used, left = strlen(text); left > 0; text += used, left -= used) {
        char unit[ESCAPE_UNIT_MAX];
        size_t n;
        used = escape_unit(text, left, unit, &n);
        if (*text == '\n' || *text == '\t') {
            unit[0] = *text;
            n = 1;
        }
        (void)fprintf(out, "%.*s", (int)n, unit);
    }
}

void stdio_print_message(const char *program, const char *sentence)
{
    if (messages_fd() >= 0) {
        (void)dprintf(messages_fd(), "%s\n", sentence);
    }
    (void)fprintf(stderr, "%s: ", program);
    stdio_print_escaped(stderr, sentence);
    (void)fputc('\n', stderr);
}

bool stdio_flushed(FILE *out)
{
    return fflush(out) == 0 && !ferror(out);
}
