/* server/state.c: the server's state directory: made, locked for life; and its endpoint file. */
#include "server/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/net/log.h"
#include "common/net/state_dir.h"

int state_path(char ret[PATH_MAX], const char *dir, const char *name, struct tfe_why *why)
{
    int n = snprintf(ret, PATH_MAX, "%s/%s", dir, name);
    if (n < 0 || n >= PATH_MAX) {
        why_set(why, "%s/%s: the path is too long", dir, name);
        return TFE_ETOOBIG;
    }
    return 0;
}

/* As mkdir -p; only the last component is ours alone. */
static int make_directory(const char *dir, struct tfe_why *why)
{
    char path[PATH_MAX];
    size_t n = strlen(dir);
    memcpy(path, dir, n + 1);
    while (n > 1 && path[n - 1] == '/') {
        path[--n] = '\0';
    }
    for (size_t i = 1; i < n; i++) {
        if (path[i] != '/') {
            continue;
        }
        path[i] = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST) {
            why_errno(why, "make %s for the state directory", path);
            return TFE_ESYS;
        }
        path[i] = '/';
    }
    if (mkdir(path, 0700) == 0) {
        return 0;
    }
    struct stat st;
    if (errno != EEXIST || stat(path, &st) != 0) {
        why_errno(why, "make the state directory %s", path);
        return TFE_ESYS;
    }
    if (!S_ISDIR(st.st_mode)) {
        why_set(why, "the state directory %s is not a directory", path);
        return TFE_ESYS;
    }
    if ((st.st_mode & 022) != 0) {
        log_warn("state_dir_open_to_others", LOG_S("dir", path),
                 LOG_S("hint", "chmod 700 it: whoever may write here can replace keys"));
    }
    return 0;
}

/* The lock is on the open file, so it goes with the process however that ends. */
static int take_lock(struct state *state, struct tfe_why *why)
{
    char path[PATH_MAX];
    int err = state_path(path, state->dir, STATE_DIR_LOCK, why);
    if (err != 0) {
        return err;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        why_errno(why, "open %s", path);
        return TFE_ESYS;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) {
            why_errno(why, "lock %s", path);
            close(fd);
            return TFE_ESYS;
        }
        char pid[24] = "";
        ssize_t got = pread(fd, pid, sizeof(pid) - 1, 0);
        pid[got > 0 ? strspn(pid, "0123456789") : 0] = '\0';
        why_set(why, "another tfe-rdzv (pid %s) is using the state directory %s",
                pid[0] != '\0' ? pid : "not known yet", state->dir);
        close(fd);
        return TFE_EEXIST;
    }
    char line[24];
    int n = snprintf(line, sizeof(line), "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, line, (size_t)n, 0) != n) {
        why_errno(why, "write %s", path);
        close(fd);
        return TFE_ESYS;
    }
    state->lock_fd = fd;
    return 0;
}

int state_open(struct state *ret, const char *chosen, struct tfe_why *why)
{
    ret->lock_fd = -1;
    ret->endpoint[0] = '\0';
    int err = state_dir_find(chosen, ret->dir, why);
    if (err == 0) {
        err = make_directory(ret->dir, why);
    }
    if (err == 0) {
        /* The name is printed for other programs, which may run elsewhere. */
        char absolute[PATH_MAX];
        if (realpath(ret->dir, absolute) == NULL) {
            why_errno(why, "find the state directory %s", ret->dir);
            return TFE_ESYS;
        }
        memcpy(ret->dir, absolute, strlen(absolute) + 1);
    }
    return err != 0 ? err : take_lock(ret, why);
}

void state_format_endpoint(char ret[STATE_ENDPOINT_MAX], const char *host, uint16_t port)
{
    bool v6 = strchr(host, ':') != NULL;
    (void)snprintf(ret, STATE_ENDPOINT_MAX, "%s%.*s%s:%u", v6 ? "[" : "", TFE_HOST_MAX, host,
                   v6 ? "]" : "", (unsigned)port);
}

int state_write_endpoint(struct state *state, const char *bind, uint16_t port, struct tfe_why *why)
{
    char path[PATH_MAX];
    int err = state_path(path, state->dir, STATE_DIR_ENDPOINT, why);
    if (err != 0) {
        return err;
    }
    const char *host = bind;
    if (strcmp(bind, "0.0.0.0") == 0) {
        host = "127.0.0.1";
    } else if (strcmp(bind, "::") == 0) {
        host = "::1";
    }
    char line[STATE_ENDPOINT_MAX + 1];
    state_format_endpoint(state->endpoint, host, port);
    int n = snprintf(line, sizeof(line), "%s\n", state->endpoint);
    err = state_dir_write(path, line, (size_t)n, why);
    if (err != 0) {
        state->endpoint[0] = '\0';
    }
    return err;
}

void state_close(struct state *state)
{
    char path[PATH_MAX];
    char text[STATE_ENDPOINT_MAX + 1];
    struct tfe_why why;
    if (state->endpoint[0] != '\0' && state_path(path, state->dir, STATE_DIR_ENDPOINT, &why) == 0 &&
        state_dir_read(path, text, sizeof(text), &why) == 0 && strcmp(text, state->endpoint) == 0) {
        (void)unlink(path);
    }
    if (state->lock_fd >= 0) {
        /* The file stays: removing it would let two servers hold locks on two files of one name. */
        (void)close(state->lock_fd);
        state->lock_fd = -1;
    }
}
