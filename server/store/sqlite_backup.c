/* server/store/sqlite_backup.c: copies the store to a new file. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/store/sqlite_private.h"

/* Instructions of SQLite's virtual machine, a few milliseconds. */
#define STEPS_BETWEEN_QUESTIONS 10000

static bool sync_path(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    bool is_synced = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_synced;
}

static void remove_part(const char *part)
{
    char journal[PATH_MAX + 16];
    (void)snprintf(journal, sizeof(journal), "%s-journal", part);
    (void)unlink(journal);
    (void)unlink(part);
}

/* Creates an empty file with the right mode, which SQLite accepts as a new database. */
static int make_part(const char *part, const char *path, struct tfe_reason *reason)
{
    remove_part(part); /* left by a server that was killed */
    int fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        reason_errno(reason, "make %s", path);
        return TFE_EDISK;
    }
    (void)close(fd);
    return 0;
}

struct asking {
    bool (*should_continue)(void *ctx);
    void *ctx;
};

static int on_progress(void *ctx)
{
    const struct asking *asking = ctx;
    return !asking->should_continue(asking->ctx);
}

static int copy(struct store *s, const char *part, const char *path, struct asking *asking,
                struct tfe_reason *reason)
{
    char *sql = sqlite3_mprintf("VACUUM INTO %Q", part);
    sqlite3_progress_handler(s->db, STEPS_BETWEEN_QUESTIONS, on_progress, asking);
    int sq = !sql                       ? SQLITE_NOMEM
             : on_progress(asking) != 0 ? SQLITE_INTERRUPT
                                        : sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    sqlite3_progress_handler(s->db, 0, NULL, NULL);
    sqlite3_free(sql);
    if (sq != SQLITE_OK) {
        reason_set(reason, "%s: %s (%d); the incomplete copy was removed", path, sqlite3_errstr(sq),
                   sq);
        return (sq & 0xff) == SQLITE_NOMEM ? TFE_ENOMEM : TFE_EDISK;
    }
    if (!sync_path(part, O_RDONLY)) {
        reason_errno(reason, "write %s", path);
        return TFE_EDISK;
    }
    /* Use link, because rename would replace a file created in the meantime. */
    if (link(part, path) != 0) {
        const int rc = errno == EEXIST ? TFE_EEXIST : TFE_EDISK;
        reason_errno(reason, "name the copy %s", path);
        return rc;
    }
    return 0;
}

int store_backup(struct store *s, const char *path, bool (*should_continue)(void *ctx), void *ctx,
                 struct tfe_reason *reason)
{
    struct asking asking = {should_continue, ctx};
    char part[PATH_MAX];
    char folder[PATH_MAX];
    if (s->in_memory) {
        reason_set(reason, "%s: a server with --ephemeral has no database to copy", path);
        return TFE_EINVAL;
    }
    const int n_folder = (int)(strrchr(path, '/') + 1 - path);
    const int n = snprintf(part, sizeof(part), "%.*s.%s.part", n_folder, path, path + n_folder);
    if (n < 0 || n >= (int)sizeof(part)) {
        reason_set(reason, "%s: the path is too long", path);
        return TFE_EINVAL;
    }
    if (access(path, F_OK) == 0) {
        reason_set(reason, "%s already exists; nothing was overwritten", path);
        return TFE_EEXIST;
    }
    int rc = make_part(part, path, reason);
    if (rc != 0) {
        return rc;
    }
    rc = copy(s, part, path, &asking, reason);
    remove_part(part);
    memcpy(folder, path, strlen(path) + 1);
    if (rc == 0 && !sync_path(dirname(folder), O_RDONLY | O_DIRECTORY)) {
        reason_errno(reason, "%s is complete, but its directory cannot be synced", path);
        rc = TFE_EDISK;
    }
    return rc;
}
