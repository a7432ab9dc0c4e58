/* agent/script_channel/script_socket.c: implementation of script_socket.h. */
#include "agent/script_channel/script_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/os/private_dir.h"
#include "agent/os/proc.h"
#include "agent/os/trainer_user.h"
#include "common/base/fd.h"

/* Maximum number of processes between a trainer and the sender of its messages. */
#define SENDER_DEPTH_MAX 64

int script_socket_open(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) ||
                    bind(fd, (const struct sockaddr *)&at, sizeof at) ||
                    (trainer_user()->name && chmod(path, 0666)))) {
        fd_close(&fd);
    }
    return fd;
}

ssize_t script_socket_receive(int fd, char *bytes, size_t cap, struct ucred *ret_sender)
{
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = cap};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t n;
    do {
        n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
    } while (n < 0 && errno == EINTR);
    *ret_sender = (struct ucred){.uid = (uid_t)-1};
    /* the kernel adds the credentials because of SO_PASSCRED */
    for (struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&message); c;
         c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS &&
            c->cmsg_len == CMSG_LEN(sizeof *ret_sender)) {
            memcpy(ret_sender, CMSG_DATA(c), sizeof *ret_sender);
        }
    }
    return n;
}

int script_socket_send(int fd, int dir, pid_t pid, const char *text, size_t n, int file)
{
    char name[32];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(name, sizeof name, PRIVATE_DIR_SCRIPT "%d", (int)pid);
    /* O_NOFOLLOW: otherwise a trainer's user could redirect root's messages to another socket. */
    int there = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    snprintf(to.sun_path, sizeof to.sun_path, "/proc/self/fd/%d", there);
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)text, .iov_len = n};
    struct msghdr message = {
        .msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1};
    if (file >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.align), &file, sizeof(int));
    }
    ssize_t sent = there < 0 ? -1 : sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    int error = errno;
    fd_close(&there);
    if (sent >= 0) {
        return 0;
    }
    return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == EINTR ||
                   error == EMFILE || error == ENFILE
               ? TFE_ESTATE
               : TFE_ESYS;
}

bool script_socket_may_be_descendant(pid_t pid)
{
    const pid_t root = getpid();
    for (int i = 0; i < SENDER_DEPTH_MAX && pid > 1; i++) {
        if (pid == root) {
            return true;
        }
        pid = proc_parent(pid);
        if (pid <= 0) {
            return true; /* the process has ended, or its parent is in an outer pid namespace */
        }
    }
    return pid == 0 || pid == root; /* root can be the first process of a container */
}
