/* server/store/sqlite_backup.c: a consistent copy of the whole store, a few pages at a time.
 *
 * What is written between two steps goes into the copy as well: both use one connection. The copy
 * has another name until it is complete, and never replaces a file. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/store/sqlite_private.h"

/* What a copy is called until it is complete: .FILE.part-PID, which no copy can be called itself.
 */
#define PART ".part-"

struct sqlite_copy {
    sqlite3 *to;
    sqlite3_backup *backup;
    char part[PATH_MAX]; /* its name until it is complete; "" it is not there */
    char path[PATH_MAX];
};

static int copy_error(const struct sqlite_copy *copy, struct tfe_why *why)
{
    int code = copy->to ? sqlite3_extended_errcode(copy->to) : SQLITE_NOMEM;
    why_set(why, "%s: %s (%d); nothing is left of it", copy->path, sqlite3_errstr(code), code);
    return (code & 0xff) == SQLITE_NOMEM ? TFE_ENOMEM : TFE_EDISK;
}

void sqlite_backup_end(struct store *s)
{
    struct sqlite_copy *copy = s->copy;
    s->copy = NULL;
    if (!copy) {
        return;
    }
    (void)sqlite3_backup_finish(copy->backup);
    (void)sqlite3_close(copy->to);
    if (copy->part[0] != '\0') {
        char journal[PATH_MAX + 16];
        (void)snprintf(journal, sizeof(journal), "%s-journal", copy->part);
        (void)unlink(journal);
        (void)unlink(copy->part);
    }
    free(copy);
}

/* Whether the process that made a part of this number is no more. Ours is none of this time: there
 * is only one copy at a time. */
static bool is_left_over(const char *number)
{
    char *end;
    long pid = strtol(number, &end, 10);
    if (end == number || pid <= 0 || pid > INT_MAX ||
        (end[0] != '\0' && strcmp(end, "-journal") != 0)) {
        return false;
    }
    return pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

/* Parts of this copy that servers have left behind which were killed meanwhile. */
static void remove_left_over(const char *path)
{
    char folder[PATH_MAX];
    char prefix[PATH_MAX + sizeof("." PART)];
    (void)snprintf(prefix, sizeof(prefix), ".%s" PART, strrchr(path, '/') + 1);
    memcpy(folder, path, strlen(path) + 1);
    DIR *dir = opendir(dirname(folder));
    if (!dir) {
        return; /* opening the copy will say why */
    }
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
            is_left_over(entry->d_name + strlen(prefix))) {
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    (void)closedir(dir);
}

static int open_copy(struct sqlite_copy *copy, struct tfe_why *why)
{
    if (access(copy->path, F_OK) == 0) {
        why_set(why, "%s exists already; nothing was overwritten", copy->path);
        return TFE_EEXIST;
    }
    remove_left_over(copy->path);
    int fd = open(copy->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        why_errno(why, "make %s", copy->path);
        copy->part[0] = '\0';
        return TFE_EDISK;
    }
    (void)close(fd);
    int sq = sqlite3_open_v2(copy->part, &copy->to,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                                 SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_NOFOLLOW,
                             NULL);
    if (sq == SQLITE_OK) {
        sq = sqlite3_exec(copy->to, "PRAGMA locking_mode=EXCLUSIVE;PRAGMA synchronous=FULL", NULL,
                          NULL, NULL);
    }
    return sq == SQLITE_OK ? 0 : copy_error(copy, why);
}

int store_backup_begin(struct store *s, const char *path, struct tfe_why *why)
{
    if (s->in_memory) {
        why_set(why, "%s: a server with --ephemeral keeps nothing that could be copied", path);
        return TFE_EINVAL;
    }
    struct sqlite_copy *copy = calloc(1, sizeof(*copy));
    if (!copy) {
        why_set(why, "%s: out of memory", path);
        return TFE_ENOMEM;
    }
    int folder = (int)(strrchr(path, '/') + 1 - path);
    int n = snprintf(copy->part, sizeof(copy->part), "%.*s.%s" PART "%ld", folder, path,
                     path + folder, (long)getpid());
    if (n < 0 || n >= (int)sizeof(copy->part)) {
        free(copy);
        why_set(why, "%s: the path is too long", path);
        return TFE_EINVAL;
    }
    memcpy(copy->path, path, strlen(path) + 1);
    s->copy = copy;
    int rc = open_copy(copy, why);
    if (rc == 0) {
        copy->backup = sqlite3_backup_init(copy->to, "main", s->db, "main");
        rc = copy->backup ? 0 : copy_error(copy, why);
    }
    if (rc != 0) {
        sqlite_backup_end(s);
    }
    return rc;
}

bool sqlite_sync_directory(const char *path)
{
    char name[PATH_MAX];
    memcpy(name, path, strlen(path) + 1);
    int fd = open(dirname(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_synced = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_synced;
}

static int complete(struct store *s, struct tfe_why *why)
{
    struct sqlite_copy *copy = s->copy;
    int sq = sqlite3_backup_finish(copy->backup);
    copy->backup = NULL;
    if (sq == SQLITE_OK) {
        sq = sqlite3_close(copy->to);
        copy->to = sq == SQLITE_OK ? NULL : copy->to;
    }
    if (sq != SQLITE_OK) {
        return copy_error(copy, why);
    }
    /* Not rename, which would replace what has come into being meanwhile. */
    if (link(copy->part, copy->path) != 0) {
        why_errno(why, "name the copy %s", copy->path);
        return errno == EEXIST ? TFE_EEXIST : TFE_EDISK;
    }
    (void)unlink(copy->part);
    copy->part[0] = '\0';
    if (!sqlite_sync_directory(copy->path)) {
        why_errno(why, "%s is complete, but its directory cannot be synced", copy->path);
        return TFE_EDISK;
    }
    return 0;
}

int store_backup_step(struct store *s, int pages, bool *ret_done, struct tfe_why *why)
{
    *ret_done = false;
    int sq = sqlite3_backup_step(s->copy->backup, pages);
    if (sq == SQLITE_OK) {
        return 0;
    }
    int rc = sq == SQLITE_DONE ? complete(s, why) : 0;
    if (sq != SQLITE_DONE) {
        why_set(why, "%s: %s (%d); nothing is left of it", s->copy->path, sqlite3_errstr(sq), sq);
        rc = (sq & 0xff) == SQLITE_NOMEM ? TFE_ENOMEM : TFE_EDISK;
    }
    sqlite_backup_end(s);
    *ret_done = rc == 0;
    return rc;
}
