/* agent/pool/scratch.c: implementation of scratch.h. */
#include "agent/pool/scratch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/private_dir.h"
#include "agent/os/remove_tree.h"
#include "agent/os/trainer_user.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/cli/log.h"

#define SHARED_MEMORY "/dev/shm"
/* If there are more items of a kind, new ones cannot be recognised and none is removed. */
#define SEEN_MAX 4096

/* Existing items: inodes of shared memory files, or ids of segments. */
struct seen {
    uint64_t v[SEEN_MAX];
    size_t n;
};

struct scratch {
    struct private_dir dir;
    char path[PRIVATE_DIR_MAX + sizeof PRIVATE_DIR_TMP + 1];
    struct seen files, segments;
};

static bool was_seen(const struct seen *seen, uint64_t id)
{
    bool was = seen->n == SEEN_MAX;
    for (size_t i = 0; i < seen->n && !was; i++) {
        was = seen->v[i] == id;
    }
    return was;
}

static void see(struct seen *seen, uint64_t id)
{
    if (seen->n < SEEN_MAX) {
        seen->v[seen->n++] = id;
    }
}

/* Removes the file unless a process has it open or mapped; the kernel grants a
 * write lease only then. */
static void file_remove(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0) {
        log_info("shared_memory_removed", LOG_S("name", name));
        (void)unlinkat(dir, name, 0);
    }
    fd_close(&fd);
}

/* Records the files of the trainers' user in `now`, or removes those missing in
 * `before` if `now` is NULL. */
static void files_each(const struct seen *before, struct seen *now)
{
    struct stat st;
    DIR *dir = opendir(SHARED_MEMORY);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode) || st.st_uid != trainer_user_uid()) {
            continue;
        }
        if (now) {
            see(now, st.st_ino);
        } else if (!was_seen(before, st.st_ino)) {
            file_remove(dirfd(dir), entry->d_name);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

static void segments_each(const struct seen *before, struct seen *now)
{
    struct shmid_ds about;
    int last = shmctl(0, SHM_INFO, &about);
    for (int i = 0; i <= last; i++) {
        int id = shmctl(i, SHM_STAT, &about);
        if (id < 0 || about.shm_perm.uid != trainer_user_uid()) {
            continue;
        }
        if (now) {
            see(now, (uint64_t)id);
        } else if (!was_seen(before, (uint64_t)id) && about.shm_nattch == 0) {
            log_info("shared_memory_removed", LOG_I("id", id));
            (void)shmctl(id, IPC_RMID, NULL);
        }
    }
}

int scratch_new(bool has_neighbours, struct scratch **ret, struct tfe_reason *reason)
{
    struct scratch *s = must_alloc(sizeof *s);
    int rc = private_dir_new(NULL, &s->dir, reason);
    if (rc) {
        free(s);
        return rc;
    }
    snprintf(s->path, sizeof s->path, "%s/%s", s->dir.path, PRIVATE_DIR_TMP);
    int fd = mkdirat(s->dir.fd, PRIVATE_DIR_TMP, 0700) == 0
                 ? openat(s->dir.fd, PRIVATE_DIR_TMP, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                 : -1;
    if (fd < 0 || trainer_user_give(s->dir.fd) || trainer_user_give(fd)) {
        reason_errno(reason, "make a working directory in %s", s->dir.path);
        rc = TFE_ESYS;
    }
    fd_close(&fd);
    if (rc) {
        private_dir_done(&s->dir);
        free(s);
        return rc;
    }
    files_each(NULL, &s->files);
    segments_each(NULL, &s->segments);
    if (has_neighbours) {
        s->files.n = s->segments.n = SEEN_MAX;
    }
    *ret = s;
    return 0;
}

const char *scratch_path(const struct scratch *s)
{
    return s->path;
}

const char *scratch_base(const struct scratch *s)
{
    return s->dir.path;
}

int scratch_fd(const struct scratch *s)
{
    return s->dir.fd;
}

/* Removes any name, because the job can also write to the parent of its working directory. */
static void entry_remove(int dir, const char *name)
{
    size_t all = SIZE_MAX;
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
        !private_dir_keeps_artifacts(dir, name)) {
        (void)entries_remove(dir, name, &all);
    }
}

void scratch_clear(const struct scratch *s)
{
    entries_each(s->dir.fd, "", entry_remove);
    private_dir_clean_up();           /* directory of a killed agent */
    if (trainer_user_become() == 0) { /* only this user may remove its own shared memory */
        files_each(&s->files, NULL);
        segments_each(&s->segments, NULL);
    }
}

void scratch_free(struct scratch *s)
{
    if (s) {
        private_dir_done(&s->dir);
        free(s);
    }
}
