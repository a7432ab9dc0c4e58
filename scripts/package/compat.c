/* scripts/package/compat.c: functions that glibc 2.31 lacks and that the static programs use:
 * sigabbrev_np (2.32), closefrom (2.34), and arc4random (2.36), which Debian 12's libevent calls.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *sigabbrev_np(int signo)
{
    static const char *const names[] = {
        NULL,   "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
        "SEGV", "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
        "TTOU", "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "POLL", "PWR",  "SYS"};
    return signo > 0 && (size_t)signo < sizeof names / sizeof names[0] ? names[signo] : NULL;
}

void closefrom(int first)
{
    if (syscall(SYS_close_range, first, ~0U, 0) != 0) { /* the kernel is older than 5.9 */
        const long end = sysconf(_SC_OPEN_MAX);
        for (int fd = first; fd < end; fd++) {
            close(fd);
        }
    }
}

void arc4random_buf(void *buf, size_t n)
{
    unsigned char *at = buf;
    while (n > 0) {
        const ssize_t got =
            getrandom(at, n < 256 ? n : 256, 0); /* up to 256 bytes never come in parts */
        if (got <= 0) {
            abort(); /* the kernel is older than 3.17 */
        }
        at += got;
        n -= (size_t)got;
    }
}

uint32_t arc4random(void)
{
    uint32_t ret;
    arc4random_buf(&ret, sizeof ret);
    return ret;
}
