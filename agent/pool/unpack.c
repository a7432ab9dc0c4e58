/* agent/pool/unpack.c: implementation of unpack.h. */
#include "agent/pool/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/archive/archive.h"
#include "common/base/fd.h"

#define READ_BYTES (64u * 1024)

struct unpacking {
    int file; /* -1 if none is open */
    uint64_t left;
    char name[ARCHIVE_NAME_MAX + 1];
};

static int failed(const struct unpacking *u, const char *what, struct tfe_reason *reason)
{
    reason_errno(reason, "%s %.200s", what, u->name);
    return TFE_ESYS;
}

/* Opens the parent directory of name, creating missing directories and following no link.
 * Returns -1 with errno set. */
static int open_above(const char *name, const char **ret_leaf)
{
    int at = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const char *slash; at >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
        char part[ARCHIVE_NAME_MAX + 1];
        (void)snprintf(part, sizeof part, "%.*s", (int)(slash - name), name);
        int next = mkdirat(at, part, 0755) == 0 || errno == EEXIST
                       ? openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                       : -1;
        fd_close(&at);
        at = next;
    }
    *ret_leaf = name;
    return at;
}

static int begin_file(void *ctx, const char *name, uint64_t size, bool is_executable,
                      struct tfe_reason *reason)
{
    struct unpacking *u = ctx;
    const char *leaf;
    snprintf(u->name, sizeof u->name, "%s", name);
    int above = open_above(name, &leaf);
    u->file = above >= 0 ? openat(above, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                  is_executable ? 0755 : 0644)
                         : -1;
    fd_close(&above);
    if (u->file < 0) {
        return failed(u, "make", reason);
    }
    u->left = size;
    if (size == 0) {
        fd_close(&u->file);
    }
    return 0;
}

static int add_bytes(void *ctx, const uint8_t *bytes, size_t n, struct tfe_reason *reason)
{
    struct unpacking *u = ctx;
    u->left -= n;
    while (n > 0) {
        const ssize_t some = write(u->file, bytes, n);
        if (some < 0 && errno != EINTR) {
            return failed(u, "write", reason);
        }
        bytes += some > 0 ? some : 0;
        n -= some > 0 ? (size_t)some : 0;
    }
    if (u->left == 0) {
        fd_close(&u->file);
    }
    return 0;
}

static int read_through(int fd, struct archive_reader *reader, struct tfe_reason *reason)
{
    uint8_t bytes[READ_BYTES];
    off_t at = 0;
    for (;;) {
        const ssize_t n = pread(fd, bytes, sizeof bytes, at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            reason_errno(reason, "read the bundle");
            return TFE_ESYS;
        }
        if (n == 0) {
            return archive_read_end(reader, reason);
        }
        int rc = archive_read(reader, bytes, (size_t)n, reason);
        if (rc) {
            return rc;
        }
        at += n;
    }
}

int unpack(int fd, struct tfe_reason *reason)
{
    struct unpacking u = {.file = -1};
    const struct archive_writer sink = {.file = begin_file, .bytes = add_bytes, .ctx = &u};
    struct archive_reader *reader;
    struct stat st;
    if (fstat(fd, &st) != 0) {
        reason_errno(reason, "inspect the bundle");
        return TFE_ESYS;
    }
    int rc = archive_reader_new(&sink, (uint64_t)st.st_size, &reader);
    if (rc) {
        reason_set(reason, "out of memory");
        return rc;
    }
    rc = read_through(fd, reader, reason);
    archive_reader_free(reader);
    fd_close(&u.file);
    if (rc) {
        reason_prefix(reason, "unpack");
    }
    return rc;
}
