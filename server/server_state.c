/* server/server_state.c: the server's state directory: made, locked for life; and its endpoint
 * file. */
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
#include "common/channel/state_dir.h"

/* dir has PATH_MAX bytes and becomes absolute: the name is printed for other programs, which may
 * run elsewhere. */
static int make_directory(char *dir, const struct rights *owner, struct tfe_why *why)
{
    char path[PATH_MAX];
    bool is_new;
    memcpy(path, dir, strlen(dir) + 1);
    int rc = state_dir_make(path, &is_new, why);
    if (rc == 0 &&
        ((is_new && owner && owner->changes && lchown(path, owner->uid, owner->gid) != 0) ||
         !realpath(path, dir))) {
        why_errno(why, "make the directory %s", path);
        rc = TFE_ESYS;
    }
    return rc;
}

/* The lock is on the open file, so it goes with the process however that ends. */
static int take_lock(struct state *state, struct tfe_why *why)
{
    char path[PATH_MAX];
    int rc = state_dir_path(path, state->dir, STATE_DIR_LOCK, why);
    if (rc != 0) {
        return rc;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        why_errno(why, "open %s", path);
        return TFE_ESYS;
    }
    char pid[24] = "";
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        int n = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
        if (ftruncate(fd, 0) == 0 && pwrite(fd, pid, (size_t)n, 0) == n) {
            state->lock_fd = fd;
            return 0;
        }
        why_errno(why, "write %s", path);
        rc = TFE_ESYS;
    } else if (errno == EWOULDBLOCK) {
        ssize_t got = pread(fd, pid, sizeof(pid) - 1, 0);
        pid[got > 0 ? strspn(pid, "0123456789") : 0] = '\0';
        why_set(why, "another tfe-rdzv (pid %s) is using the state directory %s",
                pid[0] != '\0' ? pid : "not known yet", state->dir);
        rc = TFE_EEXIST;
    } else {
        why_errno(why, "lock %s", path);
        rc = TFE_ESYS;
    }
    (void)close(fd);
    return rc;
}

int state_make(struct state *ret, const char *chosen, const struct rights *owner,
               struct tfe_why *why)
{
    *ret = (struct state){.lock_fd = -1};
    int rc = state_dir_find(chosen, ret->dir, why);
    return rc != 0 ? rc : make_directory(ret->dir, owner, why);
}

static int check_directory(const char *dir, struct tfe_why *why)
{
    struct stat st;
    if (stat(dir, &st) != 0) {
        why_errno(why, "open %s", dir);
        return TFE_ESYS;
    }
    if (!S_ISDIR(st.st_mode)) {
        why_set(why, "%s is not a directory", dir);
        return TFE_ESYS;
    }
    return state_dir_check(dir, &st, why);
}

/* In our own directory it is made when it is needed. */
static int open_backup_dir(struct state *state, const char *backups, struct tfe_why *why)
{
    const bool is_ours = !backups || backups[0] == '\0';
    int rc = state_dir_path(state->bundle_dir, state->dir, STATE_DIR_BUNDLES, why);
    if (rc != 0) {
        return rc;
    }
    if (is_ours) {
        rc = state_dir_path(state->backup_dir, state->dir, STATE_DIR_BACKUPS, why);
    } else if (strlen(backups) >= PATH_MAX) {
        rc = TFE_ETOOBIG;
    } else {
        memcpy(state->backup_dir, backups, strlen(backups) + 1);
        rc = make_directory(state->backup_dir, NULL, why);
        rc = rc != 0 ? rc : check_directory(state->backup_dir, why);
    }
    if (rc == TFE_ETOOBIG || (rc == 0 && strlen(state->backup_dir) + TFE_ID_MAX + 2 > PATH_MAX)) {
        why_set(why, "the path of the directory for backups is too long");
        return TFE_ETOOBIG;
    }
    return rc;
}

int state_open(struct state *state, const char *backups, struct tfe_why *why)
{
    int rc = check_directory(state->dir, why);
    if (rc == 0) {
        rc = take_lock(state, why);
    }
    return rc != 0 ? rc : open_backup_dir(state, backups, why);
}

int state_write_endpoint(struct state *state, const char *bind, uint16_t port, struct tfe_why *why)
{
    char path[PATH_MAX];
    int rc = state_dir_path(path, state->dir, STATE_DIR_ENDPOINT, why);
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
    rc = state_dir_write(path, line, (size_t)n, why);
    if (rc != 0) {
        state->endpoint[0] = '\0';
    }
    return rc;
}

void state_close(struct state *state)
{
    char path[PATH_MAX];
    char text[ENDPOINT_TEXT_MAX + 1];
    struct tfe_why why;
    if (state->endpoint[0] != '\0' &&
        state_dir_path(path, state->dir, STATE_DIR_ENDPOINT, &why) == 0 &&
        state_dir_read(path, text, sizeof(text), &why) == 0 && strcmp(text, state->endpoint) == 0) {
        (void)unlink(path);
    }
    if (state->lock_fd >= 0) {
        /* The file stays: removing it would let two servers hold locks on two files of one name. */
        (void)close(state->lock_fd);
        state->lock_fd = -1;
    }
}
