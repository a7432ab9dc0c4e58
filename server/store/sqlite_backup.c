/* server/store/sqlite_backup.c: a consistent copy of the whole store, a few pages at a time.
 *
 * What is written between two steps goes into the copy as well: both use one connection. The copy
 * has another name until it is complete, and never replaces a file. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/store/sqlite_private.h"

struct sqlite_copy {
    sqlite3 *to;
    sqlite3_backup *backup;
    char part[PATH_MAX]; /* its name until it is complete; "" it is not there */
    char path[PATH_MAX];
};

static int copy_error(const struct sqlite_copy *copy, struct tfe_why *why)
{
    int code = copy->to != NULL ? sqlite3_extended_errcode(copy->to) : SQLITE_NOMEM;
    why_set(why, "%s: %s (%d); nothing is left of it", copy->path, sqlite3_errstr(code), code);
    return (code & 0xff) == SQLITE_NOMEM ? TFE_ENOMEM : TFE_EDISK;
}

void sqlite_backup_end(struct sqlite_store *s)
{
    struct sqlite_copy *copy = s->copy;
    s->copy = NULL;
    if (copy == NULL) {
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

static int open_copy(struct sqlite_copy *copy, struct tfe_why *why)
{
    if (access(copy->path, F_OK) == 0) {
        why_set(why, "%s exists already; nothing was overwritten", copy->path);
        return TFE_EEXIST;
    }
    int fd = open(copy->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        why_errno(why, "make %s", copy->part);
        copy->part[0] = '\0';
        return TFE_EDISK;
    }
    (void)close(fd);
    int rc = sqlite3_open_v2(copy->part, &copy->to,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                                 SQLITE_OPEN_PRIVATECACHE,
                             NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_exec(copy->to, "PRAGMA locking_mode=EXCLUSIVE;PRAGMA synchronous=FULL", NULL,
                          NULL, NULL);
    }
    return rc == SQLITE_OK ? 0 : copy_error(copy, why);
}

int sqlite_backup_begin(struct sqlite_store *s, const char *path, struct tfe_why *why)
{
    struct sqlite_copy *copy = calloc(1, sizeof(*copy));
    if (copy == NULL) {
        why_set(why, "%s: out of memory", path);
        return TFE_ENOMEM;
    }
    int n = snprintf(copy->part, sizeof(copy->part), "%s.part-%ld", path, (long)getpid());
    if (n < 0 || n >= (int)sizeof(copy->part)) {
        free(copy);
        why_set(why, "%s: the path is too long", path);
        return TFE_EINVAL;
    }
    memcpy(copy->path, path, strlen(path) + 1);
    s->copy = copy;
    int err = open_copy(copy, why);
    if (err == 0) {
        copy->backup = sqlite3_backup_init(copy->to, "main", s->db, "main");
        err = copy->backup != NULL ? 0 : copy_error(copy, why);
    }
    if (err != 0) {
        sqlite_backup_end(s);
    }
    return err;
}

/* The directory's entry has to be as durable as the file. */
static void sync_directory(const char *path)
{
    char name[PATH_MAX];
    memcpy(name, path, strlen(path) + 1);
    int fd = open(dirname(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
}

static int complete(struct sqlite_store *s, struct tfe_why *why)
{
    struct sqlite_copy *copy = s->copy;
    int rc = sqlite3_backup_finish(copy->backup);
    copy->backup = NULL;
    if (rc == SQLITE_OK) {
        rc = sqlite3_close(copy->to);
        copy->to = rc == SQLITE_OK ? NULL : copy->to;
    }
    if (rc != SQLITE_OK) {
        return copy_error(copy, why);
    }
    /* Not rename, which would replace what has come into being meanwhile. */
    if (link(copy->part, copy->path) != 0) {
        why_errno(why, "name the copy %s", copy->path);
        return errno == EEXIST ? TFE_EEXIST : TFE_EDISK;
    }
    (void)unlink(copy->part);
    copy->part[0] = '\0';
    sync_directory(copy->path);
    return 0;
}

int sqlite_backup_step(struct sqlite_store *s, int pages, bool *ret_done, struct tfe_why *why)
{
    *ret_done = false;
    int rc = sqlite3_backup_step(s->copy->backup, pages);
    if (rc == SQLITE_OK) {
        return 0;
    }
    int err = rc == SQLITE_DONE ? complete(s, why) : 0;
    if (rc != SQLITE_DONE) {
        why_set(why, "%s: %s (%d); nothing is left of it", s->copy->path, sqlite3_errstr(rc), rc);
        err = (rc & 0xff) == SQLITE_NOMEM ? TFE_ENOMEM : TFE_EDISK;
    }
    sqlite_backup_end(s);
    *ret_done = err == 0;
    return err;
}
