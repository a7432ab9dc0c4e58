/* agent/output/log_file.c: implementation of log_file.h. */
#include "agent/output/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/output/output_ring.h"
#include "common/base/fd.h"
#include "common/base/id.h"

/* Number of names tried for one file. An epoch number that is used again means that a server
 * lost its database. */
#define NAMES_MAX 1000

void log_file_init(struct log_file *file, const char *root, uint64_t max_bytes,
                   const struct log_place *place)
{
    *file = (struct log_file){
        .root = root, .max_bytes = max_bytes, .place = *place, .fd = -1, .folder = -1};
}

void log_file_done(struct log_file *file)
{
    fd_close(&file->fd);
    fd_close(&file->folder);
}

int log_file_folders(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        int rc = mkdir(path, 0700);
        *slash = '/';
        if (rc && errno != EEXIST) {
            return -1;
        }
    }
    if (mkdir(path, 0700) && errno != EEXIST) {
        return -1;
    }
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opens the directory `name` below `above`, creating it if it is missing, without following a
 * link. Closes above. Returns -1 with errno set; EINVAL if name is no valid id, so that no name
 * leads out of --log-dir. */
static int folder_below(int above, const char *name)
{
    int fd = -1;
    if (!id_is_valid(name)) {
        errno = EINVAL;
    } else if (mkdirat(above, name, 0700) == 0 || errno == EEXIST) {
        fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    int error = errno;
    close(above);
    errno = error;
    return fd;
}

/* Points the job's "latest" link to this epoch ("run-N/epoch-E"), whose directory is given. A
 * link cannot be changed in place, so a new one is renamed over it. */
static void link_latest(int folder, const char *epoch)
{
    char hidden[40];
    snprintf(hidden, sizeof(hidden), "../../." LOG_LATEST "-%d", (int)getpid());
    (void)unlinkat(folder, hidden, 0);
    if (symlinkat(epoch, folder, hidden) == 0 &&
        renameat(folder, hidden, folder, "../../" LOG_LATEST)) {
        (void)unlinkat(folder, hidden, 0); /* a file that is no link occupies the name */
    }
}

static bool open_folder(struct log_file *file, struct tfe_reason *reason)
{
    char folder[LOG_FOLDER_MAX];
    char path[PATH_MAX];
    char *rest = folder;
    log_place_folder(&file->place, folder);
    if (snprintf(path, sizeof(path), "%s", file->root) >= PATH_MAX) {
        errno = ENAMETOOLONG;
    } else {
        file->folder = log_file_folders(path);
    }
    for (char *name; file->folder >= 0 && (name = strsep(&rest, "/"));) {
        file->folder = folder_below(file->folder, name);
    }
    if (file->folder < 0) {
        reason_errno(reason, "create or open a folder in %s", file->root);
        return false;
    }
    log_place_folder(&file->place, folder);
    link_latest(file->folder, strchr(folder, '/') + 1);
    return true;
}

/* Creates a new file, never opens an existing one. Returns -1 with errno set. */
static int create_file(int folder, const char *name)
{
    return openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOCTTY,
                  0600);
}

static bool open_file(struct log_file *file, struct tfe_reason *reason)
{
    /* Try twice, because pruning by another agent may remove the empty directory. */
    for (int i = 0; file->fd < 0 && i < 2; i++) {
        if (file->folder < 0 && !open_folder(file, reason)) {
            return false;
        }
        int error = EEXIST;
        for (unsigned again = 1; error == EEXIST && again <= NAMES_MAX; again++) {
            log_place_name(&file->place, again, file->name);
            file->fd = create_file(file->folder, file->name);
            error = file->fd < 0 ? errno : 0;
        }
        if (error) {
            errno = error;
            reason_errno(reason, "open %s below %s", file->name, file->root);
            fd_close(&file->folder);
        }
        if (error && error != ENOENT) {
            return false;
        }
    }
    file->size = 0;
    file->mid_line = false;
    return file->fd >= 0;
}

/* Renames the file to ".old" and creates a new one. */
static bool rotate(struct log_file *file, struct tfe_reason *reason)
{
    char old[LOG_NAME_MAX + sizeof(LOG_OLD)];
    snprintf(old, sizeof(old), "%s" LOG_OLD, file->name);
    if (renameat(file->folder, file->name, file->folder, old)) {
        reason_errno(reason, "rename %s", file->name);
        log_file_done(file); /* the directory was removed; start again from the root */
        return false;
    }
    close(file->fd);
    file->fd = create_file(file->folder, file->name);
    if (file->fd < 0) {
        reason_errno(reason, "open %s", file->name);
        return false;
    }
    file->size = 0;
    return true;
}

/* Returns the number of bytes written, and sets reason if it is less than n. */
static size_t write_bytes(struct log_file *file, const char *bytes, size_t n,
                          struct tfe_reason *reason)
{
    size_t done = 0;
    while (done < n) {
        ssize_t w = write(file->fd, bytes + done, n - done);
        if (w < 0 && errno == EINTR) {
            continue;
        }
        if (w <= 0) {
            reason_errno(reason, "write %s", file->name);
            break;
        }
        done += (size_t)w;
    }
    file->size += done;
    if (done) {
        file->mid_line = bytes[done - 1] != '\n';
    }
    return done;
}

/* Returns how many bytes fit into the current file; the rest goes to the next one. */
static size_t portion(const struct log_file *file, const char *bytes, size_t n)
{
    uint64_t space = file->max_bytes > file->size ? file->max_bytes - file->size : 0;
    if (!file->max_bytes || n <= space) {
        return n;
    }
    const char *end = memrchr(bytes, '\n', (size_t)space);
    if (end) {
        return (size_t)(end - bytes) + 1;
    }
    return file->size ? 0 : space ? (size_t)space : n;
}

/* Writes a note about lost lines in their place. Returns false if not even the
 * note could be written. */
static bool write_note(struct log_file *file, struct tfe_reason *reason)
{
    char note[96];
    int n = snprintf(note, sizeof(note), "%stfe-agent: %" PRIu64 " lines were lost here\n",
                     file->mid_line ? "\n" : "", file->lost.lines);
    return write_bytes(file, note, (size_t)n, reason) == (size_t)n;
}

bool log_file_write(struct log_file *file, struct log_loss lost_before, const char *bytes, size_t n,
                    struct tfe_reason *reason)
{
    if (lost_before.lines) {
        file->lost.lines += lost_before.lines;
        file->lost.mid_line = lost_before.mid_line;
    }
    if (file->lost.mid_line && n) {
        size_t length;
        size_t skip = output_line(bytes, n, &length);
        file->lost.mid_line = skip == length;
        bytes += skip;
        n -= skip;
    }
    bool good = (file->fd >= 0 || open_file(file, reason)) &&
                (!file->lost.lines || write_note(file, reason));
    if (good) {
        file->lost.lines = 0;
    }
    while (good && n) {
        size_t part = portion(file, bytes, n);
        size_t done = part ? write_bytes(file, bytes, part, reason) : 0;
        good = done == part;
        bytes += done;
        n -= done;
        if (good && n) {
            good = rotate(file, reason);
        }
    }
    if (n) {
        uint64_t lines = output_count_lines(bytes, n);
        file->lost.lines += lines;
        file->failed += lines;
        file->lost.mid_line = bytes[n - 1] != '\n';
    }
    return good;
}

void log_file_touch(const struct log_file *file)
{
    if (file->fd >= 0) {
        (void)futimens(file->fd, NULL);
    }
}
