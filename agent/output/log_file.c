/* agent/output/log_file.c: makes, writes and rotates one log file. */
#include "agent/output/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names tried for one file: an epoch number that comes twice means that a server lost its disk. */
#define NAMES_MAX 1000

#define FLAGS (O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOCTTY)

void log_disk_init(struct log_disk *disk)
{
    *disk = (struct log_disk){.fd = -1, .folder = -1};
}

void log_disk_done(struct log_disk *disk)
{
    if (disk->fd >= 0) {
        close(disk->fd);
    }
    if (disk->folder >= 0) {
        close(disk->folder);
    }
    disk->fd = -1;
    disk->folder = -1;
}

uint64_t log_lines(const char *bytes, size_t n)
{
    uint64_t lines = n && bytes[n - 1] != '\n';
    for (const char *at = bytes; (at = memchr(at, '\n', n - (size_t)(at - bytes))); at++) {
        lines++;
    }
    return lines;
}

/* Every folder of the path, from the first slash behind its beginning. */
static int make_folders(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        int rc = mkdir(path, 0777);
        *slash = '/';
        if (rc && errno != EEXIST) {
            return -1;
        }
    }
    return mkdir(path, 0777) && errno != EEXIST ? -1 : 0;
}

/* "latest" leads to this epoch. A link has no in-place change: another one is put in its place. */
static void link_latest(const char *root, const struct log_place *place)
{
    char folder[LOG_FOLDER_MAX];
    char link[PATH_MAX];
    char hidden[PATH_MAX];
    log_place_folder(place, folder);
    if (snprintf(link, sizeof(link), "%s/%s/" LOG_LATEST, root, place->job.text) >= PATH_MAX ||
        snprintf(hidden, sizeof(hidden), "%s/%s/." LOG_LATEST "-%d", root, place->job.text,
                 (int)getpid()) >= PATH_MAX) {
        return;
    }
    (void)unlink(hidden);
    if (symlink(strchr(folder, '/') + 1, hidden) == 0 && rename(hidden, link)) {
        (void)unlink(hidden); /* something that is no link of ours is in its place */
    }
}

static bool open_folder(struct log_disk *disk, const char *root, const struct log_place *place,
                        struct tfe_why *why)
{
    char folder[LOG_FOLDER_MAX];
    char path[PATH_MAX];
    log_place_folder(place, folder);
    if (snprintf(path, sizeof(path), "%s/%s", root, folder) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        why_errno(why, "%s", root);
        return false;
    }
    if (make_folders(path)) {
        why_errno(why, "make %s", path);
        return false;
    }
    disk->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (disk->folder < 0) {
        why_errno(why, "open %s", path);
        return false;
    }
    link_latest(root, place);
    return true;
}

static bool open_file(struct log_disk *disk, const char *root, const struct log_place *place,
                      struct tfe_why *why)
{
    /* Twice: an empty folder is removed by whoever prunes. */
    for (int i = 0; disk->fd < 0 && i < 2; i++) {
        if (disk->folder < 0 && !open_folder(disk, root, place, why)) {
            return false;
        }
        int error = EEXIST;
        for (unsigned again = 1; error == EEXIST && again <= NAMES_MAX; again++) {
            log_place_name(place, again, disk->name);
            disk->fd = openat(disk->folder, disk->name, FLAGS, 0666);
            error = disk->fd < 0 ? errno : 0;
        }
        if (error) {
            errno = error;
            why_errno(why, "open %s below %s", disk->name, root);
            close(disk->folder);
            disk->folder = -1;
        }
        if (error && error != ENOENT) {
            return false;
        }
    }
    disk->size = 0;
    disk->mid_line = false;
    return disk->fd >= 0;
}

/* The file so far under another name, and a fresh one. */
static bool rotate(struct log_disk *disk, struct tfe_why *why)
{
    char old[LOG_NAME_MAX + sizeof(LOG_OLD)];
    snprintf(old, sizeof(old), "%s" LOG_OLD, disk->name);
    if (renameat(disk->folder, disk->name, disk->folder, old)) {
        why_errno(why, "rename %s", disk->name);
        log_disk_done(disk); /* somebody has cleared up under it: all of it anew */
        return false;
    }
    close(disk->fd);
    disk->fd = openat(disk->folder, disk->name, FLAGS, 0666);
    if (disk->fd < 0) {
        why_errno(why, "open %s", disk->name);
        return false;
    }
    disk->size = 0;
    return true;
}

/* Bytes written; less than n: why. */
static size_t put(struct log_disk *disk, const char *bytes, size_t n, struct tfe_why *why)
{
    size_t done = 0;
    while (done < n) {
        ssize_t w = write(disk->fd, bytes + done, n - done);
        if (w < 0 && errno == EINTR) {
            continue;
        }
        if (w <= 0) {
            why_errno(why, "write %s", disk->name);
            break;
        }
        done += (size_t)w;
    }
    disk->size += done;
    if (done) {
        disk->mid_line = bytes[done - 1] != '\n';
    }
    return done;
}

/* How many bytes go into the file as it is; the rest goes into the next one. */
static size_t portion(const struct log_disk *disk, uint64_t max_bytes, const char *bytes, size_t n)
{
    uint64_t room = max_bytes > disk->size ? max_bytes - disk->size : 0;
    if (!max_bytes || n <= room) {
        return n;
    }
    const char *end = memrchr(bytes, '\n', (size_t)room);
    if (end) {
        return (size_t)(end - bytes) + 1;
    }
    return disk->size ? 0 : room ? (size_t)room : n;
}

/* What was lost, in its place; false: still no room even for that. */
static bool put_note(struct log_disk *disk, struct tfe_why *why)
{
    char note[96];
    int n = snprintf(note, sizeof(note), "%stfe-agent: %" PRIu64 " lines were lost here\n",
                     disk->mid_line ? "\n" : "", disk->lost);
    return put(disk, note, (size_t)n, why) == (size_t)n;
}

bool log_disk_write(struct log_disk *disk, const char *root, const struct log_place *place,
                    uint64_t max_bytes, uint64_t lost_before, const char *bytes, size_t n,
                    struct tfe_why *why)
{
    disk->lost += lost_before;
    if (disk->lost && disk->lost_mid && n) { /* the rest of a line whose beginning is gone */
        const char *end = memchr(bytes, '\n', n);
        size_t skip = end ? (size_t)(end - bytes) + 1 : n;
        disk->lost_mid = !end;
        bytes += skip;
        n -= skip;
    }
    bool good = (disk->fd >= 0 || open_file(disk, root, place, why)) &&
                (!disk->lost || put_note(disk, why));
    if (good) {
        disk->lost = 0;
    }
    while (good && n) {
        size_t part = portion(disk, max_bytes, bytes, n);
        size_t done = part ? put(disk, bytes, part, why) : 0;
        good = done == part;
        bytes += done;
        n -= done;
        if (good && n) {
            good = rotate(disk, why);
        }
    }
    if (n) {
        disk->lost += log_lines(bytes, n);
        disk->lost_mid = bytes[n - 1] != '\n';
    }
    return good;
}

void log_disk_touch(const struct log_disk *disk)
{
    if (disk->fd >= 0) {
        (void)futimens(disk->fd, NULL);
    }
}
