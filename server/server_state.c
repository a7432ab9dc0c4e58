/* server/server_state.c: the server's state directory, its lock and its endpoint file. */
#include "server/server_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/id.h"
#include "common/credentials/state_dir.h"

/* Creates the directory and makes dir (PATH_MAX bytes) absolute, because other programs read the
 * printed path. */
static int make_directory(char *dir, const struct privileges *owner, struct tfe_reason *reason)
{
    char path[PATH_MAX];
    bool is_new;
    memcpy(path, dir, strlen(dir) + 1);
    int rc = state_dir_make(path, &is_new, reason);
    if (rc == 0 &&
        ((is_new && owner && owner->changes && lchown(path, owner->uid, owner->gid) != 0) ||
         !realpath(path, dir))) {
        reason_errno(reason, "make the directory %s", path);
        rc = TFE_ESYS;
    }
    return rc;
}

/* The lock belongs to the open file, so it ends with the process. */
static int take_lock(struct state *state, struct tfe_reason *reason)
{
    char path[PATH_MAX];
    int rc = state_dir_path(path, state->dir, STATE_DIR_LOCK, reason);
    if (rc != 0) {
        return rc;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        reason_errno(reason, "open %s", path);
        return TFE_ESYS;
    }
    char pid[24] = "";
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        int n = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
        if (ftruncate(fd, 0) == 0 && pwrite(fd, pid, (size_t)n, 0) == n) {
            state->lock_fd = fd;
            return 0;
        }
        reason_errno(reason, "write %s", path);
        rc = TFE_ESYS;
    } else if (errno == EWOULDBLOCK) {
        ssize_t got = pread(fd, pid, sizeof(pid) - 1, 0);
        pid[got > 0 ? strspn(pid, "0123456789") : 0] = '\0';
        reason_set(reason, "another tfe-rdzv (pid %s) is using the state directory %s",
                   pid[0] != '\0' ? pid : "unknown", state->dir);
        rc = TFE_EEXIST;
    } else {
        reason_errno(reason, "lock %s", path);
        rc = TFE_ESYS;
    }
    (void)close(fd);
    return rc;
}

int state_make(struct state *ret, const char *chosen, const struct privileges *owner,
               struct tfe_reason *reason)
{
    *ret = (struct state){.lock_fd = -1};
    int rc = state_dir_find(chosen, ret->dir, reason);
    return rc != 0 ? rc : make_directory(ret->dir, owner, reason);
}

static int check_directory(const char *dir, struct tfe_reason *reason)
{
    struct stat st;
    if (stat(dir, &st) != 0) {
        reason_errno(reason, "open %s", dir);
        return TFE_ESYS;
    }
    if (!S_ISDIR(st.st_mode)) {
        reason_set(reason, "%s is not a directory", dir);
        return TFE_ESYS;
    }
    return state_dir_check(dir, &st, reason);
}

/* The subdirectory of the state directory is created by the first backup. */
static int open_backup_dir(struct state *state, const char *backups, struct tfe_reason *reason)
{
    const bool is_ours = !backups || backups[0] == '\0';
    int rc = state_dir_path(state->bundle_dir, state->dir, STATE_DIR_BUNDLES, reason);
    if (rc != 0) {
        return rc;
    }
    if (is_ours) {
        rc = state_dir_path(state->backup_dir, state->dir, STATE_DIR_BACKUPS, reason);
    } else if (strlen(backups) >= PATH_MAX) {
        rc = TFE_ETOOBIG;
    } else {
        memcpy(state->backup_dir, backups, strlen(backups) + 1);
        rc = make_directory(state->backup_dir, NULL, reason);
        rc = rc != 0 ? rc : check_directory(state->backup_dir, reason);
    }
    if (rc == TFE_ETOOBIG || (rc == 0 && strlen(state->backup_dir) + TFE_ID_MAX + 2 > PATH_MAX)) {
        reason_set(reason, "the path of the directory for backups is too long");
        return TFE_ETOOBIG;
    }
    return rc;
}

int state_open(struct state *state, const char *backups, struct tfe_reason *reason)
{
    int rc = check_directory(state->dir, reason);
    if (rc == 0) {
        rc = take_lock(state, reason);
    }
    return rc != 0 ? rc : open_backup_dir(state, backups, reason);
}

int state_write_endpoint(struct state *state, const char *bind, uint16_t port,
                         struct tfe_reason *reason)
{
    char path[PATH_MAX];
    int rc = state_dir_path(path, state->dir, STATE_DIR_ENDPOINT, reason);
    if (rc != 0) {
        return rc;
    }
    const char *host = bind;
    if (strcmp(bind, "0.0.0.0") == 0) {
        host = "127.0.0.1";
    } else if (strcmp(bind, "::") == 0) {
        host = "::1";
    }
    char line[ENDPOINT_TEXT_MAX + 1];
    endpoint_format(state->endpoint, host, port);
    int n = snprintf(line, sizeof(line), "%s\n", state->endpoint);
    rc = state_dir_write(path, line, (size_t)n, reason);
    if (rc != 0) {
        state->endpoint[0] = '\0';
    }
    return rc;
}

void state_close(struct state *state)
{
    char path[PATH_MAX];
    char text[ENDPOINT_TEXT_MAX + 1];
    struct tfe_reason reason;
    if (state->endpoint[0] != '\0' &&
        state_dir_path(path, state->dir, STATE_DIR_ENDPOINT, &reason) == 0 &&
        state_dir_read(path, text, sizeof(text), &reason) == 0 &&
        strcmp(text, state->endpoint) == 0) {
        (void)unlink(path);
    }
    if (state->lock_fd >= 0) {
        /* Keep the file: after removal, two servers could lock two files of the same name. */
        (void)close(state->lock_fd);
        state->lock_fd = -1;
    }
}
