/* common/credentials/state_dir.c: locates the state directory, and reads and writes its small
 * files. */
#include "common/credentials/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/id.h"

#define STATE_DIR_ROOT "/var/lib/tfe"

/* Time limit for reading a token from a pipe. */
#define PIPE_WAIT_MS 10000

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value != '\0' ? value : NULL;
}

int state_dir_find(const char *chosen, char ret[PATH_MAX], struct tfe_reason *reason)
{
    const char *base = chosen && *chosen != '\0' ? chosen : variable("TFE_STATE_DIR");
    const char *rest = "";
    if (!base && geteuid() == 0) {
        base = STATE_DIR_ROOT;
    }
    if (!base) {
        /* Ignore a relative path, as the XDG base directory specification demands. */
        base = variable("XDG_STATE_HOME");
        base = base && base[0] == '/' ? base : NULL;
        rest = "/tfe";
    }
    if (!base) {
        base = variable("HOME");
        rest = "/.local/state/tfe";
    }
    if (!base) {
        reason_set(reason,
                   "no state directory: neither --state-dir, TFE_STATE_DIR, XDG_STATE_HOME nor "
                   "HOME is set");
        return TFE_ENOENT;
    }
    if (strlen(base) + strlen(rest) >= PATH_MAX) {
        reason_set(reason, "the state directory's path is longer than %d bytes", PATH_MAX - 1);
        return TFE_ETOOBIG;
    }
    strcat(strcpy(ret, base), rest);
    return 0;
}

int state_dir_make(const char *dir, bool *ret_is_new, struct tfe_reason *reason)
{
    char path[PATH_MAX];
    size_t n = strnlen(dir, sizeof(path) - 1);
    memcpy(path, dir, n);
    path[n] = '\0';
    while (n > 1 && path[n - 1] == '/') {
        path[--n] = '\0';
    }
    for (size_t i = 1; i < n; i++) {
        if (path[i] != '/') {
            continue;
        }
        path[i] = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST) {
            reason_errno(reason, "create %s for the state directory", path);
            return TFE_ESYS;
        }
        path[i] = '/';
    }
    *ret_is_new = mkdir(path, 0700) == 0;
    if (!*ret_is_new && errno != EEXIST) {
        reason_errno(reason, "create the directory %s", path);
        return TFE_ESYS;
    }
    return 0;
}

int state_dir_path(char ret[PATH_MAX], const char *dir, const char *name, struct tfe_reason *reason)
{
    if (!id_is_valid(name)) {
        reason_set(reason, "%s is not a valid file name in %s", name, dir);
        return TFE_EINVAL;
    }
    int n = snprintf(ret, PATH_MAX, "%s/%s", dir, name);
    if (n < 0 || n >= PATH_MAX) {
        reason_set(reason, "%s/%s: the path is too long", dir, name);
        return TFE_ETOOBIG;
    }
    return 0;
}

const char *state_dir_token_name(enum principal_role role)
{
    switch (role) {
    case PRINCIPAL_AGENT:
        return "agent.token";
    case PRINCIPAL_OBSERVER:
        return "observer.token";
    case PRINCIPAL_ADMIN:
        return "admin.token";
    }
    return "?";
}

int state_dir_check(const char *path, const struct stat *st, struct tfe_reason *reason)
{
    const bool is_dir = S_ISDIR(st->st_mode);
    /* Credentials of systemd and secrets of Kubernetes belong to root and are readable by the
     * service's group. */
    const mode_t closed = st->st_uid == 0 && !is_dir ? 037 : 077;
    if (st->st_uid != geteuid() && (st->st_uid != 0 || is_dir)) {
        reason_set(reason, "%s belongs to another user with uid %u (chown it to uid %u)", path,
                   (unsigned)st->st_uid, (unsigned)geteuid());
        return TFE_EAUTH;
    }
    if ((st->st_mode & closed) != 0) {
        reason_set(reason, "other users can read or change %s (chmod %s it)", path,
                   is_dir ? "700" : "600");
        return TFE_EAUTH;
    }
    return 0;
}

/* True if root reads a file whose directory belongs to the same user, such as the server's under
 * --user. */
static bool is_its_users(const char *path, const struct stat *st)
{
    char directory[PATH_MAX];
    struct stat above;
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) : 0;
    if (geteuid() != 0 || n == 0 || n >= sizeof directory) {
        return false;
    }
    memcpy(directory, path, n);
    directory[n] = '\0';
    return stat(directory, &above) == 0 && above.st_uid == st->st_uid &&
           (above.st_mode & 022) == 0 && (st->st_mode & 077) == 0;
}

enum file_kind { FILE_OWN, FILE_SECRET, FILE_NAMED_SECRET };

/* Opens a file for reading without blocking. Files of the state directory must be regular files:
 * reading any other kind could block or never end. */
static int open_file(const char *path, enum file_kind kind, int *ret, struct tfe_reason *reason)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0) {
        const bool absent = errno == ENOENT || errno == ENOTDIR;
        /* Root without capabilities cannot open another user's file: let the reason name the
         * owner. */
        if (fd < 0 && errno == EACCES && kind != FILE_OWN && stat(path, &st) == 0 &&
            state_dir_check(path, &st, reason) != 0) {
            return TFE_EAUTH;
        }
        reason_errno(reason, "open %s", path);
        if (fd >= 0) {
            (void)close(fd);
        }
        return absent ? TFE_ENOENT : TFE_ESYS;
    }
    int rc = 0;
    if (kind != FILE_NAMED_SECRET && !S_ISREG(st.st_mode)) {
        reason_set(reason, "%s is not a regular file", path);
        rc = TFE_ESYS;
    } else if (kind != FILE_OWN && !is_its_users(path, &st)) {
        rc = state_dir_check(path, &st, reason);
    }
    if (rc != 0) {
        (void)close(fd);
        return rc;
    }
    *ret = fd;
    return 0;
}

/* Reads as read(2) does; waits up to PIPE_WAIT_MS for data from a pipe. */
static ssize_t read_some(int fd, char *ret, size_t n)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    ssize_t got;
    do {
        if (poll(&ready, 1, PIPE_WAIT_MS) == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        got = read(fd, ret, n);
    } while (got < 0 && (errno == EAGAIN || errno == EINTR));
    return got;
}

static int read_file(const char *path, enum file_kind kind, char *ret, size_t cap,
                     struct tfe_reason *reason)
{
    int fd;
    int rc = open_file(path, kind, &fd, reason);
    if (rc != 0) {
        return rc;
    }
    size_t n = 0;
    ssize_t got = 1;
    while (got > 0 && n < cap) { /* a file of at most cap - 1 bytes leaves space for the NUL */
        got = read_some(fd, ret + n, cap - n);
        n += got > 0 ? (size_t)got : 0;
    }
    if (got < 0) {
        reason_errno(reason, "read %s", path);
        rc = TFE_ESYS;
    } else if (n == cap) {
        reason_set(reason, "%s is longer than %zu bytes", path, cap - 1);
        rc = TFE_ETOOBIG;
    }
    (void)close(fd);
    if (rc) {
        /* Wipe the buffer, which may contain part of a secret. */
        explicit_bzero(ret, cap);
        return rc;
    }
    if (n > 0 && ret[n - 1] == '\n') {
        n--;
    }
    if (n > 0 && ret[n - 1] == '\r') {
        n--;
    }
    ret[n] = '\0';
    return 0;
}

int state_dir_read(const char *path, char *ret, size_t cap, struct tfe_reason *reason)
{
    return read_file(path, FILE_OWN, ret, cap, reason);
}

int state_dir_read_secret(const char *path, char *ret, size_t cap, struct tfe_reason *reason)
{
    return read_file(path, FILE_SECRET, ret, cap, reason);
}

int state_dir_read_named_secret(const char *path, char *ret, size_t cap, struct tfe_reason *reason)
{
    return read_file(path, FILE_NAMED_SECRET, ret, cap, reason);
}

static int write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t put = write(fd, bytes, n);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return -1;
        }
        bytes += put;
        n -= (size_t)put;
    }
    return 0;
}

/* Flushes the directory, so that the rename is durable. */
static int sync_directory_of(const char *path, struct tfe_reason *reason)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) : 0;
    memcpy(directory, path, n);
    directory[n] = '\0';
    const char *name = !slash ? "." : n == 0 ? "/" : directory;
    const int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd)) {
        reason_errno(reason, "sync %s", name);
        if (fd >= 0) {
            (void)close(fd);
        }
        return TFE_ESYS;
    }
    (void)close(fd);
    return 0;
}

int state_dir_write(const char *path, const void *bytes, size_t n, struct tfe_reason *reason)
{
    char temporary[PATH_MAX];
    const int length = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof temporary) {
        errno = ENAMETOOLONG;
        reason_errno(reason, "write %s", path);
        return TFE_ESYS;
    }
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        reason_errno(reason, "create %s", temporary);
        return TFE_ESYS;
    }
    if (fchmod(fd, S_IRUSR | S_IWUSR) || write_all(fd, bytes, n) || fsync(fd)) {
        reason_errno(reason, "write %s", temporary);
        goto remove;
    }
    const int closed = close(fd);
    fd = -1;
    if (closed) {
        reason_errno(reason, "write %s", temporary);
        goto remove;
    }
    if (rename(temporary, path)) {
        reason_errno(reason, "rename %s to %s", temporary, path);
        goto remove;
    }
    return sync_directory_of(path, reason);
remove:
    if (fd >= 0) {
        (void)close(fd);
    }
    (void)unlink(temporary);
    return TFE_ESYS;
}
