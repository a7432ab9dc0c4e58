/* agent/scripts/sender.c: credentials of a datagram, and the way up from a process to the agent. */
#include "agent/scripts/sender.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool sender_of(struct msghdr *message, struct ucred *ret)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS &&
            c->cmsg_len == CMSG_LEN(sizeof(*ret))) {
            memcpy(ret, CMSG_DATA(c), sizeof(*ret));
            return true;
        }
    }
    return false;
}

/* From /proc/PID/stat (proc(5)): the name, in parentheses, may itself hold some. -1: not readable.
 */
static pid_t parent_of(pid_t pid)
{
    char path[32];
    char text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0) {
        return -1;
    }
    text[n] = '\0';
    const char *end = strrchr(text, ')');
    /* ") S 123 …" */
    if (!end || strnlen(end, 5) < 5) {
        return -1;
    }
    return (pid_t)strtol(end + 4, NULL, 10);
}

bool sender_may_be_below(pid_t pid, pid_t root)
{
    for (int i = 0; i < SENDER_DEPTH_MAX && pid > 1; i++) {
        if (pid == root) {
            return true;
        }
        pid = parent_of(pid);
        if (pid < 0) {
            return true; /* ended under our eyes */
        }
        if (pid == 0) {
            return true; /* its parent is of an outer pid namespace */
        }
    }
    return pid == 0;
}
