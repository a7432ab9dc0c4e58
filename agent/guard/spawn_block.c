/* agent/guard/spawn_block.c: implementation of spawn_block.h. */
#include "agent/guard/spawn_block.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fd.h"

static uint32_t strings_count(const char *const *strings, uint64_t *bytes)
{
    uint32_t n = 0;
    for (; strings[n]; n++) {
        *bytes += strlen(strings[n]) + 1;
    }
    return n;
}

static char *string_append(char *at, const char *text)
{
    size_t n = strlen(text) + 1;
    memcpy(at, text, n);
    return at + n;
}

static int block_write(int fd, const struct spawn_spec *spec, uint64_t bytes)
{
    if (ftruncate(fd, (off_t)bytes) != 0) {
        return TFE_ESYS;
    }
    char *text = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (text == MAP_FAILED) {
        return TFE_ESYS;
    }
    char *at = text;
    for (const char *const *arg = spec->argv; *arg; arg++) {
        at = string_append(at, *arg);
    }
    for (const char *const *variable = spec->envp; *variable; variable++) {
        at = string_append(at, *variable);
    }
    if (spec->directory) {
        string_append(at, spec->directory);
    }
    munmap(text, bytes);
    /* Seal the size, so that the child cannot get SIGBUS from its mapping. */
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0
               ? 0
               : TFE_ESYS;
}

int spawn_block_new(const struct spawn_spec *spec, struct spawn_block_header *header, int *ret_fd)
{
    uint64_t bytes = 0;
    uint32_t n_args = strings_count(spec->argv, &bytes);
    uint32_t n_env = strings_count(spec->envp, &bytes);
    if (n_args == 0) {
        errno = EINVAL;
        return TFE_ESYS;
    }
    if (spec->directory) {
        bytes += strlen(spec->directory) + 1;
    }
    int fd = memfd_create("tfe-spawn", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return TFE_ESYS;
    }
    int rc = block_write(fd, spec, bytes);
    if (rc != 0) {
        fd_close(&fd);
        return rc;
    }
    *header = (struct spawn_block_header){.block_bytes = bytes,
                                          .n_args = n_args,
                                          .n_env = n_env,
                                          .has_directory = spec->directory != NULL};
    *ret_fd = fd;
    return 0;
}

bool spawn_block_map(const struct spawn_block_header *header, int fd, struct spawn_program *ret)
{
    struct stat st;
    if (header->n_args == 0 || fstat(fd, &st) != 0 || (uint64_t)st.st_size != header->block_bytes) {
        errno = EINVAL;
        return false;
    }
    char *text = mmap(NULL, header->block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    size_t pointers = (size_t)header->n_args + header->n_env + 2;
    char **strings = mmap(NULL, pointers * sizeof *strings, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (text == MAP_FAILED || strings == MAP_FAILED) {
        return false;
    }
    char *end = text + header->block_bytes;
    char *at = text;
    size_t n_strings = (size_t)header->n_args + header->n_env + (header->has_directory ? 1 : 0);
    ret->argv = strings;
    ret->envp = strings + header->n_args + 1;
    ret->directory = NULL;
    for (size_t i = 0; i < n_strings; i++) {
        char *next = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;
        if (!next) {
            errno = EINVAL;
            return false;
        }
        if (i < header->n_args) {
            ret->argv[i] = at;
        } else if (i - header->n_args < header->n_env) {
            ret->envp[i - header->n_args] = at;
        } else {
            ret->directory = at;
        }
        at = next + 1;
    }
    return true;
}

bool guard_send(int socket, const void *bytes, size_t n, const int fds[GUARD_FDS])
{
    union {
        char bytes[CMSG_SPACE(GUARD_FDS * sizeof(int))];
        struct cmsghdr align;
    } rights;
    char copy[sizeof(struct guard_order)];
    memset(&rights, 0, sizeof rights);
    memcpy(copy, bytes, n);
    struct iovec part = {.iov_base = copy, .iov_len = n};
    struct msghdr msg = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = rights.bytes,
                         .msg_controllen = sizeof rights.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(GUARD_FDS * sizeof(int));
    memcpy(CMSG_DATA(head), fds, GUARD_FDS * sizeof(int));
    return sendmsg(socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n;
}

ssize_t guard_receive(int socket, void *bytes, size_t n, int ret_fds[GUARD_FDS], size_t *ret_n)
{
    union {
        char bytes[CMSG_SPACE(GUARD_FDS * sizeof(int))];
        struct cmsghdr align;
    } rights;
    struct iovec part = {.iov_base = bytes, .iov_len = n};
    struct msghdr msg = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = rights.bytes,
                         .msg_controllen = sizeof rights.bytes};
    *ret_n = 0;
    ssize_t got = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
        *ret_n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(ret_fds, CMSG_DATA(head), *ret_n * sizeof(int));
    }
    return got;
}
