/* common/net/state_dir.c: the state directory's place, and its small files. */
#include "common/net/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_DIR_ROOT "/var/lib/tfe"

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value != '\0' ? value : NULL;
}

int state_dir_find(const char *chosen, char ret[PATH_MAX], struct tfe_why *why)
{
    const char *base = chosen && *chosen != '\0' ? chosen : variable("TFE_STATE_DIR");
    const char *rest = "";
    if (!base && geteuid() == 0) {
        base = STATE_DIR_ROOT;
    }
    if (!base) {
        /* The XDG base directory specification ignores relative values. */
        base = variable("XDG_STATE_HOME");
        base = base && base[0] == '/' ? base : NULL;
        rest = "/tfe";
    }
    if (!base) {
        base = variable("HOME");
        rest = "/.local/state/tfe";
    }
    if (!base) {
        why_set(why, "no state directory: neither --state-dir, TFE_STATE_DIR, XDG_STATE_HOME nor "
                     "HOME is set");
        return TFE_ENOENT;
    }
    if (strlen(base) + strlen(rest) >= PATH_MAX) {
        why_set(why, "the state directory's path is longer than %d bytes", PATH_MAX - 1);
        return TFE_ETOOBIG;
    }
    strcat(strcpy(ret, base), rest);
    return 0;
}

const char *state_dir_token_name(enum token_role role)
{
    switch (role) {
    case TOKEN_AGENT:
        return "agent.token";
    case TOKEN_OBSERVER:
        return "observer.token";
    case TOKEN_ADMIN:
        return "admin.token";
    }
    return "?";
}

int state_dir_read(const char *path, char *ret, size_t cap, struct tfe_why *why)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        const bool absent = errno == ENOENT || errno == ENOTDIR;
        why_errno(why, "open %s", path);
        return absent ? TFE_ENOENT : TFE_ESYS;
    }
    int rc = 0;
    size_t n = 0;
    for (;;) {
        /* Once it is full, one more byte tells a file that fits from one that does not. */
        char over;
        const ssize_t got = n + 1 < cap ? read(fd, ret + n, cap - 1 - n) : read(fd, &over, 1);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            why_errno(why, "read %s", path);
            rc = TFE_ESYS;
        } else if (got > 0 && n + 1 >= cap) {
            why_set(why, "%s is longer than %zu bytes", path, cap - 1);
            rc = TFE_ETOOBIG;
        }
        if (got <= 0 || rc) {
            break;
        }
        n += (size_t)got;
    }
    (void)close(fd);
    if (rc) {
        /* It may have been half of a secret. */
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

/* Makes the rename itself durable. */
static int sync_directory_of(const char *path, struct tfe_why *why)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) : 0;
    memcpy(directory, path, n);
    directory[n] = '\0';
    const char *name = !slash ? "." : n == 0 ? "/" : directory;
    const int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd)) {
        why_errno(why, "sync %s", name);
        if (fd >= 0) {
            (void)close(fd);
        }
        return TFE_ESYS;
    }
    (void)close(fd);
    return 0;
}

int state_dir_write(const char *path, const void *bytes, size_t n, struct tfe_why *why)
{
    char temporary[PATH_MAX];
    const int length = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof temporary) {
        errno = ENAMETOOLONG;
        why_errno(why, "write %s", path);
        return TFE_ESYS;
    }
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        why_errno(why, "create %s", temporary);
        return TFE_ESYS;
    }
    if (fchmod(fd, S_IRUSR | S_IWUSR) || write_all(fd, bytes, n) || fsync(fd)) {
        why_errno(why, "write %s", temporary);
        goto remove;
    }
    const int closed = close(fd);
    fd = -1;
    if (closed) {
        why_errno(why, "write %s", temporary);
        goto remove;
    }
    if (rename(temporary, path)) {
        why_errno(why, "rename %s to %s", temporary, path);
        goto remove;
    }
    return sync_directory_of(path, why);
remove:
    if (fd >= 0) {
        (void)close(fd);
    }
    (void)unlink(temporary);
    return TFE_ESYS;
}
