/* agent/pool/handover.c: implementation of handover.h. */
#include "agent/pool/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int handover_write(int fd, const struct handover *handover)
{
    return write(fd, handover, sizeof *handover) == (ssize_t)sizeof *handover ? 0 : TFE_ESYS;
}

static bool read_all(int fd, void *ret, size_t n)
{
    size_t at = 0;
    while (at < n) {
        const ssize_t some = read(fd, (char *)ret + at, n - at);
        if (some == 0 || (some < 0 && errno != EINTR)) {
            return false;
        }
        at += some > 0 ? (size_t)some : 0;
    }
    return true;
}

/* Moves the descriptor away from the numbers that the guard uses and sets close-on-exec. */
static int keep(int fd)
{
    int kept = fcntl(fd, F_DUPFD_CLOEXEC, 64);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd == STDIN_FILENO) {
        (void)dup2(null, fd);
    } else {
        (void)close(fd);
    }
    (void)close(null);
    return kept;
}

int handover_read(struct handover *ret, int *ret_fd, struct tfe_reason *reason)
{
    const char *text = getenv(HANDOVER_VARIABLE);
    char *end;
    *ret_fd = -1;
    *ret = (struct handover){.assignment = 0};
    if (!text) {
        return 0;
    }
    const long fd = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || fd < 0 || fd > INT_MAX ||
        !read_all((int)fd, ret, sizeof *ret) || ret->assignment == 0) {
        reason_set(reason,
                   HANDOVER_VARIABLE " is reserved for agents that tfe-agent --pool starts");
        return TFE_ESYS;
    }
    (void)unsetenv(HANDOVER_VARIABLE);
    if (setenv("TFE_TOKEN", ret->token, 1) != 0 ||
        (ret->key[0] && setenv(ENROLLMENT_VARIABLE, ret->key, 1) != 0)) {
        reason_set(reason, "out of memory");
        return TFE_ESYS;
    }
    explicit_bzero(ret->token, sizeof ret->token);
    explicit_bzero(ret->key, sizeof ret->key);
    *ret_fd = keep((int)fd);
    return 0;
}
